"""`python -m benchmarks.references.coverage`: how often intervals cover the truth, on simulated runs of two methods.

A hidden rule has reciprocal rank 1 / (1 + floor(exp(-score))). Its score is a sum of normal numbers: of the home,
alone and with the method; of the home with the seed, which hides other rules; of seed and method, which is training;
and of the rule. All seeds measure the same homes, or each measures others, as with homes that training has not seen.
Both methods have the same distribution, so every significant difference is a false one. The intervals of
`benchmarks.results.compare` stand beside a percentile bootstrap over homes alone, which leaves the seeds out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.results.compare import ALPHA, LEVEL, Floats, Panel

RESAMPLES = 1000
METHODS = 2
HOME, HOME_METHOD, HOME_SEED, HOME_SEED_METHOD, RULE = 0.7, 0.4, 0.5, 0.5, 1.0  # standard deviations of scores
MEAN = -2.2  # of scores: a reciprocal rank of about 0.2
EFFECTS = {"none": 0.0, "small": 0.1, "large": 0.35}  # of the seed on a method: standard deviation
SEEDS = (2, 3, 5, 10)
HOMES = (100, 400)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares of simulated panels."""

    spread: float  # standard deviation over seeds, mean over panels
    covered: float  # intervals of a method's value that contain the truth
    wrong: float  # significant differences, of which none is real
    width: float  # median of an interval's width, in widths of the intervals over homes only
    homes_covered: float  # the same of the bootstrap over homes only
    homes_wrong: float


def simulate(
    homes: int, seeds: int, effect: float, *, other_homes: bool = False, panels: int = 1000, seed: int = 0
) -> Coverage:
    """Intervals and tests of so many panels; the effect is that of a seed on the scores of a method."""
    rng = np.random.default_rng([seed, homes, seeds, round(1000 * effect), int(other_homes)])
    truth = _truth(effect)
    rows = homes * seeds if other_homes else homes
    times = rng.multinomial(rows, np.full(rows, 1 / rows), size=RESAMPLES).astype(np.float64)
    found = []
    for _ in range(panels):
        panel = _apart(rng, homes, seeds, effect) if other_homes else _panel(rng, homes, seeds, effect)
        first, second = list(panel.columns("a").values()), list(panel.columns("b").values())
        own = panel.estimate(first)
        low, high = own.interval()
        draws = times @ panel.totals / (times @ panel.weights)
        of_homes = _middle(draws[:, first].mean(axis=1))
        difference = _middle((draws[:, first] - draws[:, second]).mean(axis=1))
        found.append(
            (
                own.spread,
                low <= truth <= high,
                panel.estimate(first, second).p() < ALPHA,
                (high - low) / (of_homes[1] - of_homes[0]),
                of_homes[0] <= truth <= of_homes[1],
                not difference[0] <= 0 <= difference[1],
            )
        )
    table = np.array(found, dtype=np.float64)
    means = table.mean(axis=0)
    return Coverage(*map(float, (*means[:3], np.median(table[:, 3]), *means[4:])))


def _panel(rng: np.random.Generator, homes: int, seeds: int, effect: float) -> Panel:
    """Two methods on the same homes, seeds and hidden rules; a home hides 1 to 4 rules."""
    rules = rng.integers(1, 5, homes)
    home = np.repeat(np.arange(homes), rules)
    score = MEAN + rng.normal(0, HOME, homes)[:, None, None] + rng.normal(0, HOME_METHOD, (homes, 1, METHODS))
    score = score + rng.normal(0, HOME_SEED, (homes, seeds, 1)) + rng.normal(0, effect, (seeds, METHODS))
    score = score + rng.normal(0, HOME_SEED_METHOD, (homes, seeds, METHODS))
    values = _reciprocal_rank(score[home] + rng.normal(0, RULE, (len(home), seeds, 1)))  # [n_rules, seeds, methods]
    totals = np.add.reduceat(values, np.cumsum(rules) - rules).transpose(0, 2, 1).reshape(homes, METHODS * seeds)
    weights = np.repeat(rules[:, None].astype(np.float64), METHODS * seeds, axis=1)
    return Panel(("a",) * seeds + ("b",) * seeds, tuple(range(seeds)) * METHODS, totals, weights)


def _apart(rng: np.random.Generator, homes: int, seeds: int, effect: float) -> Panel:
    """The same where each seed measures so many homes of its own."""
    panels = [_panel(rng, homes, 1, effect) for _ in range(seeds)]
    own = np.kron(np.eye(seeds), np.ones((homes, 1)))[:, :, None]  # [n_homes, n_seeds, 1]: whether the seed has it

    def spread_out(parts: list[Floats]) -> Floats:
        values = own * np.concatenate(parts)[:, None, :]  # [n_homes, n_seeds, methods]
        return values.transpose(0, 2, 1).reshape(homes * seeds, METHODS * seeds)

    totals, weights = spread_out([each.totals for each in panels]), spread_out([each.weights for each in panels])
    return Panel(("a",) * seeds + ("b",) * seeds, tuple(range(seeds)) * METHODS, totals, weights)


def _truth(effect: float) -> float:
    """The expected reciprocal rank: over one normal score with all variances, by the midpoint rule."""
    deviations = np.linspace(-9, 9, 200_001)
    parts = (HOME, HOME_METHOD, HOME_SEED, HOME_SEED_METHOD, RULE, effect)
    scores = MEAN + np.sqrt(np.square(parts).sum()) * deviations
    density = np.exp(-(deviations**2) / 2)
    return float((_reciprocal_rank(scores) * density).sum() / density.sum())


def _reciprocal_rank(score: Floats) -> Floats:
    return 1 / (1 + np.floor(np.exp(-score)))


def _middle(draws: Floats) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _lines(panels: int) -> Iterator[str]:
    """A Markdown table, line by line."""
    yield (
        "| homes of a seed | homes | seeds | effect of the seed | sd over seeds | covered | covered, over homes only "
        "| false differences | false, over homes only | width |"
    )
    yield "| --- |" + " ---: |" * 2 + " --- |" + " ---: |" * 6
    for other_homes, homes, seeds, (name, effect) in product((False, True), HOMES, SEEDS, EFFECTS.items()):
        found = simulate(homes, seeds, effect, other_homes=other_homes, panels=panels)
        yield (
            f"| {'others' if other_homes else 'the same'} | {homes} | {seeds} | {name} | {found.spread:.3f} "
            f"| {found.covered:.1%} | {found.homes_covered:.1%} | {found.wrong:.1%} | {found.homes_wrong:.1%} "
            f"| {found.width:.2f} |"
        )


def main() -> None:
    """Print a row for each number of homes and seeds and each effect of a seed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.references.coverage", description=__doc__)
    parser.add_argument("--panels", type=int, default=1000, metavar="N", help="simulated panels per row (default 1000)")
    for line in _lines(parser.parse_args().panels):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
