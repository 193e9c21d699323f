"""Aggregation of updates at the server: against plain implementations, by hand, and against arbitrary outliers."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from datasets.common.errors import DataError
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.cohort import Cohorts
from fedrule.federated.optimizers import ServerOptimizer
from fedrule.federated.robustness import aggregation
from fedrule.federated.robustness.aggregation import Aggregation, bound_norms, krum_scores
from fedrule.federated.rounds import Engine
from fedrule.federated.trainers.evidence import EvidenceTrainer
from fedrule.federated.trainers.kernel import KernelTrainer
from fedrule.federated.trainers.trainer import TorchTrainer
from tests.fedrule.federated.test_evidence_trainer import task_of
from tests.support.small_populations import Setting, population

ROBUST = ["median", "trimmed-mean", "krum", "multi-krum"]
NUMBERS = st.floats(-100, 100, width=32)


def updates(*, least: int = 3, most: int = 9):
    """[n, size] with few different numbers, so that there are ties."""
    return st.tuples(st.integers(least, most), st.integers(1, 4)).flatmap(
        lambda shape: arrays(np.float32, shape, elements=st.one_of(NUMBERS, st.sampled_from([0.0, 1.0])))
    )


def aggregate(name: str, given, weight=None, **options):
    given = np.array(given, dtype=np.float32)
    return Aggregation(name, **options)(given, np.ones(len(given)) if weight is None else np.array(weight, dtype=float))


# Plain implementations: lists, one number after the other.


def plain_trimmed_mean(rows: list[list[float]], b: int) -> list[float]:
    columns = [sorted(column) for column in zip(*rows, strict=True)]
    return [statistics.fmean(column[b : len(column) - b]) for column in columns]


def plain_krum_scores(rows: list[list[float]], f: int) -> list[float]:
    def distance(u: list[float], v: list[float]) -> float:
        return sum((a - b) ** 2 for a, b in zip(u, v, strict=True))

    others = [sorted(distance(u, v) for j, v in enumerate(rows) if j != i) for i, u in enumerate(rows)]
    return [sum(each[: len(rows) - f - 2]) for each in others]


@given(updates())
def test_the_median_is_that_of_the_standard_library(given):
    expected = [statistics.median(column) for column in zip(*given.tolist(), strict=True)]
    np.testing.assert_allclose(aggregate("median", given), expected, rtol=1e-12)


@given(updates(), st.floats(0, 0.49))
def test_the_trimmed_mean_is_that_of_a_plain_loop(given, trim):
    expected = plain_trimmed_mean(given.tolist(), int(trim * len(given)))
    np.testing.assert_allclose(aggregate("trimmed-mean", given, trim=trim), expected, rtol=1e-9, atol=1e-9)


@given(updates(least=5))
def test_the_scores_of_krum_are_those_of_a_plain_loop(given):
    for f in range((len(given) - 3) // 2 + 1):
        np.testing.assert_allclose(krum_scores(given, f), plain_krum_scores(given.tolist(), f), rtol=1e-6, atol=1e-9)


@given(updates(least=5))
def test_krum_returns_an_update_whose_plain_score_is_lowest(given):
    scores = plain_krum_scores(given.tolist(), 1)
    found = aggregate("krum", given, assumed_attackers=1.01 / len(given))
    of_it = [s for s, row in zip(scores, given, strict=True) if np.abs(row - found).max() < 1e-6]
    assert of_it
    assert min(of_it) <= min(scores) * (1 + 1e-6) + 1e-9


# By hand


def test_the_median_of_three_homes_is_the_middle_of_each_coordinate():
    assert aggregate("median", [[1, 50], [2, -7], [90, 0]]).tolist() == [2, 0]


def test_the_median_of_four_homes_is_half_way_between_the_middle_two():
    assert aggregate("median", [[1], [2], [4], [90]]).tolist() == [3]


def test_the_trimmed_mean_leaves_a_share_out_at_either_end():
    # 5 homes, trim 0.2: one smallest and one largest are left out; (2 + 3 + 7) / 3 = 4.
    assert aggregate("trimmed-mean", [[-1000], [2], [3], [7], [1000]], trim=0.2).tolist() == [4]
    # floor(0.39 * 5) = 1 as well; 0 is the mean, (-1000 + 2 + 3 + 7 + 1000) / 5 = 2.4.
    assert aggregate("trimmed-mean", [[-1000], [2], [3], [7], [1000]], trim=0.39).tolist() == [4]
    assert aggregate("trimmed-mean", [[-1000], [2], [3], [7], [1000]], trim=0.0).tolist() == [2.4]


def test_krum_chooses_the_update_with_the_nearest_neighbours():
    # n = 5, f = 1: squared distances to the 5 - 1 - 2 = 2 nearest others.
    # 0: 1 + 9 = 10; 1: 1 + 4 = 5; 3: 4 + 9 = 13; 6: 9 + 25 = 34; 100: far. The update 1 has the lowest.
    given = [[0], [1], [3], [6], [100]]
    assert krum_scores(np.array(given, dtype=np.float32), 1)[:4].tolist() == [10, 5, 13, 34]
    assert aggregate("krum", given, assumed_attackers=0.2).tolist() == [1]
    # Multi-Krum: the mean of the n - f = 4 lowest, (0 + 1 + 3 + 6) / 4 = 2.5.
    assert aggregate("multi-krum", given, assumed_attackers=0.2).tolist() == [2.5]


def test_the_mean_is_weighted():
    # (1 * 2 + 3 * 6) / 4 = 5
    assert aggregate("mean", [[2], [6]], [1, 3], norm_bound=100.0).tolist() == [5]


def test_norms_are_bounded_by_a_length_or_by_a_multiple_of_the_median_length():
    given = np.array([[3, 4], [0.3, 0.4], [30, 40]], dtype=np.float32)  # lengths 5, 0.5 and 50
    absolute, relative = given.copy(), given.copy()
    bound_norms(absolute, 1.0)
    np.testing.assert_allclose(absolute, [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8]], rtol=1e-6)
    bound_norms(relative, 2.0, relative=True)  # the median is 5, the bound 10
    np.testing.assert_allclose(relative, [[3, 4], [0.3, 0.4], [6, 8]], rtol=1e-6)


def test_updates_of_length_zero_stay_zero_under_a_bound():
    given = np.zeros((3, 2), dtype=np.float32)
    bound_norms(given, 1.0, relative=True)  # the median length is 0, and none is longer
    assert not given.any()


# What a few can do


@given(updates(least=5), st.randoms(use_true_random=False), st.sampled_from([*ROBUST, "mean"]))
def test_the_order_of_clients_does_not_matter(given, random, name):
    order = list(range(len(given)))
    random.shuffle(order)
    bound = {"norm_bound": 2.0, "norm_relative": True}
    assert aggregate(name, given, **bound).tobytes() == aggregate(name, given[order], **bound).tobytes()


@given(updates(least=3), st.data())
def test_median_and_trimmed_mean_stay_among_the_honest_values_whatever_a_minority_sends(honest, data):
    n = len(honest)
    size = honest.shape[1]
    f = data.draw(st.integers(0, n - 1), label="attackers")  # fewer than the honest: f < n means f / (n + f) < 1/2
    anything = st.floats(allow_nan=False, allow_infinity=False, width=32)
    sent = data.draw(arrays(np.float32, (f, size), elements=anything), label="sent")
    given = np.concatenate([honest, sent])
    low, high = honest.min(axis=0) - 1e-4, honest.max(axis=0) + 1e-4
    trim = (f + 0.5) / len(given)  # b = f of each end
    found = [aggregate("median", given)] + ([aggregate("trimmed-mean", given, trim=trim)] if trim < 0.5 else [])
    for each in found:
        assert (each >= low).all()
        assert (each <= high).all()


@given(st.integers(0, 2**32), st.integers(0, 4), st.sampled_from(["same", "apart", "sign"]))
def test_krum_returns_an_honest_update_where_attackers_are_far_away(seed, f, how):
    rng = np.random.default_rng(seed)
    honest = (1 + 0.1 * rng.standard_normal((2 * f + 3, 6))).astype(np.float32)
    sent = {
        "same": np.full((f, 6), 50.0),
        "apart": 50 * rng.standard_normal((f, 6)) + 100,
        "sign": np.full((f, 6), -9.0),
    }
    given = np.concatenate([honest, sent[how].astype(np.float32)])
    one = aggregate("krum", given, assumed_attackers=(f + 0.5) / len(given))
    assert np.abs(honest - one).max(axis=1).min() < 1e-6  # rounded to the grid of exact sums
    several = aggregate("multi-krum", given, assumed_attackers=(f + 0.5) / len(given))
    assert np.abs(several - 1).max() < 1


def test_one_client_moves_the_mean_anywhere_and_the_others_hardly():
    given = [[1.0], [1.1], [0.9], [1.0], [1e6]]
    assert aggregate("mean", given, norm_bound=1e9)[0] > 1e5
    for name in ROBUST:
        assert 0.9 <= aggregate(name, given)[0] <= 1.1
    assert aggregate("mean", given, norm_bound=1.0, norm_relative=True)[0] <= 1.1


@pytest.mark.parametrize("name", ["mean", *ROBUST])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_updates_that_are_not_finite_are_refused(name, value):
    with pytest.raises(DataError, match=f"aggregation {name}: an update is NaN or infinite"):
        aggregate(name, [[0.0], [1.0], [value]])


@pytest.mark.parametrize("name", ["krum", "multi-krum"])
def test_krum_refuses_a_cohort_that_is_too_small(name):
    # floor(0.4 * 5) = 2 attackers need 2 * 2 + 3 = 7 updates.
    with pytest.raises(
        DataError, match=rf"{name} needs at least 2 f \+ 3 updates .* got 5 with f = 2 .*larger cohorts"
    ):
        aggregate(name, [[0.0]] * 5, assumed_attackers=0.4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "meadian"}, r"unknown aggregation 'meadian'; did you mean 'median'\?"),
        ({"name": "trimmed-mean", "trim": 0.5}, r"trim must be in \[0, 0\.5\), got 0\.5: against a majority"),
        ({"name": "krum", "assumed_attackers": float("nan")}, r"assumed_attackers must be in \[0, 0\.5\), got nan"),
        ({"trim": 0.1}, "trim has no effect with aggregation mean; use trimmed-mean"),
        (
            {"name": "median", "assumed_attackers": 0.1},
            "assumed_attackers has no effect with aggregation median; use krum",
        ),
        ({"norm_bound": -1.0}, r"norm_bound must be non-negative and finite, got -1\.0"),
        ({"norm_bound": float("inf")}, "norm_bound must be non-negative and finite, got inf"),
        ({"norm_relative": True}, "norm_relative has no effect without norm_bound"),
    ],
)
def test_wrong_options_are_refused_in_words(options, message):
    with pytest.raises(DataError, match=message):
        Aggregation(**options)


# In the rounds

H = {
    "fedavg": Hyperparameters(),
    "fedrule": Hyperparameters(algorithm="fedrule"),
    "fedrule, dense": Hyperparameters(algorithm="fedrule", phi_lambda=0.5),
    "scaffold": Hyperparameters(algorithm="scaffold"),
    "kept Adam": Hyperparameters(optimizer="kept-adam"),
}
UNBOUNDED = Aggregation(norm_bound=1e9)  # a mean that needs single updates


@pytest.mark.parametrize("trainer", [KernelTrainer, TorchTrainer])
@pytest.mark.parametrize("name", H)
def test_a_mean_of_single_updates_is_the_mean_of_the_sums(name, trainer):
    cohorts = Cohorts(0.7, corrupted=0.2)
    setting = Setting(population(4, n_homes=12, bare=False), Engine(H[name], cohorts=cohorts, weighting="rules"))
    clients = trainer(setting.homes, setting.task)
    together, reports = setting.played(clients, 4)
    single, again = setting.played(clients, 4, replace(setting.engine, aggregation=UNBOUNDED))
    np.testing.assert_allclose(single.model, together.model, rtol=0, atol=3e-6)
    np.testing.assert_allclose(single.shared, together.shared, rtol=0, atol=3e-5)
    np.testing.assert_allclose([r.loss for r in again], [r.loss for r in reports], rtol=1e-5)
    assert [r._replace(loss=0.0) for r in again] == [r._replace(loss=0.0) for r in reports]
    assert single.clients.last.tolist() == together.clients.last.tolist()


def test_a_mean_of_single_updates_of_fedrank_is_the_mean_of_the_sums():
    homes, h = population(7, n_homes=8, bare=False), Hyperparameters()
    task, engine = task_of(homes, h, dropout=0.3), Engine(h, ServerOptimizer("adam"), Cohorts(0.7), "roots")
    clients = EvidenceTrainer(homes, task)
    model = np.random.default_rng(0).normal(size=task.layout.size).astype(np.float32)
    found = []
    for each in (engine, replace(engine, aggregation=UNBOUNDED)):
        state = each.begin(clients, model)
        state, _ = each.step(clients, state, seed=3)
        found.append(state.optimizer.first)
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-7)


def test_the_median_of_a_round_is_that_of_what_its_clients_send_alone():
    setting = Setting(population(4, n_homes=5, bare=False), Engine(H["fedavg"], ServerOptimizer("plain")))
    clients = KernelTrainer(setting.homes, setting.task)
    state, _ = setting.played(clients, 1, replace(setting.engine, aggregation=Aggregation("median")))
    alone = []
    for k in range(5):
        trained = setting.engine.train_clients(
            clients,
            setting.engine.begin(clients, setting.start).clients,
            setting.engine.begin(clients, setting.start).broadcast(),
            np.array([k]),
        )
        alone.append(trained.sums.update / trained.sums.weight)
    np.testing.assert_allclose(setting.start - state.model, np.median(alone, axis=0), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["krum", "multi-krum"])
@pytest.mark.parametrize("h", ["fedavg", "fedrule"])
def test_a_round_with_too_few_updates_for_krum_is_skipped_with_a_warning_and_changes_nothing(name, h, caplog):
    # With 40 % attackers, 8 updates need 2 * 3 + 3 = 9, but 7 need 2 * 2 + 3 = 7, as many as there are.
    needed = [2 * math.floor(0.4 * n) + 3 for n in range(13)]
    robust = Engine(H[h], cohorts=Cohorts(drop_out=0.4), aggregation=Aggregation(name, assumed_attackers=0.4))
    setting = Setting(population(4, n_homes=12, bare=False), robust)
    clients = KernelTrainer(setting.homes, setting.task)
    state, skipped = robust.begin(clients, setting.start), []
    for number in range(8):
        model, last, own = state.model.copy(), state.clients.last.copy(), state.clients.own.dense.copy()
        caplog.clear()
        state, report = robust.step(clients, state, seed=3, donate=True)
        n = 12 - report.dropped
        skipped.append(n < needed[n])
        assert state.round == number + 1
        assert (report.clients == 0) == skipped[-1]
        assert (state.model.tobytes() == model.tobytes()) == skipped[-1]
        assert (state.clients.last.tolist() == last.tolist()) == skipped[-1]
        if skipped[-1]:
            assert state.clients.own.dense.tobytes() == own.tobytes()
            assert f"round {number + 1} is skipped: aggregation {name} needs at least 2 f + 3 updates" in caplog.text
            assert "the model stays" in caplog.text
    assert any(skipped)
    assert not all(skipped)


def test_a_cohort_that_can_never_be_large_enough_for_krum_is_refused_before_training():
    robust = Engine(H["fedavg"], cohorts=Cohorts(size=2), aggregation=Aggregation("krum"), name="fedgnn")
    setting = Setting(population(4, n_homes=6, bare=False), robust)
    with pytest.raises(DataError, match=r"fedgnn: aggregation krum needs at least 2 f \+ 3 .* got 2 with f = 0"):
        robust.begin(KernelTrainer(setting.homes, setting.task), setting.start)


@pytest.mark.parametrize("name", ["mean", "median", "trimmed-mean"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_other_aggregates_are_there_for_the_smallest_cohorts(name, n):
    # Of 1, 2 and 3 equal updates every one of these is that update.
    assert aggregate(name, [[2.0, -1.0]] * n).tolist() == [2.0, -1.0]


def test_nodes_and_secure_sums_refuse_what_needs_single_updates():
    setting = Setting(population(4), Engine(H["fedavg"], aggregation=Aggregation("median"), name="fedgnn"))
    clients = KernelTrainer(setting.homes, setting.task)
    state = setting.engine.begin(clients, setting.start)
    with pytest.raises(
        DataError, match="fedgnn: aggregation median needs the updates of all homes one by one, but nodes"
    ):
        setting.engine.train_clients(clients, state.clients, state.broadcast(), np.array([0]))


def test_updates_that_do_not_fit_are_refused_before_training(monkeypatch):
    setting = Setting(population(4), Engine(H["fedavg"], aggregation=Aggregation("median"), name="fedgnn"))
    monkeypatch.setattr(aggregation, "free_bytes", lambda: 1000)
    with pytest.raises(
        DataError, match=r"fedgnn: aggregation median keeps the updates of all \d clients .* Set cohort"
    ):
        setting.played(KernelTrainer(setting.homes, setting.task), 1)


def test_weights_and_second_vectors_are_refused_beside_robust_aggregation():
    with pytest.raises(
        DataError, match=r"median counts every client once.* weighting rules has no effect, set it to cl"
    ):
        Engine(H["fedavg"], aggregation=Aggregation("median"), weighting="rules")
    sends_two = Hyperparameters(algorithm="fedrule", optimizer="adam", control="gradients")
    with pytest.raises(
        DataError, match="aggregation krum and norm_bound: with control gradients clients send a second"
    ):
        Engine(sends_two, aggregation=Aggregation("krum", norm_bound=1.0))
