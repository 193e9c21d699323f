"""Rows of a database have no line number: a bad one is named by its user and devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.homes import Mask
from datasets.readers.bad_rows import BadRows, Fault
from datasets.readers.csv import TextTable

# --- Rows of a cursor as text columns; a value that is no text or number stays visible as a bad one.

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


IDS = ("user", "device", "trigger_device", "action_device")  # what tells the rows of a table apart


class KeyedProblem(Fault):
    """One kind of fault in one table; `examples` holds the key of every row that has it."""

    __slots__ = ()

    def skipped(self, shown: int | None = None) -> str:
        """What was left out, with the key of every row or only of the first few."""
        keys = "; ".join(self.examples[:shown])
        rest = "" if shown is None or len(self.examples) <= shown else "; ..."
        plural = "s" if len(self.lines) != 1 else ""
        return f"{self.file}: {len(self.lines):,} row{plural} skipped because {self.what}: {keys}{rest}"

    def _sentence(self, place: int) -> str:
        return f"{self.file} row with {self.examples[place]}: {self.what}; {self.remedy}"


@dataclass(frozen=True, slots=True, eq=False)
class KeyedTable(TextTable):
    """Text columns of a database's table."""

    def keep(self, mask: Mask) -> KeyedTable:
        """Only these rows."""
        return cast("KeyedTable", TextTable.keep(self, mask))

    def refuse(self, bad: Mask, what: str, remedy: str, *, bad_rows: BadRows, show: str = "") -> Mask:
        """Report the bad rows by their keys and give back the mask of the others."""
        rows = np.flatnonzero(bad)
        if len(rows):
            roles = [role for role in (*IDS, show) if role in self.columns]
            spelled = spell({role: self.columns[role].take(pa.array(rows)) for role in dict.fromkeys(roles)}, self)
            bad_rows.reading(self.file)
            lines = tuple(line + 1 for line in self.record[rows].tolist())
            bad_rows.found.append(KeyedProblem(self.file, lines, what, remedy, tuple(spelled), "row"))
        return ~bad


def spell(columns: dict[str, pa.Array], table: TextTable) -> Sequence[str]:
    """Each row in words: the names of its columns and their values."""
    values = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    names = [table.names[role] for role in columns]
    return [", ".join(f"{name} {_shown(value)}" for name, value in zip(names, row, strict=True)) for row in values]


def _shown(value: str | None) -> str:
    return value.removeprefix(UNREADABLE) if value is not None and value.startswith(UNREADABLE) else repr(value)
