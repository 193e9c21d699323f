"""Writing homes as the two tables of the `tables` data set, for ids of any kind: an example of what it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from datasets.readers.delimited import write_delimited
from datasets.common.errors import DataError
from datasets.homes import Homes, Ids
from datasets.readers.text_table import ABSENT
from datasets.readers.wyze_files import refuse_bare_homes


def write_tables(homes: Homes, folder: Path | str) -> None:
    """Write devices.csv and rules.csv into a folder; rules have the column group where the source has groups."""
    folder = Path(folder)
    refuse_bare_homes(homes, "the `tables` layout")
    for what, texts in (
        ("user", homes.users),
        ("device", homes.device_ids),
        ("type", np.array(homes.types)),
        ("trigger state", np.array([r.trigger for r in homes.relations])),
        ("action", np.array([r.action for r in homes.relations])),
    ):
        _refuse_unreadable(homes.name, what, texts)
    folder.mkdir(parents=True, exist_ok=True)
    devices = {
        "user": _ids(homes.users[homes.device_home]),
        "device": _ids(homes.device_ids),
        "type": pa.array(homes.types, pa.string()).take(pa.array(homes.device_type)),
    }
    write_delimited(folder / "devices.csv", devices)
    rules, which = homes.rules, pa.array(homes.rules.relation)
    columns = {
        "user": _ids(homes.users[rules.home]),
        "trigger_device": _ids(homes.device_ids[rules.trigger]),
        "trigger_state": pa.array([r.trigger for r in homes.relations], pa.string()).take(which),
        "action": pa.array([r.action for r in homes.relations], pa.string()).take(which),
        "action_device": _ids(homes.device_ids[rules.action]),
    }
    if rules.group is not None:
        columns["group"] = pa.array(rules.group)
    write_delimited(folder / "rules.csv", columns)


def _refuse_unreadable(name: str, what: str, texts: Ids) -> None:
    """A reader takes these for a gap, or without their outer spaces for another text."""
    if texts.dtype.kind == "i":
        return
    odd = [text for text in texts.tolist() if text in ABSENT or text != text.strip()]
    if odd:
        raise DataError(f"{name}: the {what} {odd[0]!r} would not survive in CSV; save it as one .parquet file instead")


def _ids(ids: Ids) -> pa.Array:
    return pa.array(ids) if ids.dtype.kind == "i" else pa.array(ids.tolist(), pa.string())
