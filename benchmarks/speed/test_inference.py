"""Recommendations by a saved model: latency and memory by the number of devices, for the paper's homes, and in bulk.

A request for one home is measured from raw devices and rules to sentences. References of the same run: a search over
all pairs and relations in plain Python, and a dense one by matrix product (benchmarks/references/search.py).
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
from fedrule.inference.recommender import search_of
from fedrule.inference.search import ScorerSearch
from fedrule.models.restore import restored

FULL = 76_218  # homes of the paper
TRAINED_ON = 2_000  # homes; the time of a search depends on the valid rules, hardly on the weights
ROUNDS = {"graphrule": 5, "graphrank": 2}
DEVICES = {
    "smoke": (5, 50),
    "default": (2, 5, 10, 20, 50, 100, 200),
    "paper": (2, 5, 10, 20, 35, 50, 75, 100, 150, 200),
}
HOMES = {"smoke": 500, "default": 5_000, "paper": FULL}  # requested one by one
BULK = {"smoke": 5_000, "default": FULL, "paper": FULL}
SAMPLE = 200  # homes for the plain search: enough to have as many pairs per home as all
REQUESTS = 200  # for homes of one size
COMPARED = 50  # devices of the home that all searches are compared on
K = 10
MILLISECONDS, MEGABYTES = 5.0, 10.0  # targets for one home


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "n_devices" in metafunc.fixturenames:
        metafunc.parametrize("n_devices", DEVICES[metafunc.config.getoption("scale")])


@cache
def training_homes() -> Homes:
    return datasets.load("wyze-synthetic", homes=TRAINED_ON)


@cache
def model(method: str) -> SavedModel:
    return fedrule.train(training_homes(), method, options={"rounds": ROUNDS[method]}, patience=0)


def random_home(n_devices: int, seed: int) -> HomeRequest:
    """A home of this size: types as frequent as in the data, and two valid rules for every three devices."""
    saved, rng = model("graphrule"), np.random.default_rng([n_devices, seed])
    card, valid = saved.card, saved.valid
    kinds = rng.choice(training_homes().device_type, n_devices)
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
    homes = [random_home(n_devices, seed) for seed in range(REQUESTS // 10)]
    turn = iter(homes * 10)
    recommender.recommend(homes[0], K)
    benchmark.pedantic(recommender.recommend, setup=lambda: ((next(turn), K), {}), rounds=REQUESTS)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    memory = [megabytes(lambda home=home: recommender.recommend(home, K)) for home in homes]  # type: ignore[misc]
    benchmark.extra_info |= {
        "method": method,
        "devices": n_devices,
        **percentiles(np.array(benchmark.stats.stats.data)),
        "megabytes": float(np.quantile(memory, 0.95)),
        "candidates": float(np.mean([candidates(home) for home in homes])),
    }


@pytest.mark.benchmark(group="searches")
def test_pruned_search_against_plain_and_dense(benchmark: BenchmarkFixture) -> None:
    """The same home gives the same list; embedding is part of all three times."""
    saved = model("graphrule")
    recommender, plain = Recommender(saved), PlainSearch(saved)
    dense = {kind.__name__: DenseSearch(saved, kind) for kind in (np.float64, np.float32)}
    home = random_home(COMPARED, 0)
    graph = HomeEncoder(saved.card).encode(home).graph
    answer = benchmark.pedantic(recommender.recommend, args=(home, K), rounds=100, warmup_rounds=5)
    query = graph.device_type.tolist(), list(zip(*(c.tolist() for c in graph[2:]), strict=True)), K
    found: dict[str, list[tuple[int, int, int]]] = {}
    everything = seconds(lambda: found.update(plain=[rule for rule, _ in plain.best(*query)]))
    valid_only = seconds(lambda: found.update(valid=[rule for rule, _ in plain.best(*query, pruned=True)]))
    taken = {
        kind: seconds(lambda kind=kind: found.update({kind: dense[kind].best(graph, K)}), repeats=20)  # type: ignore[misc]
        for kind in dense
    }
    expected = [(rule.trigger, rule.action_device, (rule.trigger_state, rule.action)) for rule in answer.rules]
    spelled = {how: [spell(saved, home, rule) for rule in rules] for how, rules in found.items()}
    assert spelled["plain"] == spelled["valid"] == expected
    assert all(set(spelled[kind]) == set(expected) for kind in dense)  # near ties may change places
    if benchmark.stats is not None:
        fastest = benchmark.stats["min"]
        more = {f"ratio to dense, {kind}": dense_seconds / fastest for kind, dense_seconds in taken.items()}
        more |= {f"milliseconds, dense, {kind}": 1e3 * dense_seconds for kind, dense_seconds in taken.items()}
        more |= {"pruning in plain Python": everything / valid_only, "milliseconds, plain": 1e3 * everything}
        note_ratio(benchmark, 1, everything, devices=COMPARED, candidates=candidates(home), **more)


@pytest.mark.benchmark(group="searches")
def test_the_search_of_one_home_against_the_dense_one(benchmark: BenchmarkFixture, n_devices: int) -> None:
    """Both from a graph to its best rules; the dense one in float32, which is the fastest."""
    saved = model("graphrule")
    search, dense = search_of(saved), DenseSearch(saved, np.float32)
    graph = HomeEncoder(saved.card).encode(random_home(n_devices, 0)).graph
    found = benchmark.pedantic(search.one, args=(graph, K), rounds=200, warmup_rounds=5)
    reference = seconds(lambda: dense.best(graph, K), repeats=50)
    rules = set(zip(found.trigger.tolist(), found.action.tolist(), found.relation.tolist(), strict=True))
    assert len(rules ^ set(dense.best(graph, K))) <= 2  # a near tie at the end of the list
    note_ratio(benchmark, 1, reference, devices=n_devices)


@pytest.mark.parametrize("method", ROUNDS)
@pytest.mark.benchmark(group="inference")
def test_homes_of_the_paper(benchmark: BenchmarkFixture, scale: str, method: str) -> None:
    """The share of requests that take less than 5 ms and 10 MB."""
    recommender = Recommender(model(method))
    homes = [HomeRequest.from_home(home) for home in sample_homes(HOMES[scale])]
    turn = iter(homes)
    recommender.recommend(homes[0], K, unknown="ignore")
    request: Callable[[HomeRequest], object] = lambda home: recommender.recommend(home, K, unknown="ignore")  # noqa: E731
    benchmark.pedantic(request, setup=lambda: ((next(turn),), {}), rounds=len(homes))
    if benchmark.stats is None:
        return
    taken = 1e3 * np.array(benchmark.stats.stats.data)
    memory = np.array([megabytes(lambda home=home: request(home)) for home in homes])  # type: ignore[misc]
    benchmark.extra_info |= {
        "method": method,
        "homes": len(homes),
        **percentiles(taken / 1e3),
        f"share below {MILLISECONDS:g} ms": float(np.mean(taken < MILLISECONDS)),
        f"share below {MEGABYTES:g} MB": float(np.mean(memory < MEGABYTES)),
        "megabytes of homes": np.round(memory, 4).tolist(),
    }


@pytest.mark.benchmark(group="bulk")
def test_all_homes(benchmark: BenchmarkFixture, scale: str) -> None:
    """The lists of all homes, against the plain search home by home."""
    saved = model("graphrule")
    recommender, plain = Recommender(saved), PlainSearch(saved)
    homes = datasets.load("wyze-synthetic", homes=BULK[scale])
    ranked = benchmark.pedantic(
        recommender.recommend_many, args=(homes, K), kwargs={"unknown": "ignore", "jobs": 2}, rounds=3, warmup_rounds=1
    )
    sample = sample_homes(SAMPLE).with_vocabulary(saved.card.types, saved.card.relations)

    def home_by_home() -> None:
        for at in range(sample.n_homes):
            graph = Graph.of(sample.subset(np.array([at])))
            plain.best(graph.device_type.tolist(), list(zip(*(c.tolist() for c in graph[2:]), strict=True)), K)

    reference = seconds(home_by_home) / SAMPLE
    assert len(np.unique(ranked.home)) > 0.99 * homes.n_homes
    pairs = [np.mean(np.diff(some.device_start) ** 2) for some in (sample, homes)]
    note_ratio(benchmark, homes.n_homes, reference, **{"pairs per home, sample": pairs[0], "pairs per home": pairs[1]})


@pytest.mark.benchmark(group="bulk")
def test_all_homes_by_evidence(benchmark: BenchmarkFixture, scale: str) -> None:
    """The lists of all homes by graphrank, against the scorer of training, which computes a row for each candidate."""
    saved = model("graphrank")
    recommender, homes = Recommender(saved), datasets.load("wyze-synthetic", homes=BULK[scale])
    ranked = benchmark.pedantic(
        recommender.recommend_many, args=(homes, K), kwargs={"unknown": "ignore", "jobs": 2}, rounds=3, warmup_rounds=1
    )
    sample = sample_homes(SAMPLE).with_vocabulary(saved.card.types, saved.card.relations)
    by_rows = ScorerSearch(restored(saved), saved.valid, saved.self_rules, saved.card.types, saved.card.relations)
    by_rows.many(sample, K)
    reference = seconds(lambda: by_rows.many(sample, K)) / SAMPLE
    assert len(np.unique(ranked.home)) > 0.99 * homes.n_homes
    note_ratio(benchmark, homes.n_homes, reference, homes=homes.n_homes)


@cache
def sample_homes(many: int) -> Homes:
    """A fixed random sample of the paper's homes."""
    homes = datasets.load("wyze-synthetic")
    return homes.subset(np.sort(np.random.default_rng(0).choice(homes.n_homes, many, replace=False)))


def candidates(home: HomeRequest) -> int:
    """Valid rules between the devices of a home, including those that it has."""
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
    """The peak of the memory that the work allocates."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
