"""Words of devices from a table of words, or from the names and rooms in the table of devices.

Names are read into memory and made numbers there; no message, log or file contains them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.homes import Mask
from datasets.readers.csv import as_mask
from datasets.words import words_of_homes
from fedrule.pipeline.settings import NAMES
from fedrule.pipeline.stream import DatabaseRows

TEXT = "="  # before each word of a text column


def as_texts(words: DatabaseRows) -> DatabaseRows:
    """Words that are not taken for numbers: if it depended on the values, a home read alone could get other numbers."""
    marked = pc.binary_join_element_wise(pa.scalar(TEXT), words["word"], "")
    return replace(words, columns={**words.columns, "word": marked})


def words_of_devices(devices: DatabaseRows) -> DatabaseRows | None:
    """A table of words made of the names and rooms of devices; None if neither was read. Rows are sorted by user."""
    if not any(role in devices for role in NAMES):
        return None
    rows = devices.keep(_first_of_each(devices))
    home = rows["user"].dictionary_encode().indices.to_numpy()  # in the order of users, as the rows
    empty = pa.array([""] * len(rows), pa.string())
    columns = (rows.columns.get(role, empty) for role in (*NAMES, "type"))
    names, rooms, types = (pc.fill_null(column, "").to_pylist() for column in columns)
    words = words_of_homes(home.astype(np.int64), names, rooms=rooms, types=types)
    own = pa.array(words.device)
    entries = {
        "user": rows["user"].take(own),
        "device": rows["device"].take(own),
        "word": pa.array(words.word).cast(pa.string()),
    }
    return replace(
        devices,
        columns=entries,
        record=rows.record[words.device],
        names={**devices.names, "word": "word"},
        rows=0,  # none of these are rows of the source
    )


def _first_of_each(devices: DatabaseRows) -> Mask:
    """The first good row of each device: with more, the device would share its words with itself."""
    good: Mask = np.logical_and.reduce([as_mask(devices[role].is_valid()) for role in ("user", "device", "type")])
    places = np.flatnonzero(good)
    user, device = (devices[role].filter(pa.array(good)).dictionary_encode() for role in ("user", "device"))
    key = user.indices.to_numpy().astype(np.int64) * max(len(device.dictionary), 1) + device.indices.to_numpy()
    first: Mask = np.zeros(len(devices), dtype=bool)
    first[places[np.unique(key, return_index=True)[1]]] = True
    return first
