"""Output types: a figure or a table with its caption, notes and source files, and why one is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.results.store import Result

if TYPE_CHECKING:  # tables do without matplotlib
    from reports.drawing.layout import Layout

RUN = "python -m benchmarks run default"  # makes the runs of most outputs
BUILD = "python -m reports.build"  # makes dataset summaries and examples as well


class Missing(Exception):
    """An output that cannot be made from these results: what is missing, and the command that makes it."""

    def __init__(self, what: str, command: str) -> None:
        super().__init__(what)
        self.what = what
        self.command = command


@dataclass(frozen=True, slots=True)
class About:
    """The caption of a figure or table, and where it comes from."""

    caption: str  # what there is to see, with the numbers that are shown
    sources: tuple[str, ...]  # files of the results folder
    command: str  # makes such files
    notes: tuple[str, ...] = ()  # what is missing, and where and why it differs from the paper


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A figure."""

    layout: Layout
    about: About


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str  # as people read it
    value: float | str | None = None  # as programs read it, in CSV; the text where it is None
    strong: bool = False  # the best of its column
    underlined: bool = False  # cannot be told apart from the best
    mark: str = ""  # a CSS class, e.g. "hidden" or "impossible"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; every row has a cell for each column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    about: About
    sortable: bool = field(default=False, kw_only=True)  # on the page, and filtered by a text


def run_files(runs: Sequence[Result]) -> tuple[str, ...]:
    """The files of these runs, each once."""
    return tuple(sorted({f"{run.key.hash}.json" for run in runs}))
