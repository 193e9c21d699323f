"""Private counts and the private EASE: one home changes a sum by at most the bound, and noise is what it should be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from baselines.ease import Cooccurrence, Ease
from baselines.items import Items
from datasets import private_counts
from datasets.common.errors import DataError
from datasets.common.gaussian_mechanism import (
    GRID,
    default_delta,
    disclosed_delta,
    disclosed_epsilon,
    multiplier_for,
    noise,
    seeded_normals,
    shared,
    together,
)
from datasets.private_counts import NoisySum
from datasets.valid import ValidRules
from tests.support import strategies
from tests.support.small_populations import population


def without(homes, which):
    return homes.subset(np.delete(np.arange(homes.n_homes), which))


@settings(max_examples=60)
@given(st.data(), strategies.homes(min_homes=1), st.integers(2, 5))
def test_a_home_added_or_removed_changes_each_sum_by_at_most_its_bound(data, homes, max_rules):
    fewer = without(homes, data.draw(st.integers(0, homes.n_homes - 1)))
    valid = ValidRules.of(homes)
    bound = private_counts.pair_bound(max_rules)
    sums = {
        "rules": (lambda some: private_counts.sum_of_rules(some, max_rules=max_rules), math.sqrt(max_rules)),
        "pairs": (lambda some: private_counts.sum_of_pairs(Items(valid).matrix(some), bound=bound), bound),
        "types": (
            lambda some: private_counts.sum_of_pairs(
                private_counts.owned_types(some), bound=private_counts.type_bound(), diagonal=True
            ),
            math.sqrt(6),  # 3 types: 3 pairs and 3 single ones
        ),
    }
    for count, limit in sums.values():
        changed = count(homes) - count(fewer)
        assert np.linalg.norm(changed) <= limit * (1 + 1e-15)


@given(strategies.homes(min_homes=1), st.integers(0, 4))
def test_sums_of_two_parts_of_the_homes_add_up_exactly(homes, cut):
    cut = min(cut, homes.n_homes)
    parts = homes.subset(np.arange(cut)), homes.subset(np.arange(cut, homes.n_homes))
    one, other = (private_counts.sum_of_rules(part, max_rules=2) for part in parts)
    assert np.array_equal(one + other, private_counts.sum_of_rules(homes, max_rules=2))


def test_homes_within_the_bounds_count_fully():
    homes = population(1, n_homes=30)
    valid = ValidRules.of(homes)
    have = Items(valid).matrix(homes)
    exact = (have.T @ have).toarray()
    most = int(np.diff(have.indptr).max())
    total = private_counts.sum_of_rules(homes, max_rules=most)
    assert np.array_equal(total[valid.cell], np.diagonal(exact))
    assert total.sum() == np.diagonal(exact).sum()
    pairs = private_counts.sum_of_pairs(have, bound=private_counts.pair_bound(most))
    assert np.array_equal(private_counts.symmetric(pairs, len(valid), diagonal=np.diagonal(exact)), exact)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("multiplier", [0.5, 1.0, 3.0])
def test_delta_is_the_integral_of_what_the_densities_differ_by(epsilon, multiplier):
    # delta(epsilon) = integral of max(0, p(x) - e^epsilon q(x)), with p, q the densities of N(1, z^2) and N(0, z^2);
    # p is larger from x = 1/2 + epsilon z^2 on.
    first = 0.5 + epsilon * multiplier**2
    difference = lambda x: norm.pdf(x, 1, multiplier) - math.exp(epsilon) * norm.pdf(x, 0, multiplier)  # noqa: E731
    expected, _ = quad(difference, first, first + 40 * multiplier, limit=200)
    assert disclosed_delta(epsilon, multiplier) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@given(st.floats(0.01, 20), st.floats(1e-9, 0.1))
def test_the_multiplier_for_an_epsilon_discloses_just_that(epsilon, delta):
    multiplier = multiplier_for(epsilon, delta)
    assert disclosed_epsilon(multiplier, delta) == pytest.approx(epsilon, rel=1e-4)
    assert disclosed_epsilon(1.01 * multiplier, delta) < epsilon


@given(st.floats(0.1, 100), st.lists(st.floats(0.01, 1), min_size=1, max_size=6))
def test_shares_of_a_budget_disclose_together_what_one_sum_would(multiplier, shares):
    assert together(shared(multiplier, shares)) == pytest.approx(multiplier)


def test_noise_is_on_the_grid_and_of_the_right_size():
    drawn = noise(100_000, 3.0, seeded_normals(1))
    assert np.array_equal(np.round(drawn / GRID) * GRID, drawn)
    assert np.std(drawn) == pytest.approx(3.0, rel=0.02)  # its standard error is 1 / sqrt(2 n) = 0.2 %


def test_the_default_delta_is_below_one_in_all_homes():
    assert default_delta(1000) == pytest.approx(1000**-1.1)
    assert all(default_delta(n) < 1 / n for n in (2, 100, 76218))


def test_what_is_below_the_threshold_becomes_zero_and_the_rest_whole():
    counts = NoisySum(np.array([-4.0, 0.4, 2.9, 3.1, 10.6]), 1.0)
    assert counts.above(3.0).tolist() == [0, 0, 0, 3, 11]
    assert counts.above(0.0).tolist() == [0, 0, 3, 3, 11]


def test_of_cells_that_no_home_has_few_pass_as_valid():
    homes = population(2)
    many = NoisySum.of(np.zeros(45), 1.0, 5.0, seeded_normals(3))
    draws = sum(
        len(private_counts.valid_rules(NoisySum.of(np.zeros(45), 1.0, 5.0, seeded_normals(n)), homes))
        for n in range(200)
    )
    assert many.deviation == 5
    # P(N > 2.5) = 0.00621, of 9,000 cells 56, with a standard deviation of 7.5.
    assert 25 < draws < 90


def test_ease_without_epsilon_keeps_its_bits_and_draws_nothing():
    homes, rng = population(5, n_homes=40), np.random.default_rng(1)
    fitted = Ease().fit(homes, rng=rng)
    exact = Cooccurrence.of(homes)
    assert np.array_equal(fitted.weight, exact.weight / exact.able**0.25)
    assert rng.bit_generator.state == np.random.default_rng(1).bit_generator.state


def test_ease_with_hardly_any_noise_is_ease():
    homes = population(5, n_homes=40)
    most = int(np.diff(Items.of(homes).matrix(homes).indptr).max())
    normals = seeded_normals(1)
    private = Cooccurrence.private(homes, multiplier=1e-7, normals=normals, max_rules=most)
    exact = Cooccurrence.of(homes)
    assert np.array_equal(private.items.valid.cell, exact.items.valid.cell)
    assert private.weight == pytest.approx(exact.weight, abs=1e-5)


def test_private_ease_repeats_with_its_seed_and_reports_what_it_discloses():
    homes, seen = population(5, n_homes=400), []
    options = {"epsilon": 20.0, "popularity": 1.0}
    one, again, other = (
        Ease(**options).fit(homes, rng=np.random.default_rng(seed), on_round=lambda *args: seen.append(args[-1]))
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one.weight, again.weight)
    assert one.weight.shape != other.weight.shape or not np.array_equal(one.weight, other.weight)
    assert seen[0] == {"epsilon": 20.0, "delta": pytest.approx(400**-1.1)}
    scores = one.score_items(homes, np.arange(400))
    assert np.isfinite(scores).all()  # also of homes without rules


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": -1.0}, "epsilon must be at least 0, got -1"),
        ({"epsilon": 1.0, "delta": 1.5}, r"delta must be in \[0, 1\), got 1.5"),
        ({"epsilon": 1.0, "max_rules": 1}, "max_rules must be at least 2, got 1"),
        ({"max_rules": 3}, "have no effect without privacy; set epsilon"),
        ({"popularity": -1.0}, "popularity must be at least 0"),
    ],
)
def test_wrong_options_are_refused_in_words(options, message):
    with pytest.raises(DataError, match=message):
        Ease(**options)


def test_an_epsilon_that_cannot_be_met_is_refused_in_words():
    with pytest.raises(DataError, match="leaves nothing; use a larger epsilon or delta"):
        Ease(epsilon=1e-9, delta=1e-12).fit(population(5), rng=np.random.default_rng(1))
