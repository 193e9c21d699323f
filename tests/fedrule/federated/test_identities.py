"""What federated methods come to where something is switched off: control parameters, one another, gradient descent."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated engine needs the extra graph")
pytest.importorskip("torch_geometric", reason="the federated engine needs the extra graph")
pytest.importorskip("numba", reason="the federated engine needs the extra graph")

import torch

from baselines.contract import all_pairs, planted_homes
from baselines.registry import build
from fedrule.federated.algorithm import Hyperparameters, ServerOptimizer
from fedrule.federated.cohort import Cohorts
from fedrule.federated.rounds import Engine
from fedrule.federated.trainers.kernel import KernelTrainer
from fedrule.federated.trainers.trainer import TorchTrainer
from tests.support.small_populations import Setting, control, population
from tests.support.valleys import LAYOUT, Valleys, descended

TRAINERS = [TorchTrainer, KernelTrainer]
PLANTED = planted_homes()


def scores(method: str, **options: object) -> bytes:
    short = {"rounds": 4, "hidden": 4, "predictor_hidden": 5, "learning_rate": 0.3} | options
    model = build(method, **short).fit(PLANTED, rng=np.random.default_rng(1))
    return model.score_pairs(PLANTED, *all_pairs(PLANTED)).tobytes()


# Control parameters


@pytest.mark.parametrize("tau", [1, 3])
def test_with_lambda_one_and_everybody_there_delta_is_the_mean_gradient_less_the_mean_over_clients(tau):
    valleys = Valleys.of([1, 4, 2], [0, 1, -1])
    state, _ = descended(Engine(Hyperparameters(tau, 0.1, 0.05, algorithm="fedgate")), valleys, 4)
    mean = np.array([np.mean(valleys.gradients[3, k], axis=0) for k in range(3)])  # of the last round
    for k in range(3):
        np.testing.assert_allclose(control(state, LAYOUT, k, "fedgate"), mean[k] - mean.mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("weighting", ["clients", "rules"])
@pytest.mark.parametrize("participation", [1.0, 0.6])
def test_control_parameters_of_all_weigh_up_to_zero_whoever_takes_part(weighting, participation):
    # Those of a round change by p_k less the weighted mean of p_k over the round, and that weighs up to zero.
    for share in (1.0, 0.6):
        h = Hyperparameters(2, 0.2, 0.3, algorithm="fedrule", theta_lambda=share, phi_lambda=share)
        setting = Setting(population(1, bare=False), Engine(h, cohorts=Cohorts(participation), weighting=weighting))
        state, _ = setting.played(KernelTrainer(setting.homes, setting.task), 5)
        weight = setting.rule_counts if weighting == "rules" else np.ones(setting.homes.n_homes)
        delta = [control(state, setting.task.layout, k, "fedgate") for k in range(setting.homes.n_homes)]
        assert np.abs(weight @ delta).max() < 1e-5
        assert np.abs(delta).max() > 1e-2


# One another


def test_with_equal_rates_fedrule_is_fedgate():
    for options in (
        {},
        {"participation": 0.5},
        {"server_optimizer": "plain", "server_rate": 1.0, "weighting": "rules"},
    ):
        assert scores("fedrule", **options) == scores("fedgate", **options)
    assert scores("fedrule", predictor_rate=0.2) != scores("fedgate")
    assert scores("fedrule", gnn_lambda=0.5) != scores("fedgate")


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "kept-adam"])
def test_with_lambda_zero_fedrule_is_fedgnn(optimizer):
    off = {"gnn_lambda": 0.0, "predictor_lambda": 0.0}
    options = {"client_optimizer": optimizer, "participation": 0.5, "learning_rate": 0.1, "predictor_rate": 0.2}
    assert scores("fedrule", **off, **options) == scores("fedgnn", **options)
    assert scores("fedrule", **options) != scores("fedgnn", **options)


def test_a_weak_pull_makes_fedprox_nearly_fedgnn_and_a_strong_one_does_not():
    near, far, without = (
        np.frombuffer(scores(name, **options), dtype=np.float32)
        for name, options in (("fedprox", {"proximal": 1e-6}), ("fedprox", {"proximal": 1.0}), ("fedgnn", {}))
    )
    np.testing.assert_allclose(near, without, atol=1e-4)
    assert np.abs(far - without).max() > 1e-3


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.__name__)
def test_while_everybody_is_there_gate_is_scaffold(trainer):
    gate, scaffold = (
        Setting(population(2), Engine(Hyperparameters(3, 0.2, 0.3, algorithm=algorithm)))
        for algorithm in ("fedgate", "scaffold")
    )
    one, other = (each.played(trainer(each.homes, each.task), 5)[0] for each in (gate, scaffold))
    np.testing.assert_allclose(one.model, other.model, rtol=0, atol=1e-6)
    np.testing.assert_allclose(one.shared, other.shared, rtol=0, atol=1e-6)
    np.testing.assert_allclose(one.clients.own.dense, other.clients.own.dense, rtol=0, atol=1e-6)


def test_with_partial_participation_gate_is_not_scaffold():
    gate, scaffold = (
        Setting(
            population(2, bare=False), Engine(Hyperparameters(3, 0.2, 0.3, algorithm=algorithm), cohorts=Cohorts(0.6))
        )
        for algorithm in ("fedgate", "scaffold")
    )
    one, other = (each.played(KernelTrainer(each.homes, each.task), 5)[0] for each in (gate, scaffold))
    assert np.abs(one.model - other.model).max() > 1e-3


# Gradient descent


def descent(setting: Setting, steps: int, rate: float, each: int = 1) -> np.ndarray:
    """Gradient descent on the mean loss of all homes, in float64; candidates change after `each` steps."""
    layout = setting.task.layout
    x = {n: v.double().requires_grad_() for n, v in layout.parameters(setting.start).items()}
    for step in range(steps):
        losses = setting.asked(step // each).values()
        slopes = torch.autograd.grad(torch.stack([loss(x) for loss in losses]).mean(), list(x.values()))
        x = {n: (v - rate * g).detach().requires_grad_() for (n, v), g in zip(x.items(), slopes, strict=True)}
    return layout.flat({name: value.float() for name, value in x.items()})


CORRECTIONS = [{}, {"algorithm": "fedgate"}, {"algorithm": "fedrule", "phi_lambda": 0.5}, {"algorithm": "scaffold"}]


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.__name__)
@pytest.mark.parametrize("options", CORRECTIONS)
@pytest.mark.parametrize("draws", [0, 1])
def test_one_client_is_gradient_descent(trainer, options, draws):
    homes = population(1).subset(np.array([0]))
    setting = Setting(homes, Engine(Hyperparameters(3, 0.2, 0.2, **options)), draws=draws)
    state, _ = setting.played(trainer(homes, setting.task), 4)
    np.testing.assert_allclose(state.model, descent(setting, 12, 0.2, each=3), rtol=0, atol=1e-5)


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.__name__)
@pytest.mark.parametrize("options", [*CORRECTIONS, {"algorithm": "fedprox", "proximal": 1.0}])
def test_one_local_step_is_gradient_descent_on_the_mean_loss(trainer, options):
    setting = Setting(population(3), Engine(Hyperparameters(1, 0.3, 0.3, **options)))
    state, _ = setting.played(trainer(setting.homes, setting.task), 5)
    np.testing.assert_allclose(state.model, descent(setting, 5, 0.3), rtol=0, atol=1e-5)


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.__name__)
def test_the_servers_rate_stretches_a_single_step(trainer):
    # x - r (eta g) with eta = 0.1, r = 3 is a step of 0.3.
    setting = Setting(population(3), Engine(Hyperparameters(1, 0.1, 0.1), ServerOptimizer("plain")), rate=3.0)
    state, _ = setting.played(trainer(setting.homes, setting.task), 5)
    np.testing.assert_allclose(state.model, descent(setting, 5, 0.3), rtol=0, atol=1e-5)


def test_several_local_steps_are_not():
    setting = Setting(population(3), Engine(Hyperparameters(3, 0.3, 0.3)))
    state, _ = setting.played(KernelTrainer(setting.homes, setting.task), 2)
    assert np.abs(state.model - descent(setting, 6, 0.3, each=3)).max() > 1e-3
