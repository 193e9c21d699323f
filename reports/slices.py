"""Slices of the hidden rules, such as those of homes with 1-2 devices: means over seeds, and how well they are known.

Results have the mean of each slice and seed, not of each home in it, so that intervals are over seeds only: Student's,
with one degree of freedom less than there are seeds. A seed counts by its hidden rules of the slice, which may be few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.results.compare import LEVEL, Ratio, student_quantile
from benchmarks.results.store import Result

SIZE = "devices "  # begins the name of a slice of homes
MIN_HIDDEN = 30  # rules over all seeds, for a sentence to say something of a slice

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SliceMean:
    """A metric of a method on a slice."""

    value: float
    low: float
    high: float
    hidden: int  # rules over all seeds


def size_slices(runs: Sequence[Result]) -> list[str]:
    """The slices by home size in which some seed has hidden rules, small homes first."""
    names = dict.fromkeys(name.partition(":")[0] for run in runs for name in run.summary if name.startswith(SIZE))
    return [name for name in names if hidden_rules(runs, name)]


def hidden_rules(runs: Sequence[Result], name: str, count: str = "hidden") -> int:
    """Of a slice over all seeds; or another count of it, such as `unanswered`."""
    values = [run.summary.get(f"{name}: {count}", 0.0) for run in runs]
    return int(sum(value for value in values if math.isfinite(value)))


def slice_mean(runs: Sequence[Result], name: str, metric: str) -> SliceMean | None:
    """The mean with its interval; None where nothing is hidden or some seed has no finite value."""
    values, weights = _measured(runs, name, metric)
    if not len(values) or not np.isfinite(values).all():
        return None
    mean = float(np.average(values, weights=weights))
    half = _half_width(weights * (values - mean) / weights.sum())
    return SliceMean(mean, max(mean - half, 0.0), min(mean + half, 1.0), int(weights.sum()))


def slice_ratio(mine: Sequence[Result], theirs: Sequence[Result], name: str, metric: str) -> Ratio | None:
    """How many times the mean of the others it is, on common seeds; None where there are none or it is 0."""
    of_mine, of_theirs = ({run.key.seed: run for run in runs} for runs in (mine, theirs))
    seeds = sorted(of_mine.keys() & of_theirs.keys())
    a, weights = _measured([of_mine[seed] for seed in seeds], name, metric)
    b, _ = _measured([of_theirs[seed] for seed in seeds], name, metric)
    if not len(a) or len(a) != len(b) or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    top, bottom = (float(np.average(each, weights=weights)) for each in (a, b))
    if not (top > 0 and bottom > 0):
        return None
    found = top / bottom
    factor = math.exp(_half_width(weights * (a - found * b) / weights.sum()) / top)  # as `compare.ratio` has it
    return Ratio(found, found / factor, found * factor, len(seeds))


def slice_change(runs: Sequence[Result], before: str, after: str, metric: str) -> Ratio | None:
    """How many times the mean of one slice that of another is, of seeds that have both; None where one is 0."""
    both = [run for run in runs if all(run.summary.get(f"{name}: hidden", 0.0) > 0 for name in (before, after))]
    (b, b_weights), (a, a_weights) = (_measured(both, name, metric) for name in (before, after))
    if not both or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    top, bottom = float(np.average(a, weights=a_weights)), float(np.average(b, weights=b_weights))
    if not (top > 0 and bottom > 0):
        return None
    parts = a_weights * (a / top - 1) / a_weights.sum() - b_weights * (b / bottom - 1) / b_weights.sum()
    found, factor = top / bottom, math.exp(_half_width(parts))
    return Ratio(found, found / factor, found * factor, len(both))


def over_seeds(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and interval of one number per seed."""
    found = np.asarray(values, dtype=np.float64)
    mean = float(found.mean())
    half = _half_width((found - mean) / len(found))
    return mean, mean - half, mean + half


def _measured(runs: Sequence[Result], name: str, metric: str) -> tuple[Floats, Floats]:
    """The metric and the hidden rules of each seed that has some."""
    hidden = np.array([run.summary.get(f"{name}: hidden", 0.0) for run in runs])
    values = np.array([run.summary.get(f"{name}: {metric}", math.nan) for run in runs])
    return values[hidden > 0], hidden[hidden > 0]


def _half_width(parts: Floats) -> float:
    """Of the interval of a sum of one part per seed, which add up to 0; NaN for one seed."""
    seeds = len(parts)
    if seeds < 2:
        return math.nan
    error = math.sqrt(seeds / (seeds - 1) * float(parts @ parts))
    return student_quantile(1 - LEVEL, seeds - 1) * error if error else 0.0
