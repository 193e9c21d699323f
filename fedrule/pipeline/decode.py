"""Rows of a cursor as text columns; a value that is no text or number stays visible as a bad one."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from datasets.homes import Mask

Row: TypeAlias = Sequence[object]

UNREADABLE = "\0"  # begins what could not be read; no database writes this in a text


def decode(rows: Sequence[Row], roles: Sequence[str]) -> pa.Table:
    """One text column for each role; whole numbers are written plainly, NULL is null."""
    return pa.table({role: _texts(list(map(itemgetter(place), rows))) for place, role in enumerate(roles)})


def unreadable(column: pa.Array) -> Mask:
    """Which values could not be read."""
    mask: Mask = pc.fill_null(pc.starts_with(column, UNREADABLE), False).to_numpy(zero_copy_only=False)
    return mask


def _texts(values: list[object]) -> pa.Array:
    # Most columns are of one kind throughout, and are then converted as a whole.
    kind = next((type(value) for value in values if value is not None), str)
    try:
        if kind is int:
            return pa.array(values, pa.int64()).cast(pa.string())
        if kind is bytes:
            return pa.array(values, pa.binary()).cast(pa.string())
        return pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([_text(value) for value in values], pa.string())


def _text(value: object) -> str | None:
    """One value as text: SQLite keeps whatever was written, whatever the column's type."""
    if value is None or isinstance(value, str):
        return value if value is None else value.encode(errors="replace").decode()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"{UNREADABLE}{value!r}"
    return str(value)
