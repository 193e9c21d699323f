"""Quality by epsilon of differential privacy, with paired intervals: the lines of the figure, the rows of the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.results.compare import Panel, compare
from benchmarks.results.store import Result
from datasets.common.errors import DataError
from reports.inputs import is_ranking
from reports.sweeps import PRIVACY, Sweep, sweeps

FREE = 0.01  # of the quality without privacy: what costs surely less is taken to cost nothing


@dataclass(frozen=True, slots=True)
class PrivacyCost:
    """What an epsilon costs; the interval is NaN where the tables of the homes are gone."""

    epsilon: float
    quality: float  # mean over seeds
    difference: float  # from the runs without privacy with the same seeds
    low: float = math.nan
    high: float = math.nan

    def is_free(self, level: float) -> bool:
        """Whether the whole interval is above a cost of FREE."""
        return self.low > -FREE * level

    def verdict(self, level: float) -> str:
        """In words."""
        if math.isnan(self.low):
            return "unknown"
        if self.is_free(level):
            return f"costs less than {FREE:.0%}"
        return "costs something" if self.high < 0 else "no cost shown, nor ruled out"


@dataclass(frozen=True, slots=True, eq=False)
class EpsilonLine:
    """A method with one setting on one number of homes."""

    method: str
    homes: int
    level: float  # without privacy
    costs: tuple[PrivacyCost, ...]  # by falling epsilon
    runs: tuple[Result, ...]
    seeds: int  # that all points have

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """Epsilon and quality."""
        return tuple((cost.epsilon, cost.quality) for cost in self.costs)


def epsilon_lines(runs: Sequence[Result]) -> list[EpsilonLine]:
    """By method and number of homes, of several settings that with the most epsilons, then seeds, then quality."""
    best: dict[tuple[str, int], EpsilonLine] = {}
    for sweep in sweeps([run for run in runs if is_ranking(run)], PRIVACY):
        line = _line(sweep)
        place = line.method, line.homes
        if line.costs and (place not in best or _rank(line) > _rank(best[place])):
            best[place] = line
    return [best[place] for place in sorted(best)]


def _rank(line: EpsilonLine) -> tuple[int, int, float]:
    return len(line.costs), line.seeds, line.level


def _line(sweep: Sweep) -> EpsilonLine:
    by_epsilon: dict[float, dict[int, Result]] = {}
    for run in sweep.runs:
        by_epsilon.setdefault(float(str(run.key.parameters["epsilon"])), {})[run.key.seed] = run
    plain = by_epsilon.pop(0.0)
    # Seeds differ by more than epsilons do: all points are of the same ones.
    seeds = sorted(set(plain).intersection(*by_epsilon.values()))
    if not seeds:
        return EpsilonLine(sweep.method, sweep.homes, math.nan, (), (), 0)
    used = {0.0: plain, **by_epsilon}
    chosen = {epsilon: [some[seed] for seed in seeds] for epsilon, some in used.items()}
    level = _mean(chosen[0.0])
    costs = tuple(_cost(epsilon, chosen[epsilon], chosen[0.0]) for epsilon in sorted(by_epsilon, reverse=True))
    every = tuple(run for some in chosen.values() for run in some)
    return EpsilonLine(sweep.method, sweep.homes, level, costs, every, len(seeds))


def _cost(epsilon: float, runs: Sequence[Result], plain: Sequence[Result]) -> PrivacyCost:
    quality, difference = _mean(runs), _mean(runs) - _mean(plain)
    try:
        panel = Panel.of([*(("private", run) for run in runs), *(("plain", run) for run in plain)], _metric(plain[0]))
    except DataError:  # the tables of the homes are gone
        return PrivacyCost(epsilon, quality, difference)
    found = compare(panel, "private", "plain")
    return PrivacyCost(epsilon, quality, found.difference, found.low, found.high)


def _mean(runs: Sequence[Result]) -> float:
    return sum(run.summary.get(_metric(run), math.nan) for run in runs) / len(runs)


def _metric(run: Result) -> str:
    """The reciprocal rank of the lists that the headline of its data is of."""
    return f"mrr{run.suffix}"
