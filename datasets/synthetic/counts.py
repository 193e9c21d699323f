"""How many devices or rules each home has: counts that meet published shares, a mean and a longest tail at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.homes import Array
from datasets.synthetic.draws import Floats


@dataclass(frozen=True, slots=True)
class Counts:
    """A distribution of whole numbers given by a few points of it: the share of homes with at most so many.

    Between two points log P(X > x) is straight in log x, as in a power law; beyond the last one the tail bends as much
    as the total asks for and ends at `largest`.
    """

    at_most: dict[int, float]  # rising; the first number is the smallest count
    largest: int

    def quantiles(self, n: int, bend: float, longest: int) -> Array:
        """[n]: rising counts, the middle of each of n equal shares; of `longest` of them the last is `largest`."""
        above = 1 - (np.arange(n) + 0.5) / n  # P(X > x) at each
        knots, share = np.array(list(self.at_most)), 1 - np.array(list(self.at_most.values()))
        inside = np.interp(-np.log(above), -np.log(share), np.log(knots))
        reach = np.log(share[-1] / above) / np.log(share[-1] * 2 * max(n, longest))
        tail = np.log(knots[-1]) + np.log(self.largest / knots[-1]) * np.clip(reach, 0, 1) ** bend
        counts = np.exp(np.where(above < share[-1], tail, inside))
        whole: Array = np.ceil(np.maximum(counts, knots[0]) - 1e-9).astype(np.int64)
        return whole

    def to_total(self, n: int, total: int, longest: int) -> Array:
        """[n]: rising counts that sum to `total`; `longest` is how many homes it takes to see the largest."""
        if n == 0:
            return np.zeros(0, dtype=np.int64)
        low, high = 0.05, 20.0  # a larger bend makes a thinner tail
        for _ in range(25):
            bend = (low + high) / 2
            low, high = (bend, high) if self.quantiles(n, bend, longest).sum() > total else (low, bend)
        return np.sort(_settle(self.quantiles(n, high, longest), total, min(self.at_most), self._fixed(n, longest)))

    def _fixed(self, n: int, longest: int) -> int:
        """How many of the largest counts must not move: the one that is published as the largest."""
        return 1 if n >= longest else 0


def _settle(counts: Array, total: int, smallest: int, fixed: int) -> Array:
    """Rising counts moved by one here and there, the larger ones first, until they sum to `total`."""
    counts = counts.copy()
    while (missing := total - int(counts.sum())) != 0:
        movable = np.flatnonzero(counts[: len(counts) - fixed] + np.sign(missing) >= smallest)[::-1]
        if not len(movable) and not fixed:
            raise AssertionError(f"{len(counts)} counts of at least {smallest} cannot sum to {total}")
        fixed = fixed if len(movable) else 0
        counts[movable[: abs(missing)]] += np.sign(missing)
    return counts


def paired(first: Array, second: Array, likeness: float, rng: np.random.Generator) -> Array:
    """The rising counts of `second` put in an order that goes with `first`: likeness 0 is by chance, 1 by rank."""
    order = np.argsort(np.argsort(first + rng.random(len(first)))) / max(len(first), 1)
    score: Floats = likeness * order + (1 - likeness) * rng.random(len(first))
    return second[np.argsort(np.argsort(score))]
