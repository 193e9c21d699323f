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
import torch
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from baselines.method import Fitted
from benchmarks.conftest import SavedHomes
from benchmarks.home_by_home import HomeByHome, asked_homes, whole_homes
from benchmarks.measure import note_growth, note_ratio, peak_megabytes, seconds
from benchmarks.scoring import CHUNK, pairs_at_once, score
from datasets.candidates import Pairs, has_self_rules
from datasets.homes import Homes
from datasets.valid import ValidRules
from fedrule.encoder import Parameters, Sizes
from fedrule.graphrule import GraphRule
from fedrule.model import Network
from fedrule.objective import bce
from fedrule.practice import Practice, Practices
from fedrule.scorer import Scorer
from fedrule.training import Lesson, Teacher

SAMPLE = 300  # homes that the loops go through
FULL = 76_218  # homes of the paper
PUBLIC = 272_664  # homes of the public Wyze data
SIZES = (1_000, 10_000, FULL, PUBLIC)  # homes; the first is what growth is measured from
THREADS = 1
FEW = 3  # rounds after which memory has been asked for all that it will be

PROGRAM = """
import numpy as np
import datasets
from baselines.registry import build
from benchmarks.threads import set_threads
set_threads({threads})
homes = datasets.load("saved", path={path!r})
build("graphrule", rounds={rounds}).fit(homes, rng=np.random.default_rng(0))
"""

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Homes with the vocabularies of the public data: 791 relations in place of 163."""
    file = tmp_path_factory.mktemp("public") / "homes.parquet"
    datasets.load("wyze-synthetic", preset="public").merged_types().save(file)
    return file


@pytest.fixture(scope="module")
def measured() -> dict[int, tuple[float, float]]:
    """Homes -> seconds of a round and megabytes, as they come in; sizes grow."""
    return {}


@dataclass(frozen=True, slots=True)
class Round:
    """What training does in each round with the paper's settings: all homes, one step of Adam."""

    teacher: Teacher
    lesson: Lesson
    practice: Practice
    parameters: Parameters
    optimizer: torch.optim.Optimizer

    @classmethod
    def of(cls, homes: Homes) -> Round:
        valid = ValidRules.of(homes)
        scorer = Scorer(Network(Sizes(len(homes.types), len(homes.relations))), valid)
        practice = Practices.of(homes, valid).draw(np.random.default_rng(0))
        initial = scorer.initial(torch.Generator().manual_seed(0))
        parameters = {name: value.requires_grad_() for name, value in initial.items()}
        optimizer = torch.optim.Adam(parameters.values(), lr=0.1, fused=True)
        return cls(Teacher(scorer, bce), Lesson.of(scorer, practice), practice, parameters, optimizer)

    def __call__(self) -> float:
        loss = self.teacher.loss(self.parameters, self.lesson)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.item()


def test_training_round(benchmark: BenchmarkFixture, saved: SavedHomes) -> None:
    one_round = Round.of(datasets.load("saved", path=saved(10_000, merged=True)))
    slow = HomeByHome(one_round.parameters)
    sample = asked_homes(one_round.practice, SAMPLE)
    optimizer = torch.optim.Adam(slow.parameters(), lr=0.1)

    def loop() -> None:
        loss = slow.loss(sample)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()

    benchmark.pedantic(one_round, rounds=10, warmup_rounds=2)
    reference = seconds(loop, repeats=3) / len(sample)
    more = {"threads": THREADS, "candidates": float(len(one_round.practice.candidates))}
    note_ratio(benchmark, one_round.lesson.weight, reference, **more)


def test_hundred_rounds(benchmark: BenchmarkFixture, saved: SavedHomes) -> None:
    path = saved(FULL, merged=True)
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
        "threads": THREADS,
        "rounds": len(each),
        "seconds of processor": used[1] - used[0],  # where others keep the machine busy
        "median seconds of a round": float(np.median(each[1:])),
        "seconds until the first round is over": each[0],
        "peak_megabytes": peak_megabytes(PROGRAM.format(threads=THREADS, path=str(path), rounds=FEW)),
    }


def test_scoring_all_candidates(benchmark: BenchmarkFixture, saved: SavedHomes) -> None:
    homes = datasets.load("saved", path=saved(FULL, merged=True))
    model = GraphRule(rounds=1).fit(homes.subset(np.arange(1_000)), rng=np.random.default_rng(0))
    found = benchmark.pedantic(all_scores, args=(model, homes), rounds=1)
    slow = HomeByHome({name: value.float() for name, value in model.parameters.items()})
    sample = whole_homes(homes, SAMPLE, self_pairs=has_self_rules(homes.rules))

    def loop() -> None:
        with torch.no_grad():
            for home in sample:
                slow.logits(home).numpy()

    reference = seconds(loop, repeats=3) / len(sample)
    note_ratio(benchmark, homes.n_homes, reference, threads=THREADS, candidates=float(found))


@pytest.mark.parametrize("size", SIZES)
def test_growth_of_a_training_round(
    benchmark: BenchmarkFixture, saved: SavedHomes, measured: dict[int, tuple[float, float]], size: int
) -> None:
    homes = datasets.load("saved", path=saved(size, merged=True))
    one_round = Round.of(homes)
    benchmark.pedantic(one_round, rounds=3 if size >= FULL else 10, warmup_rounds=1)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    peak = peak_megabytes(PROGRAM.format(threads=THREADS, path=str(saved(size, merged=True)), rounds=FEW))
    measured[size] = benchmark.stats["min"], peak
    note_size(benchmark, one_round, *measured[size])
    if size > SIZES[0] and SIZES[0] in measured:
        note_growth(benchmark, size / SIZES[0], measured[SIZES[0]], measured[size])


def test_training_round_of_the_size_of_the_public_data(benchmark: BenchmarkFixture, public: Path) -> None:
    one_round = Round.of(datasets.load("saved", path=public))
    benchmark.pedantic(one_round, rounds=1)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    peak = peak_megabytes(PROGRAM.format(threads=THREADS, path=str(public), rounds=1))
    note_size(benchmark, one_round, benchmark.stats["min"], peak)


def note_size(benchmark: BenchmarkFixture, one_round: Round, fastest: float, peak: float) -> None:
    homes = one_round.practice.full
    benchmark.extra_info |= {
        "threads": THREADS,
        "homes": homes.n_homes,
        "relations": len(homes.relations),
        "candidates": len(one_round.practice.candidates),
        "homes per second": homes.n_homes / fastest,
        "peak_megabytes": peak,
    }


def all_scores(model: Fitted, homes: Homes) -> int:
    """Scores of all pairs and relations of all homes, in chunks as the evaluation asks for them; how many."""
    pairs, found = Pairs.of(homes, self_pairs=has_self_rules(homes.rules)), 0
    for first, end in pairs.runs(pairs_at_once(homes, CHUNK)):
        _, trigger, action = pairs.devices(np.arange(pairs.start[first], pairs.start[end]))
        if len(trigger):
            found += score(model, homes, trigger, action).size
    return found
