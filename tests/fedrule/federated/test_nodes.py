"""A federation whose homes are on several nodes computes what the simulation computes, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.common.errors import DataError
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.cohort import Cohorts
from fedrule.federated.optimizers import ServerOptimizer
from fedrule.federated.rounds import Engine, RoundSum
from fedrule.federated.states import Broadcast, ClientStates
from fedrule.federated.trainers.evidence import EvidenceTrainer
from fedrule.federated.trainers.kernel import KernelTrainer
from fedrule.federated.trainers.trainer import TorchTrainer, Trainer
from tests.fedrule.federated.test_evidence_trainer import task_of
from tests.support.small_populations import Setting, population

ENGINES = {
    "fedavg": Engine(Hyperparameters(), ServerOptimizer("adam")),
    "by rules": Engine(Hyperparameters(), cohorts=Cohorts(0.6), weighting="rules"),
    "by roots": Engine(Hyperparameters(algorithm="fedprox", proximal=0.1), weighting="roots"),
    "fedrule": Engine(Hyperparameters(algorithm="fedrule"), cohorts=Cohorts(0.6)),
    "fedrule, dense": Engine(Hyperparameters(algorithm="fedrule", phi_lambda=0.5), cohorts=Cohorts(0.6)),
    "fedgate": Engine(Hyperparameters(algorithm="fedgate"), cohorts=Cohorts(0.7, corrupted=0.3)),
    "scaffold": Engine(Hyperparameters(algorithm="scaffold"), cohorts=Cohorts(0.7)),
    "kept Adam": Engine(Hyperparameters(optimizer="kept-adam"), cohorts=Cohorts(0.7)),
    "gradients": Engine(Hyperparameters(algorithm="fedrule", optimizer="adam", control="gradients")),
}
TRAINERS = {"kernel": KernelTrainer, "torch": TorchTrainer}


def deployed(
    engine: Engine, trainers: list[Trainer], homes_of: list[np.ndarray], model: np.ndarray, rounds: int, seed: int = 3
):
    """The server's state and the nodes' states after so many rounds, in which nodes see only their own homes."""
    layout, n_homes = trainers[0].layout, sum(len(homes) for homes in homes_of)
    rule_counts = np.zeros(n_homes, dtype=np.int64)
    for trainer, homes in zip(trainers, homes_of, strict=True):
        rule_counts[homes] = trainer.rule_counts
    state = engine.begin_server(layout, model, n_homes)
    nodes = [ClientStates.initial(trainer.rule_counts, layout, engine.hyperparameters) for trainer in trainers]
    for number in range(rounds):
        n_clients = engine.n_clients(rule_counts)
        with_rules = np.flatnonzero(rule_counts)
        cohort = engine.cohorts.of(with_rules, seed=seed, number=number, n_clients=n_clients)
        total, last = None, state.clients.last.copy()
        for i, (trainer, homes) in enumerate(zip(trainers, homes_of, strict=True)):
            mine = np.isin(homes, cohort.present)
            faulty = cohort.corrupted[np.isin(cohort.present, homes)]
            trained = engine.train_clients(trainer, nodes[i], state.broadcast(), np.flatnonzero(mine), faulty=faulty)
            nodes[i] = trained.states
            last[homes[trained.counted]] = number
            total = trained.sums if total is None else trained.sums + total  # in either order
        state = replace(state, clients=replace(state.clients, last=last))
        state, _ = engine.finish_round(state, total, layout, n_clients=n_clients, seed=seed)
    return state, nodes


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("name", ENGINES)
def test_homes_on_three_nodes_are_trained_as_in_the_simulation_bit_for_bit(name, trainer):
    engine, make = ENGINES[name], TRAINERS[trainer]
    setting = Setting(population(4, n_homes=9), engine)
    together, _ = setting.played(make(setting.homes, setting.task), 4)
    homes_of = [np.array([0, 4, 5]), np.array([1]), np.array([2, 3, 6, 7, 8])]
    trainers = [make(setting.homes.subset(homes), setting.task, homes) for homes in homes_of]
    apart, nodes = deployed(engine, trainers, homes_of, setting.start, 4)
    assert together.model.tobytes() == apart.model.tobytes()
    assert together.shared.tobytes() == apart.shared.tobytes()
    assert together.shared_round.tolist() == apart.shared_round.tolist()
    for states, homes in zip(nodes, homes_of, strict=True):
        assert states.last.tolist() == together.clients.last[homes].tolist()
        if not states.own.empty:
            assert states.own.dense.tobytes() == together.clients.own.dense[homes].tobytes()
            start, row = together.clients.rows_of(homes)
            assert (states.row_start.tolist(), states.row.tolist()) == (start.tolist(), row.tolist())


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), cut=st.integers(1, 7))
def test_homes_of_fedrank_on_two_nodes_are_trained_as_in_the_simulation_bit_for_bit(seed, cut):
    homes = population(seed, n_homes=8)
    h = Hyperparameters()
    task, engine = task_of(homes, h, dropout=0.3), Engine(h, ServerOptimizer("adam"), Cohorts(0.7), "roots")
    model = np.random.default_rng(0).normal(size=task.layout.size).astype(np.float32)
    whole = EvidenceTrainer(homes, task)
    state = engine.begin(whole, model)
    for _ in range(3):
        state, _ = engine.step(whole, state, seed=3)
    homes_of = [np.arange(cut), np.arange(cut, 8)]
    trainers = [EvidenceTrainer(homes.subset(part), task, part) for part in homes_of]
    apart, _ = deployed(engine, trainers, homes_of, model, 3)
    assert state.model.tobytes() == apart.model.tobytes()


def sums(seed: int, *, size: int = 7, n_mean_gradient: int = 0, n_shared: int = 2) -> RoundSum:
    rng = np.random.default_rng(seed)
    update, mean_gradient, base_weight = (
        rng.integers(-(2**40), 2**40, n) * 2.0**-30 for n in (size, n_mean_gradient, n_shared)
    )
    weight, loss = (float(rng.integers(0, 2**40) * 2.0**-30) for _ in range(2))
    return RoundSum(update, mean_gradient, base_weight, weight, loss, *(int(n) for n in rng.integers(0, 1000, 4)))


@given(st.lists(st.integers(0, 2**32), min_size=1, max_size=5), st.sampled_from([0, 7]))
def test_sums_as_integers_add_up_to_the_integers_of_the_sum(seeds, n_mean_gradient):
    parts = [sums(seed, n_mean_gradient=n_mean_gradient) for seed in seeds]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    integers = sum(part.integers() for part in parts)
    assert integers.tolist() == whole.integers().tolist()
    again = RoundSum.from_integers(integers, size=7, n_mean_gradient=n_mean_gradient, n_shared=2)
    assert again.integers().tolist() == whole.integers().tolist()
    assert (again.weight, again.loss, again.clients) == (whole.weight, whole.loss, whole.clients)


def test_a_sum_that_is_too_large_or_not_finite_is_no_integer():
    for value in (2.0**24, np.nan, np.inf):
        with pytest.raises(DataError, match="learning rates"):
            replace(sums(0), update=np.full(7, value)).integers()


def test_integers_of_another_model_are_refused():
    with pytest.raises(DataError, match="has 12 numbers, got 15"):
        # 4 numbers and 2 weights, the sums of weights and losses, 4 counts: 12. Of the model with 7: 15.
        RoundSum.from_integers(sums(0).integers(), size=4, n_mean_gradient=0, n_shared=2)


def test_a_client_whose_last_round_the_server_does_not_know_is_refused():
    broadcast = Broadcast(9, np.zeros(3, np.float32), np.zeros((2, 3), np.float32), np.array([2, 5]))
    assert broadcast.group(np.array([5, -1, 2])).tolist() == [1, -1, 0]
    with pytest.raises(DataError, match="no shared vector of round 5, in which client 1 last took part"):
        broadcast.group(np.array([5, 4]))


# What remains different between trainers


def sent_by(trainer: Trainer, engine: Engine, setting: Setting, client: int) -> np.ndarray:
    """The update that one client sends in the first round."""
    states = ClientStates.initial(trainer.rule_counts, trainer.layout, engine.hyperparameters)
    server = engine.begin_server(trainer.layout, setting.start, setting.homes.n_homes)
    return engine.train_clients(trainer, states, server.broadcast(), np.array([client])).sums.update


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_kernel_and_autograd_differ_by_rounding_of_single_precision_alone(seed):
    # One step of rate 1 sends the gradient. Both trainers sum the same products in another order: against the gradient
    # in double precision each may be off by a few units in the last place of the largest number, 2^-24 of it, and half
    # a step of the grid, 2^-31. Rows without an example are zero to the bit in both.
    engine = Engine(Hyperparameters(1, 1.0, 1.0))
    setting = Setting(population(seed, n_homes=3, bare=False), engine)
    layout = setting.task.layout
    for client, loss in setting.asked(0).items():
        parameters = {k: v.double().requires_grad_() for k, v in layout.parameters(setting.start).items()}
        torch.autograd.backward(loss(parameters))
        zero = {k: torch.zeros_like(v) if v.grad is None else v.grad for k, v in parameters.items()}
        exact = np.concatenate(
            [zero[name].numpy().ravel() for name in layout.names]
            + [torch.cat([zero["phi.relation"], zero["phi.relation_bias"][:, None]], dim=1).numpy().ravel()]
        )
        for make in TRAINERS.values():
            found = sent_by(make(setting.homes, setting.task), engine, setting, client)
            assert np.abs(found - exact).max() <= 16 * 2.0**-24 * np.abs(exact).max() + 2.0**-31
            assert not found[exact == 0].any()


def test_chunks_and_threads_change_no_bit_of_what_a_node_sends():
    setting = Setting(population(4, n_homes=9), ENGINES["fedrule"])
    trainer = KernelTrainer(setting.homes, setting.task)
    everybody = np.flatnonzero(trainer.rule_counts)
    found = set()
    for chunk_size in (1, 2, 1024):
        engine = replace(setting.engine, chunk_size=chunk_size)
        states = ClientStates.initial(trainer.rule_counts, trainer.layout, engine.hyperparameters)
        server = engine.begin_server(trainer.layout, setting.start, setting.homes.n_homes)
        found.add(engine.train_clients(trainer, states, server.broadcast(), everybody).sums.integers().tobytes())
    assert len(found) == 1
