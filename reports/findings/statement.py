"""What results say to a question: one sentence to be read by everybody, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.results.store import Result
from reports.boards import RankedBoard
from reports.outputs import About, Cell, Table


@dataclass(frozen=True, slots=True)
class Statement:
    """What some runs say."""

    headline: str  # one sentence that is true whatever they say
    details: tuple[str | Table, ...]
    runs: tuple[Result, ...]


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of words and of numbers with their intervals."""
    cells = tuple(tuple(Cell(text) for text in row) for row in rows)
    return Table(tuple(columns), cells, About(caption, (), ""))


def runs_of_all(shown: Iterable[RankedBoard]) -> tuple[Result, ...]:
    """The runs of some rankings."""
    return tuple(run for each in shown for _, run in each.board.runs)


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."
