"""Federated rounds against a plain torch loop over clients, their growth with the clients, and the paper's full size.

The workload is the paper's: homes of 2 to 8 devices and 2.65 rules, 11 types, 163 relations, GraphSAGE 16-16, a
predictor of 163 units, three local steps of SGD, everybody takes part. Candidates are drawn once, for the engine as for
the loop, except where a name says otherwise.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from baselines.method import Fitted
from benchmarks.client_by_client import ClientByClient
from benchmarks.conftest import SavedHomes
from benchmarks.curves import Curves
from benchmarks.home_by_home import asked_homes
from benchmarks.measure import note_growth, note_ratio, peak_megabytes, seconds
from benchmarks.threads import set_threads
from datasets.homes import Homes
from fedrule.federated.layout import Layout
from fedrule.federated.method import Federated, trainer_of
from fedrule.federated_methods import FedGnn, FedRule, Scaffold

SAMPLE = 300  # clients that the loop goes through
CLIENTS = 10_000
FULL = 76_218  # homes of the paper
SIZES = (1_000, 10_000, FULL, 300_000)  # clients; growth is measured from the first

# Rounds as in the paper, the model measured after the first and the last as curves do.
PROGRAM = """
import numpy as np
import datasets
from baselines.registry import build
from benchmarks.conftest import SavedHomes
from benchmarks.curves import Curves
from benchmarks.threads import set_threads
set_threads({threads})
split = datasets.split(datasets.load("saved", path={path!r}), "holdout", seed=0, validation=True)
curves = Curves.of(split, every=10, seed=0, log_odds=True)
method = build({method!r}, rounds={rounds}, server_optimizer="plain", server_rate=1.0)
method.fit(
    split.train,
    rng=np.random.default_rng(0),
    on_round=lambda done, of, fitted, values: curves.due(done, of) and curves.measure(fitted),
)
"""
FEW = 4  # rounds after which memory has been asked for all that it will be

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def measured() -> dict[int, tuple[float, float]]:
    """Clients -> seconds of a round and megabytes, as they come in; sizes grow."""
    return {}


def as_in_the_paper(method: type[Federated], draws: int) -> Federated:
    """SGD in the homes, a server that takes the mean, 100 rounds."""
    return method(server_optimizer="plain", server_rate=1.0, learning_rate=0.1, draws=draws)


class Rounds:
    """Rounds of a method one after the other, as its `fit` makes them."""

    def __init__(self, method: Federated, homes: Homes) -> None:
        prepared = method.prepare(homes, np.random.default_rng(0))
        self.initial = prepared.scorer.initial(torch.Generator().manual_seed(0))
        self.task = method.task(prepared, Layout.of(self.initial), seed=0)
        self.engine, self.trainer = method.engine(), trainer_of(prepared.train, self.task)
        self.state = self.engine.begin(self.trainer, self.task.layout.flat(self.initial))

    def __call__(self) -> None:
        self.state, self.report = self.engine.step(self.trainer, self.state, seed=0, donate=True)


@pytest.mark.parametrize("draws", [1, 0], ids=["drawn_once", "drawn_anew"])
@pytest.mark.parametrize(("method", "correct"), [(FedGnn, False), (FedRule, True), (Scaffold, True)])
def test_federated_round(
    benchmark: BenchmarkFixture, saved: SavedHomes, method: type[Federated], correct: bool, draws: int
) -> None:
    rounds = Rounds(as_in_the_paper(method, draws), datasets.load("saved", path=saved(CLIENTS)))
    rounds()  # compiles, and fills what clients remember
    benchmark.pedantic(rounds, rounds=10, warmup_rounds=1)
    practice = rounds.task.practices(datasets.load("saved", path=saved(SIZES[0]))).draw(np.random.default_rng(0))
    sample = asked_homes(practice, SAMPLE)
    loop = ClientByClient(rounds.initial, sample, steps=3, rate=0.1, correct=correct)
    reference = seconds(loop.round, repeats=3) / len(sample)
    note_ratio(benchmark, rounds.report.clients, reference, threads=1, memory_bytes=rounds.report.memory_bytes)


@pytest.mark.parametrize("size", SIZES)
def test_growth_of_a_fedrule_round(
    benchmark: BenchmarkFixture, saved: SavedHomes, measured: dict[int, tuple[float, float]], size: int
) -> None:
    """Drawn anew each round, as by default."""
    rounds = Rounds(as_in_the_paper(FedRule, 0), datasets.load("saved", path=saved(size)))
    rounds()
    benchmark.pedantic(rounds, rounds=3 if size >= FULL else 10)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    clients = rounds.report.clients
    del rounds  # what 300,000 clients remember is 9 GB, and the measuring process needs as much
    peak = peak_megabytes(PROGRAM.format(threads=1, path=str(saved(size)), method="fedrule", rounds=FEW))
    measured[size] = benchmark.stats["min"], peak
    benchmark.extra_info |= {"clients per second": clients / benchmark.stats["min"], "peak_megabytes": peak}
    if size > SIZES[0] and SIZES[0] in measured:
        note_growth(benchmark, size / SIZES[0], measured[SIZES[0]], measured[size])


@pytest.mark.parametrize("method", [FedGnn, FedRule])
def test_hundred_rounds_of_the_paper(benchmark: BenchmarkFixture, saved: SavedHomes, method: type[Federated]) -> None:
    """100 rounds of 3 steps over all homes, drawn anew each round, measured every 10 rounds, on two threads."""
    set_threads(2)
    split = datasets.split(datasets.load("saved", path=saved(FULL)), "holdout", seed=0, validation=True)
    curves = Curves.of(split, every=10, seed=0, log_odds=True)
    spent: list[float] = []

    def on_round(done: int, of: int, fitted: Fitted, values: object) -> None:  # noqa: ARG001
        if curves.due(done, of):
            begin = perf_counter()
            curves.measure(fitted)
            spent.append(perf_counter() - begin)

    def fit() -> None:
        as_in_the_paper(method, 0).fit(split.train, rng=np.random.default_rng(0), on_round=on_round)

    benchmark.pedantic(fit, rounds=1)
    if benchmark.stats is None:
        return
    peak = peak_megabytes(PROGRAM.format(threads=2, path=str(saved(FULL)), method=method.NAME, rounds=FEW))
    benchmark.extra_info |= {"threads": 2, "seconds of measuring": sum(spent), "peak_megabytes": peak}
