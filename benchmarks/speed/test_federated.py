"""Speed of federated rounds: against a plain torch loop over clients, by number of clients, and of 100 rounds.

The workload is the paper's: homes of 2 to 8 devices and 2.65 rules, 11 types, 163 relations, GraphSAGE 16-16, a
predictor of 163 units, three local steps of SGD, full participation. Candidates are drawn once, for the rounds as for
the loop, except where a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter, process_time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("torch_geometric", reason="the loop over clients needs the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")

import torch

from baselines.method import Fitted
from baselines.registry import build
from benchmarks.conftest import Peak, SavedHomes
from benchmarks.references.home_by_home import ClientByClient, home_graphs
from benchmarks.runs.history import Curves
from benchmarks.speed.measure import Measured, note_growth, note_ratio, seconds
from datasets.common.environment import set_threads
from datasets.homes import Homes
from fedrule.federated.trainers.batched import BatchedTrainer
from fedrule.federated.trainers.trainer import TorchTrainer, Trainer
from fedrule.federated.vectors import FlatParameters
from fedrule.methods.federated import Federated, FedGnn, FedRule, Scaffold, trainer_of

SAMPLE = {"smoke": 100, "default": 100, "paper": 300}  # clients of the loop
CLIENTS = {"smoke": 1_000, "default": 10_000, "paper": 10_000}
FULL = 76_218  # homes of the paper
# Clients; growth is measured from the first.
SIZES = {"smoke": (300, 1_000), "default": (1_000, 10_000), "paper": (1_000, 10_000, FULL, 300_000)}
LONG = {"smoke": 100, "default": 1_000, "paper": FULL}  # clients of 100 rounds
METHODS = {method.NAME: method for method in (FedGnn, FedRule, Scaffold)}

# Rounds with the method's defaults, the model measured after the first and the last as curves do.
PROGRAM = """
import numpy as np
import datasets
from baselines.registry import build
from benchmarks.runs.history import Curves
from datasets.common.environment import set_threads
set_threads({threads})
split = datasets.split(datasets.load("saved", path={path!r}), "holdout", seed=0, validation=True)
curves = Curves.of(split, every=10, seed=0, log_odds=True)
method = build({method!r}, rounds={rounds})
method.fit(
    split.train,
    rng=np.random.default_rng(0),
    on_round=lambda done, of, fitted, values: curves.due(done, of) and curves.measure(fitted),
)
"""
FEW = 4  # rounds after which memory no longer grows


@pytest.fixture
def two_threads() -> Iterator[None]:
    set_threads(2)
    yield
    set_threads(1)


def as_in_the_paper(method: type[Federated], draws: int) -> Federated:
    """SGD in the homes, plain averaging on the server."""
    return method(server_optimizer="plain", server_rate=1.0, learning_rate=0.1, draws=draws)


class Rounds:
    """Rounds of a method, as in its `fit`."""

    def __init__(self, method: Federated, homes: Homes) -> None:
        prepared = method.prepare(homes, np.random.default_rng(0))
        self.initial = prepared.scorer.initial(torch.Generator().manual_seed(0))
        self.task = method.task(prepared, FlatParameters.of(self.initial), seed=0)
        self.engine = method.engine()
        self.trainer: Trainer = trainer_of(prepared.train, self.task)
        self.state = self.engine.begin(self.trainer, self.task.layout.flat(self.initial))

    def __call__(self) -> None:
        self.state, self.report = self.engine.step(self.trainer, self.state, seed=0, donate=True)


@pytest.mark.parametrize("draws", [1, 0], ids=["drawn_once", "drawn_anew"])
@pytest.mark.parametrize("method", METHODS)
def test_federated_round(benchmark: BenchmarkFixture, saved: SavedHomes, scale: str, method: str, draws: int) -> None:
    homes = datasets.load("saved", path=saved(CLIENTS[scale]))
    rounds = Rounds(as_in_the_paper(METHODS[method], draws), homes)
    rounds()  # compiles, and fills the client states
    benchmark.pedantic(rounds, rounds=10 if scale == "paper" else 5, warmup_rounds=1)
    examples = rounds.task.sampler(homes.subset(np.arange(1_000))).draw(np.random.default_rng(0))
    sample = home_graphs(examples, SAMPLE[scale])
    loop = ClientByClient(rounds.initial, sample, steps=3, rate=0.1, correct=method != "fedgnn")
    reference = seconds(loop.round, repeats=3) / len(sample)
    note_ratio(benchmark, rounds.report.clients, reference, threads=1, state_bytes=rounds.report.state_bytes)


@pytest.mark.parametrize("method", ["fedcompgcn", "fedgnn"])
def test_round_of_clients_in_batches(benchmark: BenchmarkFixture, saved: SavedHomes, scale: str, method: str) -> None:
    """Clients in one batch of models, against the same clients one after the other; `fedgnn` has dropout."""
    homes = datasets.load("saved", path=saved(SIZES["smoke"][0]))
    options = {"dropout": 0.2, "objective": "ranking"} if method == "fedgnn" else {}
    built = build(method, cohort=64, local_steps=3, server_optimizer="plain", **options)
    assert isinstance(built, Federated)
    rounds = Rounds(built, homes)
    assert isinstance(rounds.trainer, BatchedTrainer)
    rounds()
    benchmark.pedantic(rounds, rounds=3 if scale == "smoke" else 10, warmup_rounds=1)
    clients = rounds.report.clients
    rounds.trainer = TorchTrainer(rounds.trainer.homes, rounds.task)
    reference = seconds(rounds, repeats=3) / max(rounds.report.clients, 1)
    note_ratio(benchmark, clients, reference, threads=1)


def test_growth_of_a_fedrule_round(
    benchmark: BenchmarkFixture,
    saved: SavedHomes,
    peak: Peak,
    measured: dict[str, Measured],
    scale: str,
    size: int,
) -> None:
    """With new candidates each round, as by default."""
    rounds = Rounds(as_in_the_paper(FedRule, 0), datasets.load("saved", path=saved(size)))
    rounds()
    benchmark.pedantic(rounds, rounds=3 if size >= FULL else 10)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    clients = rounds.report.clients
    del rounds  # the states of 300,000 clients take 6 GB, and the measuring process needs as much
    held = peak(PROGRAM.format(threads=1, path=str(saved(size)), method="fedrule", rounds=FEW))
    known = measured["fedrule"]
    known[size] = {"seconds": benchmark.stats["min"], **held}
    benchmark.extra_info |= {"homes": size, "clients per second": clients / benchmark.stats["min"], **held}
    note_growth(benchmark, known, SIZES[scale][0], size)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("method", ["fedgnn", "fedrule"])
def test_hundred_rounds_over_all_homes(
    benchmark: BenchmarkFixture, saved: SavedHomes, peak: Peak, scale: str, method: str
) -> None:
    """100 rounds with the method's defaults over all homes, measured every 10 rounds, on two threads."""
    path = saved(LONG[scale])
    split = datasets.split(datasets.load("saved", path=path), "holdout", seed=0, validation=True)
    curves = Curves.of(split, every=10, seed=0, log_odds=True)
    spent: list[float] = []

    def on_round(done: int, of: int, fitted: Fitted, values: object) -> None:  # noqa: ARG001
        if curves.due(done, of):
            begin = perf_counter()
            curves.measure(fitted)
            spent.append(perf_counter() - begin)

    def fit() -> None:
        METHODS[method](rounds=100).fit(split.train, rng=np.random.default_rng(0), on_round=on_round)

    begin = process_time()
    benchmark.pedantic(fit, rounds=1)
    if benchmark.stats is None:
        return
    times = {"processor seconds": process_time() - begin, "seconds of measuring": sum(spent)}
    held = peak(PROGRAM.format(threads=2, path=str(path), method=method, rounds=FEW))
    benchmark.extra_info |= {"homes": LONG[scale], "threads": 2, **times, **held}
