"""Rows of a database as text columns; a bad row has no line number and is named by its user and devices."""

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

Row: TypeAlias = Sequence[object]

UNREADABLE = "\0"  # prefix of values that are not UTF-8; databases do not allow it in text
IDS = ("user", "device", "trigger_device", "action_device")  # the columns that identify a row


def decode(rows: Sequence[Row], roles: Sequence[str]) -> pa.Table:
    """One text column per role; integers are written plainly, NULL is null."""
    return pa.table({role: _texts(list(map(itemgetter(place), rows))) for place, role in enumerate(roles)})


def unreadable(column: pa.Array) -> Mask:
    """Which values are not UTF-8."""
    mask: Mask = pc.fill_null(pc.starts_with(column, UNREADABLE), False).to_numpy(zero_copy_only=False)
    return mask


def _texts(values: list[object]) -> pa.Array:
    # Most columns hold one type and are converted as a whole.
    kind = next((type(value) for value in values if value is not None), str)
    types = {int: pa.int64(), bytes: pa.binary()}
    try:
        return pa.array(values, types.get(kind, pa.string())).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([_text(value) for value in values], pa.string())


def _text(value: object) -> str | None:
    """One value as text: SQLite stores any value in any column."""
    if value is None or isinstance(value, str):
        return value if value is None else value.encode(errors="replace").decode()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"{UNREADABLE}{value!r}"
    return str(value)


class RowFault(Fault):
    """One kind of fault in one table; `examples` identifies each row that has it."""

    __slots__ = ()

    def skipped(self, shown: int | None = None) -> str:
        """The rows that were skipped, all or the first few."""
        rows = "; ".join(self.examples[:shown])
        rest = "" if shown is None or len(self.examples) <= shown else "; ..."
        plural = "s" if len(self.lines) != 1 else ""
        return f"{self.file}: {len(self.lines):,} row{plural} skipped because {self.what}: {rows}{rest}"

    def _sentence(self, place: int) -> str:
        return f"{self.file} row with {self.examples[place]}: {self.what}; {self.remedy}"


@dataclass(frozen=True, slots=True, eq=False)
class DatabaseRows(TextTable):
    """Text columns of a database table."""

    def keep(self, mask: Mask) -> DatabaseRows:
        """Only these rows."""
        return cast("DatabaseRows", TextTable.keep(self, mask))

    def refuse(self, bad: Mask, what: str, remedy: str, *, bad_rows: BadRows, show: str = "") -> Mask:
        """Report the bad rows and return the mask of the others."""
        rows = np.flatnonzero(bad)
        if len(rows):
            roles = dict.fromkeys(role for role in (*IDS, show) if role in self.columns)
            values = zip(*(self.columns[role].take(pa.array(rows)).to_pylist() for role in roles), strict=True)
            names = [self.names[role] for role in roles]
            examples = [
                ", ".join(f"{name} {_shown(value)}" for name, value in zip(names, row, strict=True)) for row in values
            ]
            bad_rows.reading(self.file)
            lines = [line + 1 for line in self.record[rows].tolist()]
            bad_rows.found.append(RowFault(self.file, lines, what, remedy, examples, "row"))
        return ~bad


def _shown(value: str | None) -> str:
    return value.removeprefix(UNREADABLE) if value is not None and value.startswith(UNREADABLE) else repr(value)
