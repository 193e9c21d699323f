"""What a method costs beside what it brings: a point for each row of a board, means over its seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.leaderboard import Board
from benchmarks.results import Result
from reports.families import family_of, sends
from reports.main_rows import runs_of

UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))


@dataclass(frozen=True, slots=True)
class Point:
    """A row of a board; NaN where there is no such number."""

    label: str
    family: str
    cost: float
    accuracy: float


def points(board: Board, metric: str, cost: Callable[[Result], float]) -> list[Point]:
    """One for each row, in the board's order."""
    found = []
    for label in board.methods():
        runs = runs_of(board, label)
        accuracy = _mean([run.summary.get(metric, math.nan) for run in runs])
        found.append(Point(label, family_of(runs[0]), _mean([cost(run) for run in runs]), accuracy))
    return found


def seconds(run: Result) -> float:
    """Of training."""
    return run.seconds.get("fit", math.nan)


def sent(run: Result) -> float:
    """Bytes by a home over the whole training, mean over homes: in a round only those of its cohort send."""
    if not sends(run):
        return math.nan
    homes = float(run.counts.get("homes") or max(row.get("clients", 1.0) for row in run.history))
    rounds = sum(row.get("sent_bytes", 0.0) * row.get("clients", homes) for row in run.history)
    return rounds / homes + sum(row.get("statistics_bytes", 0.0) for row in run.history)


def in_bytes(value: float) -> str:
    """Bytes as people say them."""
    unit, name = next((each for each in UNITS if value >= each[0]), UNITS[-1])
    return f"{value / unit:.3g} {name}"


def in_seconds(value: float) -> str:
    """Seconds as people say them."""
    return f"{value / 60:,.3g} min" if value >= 120 else f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def front(shown: Sequence[Point]) -> list[Point]:
    """Those that no other is both cheaper and better than, the cheapest first."""
    kept: list[Point] = []
    for point in sorted(shown, key=lambda point: (point.cost, -point.accuracy, point.label)):
        if not kept or point.accuracy > kept[-1].accuracy:
            kept.append(point)
    return kept


def _mean(values: Sequence[float]) -> float:
    """Of the numbers among them."""
    there = [value for value in values if math.isfinite(value)]
    return float(np.mean(there)) if there else math.nan
