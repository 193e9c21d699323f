"""Clients of the evidence network, many at once: trained as by torch, whichever clients are trained together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("torch_geometric", reason="federated methods need the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")

import torch

import fedrule.federated.trainers.evidence
import fedrule.network.terms
from baselines.contract import ToyHome, planted_homes, toy_homes
from datasets import Homes
from fedrule.evidence.evidence import Evidence
from fedrule.evidence.features import NAMES
from fedrule.federated.algorithm import ClientState, Hyperparameters, client_round
from fedrule.federated.client import LocalTraining
from fedrule.federated.cohort import Cohorts
from fedrule.federated.optimizers import Moments
from fedrule.federated.rounds import Engine
from fedrule.federated.trainers.evidence import Batches, EvidenceTrainer, gradients, is_evidence
from fedrule.federated.trainers.trainer import TorchTrainer
from fedrule.federated.vectors import FlatParameters
from fedrule.methods.federated import trainer_of
from fedrule.network.score import Scorer
from fedrule.network.terms import EvidenceNetwork
from fedrule.training.losses import OBJECTIVES, bce, ranking
from tests.support.small_populations import population, populations

SEEDS = st.integers(0, 2**32)
RATES = {"theta_rate": 0.3, "phi_rate": 0.2}
HYPERPARAMETERS = [
    Hyperparameters(1, **RATES),
    Hyperparameters(3, **RATES),
    Hyperparameters(2, **RATES, algorithm="fedprox", proximal=0.5),
    Hyperparameters(2, **RATES, optimizer="adam"),
    Hyperparameters(2, **RATES, optimizer="kept-adam"),
    Hyperparameters(2, **RATES, algorithm="fedgate"),
    Hyperparameters(2, **RATES, algorithm="fedrule", phi_lambda=0.5),
    Hyperparameters(2, **RATES, algorithm="scaffold", optimizer="adam", control="gradients"),
]


def task_of(
    homes: Homes,
    h: Hyperparameters,
    *,
    objective: str = "ranking",
    dropout: float = 0.0,
    draws: int = 0,
    hidden: int = 5,
) -> LocalTraining:
    evidence = Evidence.of(homes)
    scorer = Scorer(None, evidence.valid, (EvidenceNetwork(evidence, hidden, dropout),), answers_unseen=False)
    layout = FlatParameters.of(scorer.initial(torch.Generator()))
    sampling_options = {"non_rules": "feasible", "per_rule": 1, "candidates": 4}
    return LocalTraining(scorer, OBJECTIVES[objective], h, layout, sampling_options, 0.5, True, 3, draws)


def played(trainer, engine, rounds=3):
    """The state after some rounds, and their reports."""
    initial = trainer.layout.flat(trainer.task.scorer.initial(torch.Generator().manual_seed(1)))
    state, reports = engine.begin(trainer, initial), []
    for _ in range(rounds):
        state, report = engine.step(trainer, state, seed=5)
        reports.append(report)
    return state, reports


def assert_alike(left, right, *, bitwise):
    """Two states and their reports, with all client states."""
    for (name, a), b in zip(left[0].arrays().items(), right[0].arrays().values(), strict=True):
        if bitwise:
            assert a.tobytes() == b.tobytes(), name
        else:
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5, err_msg=name)
    for a, b in zip(left[1], right[1], strict=True):
        assert a == pytest.approx(b, rel=0 if bitwise else 1e-4, nan_ok=True)


# As by torch


@pytest.mark.parametrize("h", [p for p in HYPERPARAMETERS if not p.adam], ids=str)
@settings(max_examples=4)
@given(homes=populations(), participation=st.sampled_from([0.4, 1.0]), objective=st.sampled_from(["bce", "ranking"]))
def test_they_are_trained_as_by_torch(h, homes, participation, objective):
    # Not with Adam, whose steps have the same size for a gradient of 0 and for one that is 1e-9 by rounding.
    task = task_of(homes, h, objective=objective)
    engine = Engine(h, cohorts=Cohorts(participation, corrupted=0.2), weighting="roots")
    many, alone = (played(trainer, engine) for trainer in (EvidenceTrainer(homes, task), TorchTrainer(homes, task)))
    assert_alike(many, alone, bitwise=False)


@pytest.mark.parametrize("h", HYPERPARAMETERS, ids=str)
@given(seed=SEEDS)
def test_many_clients_in_one_call_are_single_clients_bit_by_bit_where_gradients_are_the_same(h, seed):
    rng, layout, n = np.random.default_rng(seed), FlatParameters(("theta.a", "b"), ((3,), (4,)), n_theta=3), 4
    model, *rest = rng.normal(size=(4 * n + 1, layout.size)).astype(np.float32)
    own, curve, center, second = np.split(np.array(rest), 4)
    steps = rng.integers(0, 5, n)
    kept = h.optimizer == "kept-adam"

    def of(k):
        def at(x, step):
            return (step + (x**2).sum(axis=-1)).astype(float), curve[k] * (x - center[k])

        return at, ClientState(
            own[k] if h.corrects else None, Moments(own[k], second[k] ** 2, steps[k]) if kept else None
        )

    sent, state = client_round(h, layout, model, *of(slice(None)), n=n)
    for k in range(n):
        one = slice(k, k + 1)
        alone, state_alone = client_round(h, layout, model, *of(one))
        assert sent.update[one].tobytes() == alone.update.tobytes()
        assert sent.mean_gradient[one].tobytes() == alone.mean_gradient.tobytes()
        assert sent.loss[k] == pytest.approx(alone.loss[0])
        assert (state.own is None) == (state_alone.own is None) == (not h.corrects)
        if state.own is not None:
            assert state.own[one].tobytes() == state_alone.own.tobytes()
        assert (state.moments is None) == (state_alone.moments is None) == (not kept)
        if state.moments is not None:
            assert state.moments.first[one].tobytes() == state_alone.moments.first.tobytes()
            assert state.moments.second[one].tobytes() == state_alone.moments.second.tobytes()
            assert state.moments.steps[k] == state_alone.moments.steps[0]


@settings(max_examples=10)
@given(seed=SEEDS)
def test_with_dropout_they_are_trained_as_by_torch(seed):
    homes, h = population(seed), Hyperparameters(2, **RATES)
    task = task_of(homes, h, dropout=0.4)
    many, alone = (played(trainer(homes, task), Engine(h)) for trainer in (EvidenceTrainer, TorchTrainer))
    assert_alike(many, alone, bitwise=False)


def test_dropout_drops_its_share_by_the_seed_of_the_client():
    # Every hidden unit is 1 for the only candidate, so that the gradient of its weight in `last` is not zero where it
    # is kept: 0.7 of 3200 units, with a standard deviation of 0.008.
    n, hidden, inputs = 400, 8, len(NAMES)
    x = np.zeros((n, inputs + inputs * hidden + 2 * hidden), dtype=np.float32)
    x[:, inputs : inputs + hidden] = x[:, -hidden:] = 1
    features = np.eye(1, inputs, dtype=np.float32)  # the first is 1
    one, nowhere = np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    rules, seeds = np.zeros(1, dtype=bool), np.arange(n, dtype=np.uint64) // np.uint64(2)
    loss, gradient = np.empty(n), np.empty_like(x)
    alone = np.zeros(n, dtype=np.float32)  # each non-rule stands for itself
    drop = np.uint64(np.ceil(0.3 * 2**16)), np.float32(1 / 0.7)
    gradients(x, hidden, features, rules, nowhere, one, alone, seeds, *drop, False, loss, gradient)
    kept = gradient[:, -hidden:] != 0
    assert kept.mean() == pytest.approx(0.7, abs=0.04)
    assert (kept[::2] == kept[1::2]).all()  # equal seeds
    assert (kept[2::2] != kept[:-2:2]).any(axis=1).mean() > 0.9  # others


# Whichever clients are trained together


@example(seed=0, dropout=0.3)
@given(seed=SEEDS, dropout=st.sampled_from([0.0, 0.3]))
@pytest.mark.parametrize("h", [HYPERPARAMETERS[1], HYPERPARAMETERS[4], HYPERPARAMETERS[5], HYPERPARAMETERS[7]], ids=str)
@settings(max_examples=5)
def test_chunks_change_no_bit(h, seed, dropout):
    homes = population(seed, n_homes=12)
    task = task_of(homes, h, dropout=dropout, hidden=16)
    engine = Engine(h, cohorts=Cohorts(0.7, corrupted=0.2))
    together = played(EvidenceTrainer(homes, task), engine)
    for chunk, rows in ((1, 64), (5, 64), (64, 3)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fedrule.federated.trainers.evidence, "CLIENTS_PER_CALL", rows)
            apart = played(EvidenceTrainer(homes, task), replace(engine, chunk_size=chunk))
        assert_alike(together, apart, bitwise=True)


@settings(max_examples=5)
@given(seed=SEEDS)
def test_threads_change_no_bit(seed):
    homes, h = population(seed, n_homes=12), HYPERPARAMETERS[1]
    trainer = EvidenceTrainer(homes, task_of(homes, h, dropout=0.3))
    engine = Engine(h, chunk_size=2)
    one = played(trainer, engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EvidenceTrainer, "threads", 3)
        assert_alike(one, played(trainer, engine), bitwise=True)


@settings(max_examples=5)
@given(seed=SEEDS, draws=st.sampled_from([0, 2]))
def test_cached_batches_change_no_bit(seed, draws):
    homes, h = population(seed, n_homes=12), HYPERPARAMETERS[1]
    task, engine = task_of(homes, h, draws=draws), Engine(h, cohorts=Cohorts(0.4))
    trainer = EvidenceTrainer(homes, task)
    together = played(trainer, engine, rounds=6)
    assert sorted(trainer.cache) == list(range(draws))
    for limits in ({"CACHE_BYTES": 0}, {"DRAWN_TOGETHER": 0}):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in limits.items():
                patch.setattr(fedrule.federated.trainers.evidence, name, value)
            assert_alike(together, played(EvidenceTrainer(homes, task), engine, rounds=6), bitwise=True)


@settings(max_examples=10)
@given(seed=SEEDS)
def test_the_batch_of_a_client_is_the_same_whichever_clients_are_drawn_with_it(seed):
    homes = population(seed, n_homes=8)
    task = task_of(homes, HYPERPARAMETERS[0])
    clients = np.flatnonzero(np.bincount(homes.rules.home, minlength=homes.n_homes))
    model = task.layout.flat(task.scorer.initial(torch.Generator()))
    nobody = Batches.empty(homes.n_homes, len(NAMES))
    together, apart = nobody.with_more(task, homes, clients, key=task.key(4, clients), model=model), nobody
    for client in clients[::-1]:
        one = np.array([client])
        apart = apart.with_more(task, homes, one, key=task.key(4, one), model=model)
    assert together.trainable(clients).tolist() == apart.trainable(clients).tolist()
    assert together.log_stands_for.tobytes() == apart.log_stands_for.tobytes()
    for client in together.trainable(clients):
        one, other = (slice(t.begin[client], t.begin[client] + t.counts[client]) for t in (together, apart))
        assert together.features[one].tobytes() == apart.features[other].tobytes()
        assert together.positive[one].tolist() == apart.positive[other].tolist()


def test_a_table_grows_in_place_only_where_nobody_else_wrote():
    def rows(*values: float) -> tuple[np.ndarray, np.ndarray]:
        return np.array(values, dtype=np.float32)[:, None], np.array(values) > 0

    first = Batches.empty(1, 1).table.extended(0, *rows(1, 2, 3, 4)).extended(4, *rows(5))  # with room for two more
    one = first.extended(5, *rows(6))
    assert one is first
    other = first.extended(5, *rows(-7))  # behind the same five, where six is now
    assert other is not first
    assert one.features[:6, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert other.features[:6, 0].tolist() == [1, 2, 3, 4, 5, -7]
    assert other.positive[:6].tolist() == [True] * 5 + [False]
    assert (first.used, other.used) == (6, 6)


# What it is for


def test_it_trains_evidence_alone_and_leaves_the_rest_to_others():
    homes = planted_homes()
    task = task_of(homes, HYPERPARAMETERS[0])
    assert is_evidence(task)
    assert isinstance(trainer_of(homes, task), EvidenceTrainer)
    two_terms = replace(task, scorer=replace(task.scorer, terms=task.scorer.terms * 2))
    assert not is_evidence(two_terms)
    for objective in (OBJECTIVES["infonce"], lambda logits, *_: logits.sum()):
        assert not is_evidence(replace(task, objective=objective))
    assert all(is_evidence(replace(task, objective=objective)) for objective in (bce, ranking))


def test_a_client_whose_model_is_no_number_is_refused_and_the_others_go_on():
    homes = planted_homes()
    task = task_of(homes, Hyperparameters(1, 0.1, 0.1))
    trainer = EvidenceTrainer(homes, task)
    model = task.layout.flat(task.scorer.initial(torch.Generator().manual_seed(1)))
    batches = trainer.begin(0, np.flatnonzero(trainer.rule_counts), model).batches
    first = batches.trainable(np.arange(homes.n_homes))[0]
    batches.features[batches.begin[first]] = np.nan
    trainer.cache[0] = batches
    trainer = replace(trainer, task=replace(task, draws=2))
    engine = Engine(task.hyperparameters)
    state, report = engine.step(trainer, engine.begin(trainer, model), seed=5)
    assert report.refused == 1
    assert report.clients == len(batches.trainable(np.arange(homes.n_homes))) - 1
    assert np.isfinite(state.model).all()
    assert np.isfinite(report.loss)


def test_a_home_that_could_have_nothing_else_has_nothing_to_learn():
    # One lamp that switches itself is all that there is: a rule and no non-rule, loss 0.
    homes = toy_homes([ToyHome(0, ("Light",), (("Light", 0, "Light"),))])
    task = replace(task_of(homes, Hyperparameters(2, 0.1, 0.1)), hidden=0.0)
    trainer = EvidenceTrainer(homes, task)
    state, (report,) = played(trainer, Engine(task.hyperparameters), rounds=1)
    assert (report.loss, report.clients) == (0.0, 1)
    assert state.model.tobytes() == task.layout.flat(task.scorer.initial(torch.Generator().manual_seed(1))).tobytes()
