"""Parts of federated training: layout, server optimizers, cohorts, client states, exact sums, hyperparameters."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated engine needs the extra graph")
pytest.importorskip("torch_geometric", reason="the federated engine needs the extra graph")

import torch
from hypothesis import given
from hypothesis import strategies as st

from datasets import DataError
from fedrule.federated import states as states_module
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.cohort import Cohorts
from fedrule.federated.optimizers import OptimizerState, ServerOptimizer
from fedrule.federated.states import ClientStates, Scratch, ServerState, view_states, write_back
from fedrule.federated.vectors import STEP, FlatParameters, exact_addends
from fedrule.network.encoders import Sizes
from fedrule.network.network import Network
from tests.support.added_algorithm import PULLED

NETWORK = Network(Sizes(3, 5, hidden=4), predictor_hidden=6)
PARAMETERS = NETWORK.initial(torch.Generator().manual_seed(1))
LAYOUT = FlatParameters.of(PARAMETERS)

# Flat parameters


def test_the_gnn_comes_first_then_the_predictor_then_a_row_for_each_relation():
    # 3 types, hidden 4: 2*3*4 + 4 + 2*4*4 + 4 = 64 of the GNN; 2*4*6 + 6 = 54 of the predictor before the rows; and 5
    # rows of 6 weights and a bias, 35.
    assert (LAYOUT.n_theta, LAYOUT.n_dense, LAYOUT.size) == (64, 118, 153)
    assert (LAYOUT.n_rows, LAYOUT.row_length) == (5, 7)
    vector = LAYOUT.flat(PARAMETERS)
    assert vector.dtype == np.float32
    assert vector[:12].tolist() == PARAMETERS["theta.self1"].flatten().tolist()
    second = vector[LAYOUT.in_rows(np.array([1]))[0]]
    assert second[:-1].tolist() == PARAMETERS["phi.relation"][1].tolist()
    assert second[-1] == PARAMETERS["phi.relation_bias"][1]


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 4), st.integers(1, 5), st.sampled_from(["sage", "gcn"]))
def test_parameters_come_back_from_their_vector_in_memory_of_their_own(types, relations, hidden, units, encoder):
    network = Network(Sizes(types, relations, hidden=hidden), encoder, units)
    parameters = network.initial(torch.Generator().manual_seed(0)) | {"bias.extra": torch.ones(2, 3)}
    layout = FlatParameters.of(parameters)
    vector = layout.flat(parameters)
    again = layout.parameters(vector)
    assert len(vector) == layout.size == sum(value.numel() for value in parameters.values())
    assert {name: value.tolist() for name, value in again.items()} == {n: v.tolist() for n, v in parameters.items()}
    for value in again.values():
        value += 1
    assert vector.tobytes() == layout.flat(parameters).tobytes()


def test_a_model_without_the_predictor_has_no_rows():
    layout = FlatParameters.of({"bias.weight": torch.arange(4.0), "theta.x": torch.ones(2)})
    assert (layout.n_theta, layout.n_dense, layout.size, layout.n_rows) == (2, 6, 6, 0)
    assert layout.flat(layout.parameters(np.arange(6, dtype=np.float32))).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_rate_for_the_gnn_and_another_for_all_the_rest():
    rates = LAYOUT.by_part(0.1, 0.2)
    assert rates.tolist() == [0.1] * 64 + [0.2] * 89


# Server optimizers


def steps(rule: str, updates: list[float], rate: float = 0.5, **options: float) -> list[float]:
    server, model, found = ServerOptimizer(rule, **options), np.zeros(1, dtype=np.float32), []
    optimizer_state = server.initial(1)
    for update in updates:
        model, optimizer_state = server.step(model, np.array([update]), optimizer_state, rate)
        found.append(float(model[0]))
    return found


def test_the_servers_steps_are_those_of_their_papers():
    # Updates 2, then -1, rate 0.5, decays 0.9 and 0.99.
    # plain: -0.5 * 2 = -1; + 0.5 = -0.5.
    assert steps("plain", [2, -1]) == [-1, -0.5]
    # momentum: 2, then 0.9 * 2 - 1 = 0.8: -1, -1.4.
    np.testing.assert_allclose(steps("momentum", [2, -1]), [-1, -1.4], rtol=1e-6)
    # Adam: m = 0.2, v = 0.04, corrected 2 and 4: a step of 0.5 * 2 / 2. Then m = 0.18 - 0.1 = 0.08, over 1 - 0.81 is
    # 0.421053; v = 0.0396 + 0.01 = 0.0496, over 1 - 0.9801 is 2.492462, its root 1.578753: a step of 0.133350.
    np.testing.assert_allclose(steps("adam", [2, -1]), [-0.5, -0.633350], rtol=1e-5)
    # Yogi: v = 0 + 0.01 * 4 = 0.04 likewise; then v = 0.04 < 1: + 0.01 = 0.05, over 0.0199 is 2.512563, root 1.585106:
    # a step of 0.5 * 0.421053 / 1.585106 = 0.132815.
    np.testing.assert_allclose(steps("yogi", [2, -1]), [-0.5, -0.632815], rtol=1e-5)
    # Where the square falls below v Yogi takes 0.01 of it off: v = 0.04 - 0.01 * 0.01 = 0.0399 for an update of 0.1,
    # over 0.0199 is 2.005025, root 1.415989; m = 0.18 + 0.01 = 0.19, over 0.19 is 1: a step of 0.353110.
    np.testing.assert_allclose(steps("yogi", [2, 0.1]), [-0.5, -0.853110], rtol=1e-5)


def test_epsilon_keeps_a_tiny_update_tiny():
    # 0.5 * 1e-4 / (1e-4 + 1e-2)
    assert steps("adam", [1e-4], epsilon=1e-2)[0] == pytest.approx(-0.5 * 1e-4 / 0.0101, rel=1e-5)
    assert steps("adam", [1e-4])[0] == pytest.approx(-0.5, rel=1e-3)
    assert steps("adam", [0.0]) == steps("yogi", [0.0]) == [0]


@pytest.mark.parametrize("rule", ["plain", "momentum", "adam", "yogi"])
def test_a_step_of_the_server_changes_nothing_that_it_was_given(rule):
    server = ServerOptimizer(rule)
    model, update = np.ones(3, dtype=np.float32), np.arange(3.0)
    _, optimizer_state = server.step(model, update, server.initial(3), 0.1)
    kept = OptimizerState(optimizer_state.first.copy(), optimizer_state.second.copy(), optimizer_state.steps)
    server.step(model, update, optimizer_state, 0.1)
    assert model.tolist() == [1, 1, 1]
    assert update.tolist() == [0, 1, 2]
    assert (optimizer_state.first.tobytes(), optimizer_state.second.tobytes(), optimizer_state.steps) == (
        kept.first.tobytes(),
        kept.second.tobytes(),
        1,
    )


# Cohorts

CLIENTS = np.arange(1000) * 3 + 1


def test_a_share_of_one_is_everybody_in_order():
    cohort = Cohorts().of(CLIENTS, seed=1, number=0)
    assert cohort.present.tolist() == CLIENTS.tolist()
    assert (cohort.dropped, cohort.late, cohort.corrupted.any()) == (0, 0, False)


@given(st.integers(1, 40), st.sampled_from([0.01, 0.25, 0.5, 0.99]), st.integers(0, 2**62), st.integers(0, 100))
def test_uniform_sampling_takes_the_share_and_at_least_one(n_clients, share, seed, number):
    clients = CLIENTS[:n_clients]
    present = Cohorts(share).of(clients, seed=seed, number=number).present
    assert len(present) == max(round(share * n_clients), 1)
    assert set(present) <= set(clients)
    assert (np.diff(present) > 0).all()


def test_all_clients_are_equally_likely_in_either_sampling():
    # 300 rounds, each of 20 clients in it with probability 0.3: 90 times, with a deviation of sqrt(300 * 0.21) = 7.9.
    for sampling in ("uniform", "poisson"):
        cohorts = Cohorts(0.3, sampling)
        seen = np.concatenate([cohorts.of(CLIENTS[:20], seed=5, number=n).present for n in range(300)])
        times = np.bincount(seen, minlength=CLIENTS[20])[CLIENTS[:20]]
        assert np.abs(times - 90).max() < 4 * 7.9


def test_in_poisson_sampling_a_client_is_in_or_out_by_itself():
    cohorts = Cohorts(0.3, "poisson")
    alone, among = (cohorts.of(CLIENTS[:n], seed=5, number=7).present for n in (50, 1000))
    assert alone.tolist() == among[np.isin(among, CLIENTS[:50])].tolist()
    sizes = {len(cohorts.of(CLIENTS[:50], seed=5, number=n).present) for n in range(20)}
    assert len(sizes) > 3


def test_faults_have_their_shares_and_leave_the_others_as_they_are():
    # Of 1,000: 300 drop out, 100 are late, 100 of the 600 that are left send NaN; deviations of at most 15.
    clean = Cohorts(0.9).of(CLIENTS, seed=2, number=3)
    faulty = Cohorts(0.9, drop_out=0.3, late=0.1, corrupted=0.1).of(CLIENTS, seed=2, number=3)
    assert set(faulty.present) < set(clean.present)
    assert len(faulty.present) + faulty.dropped + faulty.late == len(clean.present) == 900
    assert abs(faulty.dropped - 270) < 56
    assert abs(faulty.late - 90) < 38
    assert abs(int(faulty.corrupted.sum()) - 90) < 38


def test_without_clients_the_cohort_is_empty():
    none = np.zeros(0, dtype=np.int64)
    for cohorts in (Cohorts(), Cohorts(0.5), Cohorts(0.5, "poisson", 0.1, 0.1, 0.1)):
        assert not len(cohorts.of(none, seed=0, number=0).present)


# Hyperparameters


def test_hyperparameters_say_which_clients_keep_what():
    assert not Hyperparameters().corrects
    assert Hyperparameters().row_sparse
    assert Hyperparameters(optimizer="adam").row_sparse
    gate = Hyperparameters(algorithm="fedrule")
    assert gate.corrects
    assert gate.row_sparse
    assert replace(gate, theta_lambda=0.3).row_sparse
    for dense in (
        {"phi_lambda": 0.5},
        {"optimizer": "adam"},
        {"algorithm": PULLED, "proximal": 0.1},
        {"optimizer": "kept-adam"},
    ):
        assert not replace(gate, **dense).row_sparse
    assert not replace(gate, theta_lambda=0.0, phi_lambda=0.0).corrects
    assert replace(gate, optimizer="adam", control="gradients").sends_mean_gradient
    assert not replace(gate, control="gradients").sends_mean_gradient


# Client states

WIDE = FlatParameters(("theta.x", "phi.y"), ((1,), (2,)), n_theta=1, n_rows=4, row_length=2)
GATE = Hyperparameters(algorithm="fedrule")


def one_rule_each(n_clients):
    return np.ones(n_clients, dtype=np.int64)


def test_before_the_first_round_all_states_are_zero():
    for h in (
        Hyperparameters(),
        GATE,
        Hyperparameters(optimizer="kept-adam"),
        replace(GATE, optimizer="kept-adam", phi_lambda=0.5),
    ):
        states = ClientStates.initial(one_rule_each(3), WIDE, h)
        assert states.last.tolist() == [-1, -1, -1]
        assert not any(part.dense.any() or part.rows.any() for part in (states.own, states.first, states.second))
        assert states.own.empty == (not h.corrects)
        assert states.first.empty == (h.optimizer != "kept-adam")
    # Three numbers of 4 bytes before the rows of 3 clients; all four rows of two more where states are dense; and the
    # two moments beside it.
    assert ClientStates.initial(one_rule_each(3), WIDE, Hyperparameters()).nbytes == 0
    assert ClientStates.initial(one_rule_each(3), WIDE, GATE).nbytes == 3 * 3 * 4
    assert ClientStates.initial(one_rule_each(3), WIDE, replace(GATE, phi_lambda=0.5)).nbytes == 3 * 11 * 4
    assert ClientStates.initial(one_rule_each(3), WIDE, replace(GATE, optimizer="kept-adam")).nbytes == 3 * 3 * 11 * 4


ROWS = st.lists(st.lists(st.integers(0, 3), unique=True).map(sorted), min_size=5, max_size=5)


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 4), min_size=1), ROWS, st.integers(0, 31)), max_size=4), st.integers(1, 5)
)
def test_rows_of_clients_are_brought_to_a_round_and_back(rounds, at_once):
    """Against plain dictionaries: each round some clients are asked about some rows and write down new numbers."""
    states, expected = ClientStates.initial(one_rule_each(5), WIDE, GATE), {k: {} for k in range(5)}
    scratch = Scratch()

    def batches(clients):
        rows = [asked[k] for k in clients]
        return np.cumsum([0, *map(len, rows)]), np.array([*chain(*rows)], dtype=np.int64)

    for number, (chosen, asked, fails) in enumerate(rounds):
        clients = np.array(sorted(chosen))
        rows = states.next_rows(clients, *batches(clients))
        for first in range(0, len(clients), at_once):
            some = clients[first : first + at_once]
            chunk = view_states(states, rows, some, *batches(some), GATE, scratch)
            good = np.array([not fails >> k & 1 for k in some])
            for i, k in enumerate(some.tolist()):
                here = slice(chunk.row_start[i], chunk.row_start[i + 1])
                found = dict(zip(chunk.row[here].tolist(), chunk.own.rows[here].tolist(), strict=True))
                # It has all stored rows, with their numbers, and zeros for those that are new in the batch.
                assert found == {r: expected[k].get(r, [0, 0]) for r in sorted({*expected[k], *asked[k]})}
                if good[i]:
                    chunk.own.dense[i] = 100 * number + k
                    chunk.own.rows[here] = chunk.row[here, None] + 10 * number + 1
                    expected[k] = {r: [float(r + 10 * number + 1)] * 2 for r in asked[k]}
            write_back(states, rows, chunk, good, number, scratch)
        states = states.with_rows(rows, clients[[fails >> k & 1 == 1 for k in clients]])
        for k in range(5):
            _, kept = states.rows_of(np.array([k]))
            values = states.own.rows[states.row_start[k] : states.row_start[k + 1]]
            assert dict(zip(kept.tolist(), values.tolist(), strict=True)) == expected[k]
            if k in chosen and not fails >> k & 1:
                assert states.last[k] == number
                assert states.own.dense[k].tolist() == [100 * number + k] * 3


def test_dense_states_of_clients_that_are_not_neighbours_are_written_back():
    h = replace(GATE, optimizer="kept-adam")
    states = ClientStates.initial(one_rule_each(4), WIDE, h)
    for clients in (np.array([0, 3]), np.array([1, 2])):  # copies, and a part of the array itself
        none = np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.int64)
        chunk = view_states(states, None, clients, *none, h, Scratch())
        assert chunk.row.tolist() == [0, 1, 2, 3] * 2
        for value, part in enumerate((chunk.own, chunk.first, chunk.second), 1):
            part.dense[:], part.rows[:] = value, value + 10
        chunk.steps[:] = clients
        write_back(states, None, chunk, np.array([True, True]), 7, Scratch())
    assert states.last.tolist() == [7] * 4
    assert states.steps.tolist() == [0, 1, 2, 3]
    for value, part in enumerate((states.own, states.first, states.second), 1):
        assert (part.dense == value).all()
        assert (part.rows == value + 10).all()


@pytest.mark.parametrize(
    ("h", "why"),
    [
        (replace(GATE, phi_lambda=0.5), "a predictor lambda other than 1"),
        (replace(GATE, optimizer="adam"), "with Adam"),
        (Hyperparameters(optimizer="kept-adam"), "kept-adam keeps two whole vectors for each client"),
        (GATE, "corrections keep the dense part"),
    ],
)
def test_client_states_that_would_not_fit_are_refused_before_training(monkeypatch, h, why):
    monkeypatch.setattr(states_module, "free_bytes", lambda: 10_000_000)
    with pytest.raises(
        DataError, match=rf"the states of 1,000,000 clients need [\d.]+ GB .*, 0\.01 GB are free: .*{why}"
    ):
        ClientStates.initial(one_rule_each(1_000_000), WIDE, h)


def test_the_memory_that_the_error_names_is_that_of_the_vectors(monkeypatch):
    # 11 numbers of 4 bytes: 44 bytes for each of a million clients are 44 MB.
    monkeypatch.setattr(states_module, "free_bytes", lambda: 43_999_999)
    with pytest.raises(DataError, match=r"states of 1,000,000 clients need 0\.044 GB"):
        ClientStates.initial(one_rule_each(1_000_000), WIDE, replace(GATE, phi_lambda=0.5))
    monkeypatch.setattr(states_module, "free_bytes", lambda: 44_000_000)
    states_module.check_memory(one_rule_each(1_000_000), WIDE, replace(GATE, phi_lambda=0.5))


# Sums


@given(st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=50), st.randoms(use_true_random=False))
def test_exact_sums_are_the_same_in_every_order(values, shuffler):
    addends = exact_addends(np.array(values))
    shuffled = addends.copy()
    shuffler.shuffle(shuffled)
    assert float(np.cumsum(addends)[-1]) == float(np.cumsum(shuffled)[-1])
    assert np.abs(addends - values).max() <= STEP / 2
    assert (addends / STEP == np.round(addends / STEP)).all()


# States


def test_a_state_is_its_arrays():
    h = replace(GATE, optimizer="kept-adam")
    states = ClientStates.initial(one_rule_each(2), WIDE, h)
    optimizer_state = ServerOptimizer("adam").initial(WIDE.size)
    model = np.arange(WIDE.size, dtype=np.float32)
    state = ServerState(3, model, optimizer_state, np.ones((2, WIDE.size), np.float32), np.array([0, 2]), states)
    arrays = state.arrays()
    again = ServerState.from_arrays(arrays).arrays()
    assert list(arrays) == list(again)
    assert all(arrays[n].tobytes() == again[n].tobytes() and arrays[n].dtype == again[n].dtype for n in arrays)
