"""Homes cut into pieces keep every rule, and pieces own what their rules use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datasets
from datasets.common.errors import DataError
from datasets.homes import Homes, Rules
from datasets.readers.filters import cut_homes
from tests.support.real_data import needs_real
from tests.support.strategies import homes as some_homes


def spelled(homes, user_of=lambda user: user):
    """Every rule as (user, trigger id, relation, action id)."""
    rules, ids = homes.rules, homes.device_ids
    users = [user_of(str(homes.users[h])) for h in rules.home.tolist()]
    columns = zip(users, rules.trigger, rules.relation, rules.action, strict=True)
    return sorted((user, str(ids[t]), int(r), str(ids[a])) for user, t, r, a in columns)


@given(some_homes(), st.integers(1, 4))
def test_no_rule_is_lost_and_none_is_made(whole, rules):
    pieces = cut_homes(whole, rules)
    assert spelled(pieces, lambda user: user.rpartition("/")[0]) == spelled(whole)


@given(some_homes(), st.integers(1, 4))
def test_pieces_own_the_devices_that_their_rules_use(whole, rules):
    pieces = cut_homes(whole, rules)
    used = np.union1d(pieces.rules.trigger, pieces.rules.action)
    idle = np.setdiff1d(np.arange(pieces.n_devices), used)
    without = np.flatnonzero(np.bincount(pieces.rules.home, minlength=pieces.n_homes) == 0)
    assert np.isin(pieces.device_home[idle], without).all()


def five_rules(group=None):
    rules = Rules([0] * 5, [0, 0, 1, 1, 2], [1, 2, 0, 2, 0], [0] * 5, group)
    return Homes("five", ("lamp",), (("on", "off"),), ["anna"], [0, 0, 0], [0, 0, 0], [7, 8, 9], rules)


def test_five_rules_in_pieces_of_two_are_three_homes():
    pieces = cut_homes(five_rules(), 2)
    assert np.bincount(pieces.rules.home).tolist() == [2, 2, 1]
    assert pieces.users.tolist() == ["anna/0", "anna/1", "anna/2"]
    # Rules 0 and 1 use devices 7, 8 and 9; 2 and 3 too; the last is from 9 to 7.
    assert np.bincount(pieces.device_home).tolist() == [3, 3, 2]


def test_rules_of_one_automation_stay_together():
    # Automation 4 has the rules 0, 3 and 4, automation 6 the rules 1 and 2: the second begins at place 1, in piece 0.
    assert np.bincount(cut_homes(five_rules([4, 6, 6, 4, 4]), 1).rules.home).tolist() == [3, 2]


def test_nought_leaves_homes_whole_and_less_is_refused():
    whole = five_rules()
    assert cut_homes(whole, 0) is whole
    with pytest.raises(DataError, match=r"cut must be .* got -1"):
        cut_homes(whole, -1)


@needs_real("home-assistant-2")
def test_real_homes_are_cut_by_an_option():
    homes = datasets.load("home-assistant", min_pair_count=11, cut=6)
    assert homes.n_homes > 1000
