"""What a report is made of: types of figures and tables, and the list of all of them, read from outputs.toml.

A new output is a function in reports/figures or reports/tables and a line in outputs.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks.results.store import Result
from datasets.common.errors import unknown
from reports.inputs import PLACES, ROLES, Inputs

if TYPE_CHECKING:  # tables do without matplotlib
    from reports.drawing.layout import Layout

RUN = "python -m benchmarks run default"  # makes the runs of most outputs
RUN_RIVALS = "python -m benchmarks run rivals"  # makes those of all methods
BUILD = "python -m reports.build"  # makes dataset summaries and examples as well
DOCS = "docs"  # the name of all that README.md and docs/ show of published results
MAKE_DOCS = f"{BUILD} --no-run --results published --only {DOCS}"


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
    sources: tuple[str, ...]  # files of the results folder, or of the repository where a paper's numbers are
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
    details: Table | None = field(default=None, kw_only=True)  # the rows that it sums up: its CSV file has them instead


def run_files(runs: Sequence[Result]) -> tuple[str, ...]:
    """The files of these runs, each once."""
    return tuple(sorted({f"{run.key.hash}.json" for run in runs}))


@dataclass(frozen=True, slots=True)
class Output:
    """One figure or table."""

    name: str  # of its files and of --only
    title: str
    section: str  # of the page
    kind: Literal["figure", "table"]
    make: Callable[[Inputs], Drawing | Table]  # raises `Missing` where the results do not have what it needs


@cache
def all_outputs() -> tuple[Output, ...]:
    """Every figure and table in the order of the page."""
    sections = tomllib.loads(Path(__file__).with_name("outputs.toml").read_text("utf-8"))
    return tuple(
        Output(name, title, section, "figure" if path.startswith("figures.") else "table", _maker(path, *arguments))
        for section, entries in sections.items()
        for name, (title, path, *arguments) in entries.items()
    )


def _maker(path: str, *arguments: str) -> Callable[[Inputs], Drawing | Table]:
    """A function of reports/figures or reports/tables that is imported when called: tables need no matplotlib.

    An argument is a role where it is the name of one.
    """
    roles = {role.name: role for role in (*ROLES, *PLACES)}

    def make(inputs: Inputs) -> Drawing | Table:
        module, _, function = path.rpartition(".")
        found: Callable[..., Drawing | Table] = getattr(import_module(f"reports.{module}"), function)
        return found(inputs, *(roles.get(argument, argument) for argument in arguments))

    return make


def chosen_outputs(names: Sequence[str], besides: Sequence[str] = ()) -> list[Output]:
    """The named outputs in the order of the page, or all; `besides` are other names to accept."""
    outputs = all_outputs()
    known = (*(output.name for output in outputs), *besides)
    for name in names:
        if name not in known:
            raise unknown("output", name, known)
    return [output for output in outputs if not names or output.name in names]
