"""Where training ends is known for quadratic losses: corrected methods find the optimum, the others miss it by as much
as arithmetic says.

f_k(x) = a_k/2 (x - b_k)^2. A local step takes x - b_k to (1 - eta a_k)(x - b_k), so tau of them send
Delta_k = w_k (x - b_k) with w_k = 1 - (1 - eta a_k)^tau.

FedAvg stands still where the Delta_k add up to 0: at sum w_k b_k / sum w_k.
FedProx: its steps go towards m_k = (a_k b_k + mu x) / (a_k + mu) at the rate 1 - eta (a_k + mu), hence the same with
w_k = (1 - (1 - eta (a_k + mu))^tau) a_k / (a_k + mu).
The mean of the losses is lowest where sum a_k (x - b_k) = 0: at sum a_k b_k / sum a_k. A correction lambda delta_k that
equals the client's gradient there leaves it no reason to move.

With a = (1, 4), b = (0, 1), eta = 0.1 and tau = 5:
    FedAvg: w = (1 - 0.9^5, 1 - 0.6^5) = (0.40951, 0.92224), it ends at 0.92224 / 1.33175 = 0.69250;
    FedProx, mu = 1: w = ((1 - 0.8^5) / 2, (1 - 0.5^5) 4 / 5) = (0.33616, 0.775), at 0.775 / 1.11116 = 0.69747;
    the optimum is 4 / 5 = 0.8.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated engine needs the extra graph")

from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.cohort import Cohorts
from fedrule.federated.optimizers import ServerOptimizer
from fedrule.federated.rounds import Engine
from tests.support.added_algorithm import PULLED
from tests.support.valleys import LAYOUT, Valleys, descended

TWO = Valleys.of([1, 4], [0, 1])
CORRECTED = {
    "fedgate": {"algorithm": "fedgate"},
    "fedrule, less": {"algorithm": "fedrule", "theta_lambda": 0.5, "phi_lambda": 0.7},
    "fedrule, GNN less": {"algorithm": "fedrule", "theta_lambda": 0.3},
    "fedrule, two rates": {"algorithm": "fedrule", "phi_rate": 0.05},
    "fedrule with a pull": {"algorithm": PULLED, "proximal": 1.0},
    "scaffold": {"algorithm": "scaffold"},
}


def engine(options: dict, *, server: str = "plain", participation: float = 1.0, weighting: str = "clients") -> Engine:
    h = Hyperparameters(5, **({"theta_rate": 0.1, "phi_rate": 0.1} | options))
    return Engine(h, ServerOptimizer(server, epsilon=1e-3), Cohorts(participation), weighting)


@pytest.mark.parametrize(("options", "end"), [({}, 0.69250), ({"algorithm": "fedprox", "proximal": 1.0}, 0.69747)])
def test_without_correction_local_steps_end_beside_the_optimum(options, end):
    state, _ = descended(engine(options), TWO, 60)
    np.testing.assert_allclose(state.model, end, atol=1e-5)
    assert abs(state.model[0] - 0.8) > 0.1


@pytest.mark.parametrize("options", CORRECTED.values(), ids=CORRECTED)
def test_every_correction_ends_at_the_optimum(options):
    state, _ = descended(engine(options), TWO, 80)
    np.testing.assert_allclose(state.model, 0.8, atol=1e-3)


@pytest.mark.parametrize("name", ["fedgate", "scaffold"])
@pytest.mark.parametrize(("server", "rate"), [("momentum", 0.1), ("adam", 0.05), ("yogi", 0.05)])
def test_whatever_the_server_does_with_updates(name, server, rate):
    state, _ = descended(engine(CORRECTED[name], server=server), TWO, 150, rate=rate)
    np.testing.assert_allclose(state.model, 0.8, atol=1e-3)


# Two clients pull a model equally far in opposite directions, so that it stays. With c = eta a and 3 local steps the
# corrected gradients g_t - delta of a client are (1 - c)^t times the first, and their mean is m = 1 - c + c^2 / 3 times
# it. Hence delta <- m g_0 + (1 - m) delta, which grows without end where |c - c^2 / 3| > 1, that is where
# c > (3 + sqrt(21)) / 2 = 3.79. Factors: c = 3.7: 3.7 - 13.69 / 3 = -0.863; c = 3.9: 3.9 - 15.21 / 3 = -1.17.


@pytest.mark.parametrize("algorithm", ["fedrule", "fedgate", "scaffold"])
@pytest.mark.parametrize(("curvature", "factor"), [(37.0, -0.863), (39.0, -1.17)])
def test_a_correction_grows_from_round_to_round_where_rate_times_curvature_is_too_high(algorithm, curvature, factor):
    apart = Valleys.of([curvature, curvature], [1, -1])

    def strayed(rounds: int) -> np.ndarray:  # delta of the first client, from where it would come to rest
        state, _ = descended(Engine(Hyperparameters(3, algorithm=algorithm)), apart, rounds)
        np.testing.assert_allclose(state.model, 0, atol=1e-3)
        delta = state.clients.own.dense[0] - state.shared[-1, : LAYOUT.n_dense]
        return delta + curvature  # g_0 = a (0 - 1)

    np.testing.assert_allclose(strayed(10) / strayed(9), factor, atol=2e-3)


def test_without_a_correction_nothing_is_carried_into_the_next_round():
    apart = Valleys.of([39.0, 39.0], [1, -1])
    state, _ = descended(Engine(Hyperparameters(3)), apart, 100)
    np.testing.assert_allclose(state.model, 0, atol=1e-3)


def test_control_parameters_end_as_the_gradients_at_the_optimum():
    # a (0.8 - b) = 0.8 and 4 (0.8 - 1) = -0.8; lambda delta_k is that, and the server's share of it is 0.
    for options in ({"algorithm": "scaffold"}, {"algorithm": "fedrule", "theta_lambda": 0.5, "phi_lambda": 0.5}):
        state, _ = descended(engine(options), TWO, 80)
        delta = state.clients.own.dense - state.shared[-1, : LAYOUT.n_dense]
        share = options.get("theta_lambda", 1.0)
        np.testing.assert_allclose(share * delta, [[0.8, 0.8], [-0.8, -0.8]], atol=1e-3)
        np.testing.assert_allclose(state.shared, 0, atol=1e-3)


@pytest.mark.parametrize("options", CORRECTED.values(), ids=CORRECTED)
def test_rows_that_only_some_clients_touch_end_where_those_want_them(options):
    # Row 0 is of both clients, row 1 of the second alone, row 2 of the first alone.
    curvature = np.array([[1.0, 1, 1, 0, 1], [4, 4, 4, 4, 0]])
    lowest = np.array([[0.0, 0, 0, 9, 3], [1, 1, 1, 2, 9]])
    state, _ = descended(engine(options), Valleys(curvature, lowest, np.array([1, 1])), 80)
    np.testing.assert_allclose(state.model, [0.8, 0.8, 0.8, 2, 3], atol=1e-3)


def test_weights_move_the_optimum_to_the_weighted_mean():
    # Clients of 1 and 4 rules: the optimum is (1 * 1 * 0 + 4 * 4 * 1) / (1 * 1 + 4 * 4) = 16 / 17; by roots 8 / 9.
    uneven = Valleys(TWO.curvature, TWO.lowest, np.array([1, 4]))
    for options in (CORRECTED["fedgate"], CORRECTED["scaffold"]):
        for weighting, end in (("rules", 16 / 17), ("roots", 8 / 9)):
            state, _ = descended(engine(options, weighting=weighting), uneven, 60)
            np.testing.assert_allclose(state.model, end, atol=1e-3)


# Three clients of which two take part in a round, lambda 1. Let s_k be the last shared_k of client k, g_k its last mean
# gradient: delta_k = g_k - s_k, and it sends p_k = g_k(new) - delta_k = s_k + g_k(new) - g_k. Who takes part gets
# the mean of these p_k, so that the sum of all s_k changes by just what the sum of all g_k does, and as both begin with
# 0 they stay the same. Training stands still where all s_k are 0, and there the gradients of *all* clients add up to 0,
# whoever took part last. The server's c of scaffold is the mean of all c_k likewise.


@pytest.mark.parametrize("options", CORRECTED.values(), ids=CORRECTED)
def test_with_two_of_three_clients_a_round_every_correction_still_ends_at_the_optimum(options):
    # (1 * 0 + 4 * 1 + 2 * -1) / 7 = 2 / 7
    three = Valleys.of([1, 4, 2], [0, 1, -1])
    _, models = descended(engine(options, participation=2 / 3), three, 160)
    np.testing.assert_allclose(models[-20:], np.full((20, LAYOUT.size), 2 / 7), atol=1e-3)


def test_with_two_of_three_clients_a_round_nothing_else_comes_to_rest():
    three = Valleys.of([1, 4, 2], [0, 1, -1])
    for options in ({}, {"algorithm": "fedprox", "proximal": 1.0}):
        _, models = descended(engine(options, participation=2 / 3), three, 80)
        assert np.ptp(models[-40:], axis=0).min() > 0.3


def test_what_is_shared_sums_up_to_the_gradients_whoever_takes_part():
    three = Valleys.of([1, 4, 2], [0, 1, -1])
    algorithm = engine({"algorithm": "fedgate"}, participation=2 / 3)
    for rounds in (1, 2, 5, 11):
        state, _ = descended(algorithm, three, rounds)
        there = np.flatnonzero(state.clients.last >= 0)
        shared = state.shared[np.searchsorted(state.shared_round, state.clients.last[there]), : LAYOUT.n_dense]
        own = state.clients.own.dense[there]  # lambda 1: the mean gradient of the last round
        np.testing.assert_allclose(shared.sum(axis=0), own.sum(axis=0), atol=1e-5)


def test_clients_that_fail_now_and_then_do_not_move_the_optimum():
    three = Valleys.of([1, 4, 2], [0, 1, -1])
    for options in (CORRECTED["fedgate"], CORRECTED["scaffold"]):
        h = Hyperparameters(5, 0.1, 0.1, **options)
        faulty = Engine(h, cohorts=Cohorts(drop_out=0.3, late=0.1, corrupted=0.1))
        _, models = descended(faulty, three, 160)
        np.testing.assert_allclose(models[-20:], np.full((20, LAYOUT.size), 2 / 7), atol=1e-3)
