"""Membership attacks: certain where a model has memorised, a coin where there is nothing to see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")

from fedrule.audit.membership import auc, found_at, likelihood_ratios
from fedrule.audit.run import membership_values, random_halves


def plain_auc(score, positive):
    """Over all pairs, one by one."""
    pairs = [(a > b) + (a == b) / 2 for a in score[positive] for b in score[~positive]]
    return sum(pairs) / len(pairs)


@given(st.lists(st.tuples(st.sampled_from([-np.inf, 0.0, 1.0, 2.5, np.inf]), st.booleans()), min_size=2, max_size=30))
def test_auc_is_the_share_of_pairs_in_the_right_order(drawn):
    score, positive = np.array([each[0] for each in drawn]), np.array([each[1] for each in drawn])
    if positive.all() or not positive.any():
        assert np.isnan(auc(score, positive))
    else:
        assert auc(score, positive) == pytest.approx(plain_auc(score, positive))


def test_found_at_counts_the_members_above_all_but_a_share_of_the_others():
    score = np.array([5.0, 3.0, 1.0, 4.0, 2.0, 0.0])
    member = np.array([True, True, True, False, False, False])
    # The highest of the others is 4: one of three members is above it. With one false alarm allowed the bar is 2.
    assert found_at(score, member, 0.0) == pytest.approx(1 / 3)
    assert found_at(score, member, 0.34) == pytest.approx(2 / 3)


def test_a_likelihood_ratio_is_that_of_two_normal_distributions():
    # Shadows with the home: 1 and 3, mean 2; without: 5 and 7, mean 6; variance (1 + 1 + 1 + 1) / (4 - 2) = 2.
    shadows, member = np.array([[1.0], [3.0], [5.0], [7.0]]), np.array([[True], [True], [False], [False]])
    # At 3: ((3 - 6)^2 - (3 - 2)^2) / (2 * 2) = 2.
    assert likelihood_ratios(np.array([3.0]), shadows, member).tolist() == [2.0]


def test_losses_that_have_nothing_to_do_with_membership_give_an_auc_of_a_half():
    member = random_halves(8, 400, 1)
    loss = np.random.default_rng(2).normal(size=member.shape) + np.arange(400)  # homes differ, members do not
    values, trials = membership_values(loss, member)
    # About 1,600 members and as many others: a standard deviation of sqrt(1 / (12 * 1600) * 2) = 0.010; four of them,
    # and as much for scores of one home depending on each other.
    assert trials > 3000
    assert abs(values["auc"] - 0.5) < 0.06


def test_a_model_that_memorised_its_homes_gives_them_away():
    member = random_halves(8, 100, 1)
    loss = np.where(member, 0.1, 1.0) + np.random.default_rng(2).normal(size=member.shape) * 0.05
    values, _ = membership_values(loss, member)
    assert values["auc"] > 0.99
    assert values["found at 1 % false alarms"] > 0.9


def test_homes_that_no_shadow_tells_about_are_left_out():
    member = np.array([[True, True], [True, False], [True, True], [True, False]])  # home 0 is in all
    values, trials = membership_values(np.random.default_rng(0).normal(size=(4, 2)), member)
    assert trials == 4
    assert 0 <= values["auc"] <= 1
