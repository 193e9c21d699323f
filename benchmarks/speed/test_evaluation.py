"""Full ranking of every home's candidates, against two loops over homes in the same run: plain Python, and numpy.

The model is a table of random scores by types, so that what is measured is the evaluation and not a method.
"""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from baselines.method import Scores
from baselines.scoring import allows_self_pairs
from benchmarks.conftest import Peak
from benchmarks.evaluation import evaluate
from benchmarks.speed.measure import note_ratio, seconds
from datasets.homes import Array, Homes
from datasets.splits import Split, leave_one_out
from datasets.valid import ValidRules

SAMPLE = 300  # homes that the slow loops rank
FULL = 76_218  # homes of the paper
SIZES = {"smoke": (10_000,), "default": (10_000, FULL), "paper": (10_000, FULL)}  # homes

PROGRAM = f"""
from benchmarks.evaluation import evaluate
from benchmarks.speed.test_evaluation import TypeTable, parts
made = parts({FULL})
evaluate(TypeTable(made.train), made)
"""


class TypeTable:
    """Random scores by the types of the two devices."""

    def __init__(self, homes: Homes) -> None:
        shape = len(homes.types) ** 2, len(homes.relations)
        self.table = np.random.default_rng(0).random(shape, dtype=np.float32)

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        return np.asarray(self.table[homes.device_type[trigger] * len(homes.types) + homes.device_type[action]])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("n_homes", SIZES[metafunc.config.getoption("scale")])


def parts(n_homes: int) -> Split:
    return leave_one_out(datasets.load("wyze-synthetic", homes=n_homes).merged_types())


def test_ranking_evaluation(benchmark: BenchmarkFixture, peak: Peak, n_homes: int) -> None:
    made = parts(n_homes)
    fitted = TypeTable(made.train)
    found = benchmark.pedantic(evaluate, args=(fitted, made), rounds=5, warmup_rounds=1)
    slow: list[tuple[float, float]] = []
    fast: list[tuple[float, float]] = []
    python = seconds(lambda: slow.extend(candidate_by_candidate(fitted, made, SAMPLE))) / SAMPLE
    numpy = seconds(lambda: fast.extend(home_by_home(fitted, made, SAMPLE))) / SAMPLE
    assert slow == fast == list(zip(found.rules["rank"][: len(slow)], found.rules["rank, all"], strict=False))
    homes = len(found.homes)
    rate = homes / benchmark.stats["min"] if benchmark.stats else 0.0
    more = {"ratio to numpy per home": rate * numpy, "candidates": float(found.homes["candidates, all"].sum())}
    if n_homes == FULL:
        more |= peak(PROGRAM)
    note_ratio(benchmark, homes, python, **more)


def candidate_by_candidate(fitted: TypeTable, made: Split, sample: int) -> list[tuple[float, float]]:
    """Ranks with and without the valid filter: a list of candidates per home, walked through for each hidden rule."""
    homes, hidden = made.test.homes, made.test.rules
    kind, self_pairs = homes.device_type.tolist(), allows_self_pairs(made, "test")
    valid = set(zip(*(column.tolist() for column in made.train.typed()), strict=True))
    start, rule_start = homes.device_start, homes.rule_start
    ranks = []
    for home in np.unique(hidden.home)[:sample].tolist():
        devices = range(start[home], start[home + 1])
        rules = homes.rules.take(np.arange(rule_start[home], rule_start[home + 1]))
        known = set(zip(rules.trigger.tolist(), rules.action.tolist(), rules.relation.tolist(), strict=True))
        pairs = [(trigger, action) for trigger in devices for action in devices if self_pairs or trigger != action]
        table = fitted.score_pairs(homes, *np.array(pairs).T).tolist()
        scores: dict[tuple[int, int, int], float] = {}
        for (trigger, action), row in zip(pairs, table, strict=True):
            for relation, score in enumerate(row):
                if (trigger, action, relation) not in known:
                    scores[trigger, action, relation] = score
        allowed = {cell for cell in scores if (kind[cell[0]], cell[2], kind[cell[1]]) in valid}
        for place in np.flatnonzero(hidden.home == home).tolist():
            rule = int(hidden.trigger[place]), int(hidden.action[place]), int(hidden.relation[place])
            own, both = scores[rule], []
            for some in (allowed, scores.keys()):
                above = sum(scores[cell] > own for cell in some)
                level = sum(scores[cell] == own for cell in some)
                both.append(above + (level + 1) / 2 if rule in some else np.inf)
            ranks.append((both[0], both[1]))
    return ranks


def home_by_home(fitted: TypeTable, made: Split, sample: int) -> list[tuple[float, float]]:
    """The same with arrays for the candidates of each home."""
    homes, hidden = made.test.homes, made.test.rules
    kind, self_pairs = homes.device_type, allows_self_pairs(made, "test")
    valid = ValidRules.of(made.train).dense()
    start, rule_start = homes.device_start, homes.rule_start
    ranks = []
    for home in np.unique(hidden.home)[:sample].tolist():
        devices = np.arange(start[home], start[home + 1])
        trigger, action = (side.ravel() for side in np.meshgrid(devices, devices, indexing="ij"))
        if not self_pairs:
            trigger, action = trigger[trigger != action], action[trigger != action]
        scores = fitted.score_pairs(homes, trigger, action)
        row = {pair: number for number, pair in enumerate(zip(trigger.tolist(), action.tolist(), strict=True))}
        for place in range(rule_start[home], rule_start[home + 1]):
            rule = homes.rules.trigger[place], homes.rules.action[place]
            scores[row[rule], homes.rules.relation[place]] = np.nan
        allowed = valid[kind[trigger], kind[action]]
        for place in np.flatnonzero(hidden.home == home).tolist():
            cell = row[hidden.trigger[place], hidden.action[place]], hidden.relation[place]
            own = scores[cell]
            above, level = scores > own, scores == own
            filtered = (above & allowed).sum() + ((level & allowed).sum() + 1) / 2
            ranks.append((float(filtered) if allowed[cell] else np.inf, float(above.sum() + (level.sum() + 1) / 2)))
    return ranks
