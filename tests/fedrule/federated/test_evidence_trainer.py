"""Clients of weighed evidence trained many at once: as one by one, whoever stands beside whom."""

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
import fedrule.model.terms
from baselines.contract import ToyHome, planted_homes, toy_homes
from datasets import Homes
from datasets.common.random import output
from fedrule.evidence.features import Evidence
from fedrule.federated import algorithm as side_by_side
from fedrule.federated.algorithm import Memory, Plan, train_locally, train_side_by_side
from fedrule.federated.client import Task
from fedrule.federated.cohort import Cohorts
from fedrule.federated.rounds import Engine
from fedrule.federated.trainers.evidence import Batched, Lessons, is_evidence, slopes
from fedrule.federated.trainers.torch import OneByOne
from fedrule.federated.vectors import Layout
from fedrule.methods.federated import trainer_of
from fedrule.model.score import Scorer
from fedrule.model.terms import EvidenceNetwork
from fedrule.training.losses import OBJECTIVES, bce, ranking
from tests.support.small_populations import population, populations

SEEDS = st.integers(0, 2**32)
RATES = {"theta_rate": 0.3, "phi_rate": 0.2}
PLANS = [
    Plan(1, **RATES),
    Plan(3, **RATES),
    Plan(2, **RATES, proximal=0.5),
    Plan(2, **RATES, optimizer="adam"),
    Plan(2, **RATES, optimizer="kept-adam"),
    Plan(2, **RATES, correction="gate"),
    Plan(2, **RATES, correction="gate", phi_lambda=0.5),
    Plan(2, **RATES, correction="scaffold", optimizer="adam", control="gradients"),
]


def task_of(
    homes: Homes, plan: Plan, *, objective: str = "ranking", dropout: float = 0.0, draws: int = 0, hidden: int = 5
) -> Task:
    evidence = Evidence.of(homes)
    scorer = Scorer(None, evidence.valid, (EvidenceNetwork(evidence, hidden, dropout),), answers_unseen=False)
    layout = Layout.of(scorer.initial(torch.Generator()))
    sampling_options = {"non_rules": "feasible", "per_rule": 1, "candidates": 4}
    return Task(scorer, OBJECTIVES[objective], plan, layout, sampling_options, 0.5, True, 3, draws)


def played(trainer, engine, rounds=3):
    """The state after some rounds, and their reports."""
    initial = trainer.layout.flat(trainer.task.scorer.initial(torch.Generator().manual_seed(1)))
    state, reports = engine.begin(trainer, initial), []
    for _ in range(rounds):
        state, report = engine.step(trainer, state, seed=5)
        reports.append(report)
    return state, reports


def assert_alike(left, right, *, bitwise):
    """Two states and their reports, with all that clients remember."""
    for (name, a), b in zip(left[0].arrays().items(), right[0].arrays().values(), strict=True):
        if bitwise:
            assert a.tobytes() == b.tobytes(), name
        else:
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5, err_msg=name)
    for a, b in zip(left[1], right[1], strict=True):
        assert a == pytest.approx(b, rel=0 if bitwise else 1e-4, nan_ok=True)


# As one by one


@pytest.mark.parametrize("plan", [p for p in PLANS if not p.adam], ids=str)
@settings(max_examples=4)
@given(homes=populations(), participation=st.sampled_from([0.4, 1.0]), objective=st.sampled_from(["bce", "ranking"]))
def test_they_are_trained_as_one_by_one(plan, homes, participation, objective):
    # Not with Adam, which makes steps of equal size of a slope that is 0 and of one that is 1e-9 by rounding.
    task = task_of(homes, plan, objective=objective)
    engine = Engine(plan, cohorts=Cohorts(participation, broken=0.2), weighting="roots")
    many, alone = (played(trainer, engine) for trainer in (Batched(homes, task), OneByOne(homes, task)))
    assert_alike(many, alone, bitwise=False)


@pytest.mark.parametrize("plan", PLANS, ids=str)
@given(seed=SEEDS)
def test_side_by_side_is_one_by_one_bit_by_bit_where_slopes_are_the_same(plan, seed):
    rng, layout, n = np.random.default_rng(seed), Layout(("theta.a", "b"), ((3,), (4,)), n_theta=3), 4
    model, *rest = rng.normal(size=(4 * n + 1, layout.size)).astype(np.float32)
    own, curve, center, second = np.split(np.array(rest), 4)
    steps = rng.integers(0, 5, n)

    def slope(x, k):
        return curve[k] * (x - center[k])

    def at(x, step):
        return (step + (x**2).sum(axis=-1)).astype(float), slope(x, slice(None))

    kept = plan.optimizer == "kept-adam"
    moments = side_by_side.Moments(own, second**2, steps) if kept else None
    off = own if plan.corrects else None
    together = train_side_by_side(plan, layout, model, at, n=n, off=off, moments=moments)
    for k in range(n):
        memory = Memory(
            own[k] if plan.corrects else None,
            side_by_side.Moments(own[k : k + 1], second[k : k + 1] ** 2, steps[k : k + 1]) if kept else None,
        )
        found = lambda x, step, k=k: (float((step + (x**2).sum()).astype(float)), slope(x, k))  # noqa: E731
        sent, memory = train_locally(plan, layout, model, found, memory, None)
        assert together.update[k].tobytes() == sent.update.tobytes()
        assert together.progress[k].tobytes() == sent.progress.tobytes()
        assert together.loss[k] == pytest.approx(sent.loss)
        assert (together.own is None) == (memory.own is None)
        if memory.own is not None:
            assert together.own[k].tobytes() == memory.own.tobytes()
        if memory.moments is not None:
            assert together.moments.first[k].tobytes() == memory.moments.first.tobytes()
            assert together.moments.second[k].tobytes() == memory.moments.second.tobytes()
            assert together.moments.steps[k] == memory.moments.steps


@settings(max_examples=10)
@given(seed=SEEDS)
def test_with_the_same_dropout_they_are_trained_as_one_by_one(seed):
    """OneByOne draws what it drops from torch; here it is given the words of the compiled loop."""
    homes, plan = population(seed), Plan(2, **RATES)
    task = task_of(homes, plan, dropout=0.4)
    many = played(Batched(homes, task), Engine(plan))
    used = {}  # how many words a generator has given so far, by the generator

    def dropout(hidden, share, chance):
        n, (_, first) = hidden.numel(), used.get(id(chance), (chance, 0))
        used[id(chance)] = (chance, first + n)
        seed = np.array([chance.initial_seed()], dtype=np.uint64)
        words = output(seed, np.arange(first, first + n, dtype=np.uint64)) >> np.uint64(32)
        kept = words >= np.uint64(np.ceil(share * 2**32))
        return hidden * torch.from_numpy(kept.reshape(hidden.shape)) / (1 - share)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fedrule.model.terms, "dropout", dropout)
        alone = played(OneByOne(homes, task), Engine(plan))
    assert_alike(many, alone, bitwise=False)


def test_dropout_drops_its_share_by_the_seed_of_the_client():
    # First layer: unit k of h1 is 1 for all candidates; second: h2 = h1; last: all ones. Row k of the slope of `second`
    # is not zero where unit k of h1 is kept and any unit of h2 is, which of 8 is nearly always so: 0.7 of 3200 units,
    # with a standard deviation of 0.008.
    n, hidden = 400, 8
    x = np.zeros((n, 53 + 53 * hidden + hidden + hidden**2 + 2 * hidden), dtype=np.float32)
    second = slice(53 + 54 * hidden, 53 + 54 * hidden + hidden**2)
    x[:, 53 : 53 + hidden] = x[:, -hidden:] = 1
    x[:, second] = np.eye(hidden).ravel()
    features = np.eye(1, 53, dtype=np.float32)  # the first is 1
    one, nowhere = np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    rules, seeds = np.zeros(1, dtype=bool), np.arange(n, dtype=np.uint64) // np.uint64(2)
    loss, slope = np.empty(n), np.empty_like(x)
    slopes(x, hidden, features, rules, nowhere, one, seeds, 0.3, False, loss, slope)
    kept = slope[:, second].reshape(n, hidden, hidden).any(axis=2)
    assert kept.mean() == pytest.approx(0.7, abs=0.04)
    assert (kept[::2] == kept[1::2]).all()  # equal seeds
    assert (kept[2::2] != kept[:-2:2]).any(axis=1).mean() > 0.9  # others


# Whoever stands beside whom


@example(seed=0, dropout=0.3)
@given(seed=SEEDS, dropout=st.sampled_from([0.0, 0.3]))
@pytest.mark.parametrize("plan", [PLANS[1], PLANS[4], PLANS[5], PLANS[7]], ids=str)
@settings(max_examples=5)
def test_chunks_change_no_bit(plan, seed, dropout):
    homes = population(seed, n_homes=12)
    task = task_of(homes, plan, dropout=dropout, hidden=16)
    engine = Engine(plan, cohorts=Cohorts(0.7, broken=0.2))
    together = played(Batched(homes, task), engine)
    for chunk, rows in ((1, 64), (5, 64), (64, 3)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fedrule.federated.trainers.evidence, "AT_ONCE", rows)
            apart = played(Batched(homes, task), replace(engine, at_once=chunk))
        assert_alike(together, apart, bitwise=True)


@settings(max_examples=5)
@given(seed=SEEDS)
def test_threads_change_no_bit(seed):
    homes, plan = population(seed, n_homes=12), PLANS[1]
    trainer = Batched(homes, task_of(homes, plan, dropout=0.3))
    engine = Engine(plan, at_once=2)
    one = played(trainer, engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batched, "threads", 3)
        assert_alike(one, played(trainer, engine), bitwise=True)


@settings(max_examples=5)
@given(seed=SEEDS, draws=st.sampled_from([0, 2]))
def test_what_is_kept_of_lessons_changes_no_bit(seed, draws):
    homes, plan = population(seed, n_homes=12), PLANS[1]
    task, engine = task_of(homes, plan, draws=draws), Engine(plan, cohorts=Cohorts(0.4))
    trainer = Batched(homes, task)
    together = played(trainer, engine, rounds=6)
    assert sorted(trainer.kept) == list(range(draws))
    for limits in ({"KEPT_BYTES": 0}, {"TOGETHER": 0}):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in limits.items():
                patch.setattr(fedrule.federated.trainers.evidence, name, value)
            assert_alike(together, played(Batched(homes, task), engine, rounds=6), bitwise=True)


@settings(max_examples=10)
@given(seed=SEEDS)
def test_a_client_is_asked_the_same_whoever_is_asked_beside_it(seed):
    homes = population(seed, n_homes=8)
    task = task_of(homes, PLANS[0])
    clients = np.flatnonzero(np.bincount(homes.rules.home, minlength=homes.n_homes))
    model = task.layout.flat(task.scorer.initial(torch.Generator()))
    asked = {"number": 4, "model": model}
    together = Lessons.none(homes.n_homes).with_more(task, homes, clients, **asked)
    apart = Lessons.none(homes.n_homes)
    for client in clients[::-1]:
        apart = apart.with_more(task, homes, np.array([client]), **asked)
    assert together.asked(clients).tolist() == apart.asked(clients).tolist()
    for client in together.asked(clients):
        one, other = (slice(t.begin[client], t.begin[client] + t.many[client]) for t in (together, apart))
        assert together.features[one].tobytes() == apart.features[other].tobytes()
        assert together.positive[one].tolist() == apart.positive[other].tolist()


# What it is for


def test_it_trains_evidence_alone_and_leaves_the_rest_to_others():
    homes = planted_homes()
    task = task_of(homes, PLANS[0])
    assert is_evidence(task)
    assert isinstance(trainer_of(homes, task), Batched)
    two_terms = replace(task, scorer=replace(task.scorer, terms=task.scorer.terms * 2))
    other = replace(task, objective=lambda logits, *_: logits.sum())
    assert not is_evidence(two_terms)
    assert not is_evidence(other)
    assert {bce, ranking} == set(OBJECTIVES.values())


def test_a_client_whose_model_is_no_number_is_refused_and_the_others_go_on():
    homes = planted_homes()
    task = task_of(homes, Plan(1, 0.1, 0.1))
    trainer = Batched(homes, task)
    model = task.layout.flat(task.scorer.initial(torch.Generator().manual_seed(1)))
    lessons = trainer.begin(0, np.flatnonzero(trainer.rules), model).lessons
    first = lessons.asked(np.arange(homes.n_homes))[0]
    lessons.features[lessons.begin[first]] = np.nan
    trainer.kept[0] = lessons
    trainer = replace(trainer, task=replace(task, draws=2))
    engine = Engine(task.plan)
    state, report = engine.step(trainer, engine.begin(trainer, model), seed=5)
    assert report.refused == 1
    assert report.clients == len(lessons.asked(np.arange(homes.n_homes))) - 1
    assert np.isfinite(state.model).all()
    assert np.isfinite(report.loss)


def test_a_home_that_could_have_nothing_else_has_nothing_to_learn():
    # One lamp that switches itself is all that there is: a rule and no non-rule, loss 0.
    homes = toy_homes([ToyHome(0, ("Light",), (("Light", 0, "Light"),))])
    task = replace(task_of(homes, Plan(2, 0.1, 0.1)), hidden=0.0)
    trainer = Batched(homes, task)
    state, (report,) = played(trainer, Engine(task.plan), rounds=1)
    assert (report.loss, report.clients) == (0.0, 1)
    assert state.model.tobytes() == task.layout.flat(task.scorer.initial(torch.Generator().manual_seed(1))).tobytes()
