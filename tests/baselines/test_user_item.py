"""User-item methods against plain references: small sums by hand, loops over homes, and other solvers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit, logit

from baselines.contract import PLANTED, RELATIONS, TYPES, ToyHome, all_pairs, planted_homes, toy_homes
from baselines.ease import Ease
from baselines.itemknn import ItemNeighbours
from baselines.items import Items, UserItemModel
from baselines.mf import logistic_fold_in, ranking_fold_in
from baselines.popularity import Popularity
from baselines.random import RandomOrder
from baselines.registry import build
from datasets import DataError, Rules
from tests.support.strategies import homes as random_homes

CONTACT, LIGHT, MOTION, PLUG, SIREN = TYPES
ON, MOTION_ON, OFF, RING = range(len(RELATIONS))


def fit(method, homes, seed=0):
    return method.fit(homes, rng=np.random.default_rng(seed))


def score_of(fitted, homes, home, rule):
    """The score of one typed rule for one home."""
    trigger, action = all_pairs(homes)
    types = np.array(TYPES)[homes.device_type]
    (row,) = np.flatnonzero(
        (homes.device_home[trigger] == home) & (types[trigger] == rule[0]) & (types[action] == rule[2])
    )
    return fitted.score_pairs(homes, trigger, action)[row, rule[1]]


def users_and_items(homes):
    """The typed rules in order, and the 0-1 matrix of homes x typed rules, by loops."""
    typed = list(zip(homes.rules.home, *homes.typed(), strict=True))
    items = sorted({(t, a, r) for _, t, r, a in typed})
    matrix = np.zeros((homes.n_homes, len(items)))
    for home, t, r, a in typed:
        matrix[home, items.index((t, a, r))] = 1.0
    return items, matrix


def expected_pairs(homes, items, scores):
    """[n_pairs, n_relations] from scores of homes x items; NaN where there is no item or the home has no rule."""
    trigger, action = all_pairs(homes)
    expected = np.full((len(trigger), len(homes.relations)), np.nan)
    for n, (t, a) in enumerate(zip(trigger, action, strict=True)):
        for r in range(len(homes.relations)):
            item = (homes.device_type[t], homes.device_type[a], r)
            home = homes.device_home[t]
            if item in items and (homes.rules.home == home).any():
                expected[n, r] = scores[home, items.index(item)]
    return expected


# random


def test_random_scores_are_spread_evenly_and_differ_by_seed():
    homes = planted_homes()
    one, other = (fit(RandomOrder(), homes, seed).score_pairs(homes, *all_pairs(homes)) for seed in (0, 1))
    assert one.min() >= 0
    assert one.max() < 1
    # The mean of 792 uniform numbers is off 0.5 by about 0.29 / sqrt(792) = 0.01.
    assert one.size == 792
    assert abs(one.mean() - 0.5) < 0.05
    assert len(np.unique(one)) == one.size
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.15


# popularity

THREE_OF_FOUR = toy_homes(
    [
        ToyHome(1, (CONTACT, LIGHT, PLUG), ((CONTACT, ON, LIGHT), (CONTACT, ON, PLUG))),
        ToyHome(2, (CONTACT, LIGHT), ((CONTACT, ON, LIGHT),)),
        ToyHome(3, (CONTACT, LIGHT)),
        ToyHome(4, (MOTION, LIGHT), ((MOTION, OFF, LIGHT),)),
    ]
)


def test_popularity_counts_homes_and_mixes_in_the_rate_of_the_relation_over_all_types():
    # Open -> Power On: from ContactSensor to Light in 2 homes, 3 own both; to Plug in 1, 1 owns both; in all 3 times.
    # Ordered pairs of types owned: 3 * 3 + 2 * 2 + 2 * 2 + 2 * 2 = 21, a rate of (3 + 0.5) / (21 + 1) per owned pair;
    # counting every home for each of the 5 * 5 pairs of types: (3 + 0.5) / (4 * 25 + 1).
    owned, counted = 3.5 / 22, 3.5 / 101
    cases = [
        ("owners", (CONTACT, ON, LIGHT), (2 + 2 * owned) / (3 + 2)),
        ("owners", (CONTACT, ON, PLUG), (1 + 2 * owned) / (1 + 2)),
        ("type_pair", (CONTACT, ON, LIGHT), (2 + 2 * counted) / (4 + 2)),
        ("type_pair", (CONTACT, ON, PLUG), (1 + 2 * counted) / (4 + 2)),
        ("global", (CONTACT, ON, LIGHT), counted),
        ("global", (LIGHT, ON, CONTACT), counted),
        # No home uses Open -> Ring, a rate of (0 + 0.5) / (21 + 1): it is answered, and far down.
        ("owners", (CONTACT, RING, LIGHT), (0 + 2 * 0.5 / 22) / (3 + 2)),
    ]
    for by, rule, share in cases:
        fitted = fit(Popularity(by=by, smoothing=2.0), THREE_OF_FOUR)
        assert score_of(fitted, THREE_OF_FOUR, 0, rule) == pytest.approx(logit(share), rel=1e-6), (by, rule)


def test_popularity_counts_a_home_once_however_many_devices_carry_the_rule_out():
    # Two lights, both switched by the contact sensor: one home of one has the rule.
    # It owns 2 * 2 pairs of types, a rate of (1 + 0.5) / (4 + 1) = 0.3: (1 + 1 * 0.3) / (1 + 1).
    one_light = toy_homes([ToyHome(1, (CONTACT, LIGHT, LIGHT), ((CONTACT, ON, LIGHT),))])
    both = Rules(home=np.array([0, 0]), trigger=np.array([0, 0]), action=np.array([1, 2]), relation=np.array([ON, ON]))
    homes = replace(one_light, rules=both)
    scores = fit(Popularity(smoothing=1.0), homes).score_pairs(homes, both.trigger, both.action)
    assert scores[:, ON] == pytest.approx(logit((1 + 0.3) / 2))


# EASE


@given(
    homes=random_homes(min_homes=1, max_homes=6),
    strength=st.floats(0.1, 10),
    dropout=st.sampled_from([0.0, 0.5]),
    ownership=st.sampled_from([0.0, 0.5]),
)
def test_ease_solves_its_least_squares_column_by_column(homes, strength, dropout, ownership):
    items, have = users_and_items(homes)
    # Without rule j itself, the column of rule j is a ridge regression: |x_j - X_-j b|^2 + b' L b.
    weight = np.zeros((len(items), len(items)))
    penalty = strength + dropout / (1 - dropout) * have.sum(axis=0)
    for j in range(len(items)):
        others = np.arange(len(items)) != j
        x = have[:, others]
        weight[others, j] = np.linalg.solve(x.T @ x + np.diag(penalty[others]), x.T @ have[:, j])
    for j, (trigger_type, action_type, _) in enumerate(items):
        types = [set(homes.device_type[homes.device_home == home]) for home in range(homes.n_homes)]
        weight[:, j] /= np.mean([{trigger_type, action_type} <= owned for owned in types]) ** ownership
    method = Ease(regularization=strength, dropout=dropout, ownership=ownership)
    got = fit(method, homes).score_pairs(homes, *all_pairs(homes))
    np.testing.assert_allclose(got, expected_pairs(homes, items, have @ weight), rtol=1e-4, atol=1e-6)


# item neighbours


@given(homes=random_homes(min_homes=1, max_homes=6), k=st.integers(1, 4), shrinkage=st.floats(0, 5))
def test_item_neighbours_equal_a_search_through_all_pairs_of_rules(homes, k, shrinkage):
    items, have = users_and_items(homes)
    scores = np.zeros(have.shape)
    for j in range(len(items)):
        alike = []
        for i in range(len(items)):
            both = (have[:, i] * have[:, j]).sum()
            if i != j and both:
                alike.append((both / (np.sqrt(have[:, i].sum() * have[:, j].sum()) + shrinkage), -i))
        for similarity, minus_i in sorted(alike, reverse=True)[:k]:
            scores[:, j] += similarity * have[:, -minus_i]
    got = fit(ItemNeighbours(neighbours=k, shrinkage=shrinkage), homes).score_pairs(homes, *all_pairs(homes))
    np.testing.assert_allclose(got, expected_pairs(homes, items, scores), rtol=1e-5, atol=1e-6)


# matrix factorization


@pytest.fixture
def mf():
    pytest.importorskip("implicit", reason="mf needs the extra mf")
    return lambda **parameters: build("mf", **parameters)


def test_least_squares_fold_in_is_the_closed_form_and_where_training_ends(mf):
    homes = planted_homes()
    method = mf(solver="als", factors=3, regularization=0.2, iterations=200, alpha=4.0)
    fitted = fit(method, homes)
    _, have = users_and_items(homes)
    y = fitted.factors  # [n_items, 3]
    strength = 0.2 * np.sqrt(30 * 3)  # 30 homes, 3 items
    for row, x in zip(have, fitted.fold_in(csr_array(have)), strict=True):
        # Minimise sum_i c_i (p_i - x y_i)^2 + strength |x|^2, c = 4 where the home has the rule and 1 elsewhere.
        c = np.where(row, 4.0, 1.0)
        closed = np.linalg.solve((y.T * c) @ y + strength * np.eye(3), (y.T * c) @ row)
        assert x == pytest.approx(closed, rel=1e-3, abs=1e-4)
    # After many rounds nothing moves any more: the rules' factors are in turn the best for the homes' factors.
    x = fitted.fold_in(csr_array(have))
    for column, item in zip(have.T, y, strict=True):
        c = np.where(column, 4.0, 1.0)
        closed = np.linalg.solve((x.T * c) @ x + strength * np.eye(3), (x.T * c) @ column)
        assert item == pytest.approx(closed, rel=1e-2, abs=1e-3)


HAVE = csr_array(np.array([[1.0, 1, 0, 0, 0], [0, 0, 1, 0, 1], [0, 1, 0, 1, 0]]))
SHARE = np.array([0.3, 0.25, 0.2, 0.15, 0.1])


def test_logistic_fold_in_ends_at_the_minimum_of_its_loss():
    items = np.random.default_rng(0).normal(size=(5, 4))  # two factors, the bias, and the 1 for the home's bias
    items[:, -1] = 1.0
    found = logistic_fold_in(HAVE, items, SHARE, learning_rate=0.5, regularization=0.7, rounds=3000)
    for own, x in zip(HAVE.toarray(), found, strict=True):

        def loss(free, own=own):
            p = expit(items @ [free[0], free[1], 1.0, free[2]])
            # 30 drawn for each of the 2 rules, but no more than there are columns: 4.
            return -(own * np.log(p)).sum() - 4 * (SHARE * np.log(1 - p)).sum() + 0.35 * (free**2).sum()

        best = minimize(loss, np.zeros(3), tol=1e-10).x
        assert x == pytest.approx([best[0], best[1], 1.0, best[2]], abs=1e-3)


def test_ranking_fold_in_ends_at_the_minimum_of_its_loss():
    items = np.random.default_rng(1).normal(size=(5, 3))  # two factors and the bias
    found = ranking_fold_in(HAVE, items, SHARE, learning_rate=0.2, regularization=0.1, rounds=3000)
    for own, x in zip(HAVE.toarray() > 0, found, strict=True):

        def loss(free, own=own):
            score = items @ [*free, 1.0]
            pairs = [(i, j) for i in np.flatnonzero(own) for j in np.flatnonzero(~own)]
            wrong = sum(-SHARE[j] * np.log(expit(score[i] - score[j])) for i, j in pairs)
            return wrong + 0.05 * sum(SHARE[j] for _, j in pairs) * (free**2).sum()

        assert x == pytest.approx([*minimize(loss, np.zeros(2), tol=1e-10).x, 1.0], abs=1e-3)


def test_fold_in_does_not_depend_on_how_homes_are_divided(monkeypatch):
    items = np.random.default_rng(2).normal(size=(5, 4))
    for fold_in in (ranking_fold_in, logistic_fold_in):
        whole = fold_in(HAVE, items, SHARE, learning_rate=0.2, regularization=0.1, rounds=20)
        with monkeypatch.context() as small:
            small.setattr("baselines.mf.CELLS", 5)
            divided = fold_in(HAVE, items, SHARE, learning_rate=0.2, regularization=0.1, rounds=20)
        assert divided == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("solver", ["bpr", "logistic"])
def test_a_home_is_folded_in_near_to_where_training_left_it(mf, solver):
    homes, pairs = planted_homes(), all_pairs(planted_homes())
    fitted = fit(mf(solver=solver, factors=4), homes)
    renamed = replace(homes, users=homes.users + 500)  # the same homes as strangers
    trained, folded = fitted.score_pairs(homes, *pairs), fitted.score_pairs(renamed, *pairs)
    answered = ~np.isnan(trained)
    assert answered.any()
    assert not np.array_equal(trained[answered], folded[answered])
    # Training draws rules at random, the fold-in takes the mean: alike, not equal.
    assert np.corrcoef(trained[answered], folded[answered])[0, 1] > 0.9
    fewer = homes.with_rules(np.arange(1, homes.n_rules))  # a training home that lost a rule is folded in as well
    assert not np.array_equal(fitted.score_pairs(fewer, *pairs), trained, equal_nan=True)


@pytest.mark.parametrize("solver", ["als", "bpr", "logistic"])
def test_every_round_shows_the_model_as_it_stands(mf, solver):
    homes, pairs = planted_homes(), all_pairs(planted_homes())
    seen = []

    def listen(done, of, fitted, values):
        seen.append((done, of, fitted, fitted.score_pairs(homes, *pairs), values))

    method = mf(solver=solver, factors=4, iterations=5)
    fitted = method.fit(homes, rng=np.random.default_rng(0), on_round=listen)
    assert [(done, of) for done, of, *_ in seen] == [(n, 5) for n in range(1, 6)]
    assert (seen[-1][3] == fitted.score_pairs(homes, *pairs))[~np.isnan(seen[-1][3])].all()
    for _, _, earlier, scores, _ in seen:  # and training that went on did not change it
        np.testing.assert_array_equal(earlier.score_pairs(homes, *pairs), scores)
    assert not np.array_equal(seen[0][3], seen[-1][3], equal_nan=True)


def test_mf_does_not_warn_about_threads_of_the_blas(mf, monkeypatch, recwarn):
    import implicit.utils

    monkeypatch.setattr(implicit.utils, "_checked_blas_config", False)
    fit(mf(iterations=1, factors=2), planted_homes())
    assert [str(w.message) for w in recwarn] == []


def test_mf_writes_down_the_parameters_that_its_solver_does_best_with(mf):
    assert mf(solver="bpr").learning_rate > 0
    assert mf(solver="bpr").regularization != mf(solver="als").regularization
    assert mf(solver="bpr", factors=3).factors == 3
    assert mf() == mf(factors=mf().factors, iterations=mf().iterations)


# all of them


def user_item_methods():
    return [Ease(), ItemNeighbours(), "mf"]


@pytest.mark.parametrize("method", user_item_methods(), ids=str)
def test_a_user_item_model_says_where_it_cannot_answer(method, mf):
    fitted = fit(mf() if method == "mf" else method, planted_homes())
    new = toy_homes([ToyHome(1, (CONTACT, LIGHT)), ToyHome(2, (MOTION, LIGHT, CONTACT), ((MOTION, MOTION_ON, LIGHT),))])
    assert np.isnan(score_of(fitted, new, 0, PLANTED)), "nothing is known of the home"
    assert np.isfinite(score_of(fitted, new, 1, PLANTED)), "a new home with a known rule"
    assert np.isnan(score_of(fitted, new, 1, (CONTACT, RING, LIGHT))), "no training home has it"


@pytest.mark.parametrize("method", [Popularity(), *user_item_methods()], ids=str)
def test_devices_of_one_type_share_their_score(method, mf):
    homes = planted_homes()
    fitted = fit(mf() if method == "mf" else method, homes)
    first = homes.device_start[1]  # ContactSensor, Light, Light, MotionSensor
    one, other = (fitted.score_pairs(homes, np.array([first]), np.array([first + n])) for n in (1, 2))
    np.testing.assert_array_equal(one, other)
    assert np.isfinite(one[0, ON])


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("popularity", {"by": "owner"}, "did you mean 'owners'"),
        ("popularity", {"smoothing": 0.0}, "smoothing must be above 0, got 0.0"),
        ("itemknn", {"neighbours": 0}, "neighbours must be at least 1"),
        ("itemknn", {"shrinkage": -1.0}, "shrinkage must be at least 0, got -1.0"),
        ("ease", {"regularization": 0.0}, "regularization must be above 0, got 0.0"),
        ("ease", {"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ("ease", {"ownership": -0.5}, r"ownership must be in \[0, 1\], got -0.5"),
        ("mf", {"solver": "asl"}, "did you mean 'als'"),
        ("mf", {"factors": -1}, "factors must be at least 0, got -1"),
        ("mf", {"alpha": -1.0}, "alpha must be at least 0, got -1.0"),
        ("mf", {"solver": "bpr", "alpha": 4.0}, "mf: solver bpr has no alpha, got 4.0; leave it out"),
        ("mf", {"learning_rate": 0.1}, "mf: solver als has no learning_rate, got 0.1; leave it out"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, parameters, words):
    if name == "mf":
        pytest.importorskip("implicit", reason="mf needs the extra mf")
    with pytest.raises(DataError, match=words):
        build(name, **parameters)


def test_scores_of_the_wrong_shape_are_refused_with_the_right_one():
    class Narrow(UserItemModel):
        def score_items(self, homes, which):
            return self.items.matrix(homes)[which].toarray()[:, :1]

    planted = planted_homes()
    model = Narrow(Items.of(planted), planted)
    with pytest.raises(ValueError, match=r"score_items gave scores of shape \[1, 1\], expected \[1, \d+\]"):
        model.score_pairs(planted, np.array([0]), np.array([0]))
