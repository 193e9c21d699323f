"""Rounds with differential privacy: what a home adds is bounded, noise comes before the optimizer, no more leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.registry import build
from datasets.common.errors import DataError
from datasets.common.gaussian_mechanism import seeded_normals
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.cohort import Cohorts, Purpose
from fedrule.federated.optimizers import ServerOptimizer
from fedrule.federated.private import Privacy
from fedrule.federated.rounds import Engine
from fedrule.federated.states import ClientStates
from fedrule.federated.trainers.evidence import EvidenceTrainer
from fedrule.federated.trainers.kernel import KernelTrainer
from fedrule.federated.trainers.trainer import TorchTrainer
from fedrule.federated.vectors import CLIP_STEP, STEP, clip_factor, clip_factors
from fedrule.training.loop import WarmStart
from tests.fedrule.federated.test_evidence_trainer import task_of
from tests.fedrule.federated.test_nodes import deployed
from tests.support.small_populations import Setting, population

TRAINERS = {"kernel": KernelTrainer, "torch": TorchTrainer}
CLIP = 0.01
PRIVATE = Privacy(CLIP, noise_multiplier=1.0, rounds=10)


def engine(privacy: Privacy = PRIVATE, **options) -> Engine:
    options = {"cohorts": Cohorts(0.6, "poisson"), "weighting": "roots"} | options
    return Engine(Hyperparameters(), privacy=privacy, **options)


def sums_of(some: Engine, trainer, model, clients):
    states = ClientStates.initial(trainer.rule_counts, trainer.layout, some.hyperparameters)
    state = some.begin_server(trainer.layout, model, len(trainer.rule_counts))
    return some.train_clients(trainer, states, state.broadcast(), np.asarray(clients, dtype=np.int64)).sums


@given(st.floats(0, 1e6), st.floats(1e-6, 1e3))
def test_a_factor_brings_a_norm_within_the_clip_and_is_the_same_for_one_and_for_many(norm, clip):
    factor = clip_factor(norm, clip)
    assert 0 <= factor <= 1
    assert factor * norm <= clip * (1 + 1e-15)
    assert factor == 1 or factor >= clip / norm - CLIP_STEP
    assert clip_factors(np.array([norm]), clip)[0] == factor


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "kept-adam"])
def test_a_client_adds_at_most_the_clip_to_the_sum_and_keeps_its_direction(trainer, optimizer):
    h = Hyperparameters(optimizer=optimizer)
    plain, clipped = Engine(h), Engine(h, privacy=Privacy(CLIP))
    setting = Setting(population(4, n_homes=9), plain)
    made = TRAINERS[trainer](setting.homes, setting.task)
    for client in np.flatnonzero(made.rule_counts):
        free, bound = (sums_of(some, made, setting.start, [client]).update for some in (plain, clipped))
        room = clipped.privacy.sensitivity(len(bound))
        assert np.linalg.norm(bound) <= room
        factor = min(1.0, CLIP / np.linalg.norm(free))
        assert bound == pytest.approx(factor * free, abs=2e-6 * np.abs(free).max() + STEP)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), weighting=st.sampled_from(["clients", "rules", "roots"]))
def test_of_a_sum_over_a_cohort_one_home_changes_at_most_the_sensitivity(seed, weighting):
    some = engine(weighting=weighting)
    setting = Setting(population(seed, n_homes=6, bare=False), some)
    trainer = KernelTrainer(setting.homes, setting.task)
    everybody = np.arange(6)
    whole = sums_of(some, trainer, setting.start, everybody).update
    for client in everybody:
        others = sums_of(some, trainer, setting.start, np.delete(everybody, client)).update
        assert np.linalg.norm(whole - others) <= some.privacy.sensitivity(len(whole))


def test_evidence_trainer_and_autograd_clip_alike_bit_for_bit_where_their_updates_are():
    homes = population(7, n_homes=8)
    h = Hyperparameters()
    task = task_of(homes, h)
    model = np.random.default_rng(0).normal(size=task.layout.size).astype(np.float32)
    some = Engine(h, privacy=Privacy(CLIP))
    trainers = EvidenceTrainer(homes, task), TorchTrainer(homes, task)
    clients = np.flatnonzero(trainers[0].rule_counts)
    one, other = (sums_of(some, trainer, model, clients).update for trainer in trainers)
    assert one == pytest.approx(other, abs=1e-6)
    for client in clients:
        assert np.linalg.norm(sums_of(some, trainers[0], model, [client]).update) <= some.privacy.sensitivity(len(one))


def test_weights_of_private_runs_are_at_most_one():
    counts = np.array([1, 4, 16, 400])
    assert engine(weighting="roots").weights(counts).tolist() == [0.25, 0.5, 1, 1]  # sqrt(1 / 16), sqrt(4 / 16), ...
    assert engine(weighting="clients").weights(counts).tolist() == [1, 1, 1, 1]
    assert engine(Privacy(), weighting="rules").weights(counts).tolist() == [1, 4, 16, 400]


def test_the_server_uses_the_sum_and_noise_divided_by_the_expected_number_of_homes():
    some = engine(server=ServerOptimizer("plain"))
    setting = Setting(population(4, n_homes=9), some)
    trainer = KernelTrainer(setting.homes, setting.task)
    state = some.begin_server(trainer.layout, setting.start, 9)
    sums = sums_of(some, trainer, setting.start, [0, 1])
    after, report = some.finish_round(state, sums, trainer.layout, n_clients=9, seed=5)
    size = trainer.layout.size
    drawn = seeded_normals(5, Purpose.ROUNDS, 0)(size)
    expected = setting.start - (sums.update + some.privacy.sensitivity(size) * drawn) / (0.6 * 9)
    assert after.model == pytest.approx(expected, abs=1e-6)
    assert report.epsilon == some.privacy.account(9, 0.6).after(1)


def test_noise_repeats_with_a_seed_in_simulations_and_never_without_one():
    some = engine()
    setting = Setting(population(4, n_homes=9), some)
    trainer = KernelTrainer(setting.homes, setting.task)
    state = some.begin_server(trainer.layout, setting.start, 9)
    sums = sums_of(some, trainer, setting.start, [0, 1])
    models = [
        some.finish_round(state, sums, trainer.layout, n_clients=9, seed=s)[0].model for s in (5, 5, 6, None, None)
    ]
    assert models[0].tobytes() == models[1].tobytes()
    assert len({model.tobytes() for model in models}) == 4


def test_a_round_without_any_home_is_noisy_as_well_so_that_nobody_sees_that_it_was_empty():
    some = engine()
    setting = Setting(population(4, n_homes=9), some)
    trainer = KernelTrainer(setting.homes, setting.task)
    state = some.begin_server(trainer.layout, setting.start, 9)
    after, report = some.finish_round(state, sums_of(some, trainer, setting.start, []), trainer.layout, n_clients=9)
    assert not np.array_equal(after.model, setting.start)
    assert report.clients == 0


def test_neither_losses_nor_weights_leave_the_homes_of_a_private_run():
    some = engine()
    setting = Setting(population(4, n_homes=9), some)
    sums = sums_of(some, KernelTrainer(setting.homes, setting.task), setting.start, [0, 1, 2])
    assert (sums.loss, sums.weight) == (0, 0)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_private_homes_on_nodes_are_trained_as_in_the_simulation_bit_for_bit(trainer):
    some = engine()
    setting = Setting(population(4, n_homes=9), some)
    make = TRAINERS[trainer]
    together, _ = setting.played(make(setting.homes, setting.task), 3)
    homes_of = [np.array([0, 4, 5]), np.array([1]), np.array([2, 3, 6, 7, 8])]
    trainers = [make(setting.homes.subset(homes), setting.task, homes) for homes in homes_of]
    apart, _ = deployed(some, trainers, homes_of, setting.start, 3)
    assert together.model.tobytes() == apart.model.tobytes()


def test_all_homes_count_for_the_sampling_rate_of_a_private_run_also_those_without_rules():
    counts = np.array([0, 1, 2, 0])
    assert engine().n_clients(counts) == 4
    assert engine(Privacy()).n_clients(counts) == 2


@pytest.mark.parametrize("algorithm", ["fedrule", "fedgate", "scaffold"])
def test_methods_with_corrections_are_refused_with_the_reason(algorithm):
    with pytest.raises(DataError, match=r"learns who took part last .* fedgnn, fedprox, fedrank"):
        Engine(Hyperparameters(algorithm=algorithm), privacy=PRIVATE)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("fedgnn", {"epsilon": 4.0}, "only if its part is bounded; set clip"),
        ("fedgnn", {"epsilon": 4.0, "noise_multiplier": 1.0, "clip": 0.1}, "not both"),
        ("fedgnn", {"epsilon": -1.0, "clip": 0.1}, "epsilon must be at least 0"),
        ("fedgnn", {"epsilon": 4.0, "clip": 0.1, "delta": 1.0}, r"delta must be in \[0, 1\)"),
        ("fedgnn", {"delta": 1e-5}, "delta has no effect without noise"),
        ("fedgnn", {"epsilon": 4.0, "clip": 0.1, "cohort": 5, "sampling": "uniform"}, "use poisson"),
        ("fedgnn", {"epsilon": 4.0, "clip": 0.1, "validation": 0.2}, "outside of the account of privacy"),
        ("fedgnn", {"epsilon": 4.0, "clip": 0.1, "counts_share": 1.0}, r"counts_share must be in \[0, 1\)"),
        ("fedgnn", {"counts_share": 0.5}, "counts_share is a share of epsilon"),
        ("fedrank", {"noise_multiplier": 1.0, "clip": 0.1}, "its counts over homes need a part of the budget"),
        ("fedrule", {"epsilon": 4.0}, "fedrule: epsilon 4.0 is for methods without corrections"),
        ("fedrule", {"epsilon": 4.0, "gnn_lambda": 0.0, "predictor_lambda": 0.0}, "set clip"),
        ("fedgate", {"epsilon": 4.0}, "fedgate: epsilon 4.0 is for methods without corrections"),
        ("scaffold", {"clip": 0.1}, "scaffold: clip 0.1 is for methods without corrections"),
    ],
)
def test_options_that_cannot_be_private_are_refused_in_words(method, options, message):
    with pytest.raises(DataError, match=message):
        build(method, **options)


def test_sampling_becomes_poisson_by_itself():
    assert build("fedgnn", epsilon=4.0, clip=0.1, cohort=5).sampling == "poisson"
    assert build("fedgnn", epsilon=4.0, clip=0.1).sampling == "uniform"  # all take part
    assert build("fedgnn", cohort=5).sampling == "uniform"


@pytest.mark.parametrize(
    ("method", "options"),
    [("fedgnn", {}), ("fedprox", {}), ("fedgnn", {"bias": "counts"}), ("fedrank", {"evidence": 4, "draws": 2})],
)
def test_a_private_run_repeats_bit_for_bit_and_says_what_it_disclosed_after_each_round(method, options):
    homes, told = population(8, n_homes=60, bare=False), []
    made = build(method, epsilon=30.0, clip=0.1, rounds=4, cohort=30, **options)
    one, again, other = (
        made.fit(homes, rng=np.random.default_rng(seed), on_round=lambda *args: told.append(args[-1]))
        for seed in (1, 1, 2)
    )
    same = [torch.equal(one.parameters[name], again.parameters[name]) for name in one.parameters]
    assert all(same)
    assert any(not torch.equal(one.parameters[n], other.parameters[n]) for n in one.parameters)
    spent = [values["epsilon"] for values in told[:4]]
    assert spent == sorted(spent)
    assert spent[-1] <= 30.0 * (1 + 1e-9)
    assert spent[-1] == pytest.approx(30.0, rel=0.01)
    assert all("loss" not in values for values in told)  # it is not released


def test_a_run_without_privacy_reports_no_epsilon():
    told = []
    build("fedgnn", rounds=1).fit(
        population(8), rng=np.random.default_rng(1), on_round=lambda *args: told.append(args[-1])
    )
    assert "epsilon" not in told[0]


def test_without_counts_all_rules_of_the_vocabularies_are_valid_so_that_they_say_nothing():
    homes = population(8, n_homes=20)
    fitted = build("fedgnn", epsilon=30.0, clip=0.1, rounds=1).fit(homes, rng=np.random.default_rng(1))
    assert len(fitted.scorer.valid) == len(homes.types) ** 2 * len(homes.relations)


def test_counts_from_elsewhere_without_noise_are_refused_in_words():
    homes = population(8, n_homes=20)
    _, counts = build("fedrank").count(homes, np.random.default_rng(0))
    made = build("fedrank", epsilon=30.0, clip=0.1, rounds=1)
    with pytest.raises(DataError, match="outside of the account of privacy; train without them"):
        made.fit(homes, rng=np.random.default_rng(1), warm_start=WarmStart(counts=counts))
    noisy = replace(counts, noisy=True)
    made.fit(homes, rng=np.random.default_rng(1), warm_start=WarmStart(counts=noisy))


def test_noise_longer_than_any_update_is_warned_of_once_at_the_start(caplog):
    # Of 12 homes in every round: noise of z clip / 12 on each of the model's numbers, z sqrt(size) / 12 clips in all.
    some = engine(cohorts=Cohorts())
    setting = Setting(population(5, n_homes=12, bare=False), some)
    trainer = KernelTrainer(setting.homes, setting.task)
    limit = 12 / np.sqrt(setting.task.layout.size)
    enough = replace(some, privacy=Privacy(CLIP, noise_multiplier=0.99 * limit, rounds=2))
    setting.played(trainer, 2, enough)
    assert "noise" not in caplog.text
    too_much = replace(some, privacy=Privacy(CLIP, noise_multiplier=3 * limit, rounds=2), name="fedgnn")
    setting.played(trainer, 2, too_much)
    (warning,) = [record.getMessage() for record in caplog.records if "noise" in record.getMessage()]
    assert warning.startswith("fedgnn: the mean update of a round has an L2 norm of at most clip = 0.01, and its noise")
    assert "one of 0.03, 3 times as much" in warning
    assert "use more homes in a round (now 12 of 12), a larger epsilon" in warning


def test_what_has_no_noise_does_not_leave_a_home():
    setting = Setting(population(5, n_homes=9), engine())
    trainer = KernelTrainer(setting.homes, setting.task)
    clients = np.flatnonzero(trainer.rule_counts)
    exact = sums_of(engine(Privacy()), trainer, setting.start, clients)
    noisy = sums_of(engine(), trainer, setting.start, clients)
    size = len(setting.start)
    assert (exact.integers()[size:] != 0).tolist() == [
        True,
        True,
        True,
        False,
        True,
        False,
    ]  # nobody was refused or keeps a state
    assert noisy.integers()[:size].any()
    assert not noisy.integers()[size:].any()
