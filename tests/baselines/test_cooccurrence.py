"""Which rules go together: the scores of `ease`, and for a home left out those of a fit without it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import baselines.ease
from baselines.contract import planted_homes
from baselines.cooccurrence import regularized_inverse
from baselines.ease import Cooccurrence, Ease
from tests.support.strategies import homes

CLOSE = {"rtol": 1e-8, "atol": 1e-10}


def every_item(together, some):
    """Home and item of every cell."""
    n = len(together.items)
    return np.repeat(np.arange(some.n_homes), n), np.tile(np.arange(n), some.n_homes)


def some_rules(some, seed):
    return some.with_rules(np.random.default_rng(seed).random(some.n_rules) < 0.5)


@given(seed=st.integers(0, 99), n_homes=st.integers(1, 6), noise=st.booleans())
def test_the_inverse_is_that_of_the_whole_matrix(seed, n_homes, noise):
    """Of few homes many rules have the same ones; with noise on the counts no two rules do."""
    rng = np.random.default_rng(seed)
    have = (rng.random((n_homes, 20)) < 0.3).astype(np.float64)
    together = have.T @ have
    if noise:
        together += np.diag(rng.random(20))
    expected = np.linalg.inv(together + np.diag(0.2 / 0.8 * np.diagonal(together)) + 3 * np.eye(20))
    found = regularized_inverse(together, regularization=3.0, dropout=0.2)
    np.testing.assert_allclose(found, expected, **CLOSE)


@given(some=homes(min_homes=1), seed=st.integers(0, 9))
def test_scores_are_sums_of_the_weights_of_ease(some, seed):
    together = Cooccurrence.of(some, regularization=3.0, dropout=0.2)
    ease = Ease(regularization=3.0, dropout=0.2, ownership=0.0).fit(some, rng=np.random.default_rng(0))
    assert together.weight.tolist() == ease.weight.tolist()
    known = some_rules(some, seed)  # fewer than in training
    expected = together.items.matrix(known).toarray() @ together.weight
    found = together.scores(known, *every_item(together, known))
    np.testing.assert_allclose(found, expected.ravel(), **CLOSE)


@given(some=homes(min_homes=2), seed=st.integers(0, 9), home=st.integers(0, 4))
def test_a_home_left_out_is_scored_by_a_fit_without_it(some, seed, home):
    assume(home < some.n_homes)
    known = some_rules(some, seed)
    together = Cooccurrence.of(some, regularization=3.0, dropout=0.0)
    others = Cooccurrence.of(some.subset(np.arange(some.n_homes) != home), regularization=3.0, dropout=0.0)
    number = np.searchsorted(others.items.valid.cell, together.items.valid.cell)
    there = np.append(others.items.valid.cell, -1)[number] == together.items.valid.cell
    # What no other home has goes with nothing: 0, as for an item that is not there.
    item = np.where(there, number, -1)
    expected = others.scores(known, np.full(len(item), home), item)
    found = together.scores(known, np.full(len(item), home), np.arange(len(item)), leave_out=some)
    np.testing.assert_allclose(found, expected, **CLOSE)


@given(some=homes(min_homes=1), seed=st.integers(0, 9), left_out=st.booleans())
def test_scores_do_not_depend_on_how_many_homes_are_scored_at_a_time(some, seed, left_out):
    together, known = Cooccurrence.of(some), some_rules(some, seed)
    home, item = every_item(together, some)
    asked = np.random.default_rng(seed).random(len(home)) < 0.6
    leave_out = some if left_out else None
    at_once = together.scores(known, home[asked], item[asked], leave_out=leave_out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines.ease, "CELLS", 1)
        one_by_one = together.scores(known, home[asked], item[asked], leave_out=leave_out)
    np.testing.assert_allclose(one_by_one, at_once, **CLOSE)


def test_what_has_no_item_scores_0():
    train = planted_homes()
    scores = Cooccurrence.of(train).scores(train, np.array([0, 1, 1]), np.array([-1, 0, -1]), leave_out=train)
    assert scores[[0, 2]].tolist() == [0, 0]
    assert scores[1] != 0


def test_nothing_asked_is_answered_with_nothing():
    train, none = planted_homes(), np.zeros(0, dtype=np.int64)
    assert Cooccurrence.of(train).scores(train, none, none).shape == (0,)
