"""Full ranking of every home's candidates, against two loops over homes in the same run: plain Python, and numpy.

The model is a table of random scores by types, so that what is measured is the evaluation and not a method.
"""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from baselines.method import Scores
from benchmarks.conftest import Peak
from benchmarks.evaluation import evaluate
from benchmarks.references.evaluation import candidate_by_candidate, home_by_home
from benchmarks.speed.measure import note_ratio, seconds
from datasets.homes import Array, Homes
from datasets.splits import Split, leave_one_out

SAMPLE = 300  # homes that the slow loops rank
FULL = 76_218  # homes of the paper
PLACES = ["above", "tied", "above, all", "tied, all"]
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
    slow: list[list[int]] = []
    fast: list[list[int]] = []
    python = seconds(lambda: slow.extend(candidate_by_candidate(fitted, made, SAMPLE))) / SAMPLE
    numpy = seconds(lambda: fast.extend(home_by_home(fitted, made, SAMPLE))) / SAMPLE
    assert slow == fast == found.rules[PLACES][: len(slow)].to_numpy().tolist()
    homes = len(found.homes)
    rate = homes / benchmark.stats["min"] if benchmark.stats else 0.0
    more = {"ratio to numpy per home": rate * numpy, "candidates": float(found.homes["candidates, all"].sum())}
    if n_homes == FULL:
        more |= peak(PROGRAM)
    note_ratio(benchmark, homes, python, **more)
