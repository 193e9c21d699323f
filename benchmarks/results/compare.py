"""Is one method really better than another? Paired statistics over homes.

Homes are resampled, not rules: the rules of one home are similar, so a home counts with all its hidden rules and seeds
(a cluster bootstrap; Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8). Every method is
measured on the same draws, which makes differences paired.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.results.store import Result
from datasets.common.errors import DataError, unknown
from datasets.common.random import Stream, generator

Floats = npt.NDArray[np.float64]

ALPHA = 0.05  # significance level
RESAMPLES = 10_000  # at least; see `resamples_for`
LOWER_IS_BETTER = frozenset({"loss", "mr", "mr_rt"})
OVER_HOMES = frozenset({"loss", "auc", "auc_feasible"})  # means over homes; all others are over hidden rules
COUNTS = frozenset({"hidden", "homes", "unseen", "unanswered", "non_rules", "feasible"})  # neither good nor bad
DRAWS_AT_ONCE = 4_000_000  # numbers held while resampling; changes no result
LEVEL = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One metric of several runs on the same homes: a column for each run."""

    methods: tuple[str, ...]  # [n_runs]  the label of each run's method
    seeds: tuple[int, ...]  # [n_runs]
    totals: Floats  # [n_homes, n_runs]  the metric summed over what was measured in the home; 0 where nothing was
    weights: Floats  # [n_homes, n_runs]  how much was measured

    @classmethod
    def of(cls, runs: Sequence[tuple[str, Result]], metric: str) -> Panel:
        """The panel of labelled runs, which must have been measured on the same data; homes are matched by user."""
        refuse_mixed([result for _, result in runs])
        tables = [per_home(result, metric) for _, result in runs]
        users = pd.Index(pd.unique(pd.concat([table["user"] for table in tables], ignore_index=True)))
        totals = np.zeros((len(users), len(runs)))
        weights = np.zeros((len(users), len(runs)))
        for column, table in enumerate(tables):
            row = users.get_indexer(pd.Index(table["user"]))
            totals[row, column] = table["total"]
            weights[row, column] = table["weight"]
        seeds = tuple(result.key.seed for _, result in runs)
        labelled = [(label, result.key.seed) for label, result in runs]
        for label, seed in labelled:
            if labelled.count((label, seed)) > 1:
                raise DataError(f"{label}, seed {seed} is there twice on {runs[0][1].key.data}; each seed counts once")
        for seed in set(seeds):
            columns = [column for column, each in enumerate(seeds) if each == seed]
            if (weights[:, columns] != weights[:, columns[:1]]).any():
                few = weights[:, columns].sum(axis=0)
                lacking = ", ".join(runs[c][0] for c, weight in zip(columns, few, strict=True) if weight < few.max())
                raise DataError(
                    f"{runs[0][1].key.data}, seed {seed}: the runs were not tested on the same hidden rules"
                    + (f", or {metric} is NaN or infinite in some homes of {lacking}" if lacking else "")
                )
        return cls(tuple(label for label, _ in runs), seeds, totals, weights)

    def columns(self, method: str) -> dict[int, int]:
        """Seed -> column of a method's runs."""
        return {
            seed: c for c, (label, seed) in enumerate(zip(self.methods, self.seeds, strict=True)) if label == method
        }

    def values(self) -> Floats:
        """[n_runs]: the metric of each run over all homes."""
        return _ratio(self.totals.sum(axis=0), self.weights.sum(axis=0))

    def resampled(self, *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
        """[resamples, n_runs]: the metric of each run on homes drawn with replacement, the same homes for all runs."""
        rng = generator(Stream.RESAMPLING, seed, 0)
        n_homes = len(self.totals)
        at_once = max(1, DRAWS_AT_ONCE // max(n_homes, 1))
        parts = []
        for begin in range(0, resamples, at_once):
            size = min(at_once, resamples - begin)
            drawn = rng.integers(n_homes, size=(size, n_homes)) + np.arange(size)[:, None] * n_homes
            times = np.bincount(drawn.ravel(), minlength=size * n_homes).reshape(size, n_homes).astype(np.float64)
            parts.append(_ratio(times @ self.totals, times @ self.weights))
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Method a against method b in one metric: the difference a - b, its interval and its p value."""

    a: str
    b: str
    value_a: float
    value_b: float
    difference: float
    low: float  # the middle 95 % of the differences on resampled homes
    high: float
    p_bootstrap: float
    p_wilcoxon: float  # signed ranks of the homes' differences; NaN where it was not computed
    homes: int
    seeds: tuple[int, ...]


def resamples_for(comparisons: int) -> int:
    """The resamples needed for any of so many comparisons to be significant after Holm.

    The least p of R resamples is 2 / (R + 1), and the first of m comparisons needs m p < ALPHA: R > 2 m / ALPHA. Twice
    that, so that one draw on the wrong side does not decide.
    """
    return max(RESAMPLES, math.ceil(4 * comparisons / ALPHA))


def lower_is_better(metric: str) -> bool:
    """Whether a method with less of it is the better one."""
    return base_name(metric) in LOWER_IS_BETTER


def base_name(metric: str) -> str:
    """The metric that "<metric>_home" averages over homes, or the metric itself."""
    return metric.replace("_home", "")


def compare(
    panel: Panel, a: str, b: str, *, resampled: Floats | None = None, seed: int = 0, wilcoxon: bool = True
) -> Comparison:
    """Compare two methods of a panel over the seeds that both have; `resampled` saves drawing again.

    Wilcoxon's test permutes the signs of few homes thousands of times, which takes most of a leaderboard's time.
    """
    mine, theirs = panel.columns(a), panel.columns(b)
    seeds = tuple(sorted(mine.keys() & theirs.keys()))
    if not seeds:
        raise DataError(f"{a} and {b} have no seed in common; run both with the same --seeds")
    columns_a, columns_b = [mine[s] for s in seeds], [theirs[s] for s in seeds]
    values = panel.values()
    value_a, value_b = float(values[columns_a].mean()), float(values[columns_b].mean())
    draws = panel.resampled(seed=seed) if resampled is None else resampled
    differences = mean_over_seeds(draws[:, columns_a]) - mean_over_seeds(draws[:, columns_b])
    low, high = interval(differences)
    own = _home_means(panel, columns_a) - _home_means(panel, columns_b)
    own = own[np.isfinite(own)]
    p_bootstrap, p_wilcoxon = bootstrap_p(differences), wilcoxon_p(own) if wilcoxon else math.nan
    difference = value_a - value_b
    return Comparison(a, b, value_a, value_b, difference, low, high, p_bootstrap, p_wilcoxon, len(own), seeds)


def interval(draws: Floats) -> tuple[float, float]:
    """The middle 95 % of what resampling gave; NaN where nothing could be measured."""
    finite = draws[np.isfinite(draws)]
    if not len(finite):
        return float("nan"), float("nan")
    low, high = np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def bootstrap_p(differences: Floats) -> float:
    """Two-sided: twice the share of resampled differences on the wrong side of 0, itself counted once; at most 1."""
    finite = differences[np.isfinite(differences)]
    wrong = min(int((finite <= 0).sum()), int((finite >= 0).sum()))
    return min(1.0, 2 * (wrong + 1) / (len(finite) + 1))


def wilcoxon_p(differences: Floats) -> float:
    """Wilcoxon's signed-rank test, two-sided, homes without a difference left out; 1 where no home has one."""
    differing = differences[differences != 0]
    from scipy import stats  # takes a second to import, and leaderboards do without

    return float(stats.wilcoxon(differing).pvalue) if len(differing) else 1.0


def holm(p: Sequence[float]) -> list[float]:
    """p values adjusted for being one of many: the i-th smallest of m times (m - i + 1), never below a smaller one's.

    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    raised = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(raised), 1.0)
    return [float(value) for value in adjusted]


def mean_over_seeds(draws: Floats) -> Floats:
    """[resamples] from [resamples, n_seeds]; a seed that a draw has nothing to measure in is left out of its mean."""
    finite = np.isfinite(draws)
    return _ratio(np.where(finite, draws, 0.0).sum(axis=1), finite.sum(axis=1).astype(np.float64))


def refuse_mixed(results: Sequence[Result]) -> None:
    """An error where runs on one data set had different data."""
    prints: dict[str, str] = {}
    for result in results:
        prints.setdefault(result.key.fingerprint, f"{result.key.method} ({result.written})")
    if len(prints) > 1:
        seen = "; ".join(f"{fingerprint}: {who}" for fingerprint, who in prints.items())
        raise DataError(
            f"{results[0].key.data}: results of different data cannot be compared ({seen}). "
            "Keep results of changed data in a folder of their own (--results)"
        )


def per_home(result: Result, metric: str) -> pd.DataFrame:
    """User, total and weight of each home: the metric of the run is the sum of totals over the sum of weights.

    Most metrics weight a home by its hidden rules; `loss`, `auc` and "<metric>_home" weight all homes equally.
    """
    column, known = base_name(metric), metrics_of(result)
    if column not in known:
        raise unknown(f"metric per home of protocol {result.key.protocol}", metric, known)
    table = result.homes("user", "n_hidden", column)
    equal = metric in OVER_HOMES or column != metric
    value = table[column].to_numpy(dtype=np.float64)
    weight = np.ones(len(table)) if equal else table["n_hidden"].to_numpy(dtype=np.float64)
    there = np.isfinite(value)
    columns = {"user": table["user"][there], "total": (value * weight)[there], "weight": weight[there]}
    return pd.DataFrame(columns)


def no_metric(metric: str, results: Sequence[Result]) -> DataError:
    """The error for a metric that none of these runs, one of each leaderboard, can be ranked by."""
    known = {result.key.protocol: metrics_of(result) for result in results}
    listed = "; ".join(
        f"{protocol}: {', '.join(map(quote, sorted(names)))}" for protocol, names in sorted(known.items())
    )
    if any(base_name(metric) in result.summary for result in results):
        reason = f"{metric} has no value per home that methods could be ranked or compared by."
    else:
        near = difflib.get_close_matches(metric, [name for names in known.values() for name in names], 1, 0.5)
        reason = f"unknown metric {metric!r}" + (f"; did you mean {near[0]!r}?" if near else ".")
    return DataError(f"{reason} Metrics of each protocol: {listed}")


def metrics_of(result: Result) -> list[str]:
    """The metrics that methods can be compared by: those with a value per home, without counts."""
    return [name for name in result.home_columns() if name in result.summary and name not in COUNTS]


def _home_means(panel: Panel, columns: list[int]) -> Floats:
    """[n_homes]: each home's own mean over these runs; NaN for a home in which nothing was measured."""
    return _ratio(panel.totals[:, columns].sum(axis=1), panel.weights[:, columns].sum(axis=1))


def _ratio(total: Floats, weight: Floats) -> Floats:
    ratio = np.full(total.shape, np.nan)
    np.divide(total, weight, out=ratio, where=weight > 0)
    return ratio
