"""Is one method really better than another? Intervals and p values over homes and seeds.

Other homes would give other numbers, and so would other seeds, which hide other rules and train on other random
numbers. A method's value is the mean of R_1, ..., R_S, its runs with S seeds; R_s is a ratio of sums over homes. Two
methods are compared by their differences R_s, paired by seed and home. Homes and seeds are crossed random effects:

    D = covariance of R_1, ..., R_S over samples of homes   a home counts with all its hidden rules; linearized ratios
    A = mean of D off its diagonal, at least 0              homes that are easy with every seed
    E = mean of D on its diagonal - mean off it             homes that are easy with one seed: other rules are hidden
    B = max(E, variance of R_1, ..., R_S) / S               all that changes with the seed, training included

The variance of the mean is A + B, with 1 / ((1 - q)^2 / (homes - 1) + q^2 / (S - 1)) degrees of freedom for Student's
t (Satterthwaite, An approximate distribution of estimates of variance components, Biometrics Bulletin 2, 1946). q is
the share of the variance that only the seeds tell: B / (A + B), times min(1, variance of R / E)^2 with three seeds or
more. So where seeds differ less than their homes explain, homes count, of which there are many; that matters where
each seed measures other homes, since B is then nearly all. The square is not derived but chosen: `python -m
benchmarks.references.coverage` measures how often such intervals cover the truth. E is not counted twice, as
resampling homes and seeds would (Owen, The pigeonhole bootstrap, Annals of Applied Statistics 1, 2007), and seeds that
are close by luck do not pass for a small B. With one seed B cannot be known, and the interval is over homes only.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.results.store import Result
from datasets.common.errors import DataError, unknown

Floats = npt.NDArray[np.float64]

ALPHA = 0.05  # significance level
LOWER_IS_BETTER = frozenset({"loss", "mr", "mr_rt"})
OVER_HOMES = frozenset({"loss", "auc", "auc_feasible", "mrr_first", "recall@10", "ndcg@10", "map"})  # means over homes
COUNTS = frozenset({"hidden", "homes", "unseen", "unanswered", "non_rules", "feasible"})  # neither good nor bad
LEVEL = 0.95  # of intervals
LEAST_SEEDS = 3  # that say whether seeds differ more than their homes explain


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

    def estimate(self, columns: Sequence[int], minus: Sequence[int] = (), times: float = 1.0) -> Estimate:
        """The mean of a method's runs, less `times` those of another method with the same seeds where it is given."""
        values, shares = self._shares(columns)
        if minus:
            other_values, other_shares = self._shares(minus)
            values, shares = values - times * other_values, shares - times * other_shares
        homes, seeds = int(self.weights[:, [*columns, *minus]].any(axis=1).sum()), len(columns)
        value = float(values.mean())
        if homes < 2:
            return Estimate(value, homes, seeds)
        covariance = homes / (homes - 1) * shares.T @ shares
        own = float(np.trace(covariance)) / seeds
        if seeds == 1:
            return Estimate(value, homes, seeds, error=math.sqrt(own), freedom=homes - 1)
        spread = float(values.std(ddof=1))
        common = (float(covariance.sum()) / seeds - own) / (seeds - 1)
        explained = own - common
        of_homes, of_seeds = max(common, 0.0), max(explained, spread * spread) / seeds
        variance = of_homes + of_seeds
        share = of_seeds / variance if variance else 0.0
        if seeds >= LEAST_SEEDS and explained > 0:
            share *= min(1.0, spread * spread / explained) ** 2
        freedom = 1 / ((1 - share) ** 2 / (homes - 1) + share**2 / (seeds - 1))
        return Estimate(value, homes, seeds, spread, math.sqrt(variance), freedom)

    def _shares(self, columns: Sequence[int]) -> tuple[Floats, Floats]:
        """[n_columns], [n_homes, n_columns]: the runs' values, and by how much one more of each home changes them."""
        totals, weights = self.totals[:, columns], self.weights[:, columns]
        weight = np.broadcast_to(weights.sum(axis=0), weights.shape)
        values = _ratio(totals.sum(axis=0), weight[0])
        return values, _ratio(totals - values * weights, weight)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds and how well it is known."""

    value: float
    homes: int  # in which something was measured
    seeds: int
    spread: float = math.nan  # standard deviation over seeds; NaN for one seed
    error: float = math.nan  # standard error; NaN for one home
    freedom: float = math.nan  # degrees of freedom of the error

    def interval(self) -> tuple[float, float]:
        """Covers the truth with probability LEVEL; NaN where the error is unknown."""
        if not math.isfinite(self.error):
            return math.nan, math.nan
        half = student_quantile(1 - LEVEL, self.freedom) * self.error if self.error else 0.0
        return self.value - half, self.value + half

    def p(self) -> float:
        """Two-sided, of the value being 0; 1 where the error is unknown."""
        if not math.isfinite(self.error) or not self.value:
            return 1.0
        return student_p(self.value / self.error, self.freedom) if self.error else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Method a against method b in one metric: the difference a - b, its interval and its p value."""

    a: str
    b: str
    value_a: float
    value_b: float
    difference: float
    low: float
    high: float
    p: float  # of no difference
    homes: int
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times the value of one method the value of another is, with its interval; NaN where it is unknown."""

    value: float
    low: float
    high: float
    seeds: int


def lower_is_better(metric: str) -> bool:
    """Whether a method with less of it is the better one."""
    return base_name(metric) in LOWER_IS_BETTER


def base_name(metric: str) -> str:
    """The metric that "<metric>_home" averages over homes, or the metric itself."""
    return metric.replace("_home", "")


def compare(panel: Panel, a: str, b: str) -> Comparison:
    """Compare two methods of a panel over the seeds that both have."""
    mine, theirs = panel.columns(a), panel.columns(b)
    seeds = tuple(sorted(mine.keys() & theirs.keys()))
    if not seeds:
        raise DataError(f"{a} and {b} have no seed in common; run both with the same --seeds")
    columns_a, columns_b = [mine[s] for s in seeds], [theirs[s] for s in seeds]
    values = panel.values()
    value_a, value_b = float(values[columns_a].mean()), float(values[columns_b].mean())
    found = panel.estimate(columns_a, columns_b)
    return Comparison(a, b, value_a, value_b, found.value, *found.interval(), found.p(), found.homes, seeds)


def ratio(panel: Panel, a: str, b: str) -> Ratio | None:
    """a / b over the seeds that both have; None without one, or where b is 0.

    The interval is that of log(a / b), whose error is that of a - (a / b) b, paired, over a: the delta method.
    """
    mine, theirs = panel.columns(a), panel.columns(b)
    seeds = sorted(mine.keys() & theirs.keys())
    if not seeds:
        return None
    columns_a, columns_b = [mine[s] for s in seeds], [theirs[s] for s in seeds]
    values = panel.values()
    value_a, value_b = float(values[columns_a].mean()), float(values[columns_b].mean())
    if not value_b > 0:
        return None
    found = value_a / value_b
    low, high = panel.estimate(columns_a, columns_b, times=found).interval()  # around 0
    factor = math.exp((high - low) / 2 / value_a) if value_a > 0 else math.nan
    return Ratio(found, found / factor, found * factor, len(seeds))


def student_p(t: float, freedom: float) -> float:
    """P(|T| > |t|) of Student's t: the incomplete beta function I_x(freedom / 2, 1 / 2), x = freedom / (freedom + t^2).

    SciPy has it too, but takes a third of a leaderboard's time to import.
    """
    x, rest = freedom / (freedom + t * t), t * t / (freedom + t * t)
    a, b = freedom / 2, 0.5
    if not rest:
        return 1.0
    scale = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest))
    if x < (a + 1) / (a + b + 2):
        return scale / a * _continued_fraction(a, b, x)
    return 1 - scale / b * _continued_fraction(b, a, rest)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """The factor of the incomplete beta function that DLMF (https://dlmf.nist.gov/8.17.E22) gives as a fraction.

    By the method of Lentz, as modified by Thompson and Barnett (1986): no step divides by 0.
    """
    tiny = 1e-300
    result, upper, lower = 1.0, 1.0, 0.0
    for step in range(10_000):
        m = step // 2
        if step % 2:
            term = (m + 1) * (b - m - 1) * x / ((a + step) * (a + step + 1))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + step) * (a + step + 1))
        lower = 1 / (1 + term * lower or tiny)
        upper = 1 + term / upper or tiny
        result *= upper * lower
        if abs(upper * lower - 1) < 1e-15:
            break
    return 1 / result


def student_quantile(p: float, freedom: float) -> float:
    """The t that `student_p` of is p, by Newton's method: from the normal quantile, which is too small, upwards."""
    t = NormalDist().inv_cdf(1 - p / 2)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    for _ in range(100):
        density = scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2)
        step = (student_p(t, freedom) - p) / (2 * density)
        t += step
        if abs(step) < 1e-12 * t:
            break
    return t


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

    Most metrics weight a home by its hidden rules (of closed lists: those between devices with known rules); those of
    OVER_HOMES and "<metric>_home" weight all homes equally.
    """
    column, known = base_name(metric), metrics_of(result)
    if column not in known:
        raise unknown(f"metric per home of protocol {result.key.protocol}", metric, known)
    name, _, variant = metric.partition(", ")
    equal = name in OVER_HOMES or column != metric
    hidden = "n_hidden, closed" if "closed" in variant else "n_hidden"
    table = result.homes("user", column, *([] if equal else [hidden]))
    value = table[column].to_numpy(dtype=np.float64)
    weight = np.ones(len(table)) if equal else table[hidden].to_numpy(dtype=np.float64)
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


def _ratio(total: Floats, weight: Floats) -> Floats:
    ratio = np.full(total.shape, np.nan)
    np.divide(total, weight, out=ratio, where=weight > 0)
    return ratio
