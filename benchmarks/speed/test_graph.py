"""GraphRule in one packed batch: a training round and all scores against loops over homes, and growth with the homes.

One thread throughout, as in reported runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets

pytest.importorskip("torch", reason="graph methods need the extra graph")
pytest.importorskip("torch_geometric", reason="the loop over homes needs the extra graph")

import torch

from baselines.method import Fitted
from baselines.scoring import CHUNK, pairs_at_once, score
from benchmarks.conftest import Peak, SavedHomes
from benchmarks.references.home_by_home import HomeByHome, home_graphs, whole_homes
from benchmarks.speed.measure import Measured, note_growth, note_ratio, seconds
from datasets.candidates import Pairs, has_self_rules
from datasets.homes import Homes
from datasets.valid import ValidRules
from fedrule.methods.graphrule import GraphRule
from fedrule.network.encoders import Parameters, Sizes
from fedrule.network.network import Network
from fedrule.network.score import Scorer
from fedrule.training.examples import Examples, ExampleSampler
from fedrule.training.loop import BatchLoss, TrainingBatch
from fedrule.training.losses import bce

SAMPLE = {"smoke": 100, "default": 300, "paper": 300}  # homes that the loops go through
FULL = 76_218  # homes of the paper
PUBLIC = 272_664  # homes of the public Wyze data
# Homes; growth is measured from the first.
SIZES = {"smoke": (300, 1_000), "default": (1_000, 10_000), "paper": (1_000, 10_000, FULL, PUBLIC)}
ROUND = {"smoke": 1_000, "default": 10_000, "paper": 10_000}  # of a training round beside the loop
LONG = {"smoke": 300, "default": 1_000, "paper": FULL}  # of 100 rounds
SCORED = {"smoke": 1_000, "default": 10_000, "paper": FULL}
WIDE = {"smoke": 1_000, "default": 10_000, "paper": PUBLIC}  # with the vocabularies of the public data
THREADS = 1
FEW = 3  # rounds after which memory has been asked for all that it will be

PROGRAM = """
import numpy as np
import datasets
from baselines.registry import build
from datasets.common.environment import set_threads
set_threads({threads})
homes = datasets.load("saved", path={path!r})
build("graphrule", rounds={rounds}).fit(homes, rng=np.random.default_rng(0))
"""


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory, scale: str) -> Path:
    """Homes with the vocabularies of the public data: 791 relations in place of 163."""
    file = tmp_path_factory.mktemp("public") / "homes.parquet"
    datasets.load("wyze-synthetic", preset="public", homes=WIDE[scale]).merged_types().save(file)
    return file


@dataclass(frozen=True, slots=True)
class Round:
    """What training does in each round with the paper's settings: all homes, one step of Adam."""

    batch_loss: BatchLoss
    batch: TrainingBatch
    examples: Examples
    parameters: Parameters
    optimizer: torch.optim.Optimizer

    @classmethod
    def of(cls, homes: Homes) -> Round:
        valid = ValidRules.of(homes)
        scorer = Scorer(Network(Sizes(len(homes.types), len(homes.relations))), valid)
        examples = ExampleSampler.of(homes, valid).draw(np.random.default_rng(0))
        initial = scorer.initial(torch.Generator().manual_seed(0))
        parameters = {name: value.requires_grad_() for name, value in initial.items()}
        optimizer = torch.optim.Adam(parameters.values(), lr=0.1, fused=True)
        return cls(BatchLoss(scorer, bce), TrainingBatch.of(scorer, examples), examples, parameters, optimizer)

    def __call__(self) -> float:
        loss = self.batch_loss(self.parameters, self.batch)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.item()


def test_training_round(benchmark: BenchmarkFixture, saved: SavedHomes, scale: str) -> None:
    one_round = Round.of(datasets.load("saved", path=saved(ROUND[scale], merged=True)))
    slow = HomeByHome(one_round.parameters)
    sample = home_graphs(one_round.examples, SAMPLE[scale])
    optimizer = torch.optim.Adam(slow.parameters(), lr=0.1)

    def loop() -> None:
        loss = slow.loss(sample)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()

    benchmark.pedantic(one_round, rounds=10, warmup_rounds=2)
    reference = seconds(loop, repeats=3) / len(sample)
    more = {"threads": THREADS, "candidates": float(len(one_round.examples.candidates))}
    note_ratio(benchmark, one_round.batch.weight, reference, **more)


def test_hundred_rounds(benchmark: BenchmarkFixture, saved: SavedHomes, peak: Peak, scale: str) -> None:
    path = saved(LONG[scale], merged=True)
    homes = datasets.load("saved", path=path)
    ends: list[float] = []
    used: list[float] = []

    def fit() -> None:
        ends[:], used[:] = [perf_counter()], [process_time()]
        method = GraphRule(rounds=100)
        method.fit(homes, rng=np.random.default_rng(0), on_round=lambda *_: ends.append(perf_counter()))
        used.append(process_time())

    benchmark.pedantic(fit, rounds=1)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    each = [end - begin for begin, end in pairwise(ends)]
    benchmark.extra_info |= {
        "homes": homes.n_homes,
        "threads": THREADS,
        "rounds": len(each),
        "seconds of processor": used[1] - used[0],  # where others keep the machine busy
        "median seconds of a round": float(np.median(each[1:])),
        "seconds until the first round is over": each[0],
        **peak(PROGRAM.format(threads=THREADS, path=str(path), rounds=FEW)),
    }


def test_scoring_all_candidates(benchmark: BenchmarkFixture, saved: SavedHomes, scale: str) -> None:
    homes = datasets.load("saved", path=saved(SCORED[scale], merged=True))
    model = GraphRule(rounds=1).fit(homes.subset(np.arange(1_000)), rng=np.random.default_rng(0))
    found = benchmark.pedantic(all_scores, args=(model, homes), rounds=1)
    slow = HomeByHome({name: value.float() for name, value in model.parameters.items()})
    sample = whole_homes(homes, SAMPLE[scale], self_pairs=has_self_rules(homes.rules))

    def loop() -> None:
        with torch.no_grad():
            for home in sample:
                slow.logits(home).numpy()

    reference = seconds(loop, repeats=3) / len(sample)
    note_ratio(benchmark, homes.n_homes, reference, threads=THREADS, candidates=float(found))


def test_growth_of_a_training_round(
    benchmark: BenchmarkFixture,
    saved: SavedHomes,
    peak: Peak,
    measured: dict[str, Measured],
    scale: str,
    size: int,
) -> None:
    homes = datasets.load("saved", path=saved(size, merged=True))
    one_round = Round.of(homes)
    benchmark.pedantic(one_round, rounds=3 if size >= FULL else 10, warmup_rounds=1)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    held = peak(PROGRAM.format(threads=THREADS, path=str(saved(size, merged=True)), rounds=FEW))
    known = measured["graphrule"]
    known[size] = {"seconds": benchmark.stats["min"], **held}
    note_size(benchmark, one_round, **known[size])
    note_growth(benchmark, known, SIZES[scale][0], size)


def test_training_round_with_the_vocabularies_of_the_public_data(
    benchmark: BenchmarkFixture, peak: Peak, public: Path
) -> None:
    one_round = Round.of(datasets.load("saved", path=public))
    benchmark.pedantic(one_round, rounds=1)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    held = peak(PROGRAM.format(threads=THREADS, path=str(public), rounds=1))
    note_size(benchmark, one_round, benchmark.stats["min"], **held)


def note_size(benchmark: BenchmarkFixture, one_round: Round, seconds: float, **held: float) -> None:
    homes = one_round.examples.full
    benchmark.extra_info |= {
        "threads": THREADS,
        "homes": homes.n_homes,
        "relations": len(homes.relations),
        "candidates": len(one_round.examples.candidates),
        "homes per second": homes.n_homes / seconds,
        **held,
    }


def all_scores(model: Fitted, homes: Homes) -> int:
    """Scores of all pairs and relations of all homes, in chunks as the evaluation asks for them; how many."""
    pairs, found = Pairs.of(homes, self_pairs=has_self_rules(homes.rules)), 0
    for first, end in pairs.runs(pairs_at_once(homes, CHUNK)):
        _, trigger, action = pairs.devices(np.arange(pairs.start[first], pairs.start[end]))
        if len(trigger):
            found += score(model, homes, trigger, action).size
    return found
