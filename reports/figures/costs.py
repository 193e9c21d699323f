"""What a method costs beside what it brings: a point for each row of a board, means over its seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.results.leaderboard import Board
from benchmarks.results.results import Result
from reports.drawing.families import family_of, sends
from reports.main_rows import runs_of
from reports.text.phrases import plain, seeds

UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))


@dataclass(frozen=True, slots=True)
class Point:
    """A row of a board; a number that a seed lacks is NaN, and one that is infinite in a seed stays so."""

    label: str
    family: str
    cost: float
    accuracy: float
    seeds: int = 1
    broken: int = 0  # of the seeds, those without a finite accuracy or, where others have one, cost

    @property
    def lost(self) -> str:
        """Its name, to say that it is not drawn; with its broken seeds where others are whole."""
        some = 0 < self.broken < self.seeds
        return f"{self.label} ({self.broken} of {seeds([self.seeds])})" if some else self.label


def points(board: Board, metric: str, cost: Callable[[Result], float]) -> list[Point]:
    """One for each row, in the board's order."""
    found = []
    for label in board.methods():
        runs = runs_of(board, label)
        accuracies, costs = [run.summary.get(metric, math.nan) for run in runs], [cost(run) for run in runs]
        has_cost = any(map(math.isfinite, costs))  # a central method sends nothing, and nothing is wrong with it
        broken = sum(
            not math.isfinite(accuracy) or (has_cost and not math.isfinite(each))
            for accuracy, each in zip(accuracies, costs, strict=True)
        )
        found.append(Point(label, family_of(runs[0]), _mean(costs), _mean(accuracies), len(runs), broken))
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
    rounded = float(f"{value:.3g}")  # 999,960 bytes are 1 MB and not 1,000 kB
    unit, name = next((each for each in UNITS if rounded >= each[0]), UNITS[-1])
    return f"{plain(value / unit, 3)} {name}"


def in_seconds(value: float) -> str:
    """Seconds as people say them."""
    if value >= 2 * 3600:
        return f"{plain(value / 3600, 3)} h"
    return f"{plain(value / 60, 3)} min" if value >= 120 else f"{plain(value, 3 if value >= 100 else 2)} s"


def front(shown: Sequence[Point]) -> list[Point]:
    """Those that no other is both cheaper and better than, the cheapest first."""
    kept: list[Point] = []
    for point in sorted(shown, key=lambda point: (point.cost, -point.accuracy, point.label)):
        if not kept or point.accuracy > kept[-1].accuracy:
            kept.append(point)
    return kept


def _mean(values: Sequence[float]) -> float:
    """NaN where one is missing, and infinite where one is: the others alone would look better than the method is."""
    return sum(values) / len(values)
