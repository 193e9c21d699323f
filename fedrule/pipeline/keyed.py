"""Rows of a database have no line number: a bad one is named by its user and devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from datasets.homes import Mask
from datasets.readers.bad_rows import Problem, Problems
from datasets.readers.text_table import TextTable
from fedrule.pipeline.decode import UNREADABLE

IDS = ("user", "device", "trigger_device", "action_device")  # what tells the rows of a table apart


class KeyedProblem(Problem):
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

    def refuse(self, bad: Mask, what: str, remedy: str, *, problems: Problems, show: str = "") -> Mask:
        """Report the bad rows by their keys and give back the mask of the others."""
        rows = np.flatnonzero(bad)
        if len(rows):
            roles = [role for role in (*IDS, show) if role in self.columns]
            spelled = spell({role: self.columns[role].take(pa.array(rows)) for role in dict.fromkeys(roles)}, self)
            problems.reading(self.file)
            lines = tuple(line + 1 for line in self.record[rows].tolist())
            problems.found.append(KeyedProblem(self.file, lines, what, remedy, tuple(spelled), "row"))
        return ~bad


def spell(columns: dict[str, pa.Array], table: TextTable) -> Sequence[str]:
    """Each row in words: the names of its columns and their values."""
    values = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    names = [table.names[role] for role in columns]
    return [", ".join(f"{name} {_shown(value)}" for name, value in zip(names, row, strict=True)) for row in values]


def _shown(value: str | None) -> str:
    return value.removeprefix(UNREADABLE) if value is not None and value.startswith(UNREADABLE) else repr(value)
