"""The lines of a figure by round: which runs make up which line, chosen by name.

A line is all seeds of a method with its settings, labelled as on the leaderboard; a row of panels has the lines of one
data set, track and split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.results.curves import curves_table
from benchmarks.results.leaderboard import boards
from benchmarks.results.store import Result
from datasets.common.errors import unknown
from reports.text.phrases import seed_count

Floats = npt.NDArray[np.float64]

PARTS = ("test", "validation", "train")
MOST_LINES = 12  # that one can tell apart


@dataclass(frozen=True, slots=True, eq=False)
class RunCurves:
    """What one run went through."""

    measured: pd.DataFrame  # a row for each measured round, a column for each metric; NaN where it is no number
    stopped_early: bool  # before its rounds were over: it ran away, or its patience was at an end

    def curve(self, metric: str) -> Floats:
        """[n_measured, 2]: round and value; nothing where the metric has none, such as a loss without log-odds."""
        if metric not in self.measured:
            return np.empty((0, 2))
        values = self.measured[metric].dropna()
        return np.stack([values.index.to_numpy(np.float64), values.to_numpy(np.float64)], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A method with its settings."""

    label: str
    method: str
    runs: tuple[RunCurves, ...]  # of the seeds


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What may be drawn in one panel: the same data, track and split."""

    title: str  # with the number of homes
    lines: tuple[Line, ...]

    @property
    def seeds(self) -> str:
        """How many a line is the mean of."""
        return seed_count(len(line.runs) for line in self.lines)


def rows(
    runs: Sequence[Result], part: str, *, methods: Sequence[str] = (), lines: Sequence[str] = ()
) -> tuple[Row, ...]:
    """All lines, or those of `methods` and those whose labels are in `lines`; an error where they are too many."""
    one_of("part", part, PARTS)
    listed = boards(_fits(runs, part))
    named = {label: run.key.method for board in listed for label, run in board.runs}
    for method in methods:
        one_of("method", method, named.values())
    for line in lines:
        one_of("line", line, named)
    kept = sorted(label for label in named if not (methods or lines) or named[label] in methods or label in lines)
    if len(kept) > MOST_LINES:
        raise ValueError(
            f"{len(kept)} lines are more than one can tell apart ({MOST_LINES}); choose methods with --methods A,B, or "
            "lines with --line 'LABEL' for each, of:\n" + "\n".join(f"    {label}" for label in kept)
        )
    found = []
    for board in listed:
        by_label = {label: [run for name, run in board.runs if name == label] for label in kept}
        drawn = tuple(Line(label, named[label], _run_curves(each, part)) for label, each in by_label.items() if each)
        if drawn:
            found.append(Row(board.title, drawn))
    return tuple(found)


def one_of(kind: str, name: str, known: Iterable[str]) -> None:
    """An error with the nearest right name where there is no such thing."""
    if name not in (choices := set(known)):
        raise unknown(kind, name, choices)


def _fits(runs: Sequence[Result], part: str) -> list[Result]:
    """Every fit that was measured by round on a part, once.

    Curves are measured as protocol `paper` measures, whatever a run was evaluated by. Of a fit that was evaluated by
    several protocols, or measured more and less often, the one that was measured most often.
    """
    fits: dict[str, tuple[int, Result]] = {}
    for run in runs:
        points = len(_measured(run, part))
        fit = replace(run, key=replace(run.key, protocol="paper", curves=0))
        if points > fits.get(fit.key.hash, (0, fit))[0]:
            fits[fit.key.hash] = points, fit
    if not fits:
        raise ValueError(
            f"none of the {len(runs)} runs here was measured by round on {part}; "
            "`python -m benchmarks run federated --curves 10` makes runs that are"
        )
    return [fit for _, (_, fit) in sorted(fits.items())]


def _run_curves(seeds: Sequence[Result], part: str) -> tuple[RunCurves, ...]:
    """Of each seed. A method without `rounds` ended early where another of its seeds went on."""
    last = [int(run.history[-1]["round"]) for run in seeds]
    asked = [run.key.parameters.get("rounds") for run in seeds]
    planned = [rounds if isinstance(rounds, int) else max(last) for rounds in asked]
    return tuple(
        RunCurves(_measured(run, part), done < due) for run, done, due in zip(seeds, last, planned, strict=True)
    )


def _measured(run: Result, part: str) -> pd.DataFrame:
    table = curves_table([run])
    wide = table[table["part"] == part].pivot(index="round", columns="metric", values="value")
    return wide.replace([np.inf, -np.inf], np.nan).sort_index()
