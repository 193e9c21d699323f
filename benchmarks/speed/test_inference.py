"""Recommendations by a saved model: delay and memory by the number of devices, for the paper's homes, and in bulk.

One home is asked from raw devices and rules, as a request tells them, to sentences. References of the same run: the
straightforward search over all pairs and relations in plain Python, and a dense one by one product of matrices. The
reports' figures of inference are drawn from these (reports/figures/inference.py).
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
import fedrule
from benchmarks.references.search import DenseSearch, PlainSearch
from benchmarks.speed.measure import note_ratio, seconds
from datasets.homes import Homes
from fedrule.inference import HomeRequest, Recommender, RequestDevice, RequestRule, SavedModel
from fedrule.inference.encode import Graph, HomeEncoder

FULL = 76_218  # homes of the paper
TRAINED_ON = 2_000  # homes; what a search takes depends on the valid rules, and hardly on the weights
ROUNDS = {"graphrule": 5, "graphrank": 2}
DEVICES = {
    "smoke": (5, 50),
    "default": (2, 5, 10, 20, 50, 100, 200),
    "paper": (2, 5, 10, 20, 35, 50, 75, 100, 150, 200),
}
HOMES = {"smoke": 500, "default": 5_000, "paper": FULL}  # asked one by one; a tenth of them by the slower model
BULK = {"smoke": 5_000, "default": FULL, "paper": FULL}
SAMPLE = 200  # homes that the plain search is asked about: so many that they have as many pairs as all
ASKED = {"graphrule": 200, "graphrank": 20}  # times that a home of one size is asked
COMPARED = 50  # devices of the home that all searches are asked about
K = 10
MILLISECONDS, MEGABYTES = 5.0, 10.0  # what a home may take


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "n_devices" in metafunc.fixturenames:
        metafunc.parametrize("n_devices", DEVICES[metafunc.config.getoption("scale")])


@cache
def model(method: str) -> SavedModel:
    homes = datasets.load("wyze-synthetic", homes=TRAINED_ON)
    return fedrule.train(homes, method, options={"rounds": ROUNDS[method]}, patience=0)


def made_home(n_devices: int, seed: int) -> HomeRequest:
    """A home as large as wanted: devices as common as in the data, and two valid rules for every three of them."""
    saved, rng = model("graphrule"), np.random.default_rng([n_devices, seed])
    card, valid = saved.card, saved.valid
    kinds = rng.choice(datasets.load("wyze-synthetic", homes=TRAINED_ON).device_type, n_devices)
    devices = [RequestDevice(f"device {at}", card.types[kind]) for at, kind in enumerate(kinds.tolist())]
    rules = []
    for trigger, action in rng.integers(n_devices, size=(2 * n_devices // 3, 2)).tolist():
        possible = valid.relations_of(int(kinds[trigger]), int(kinds[action]))
        if len(possible) and trigger != action:
            relation = card.relations[int(rng.choice(possible))]
            rules.append(RequestRule(devices[trigger].id, *relation, devices[action].id))
    return HomeRequest(devices, rules)


@pytest.mark.parametrize("method", ROUNDS)
@pytest.mark.benchmark(group="inference")
def test_one_home(benchmark: BenchmarkFixture, method: str, n_devices: int) -> None:
    recommender = Recommender(model(method))
    homes = [made_home(n_devices, seed) for seed in range(ASKED[method] // 10)]
    turn = iter(homes * 10)
    recommender.recommend(homes[0], K)
    benchmark.pedantic(recommender.recommend, setup=lambda: ((next(turn), K), {}), rounds=ASKED[method])
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    held = [megabytes(lambda home=home: recommender.recommend(home, K)) for home in homes]  # type: ignore[misc]
    benchmark.extra_info |= {
        "method": method,
        "devices": n_devices,
        **percentiles(np.array(benchmark.stats.stats.data)),
        "megabytes": float(np.quantile(held, 0.95)),
        "candidates": float(np.mean([candidates(home) for home in homes])),
    }


@pytest.mark.benchmark(group="searches")
def test_pruned_search_against_plain_and_dense(benchmark: BenchmarkFixture) -> None:
    """From the same home to the same list; the network's embeddings are part of all three."""
    saved = model("graphrule")
    recommender, plain = Recommender(saved), PlainSearch(saved)
    dense = {kind.__name__: DenseSearch(saved, kind) for kind in (np.float64, np.float32)}
    home = made_home(COMPARED, 0)
    graph = HomeEncoder(saved.card).encode(home).graph
    answer = benchmark.pedantic(recommender.recommend, args=(home, K), rounds=100, warmup_rounds=5)
    asked = graph.device_type.tolist(), list(zip(*(c.tolist() for c in graph[2:]), strict=True)), K
    found: dict[str, list[tuple[int, int, int]]] = {}
    everything = seconds(lambda: found.update(plain=[rule for rule, _ in plain.best(*asked)]))
    valid_only = seconds(lambda: found.update(valid=[rule for rule, _ in plain.best(*asked, pruned=True)]))
    taken = {
        kind: seconds(lambda kind=kind: found.update({kind: dense[kind].best(graph, K)}), repeats=20)  # type: ignore[misc]
        for kind in dense
    }
    told = [(rule.trigger, rule.action_device, (rule.trigger_state, rule.action)) for rule in answer.rules]
    spelled = {how: [spell(saved, home, rule) for rule in rules] for how, rules in found.items()}
    assert spelled["plain"] == spelled["valid"] == told
    assert all(set(spelled[kind]) == set(told) for kind in dense)  # near ties may be turned round
    if benchmark.stats is not None:
        fastest = benchmark.stats["min"]
        more = {f"ratio to dense, {kind}": dense_seconds / fastest for kind, dense_seconds in taken.items()}
        more |= {f"milliseconds, dense, {kind}": 1e3 * dense_seconds for kind, dense_seconds in taken.items()}
        more |= {"pruning in plain Python": everything / valid_only, "milliseconds, plain": 1e3 * everything}
        note_ratio(benchmark, 1, everything, devices=COMPARED, candidates=candidates(home), **more)


@pytest.mark.parametrize("method", ROUNDS)
@pytest.mark.benchmark(group="inference")
def test_homes_of_the_paper(benchmark: BenchmarkFixture, scale: str, method: str) -> None:
    """How many of them are answered within 5 ms and 10 MB."""
    recommender = Recommender(model(method))
    homes = [HomeRequest.from_home(home) for home in chosen(HOMES[scale] * ASKED[method] // max(ASKED.values()))]
    turn = iter(homes)
    recommender.recommend(homes[0], K, unknown="ignore")
    ask: Callable[[HomeRequest], object] = lambda home: recommender.recommend(home, K, unknown="ignore")  # noqa: E731
    benchmark.pedantic(ask, setup=lambda: ((next(turn),), {}), rounds=len(homes))
    if benchmark.stats is None:
        return
    taken = 1e3 * np.array(benchmark.stats.stats.data)
    held = np.array([megabytes(lambda home=home: ask(home)) for home in homes])  # type: ignore[misc]
    benchmark.extra_info |= {
        "method": method,
        "homes": len(homes),
        **percentiles(taken / 1e3),
        f"share below {MILLISECONDS:g} ms": float(np.mean(taken < MILLISECONDS)),
        f"share below {MEGABYTES:g} MB": float(np.mean(held < MEGABYTES)),
        "megabytes of homes": np.round(held, 4).tolist(),
    }


@pytest.mark.benchmark(group="bulk")
def test_all_homes(benchmark: BenchmarkFixture, scale: str) -> None:
    """The lists of all homes, against the plain search of one home after the other."""
    saved = model("graphrule")
    recommender, plain = Recommender(saved), PlainSearch(saved)
    homes = datasets.load("wyze-synthetic", homes=BULK[scale])
    ranked = benchmark.pedantic(
        recommender.recommend_many, args=(homes, K), kwargs={"unknown": "ignore", "jobs": 2}, rounds=3, warmup_rounds=1
    )
    sample = chosen(SAMPLE).with_vocabulary(saved.card.types, saved.card.relations)

    def one_by_one() -> None:
        for at in range(sample.n_homes):
            graph = Graph.of(sample.subset(np.array([at])))
            plain.best(graph.device_type.tolist(), list(zip(*(c.tolist() for c in graph[2:]), strict=True)), K)

    reference = seconds(one_by_one) / SAMPLE
    assert len(np.unique(ranked.home)) > 0.99 * homes.n_homes
    pairs = [np.mean(np.diff(some.device_start) ** 2) for some in (sample, homes)]
    note_ratio(benchmark, homes.n_homes, reference, **{"pairs per home, sample": pairs[0], "pairs per home": pairs[1]})


def chosen(many: int) -> Homes:
    """So many of the paper's homes, drawn once for all."""
    homes = datasets.load("wyze-synthetic")
    return homes.subset(np.sort(np.random.default_rng(0).choice(homes.n_homes, many, replace=False)))


def candidates(home: HomeRequest) -> int:
    """Valid rules between the devices of a home, those that it has included."""
    saved = model("graphrule")
    kind = np.array([saved.card.types.index(device.type) for device in home.devices])
    return int(saved.valid.how_many(np.repeat(kind, len(kind)), np.tile(kind, len(kind))).sum())


def spell(saved: SavedModel, home: HomeRequest, rule: tuple[int, int, int]) -> tuple[object, ...]:
    trigger, action, relation = rule
    return home.devices[trigger].id, home.devices[action].id, tuple(saved.card.relations[relation])


def percentiles(taken: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> dict[str, float]:
    middle, high = 1e3 * np.quantile(taken, [0.5, 0.95])
    return {"milliseconds_p50": float(middle), "milliseconds_p95": float(high)}


def megabytes(work: Callable[[], object]) -> float:
    """The most memory that the work holds beyond what was held before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
