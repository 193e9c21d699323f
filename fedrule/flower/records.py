"""Our messages as Flower's records, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from datasets.common.errors import DataError
from fedrule.flower.messages import Kind, Message

HEADER, ARRAYS = "header", "arrays"


def to_record(message: Message) -> RecordDict:
    header = ConfigRecord({"kind": str(message.kind), "header": json.dumps(message.header, allow_nan=False)})
    arrays = ArrayRecord({name: Array(array) for name, array in message.arrays.items()})
    return RecordDict({HEADER: header, ARRAYS: arrays})


def from_record(record: RecordDict) -> Message:
    """Refused where somebody else wrote it."""
    try:
        config, arrays = record[HEADER], record[ARRAYS]
        if not isinstance(config, ConfigRecord) or not isinstance(arrays, ArrayRecord):
            raise TypeError("its records are of other kinds")
        header = json.loads(str(config["header"]))
        if not isinstance(header, Mapping):
            raise TypeError("its header is no object")
        return Message(Kind(str(config["kind"])), header, {name: array.numpy() for name, array in arrays.items()})
    except (LookupError, TypeError, ValueError) as error:
        raise DataError(f"not a message of fedrule ({error}); another app runs on the other side") from None
