"""The account of a private run: it agrees with two others, and behaves as privacy must."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.common.errors import DataError
from datasets.common.gaussian_mechanism import disclosed_epsilon, multiplier_for, secret_normals, seeded_normals
from fedrule.federated import private
from fedrule.federated.private import (
    ORDERS,
    Account,
    Mechanism,
    epsilon_of,
    renyi_divergences,
    renyi_epsilon,
    share_of_noise,
)
from tests.support.privacy_loss import reference_epsilon

pytest.importorskip("opacus")

# Epsilon by Google's dp-accounting 0.6.0, which does not fit our pins; in an environment of its own:
#   from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, pld
#   account = pld.PLDAccountant(value_discretization_interval=1e-5 if z > 3 or counts > 8 else 1e-4)
#   account.compose(GaussianDpEvent(counts)) if counts else account
#   account.compose(PoissonSampledDpEvent(q, GaussianDpEvent(z)) if q < 1 else GaussianDpEvent(z), rounds)
#   account.get_epsilon(delta)
GOOGLE = [  # counts (0: none), q, z, rounds, delta, epsilon
    (0, 0.1, 1.0, 100, 1e-6, 8.05861),
    (0, 64 / 76218, 1.0, 400, 1e-6, 0.10704),
    (0, 2000 / 76218, 1.0, 400, 1e-6, 3.85553),
    (0, 5000 / 76218, 1.0, 100, 1e-6, 5.33124),
    (10, 0.1, 4.0, 100, 1e-5, 1.05555),
    (20, 0.25, 8.0, 60, 5e-4, 0.65418),
    (5, 0.05, 0.7, 50, 1e-5, 6.18342),
    (3, 0.02, 0.8, 200, 4e-6, 3.77445),
    (0, 0.5, 20.0, 50, 5e-4, 0.43665),
    (30, 0.5, 60.0, 100, 5e-4, 0.19656),
    (1.5, 0.2, 2.0, 40, 1e-5, 4.28979),
    (4, 1.0, 12.0, 30, 1e-5, 2.08425),
]


def run(counts: float, q: float, z: float, rounds: int) -> list[Mechanism]:
    return [*([Mechanism(counts)] if counts else []), Mechanism(z, q, rounds)]


@pytest.mark.parametrize(("counts", "q", "z", "rounds", "delta", "epsilon"), GOOGLE)
def test_epsilon_agrees_with_googles_accountant_within_one_percent(counts, q, z, rounds, delta, epsilon):
    assert epsilon_of(run(counts, q, z, rounds), delta) == pytest.approx(epsilon, rel=0.01)


@pytest.mark.parametrize(("counts", "q", "z", "rounds", "delta", "_epsilon"), GOOGLE)
def test_epsilon_agrees_with_a_plain_convolution_of_privacy_losses_within_one_percent_and_is_never_below(
    counts, q, z, rounds, delta, _epsilon
):
    steps = [*([(counts, 1.0, 1)] if counts else []), (z, q, rounds)]
    epsilon, expected = epsilon_of(run(counts, q, z, rounds), delta), reference_epsilon(steps, delta)
    assert 0.999 * expected <= epsilon <= 1.01 * expected


@pytest.mark.parametrize(("q", "z"), [(0.001, 0.7), (0.1, 1.0), (0.5, 20.0), (1.0, 3.0)])
def test_divergences_of_whole_orders_are_those_of_opacus_and_bound_epsilon(q, z):
    from opacus.accountants.analysis.rdp import compute_rdp

    few = [order for order in ORDERS if order <= 96]  # from 1,030 on its binomials overflow, and it is slow before
    expected = compute_rdp(q=q, noise_multiplier=z, steps=1, orders=few)
    found = renyi_divergences(Mechanism(z, q))
    np.testing.assert_allclose(found[: len(few)], expected, rtol=1e-6, atol=1e-12)
    assert epsilon_of([Mechanism(z, q)], 1e-6) <= 1.005 * renyi_epsilon(found, 1e-6) + 2e-4


z_values, q_values, n_rounds = st.floats(0.5, 20), st.floats(0.01, 0.9), st.integers(1, 60)


@settings(max_examples=5, deadline=None)
@given(z=z_values, q=q_values, rounds=n_rounds, counts=st.floats(1, 30))
def test_epsilon_grows_with_rounds_and_sampling_and_falls_with_noise(z, q, rounds, counts):
    base, room = epsilon_of(run(counts, q, z, rounds), 1e-5), 1.005  # twice the error that is allowed for
    assert epsilon_of(run(counts, q, z, 2 * rounds), 1e-5) >= base / room
    assert epsilon_of(run(counts, min(1.2 * q, 1), z, rounds), 1e-5) >= base / room
    assert epsilon_of(run(counts, q, 1.2 * z, rounds), 1e-5) <= base * room
    assert epsilon_of(run(1.2 * counts, q, z, rounds), 1e-5) <= base * room
    assert epsilon_of([Mechanism(counts)], 1e-5) <= base * room


@settings(max_examples=5, deadline=None)
@given(
    mechanisms=st.lists(
        st.builds(Mechanism, z_values, st.sampled_from([0.05, 0.3, 1.0]), st.integers(1, 5)), min_size=2, max_size=4
    ),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_mechanisms_does_not_matter_nor_how_repetitions_are_written(mechanisms, order):
    shuffled = [*mechanisms]
    order.shuffle(shuffled)
    single = [Mechanism(m.noise_multiplier, m.sampling_rate) for m in shuffled for _ in range(m.times)]
    epsilon = epsilon_of(mechanisms, 1e-5)
    assert epsilon_of(shuffled, 1e-5) == epsilon
    assert epsilon_of(single, 1e-5) == pytest.approx(epsilon, rel=1e-9)


def test_sums_without_sampling_are_one_gaussian_sum():
    # 1/4^2 + 30/12^2 = 0.0625 + 0.2083 = 0.2708, so z = 1.9215.
    assert epsilon_of(run(4, 1.0, 12.0, 30), 1e-5) == pytest.approx(disclosed_epsilon(0.2708333**-0.5, 1e-5), rel=1e-6)


def test_nothing_released_is_epsilon_zero():
    assert epsilon_of([], 1e-5) == 0
    assert epsilon_of([Mechanism(1.0, 0.1, 0)], 1e-5) == 0


@pytest.mark.parametrize(
    ("epsilon", "delta", "q", "rounds", "share"),
    [(8.0, 5e-4, 0.5, 20, 0.0), (1.0, 4e-6, 0.1, 50, 0.3), (0.5, 4e-5, 0.2, 20, 0.5), (2.0, 1e-5, 1.0, 10, 0.25)],
)
def test_the_noise_for_a_budget_meets_it_and_one_percent_less_does_not(epsilon, delta, q, rounds, share):
    account = Account.within(epsilon, delta=delta, sampling_rate=q, rounds=rounds, counts_share=share)
    assert account.after(rounds) <= epsilon * (1 + 1e-9)
    assert account.after(0) == pytest.approx(share * epsilon)
    less = Account(delta, 0.99 * account.noise_multiplier, q, rounds, account.counts)
    assert less.after(rounds) > epsilon
    spent = [account.after(done) for done in range(rounds + 1)]
    assert spent == sorted(spent)


def test_epsilon_after_some_rounds_is_that_of_these_rounds_alone():
    account = Account(1e-5, 2.0, 0.1, 100, counts=5.0)
    assert account.after(40) == pytest.approx(epsilon_of(run(5.0, 0.1, 2.0, 40), 1e-5), rel=0.01)


def test_a_mesh_that_would_be_too_large_is_coarser_and_still_an_upper_bound(monkeypatch):
    rounds = [Mechanism(0.5, 0.01, 200)]
    fine = private.Mesh.of(rounds, 1e-5, 0.001)
    monkeypatch.setattr(private, "MOST_CELLS", 2**14)
    coarse = private.Mesh.of(rounds, 1e-5, 0.001)
    assert len(coarse.domain.ts) < 1.1 * 2**14 < len(fine.domain.ts)  # rounded up to a length of fast transforms
    assert fine.error == 0.001 < coarse.error
    least = fine.estimate([200], 1e-5)
    assert least <= fine.epsilon([200], 1e-5) <= coarse.epsilon([200], 1e-5) <= least + 2 * coarse.error


def test_who_knows_the_cohorts_learns_as_much_as_without_sampling():
    account = Account.within(2.0, delta=1e-5, sampling_rate=0.1, rounds=20, counts_share=0.5)
    without = Account(1e-5, account.noise_multiplier, 1.0, 20, account.counts)
    for done in (0, 1, 20):
        assert account.known_cohorts(done) == pytest.approx(without.after(done))
    assert account.known_cohorts(20) > 2 * account.after(20)


@pytest.mark.parametrize(("epsilon", "share"), [(100.0, 0.5), (100.0, 0.8), (40.0, 0.9)])
def test_a_large_epsilon_leaves_counts_and_rounds_the_least_noise_that_is_accounted_for(epsilon, share):
    # 0.8 of 100 would allow the counts a multiplier below 0.2, for which there is no account with sampling.
    account = Account.within(epsilon, delta=1e-5, sampling_rate=0.1, rounds=40, counts_share=share)
    assert account.counts == 0.2
    assert 0.99 * epsilon <= account.after(40) <= epsilon


def test_a_budget_that_cannot_be_met_is_refused_in_words():
    with pytest.raises(DataError, match="no noise gives epsilon 0 at delta"):
        Account.within(0.0, delta=1e-5, sampling_rate=0.1, rounds=10)
    with pytest.raises(DataError, match=r"counts_share must be in \[0, 1\), got 1"):
        Account.within(1.0, delta=1e-5, sampling_rate=0.1, rounds=10, counts_share=1.0)
    with pytest.raises(DataError, match="leaves nothing; use a larger epsilon or delta"):
        multiplier_for(1e-9, 1e-12)
    with pytest.raises(DataError, match="epsilon 1e-09 is too small to be accounted for where homes are sampled"):
        Account.within(1e-9, delta=1e-3, sampling_rate=0.5, rounds=3)
    with pytest.raises(DataError, match="delta must be in"):
        Account.within(1.0, delta=0.0, sampling_rate=0.1, rounds=10)


def test_too_little_noise_is_no_privacy():
    assert epsilon_of([Mechanism(0.1, 0.5, 10)], 1e-5) == math.inf


@settings(max_examples=20, deadline=None)
@given(threshold=st.integers(1, 20), more=st.integers(0, 5), scale=st.floats(0.1, 10))
def test_shares_of_noise_reach_the_whole_noise_once_the_threshold_is_met(threshold, more, scale):
    size, present = 20_000, threshold + more
    total = sum(
        share_of_noise(size, scale, threshold=threshold, normals=seeded_normals(7, client)) for client in range(present)
    )
    # The variance of n draws has a relative standard deviation of sqrt(2 / n) = 0.01.
    assert np.var(total) == pytest.approx(scale**2 * present / threshold, rel=0.06)
    assert np.mean(total) == pytest.approx(0, abs=6 * scale * math.sqrt(present / threshold / size))


def test_secret_noise_is_normal_and_never_repeats():
    one, other = secret_normals(50_001), secret_normals(50_001)
    assert len(one) == 50_001
    assert not np.array_equal(one, other)
    # Moments of the normal distribution: 0, 1, 0, 3; their standard errors here are 0.0045 and sqrt(2, 15, 96 / n).
    for power, expected, error in ((1, 0, 0.0045), (2, 1, 0.0063), (3, 0, 0.0173), (4, 3, 0.0438)):
        assert np.mean(one**power) == pytest.approx(expected, abs=6 * error)
