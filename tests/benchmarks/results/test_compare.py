"""Statistics between methods, against hand arithmetic, SciPy, all draws of few homes, and simulation."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.results.compare import (
    LEVEL,
    Comparison,
    Estimate,
    Panel,
    compare,
    holm,
    no_metric,
    ratio,
    student_p,
    student_quantile,
)
from benchmarks.results.leaderboard import boards, interval_scope, leaderboard, tie_groups
from benchmarks.results.store import Overrides, Result, Store, load_results
from datasets.common.errors import DataError
from tests.benchmarks.results.test_store import KEY


def panel(totals, weights=None, methods=None, seeds=None):
    """Methods a, b, ... with one run each unless said otherwise; every home weighs 1."""
    totals = np.asarray(totals, dtype=float)
    weights = np.ones_like(totals) if weights is None else np.asarray(weights, dtype=float)
    methods = methods or tuple("abcdefgh"[: totals.shape[1]])
    return Panel(methods, seeds or (0,) * totals.shape[1], totals, weights)


def keep(folder, method, values, *, n_hidden=None, seed=0, users=None, fingerprint="0" * 16, metric="mrr", **key):
    """A result on disk with these MRR of homes, or values of another metric."""
    n_hidden = np.ones(len(values), dtype=int) if n_hidden is None else np.asarray(n_hidden)
    users = np.arange(len(values)) if users is None else users
    homes = pd.DataFrame({"user": users, "n_hidden": n_hidden, metric: np.asarray(values, dtype=float)})
    homes["unanswered"] = 0
    own = replace(
        KEY, method=method, parameters={}, seed=seed, fingerprint=fingerprint, split={**KEY.split, "seed": seed}
    )
    summary = {metric: float(np.average(values, weights=n_hidden)), "hr@10": 0.5, "unanswered": 0.0}
    more = {name: key.pop(name) for name in ("commit", "versions", "overrides", "warnings") if name in key}
    made = {"summary": summary, "counts": {"homes": len(values)}, "written": "today", "warnings": (), **more}
    result = Result(replace(own, **key), **made)
    return Store(folder).save(result, homes, pd.DataFrame({"user": users}))


def test_holm_multiplies_the_smallest_by_all_the_next_by_one_less_and_never_goes_down():
    # sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1 = 0.04, 0.06, 0.06, 0.04; the last may not be below the third
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    # 3 * 0.4 and 2 * 0.5 are cut off at 1
    assert holm([0.5, 0.4, 0.9]) == [1.0, 1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_stepping_down_by_hand_rejects(p):
    adjusted = holm(p)
    assert all(a >= b for a, b in zip(adjusted, p, strict=True))
    alpha = 0.05
    rejected = set()
    for step, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):  # the definition, word for word
        if p[index] * (len(p) - step) >= alpha:
            break
        rejected.add(index)
    assert {i for i, value in enumerate(adjusted) if value < alpha} == rejected


@given(st.floats(0, 60), st.floats(1, 1e4))
def test_students_t_is_scipys(t, freedom):
    assert student_p(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-9, abs=1e-300)
    assert student_p(-t, freedom) == student_p(t, freedom)


@given(st.floats(1e-4, 0.99), st.floats(1, 1e4))
def test_the_quantile_of_students_t_is_scipys(p, freedom):
    assert student_quantile(p, freedom) == pytest.approx(stats.t.isf(p / 2, freedom), rel=1e-9)


def test_the_value_of_a_run_is_the_mean_over_hidden_rules_and_not_over_homes():
    # home 1: one rule with 1.0; home 2: three rules with 0.2 on average; (1 * 1.0 + 3 * 0.2) / 4 = 0.4
    made = panel([[1.0], [0.6]], weights=[[1.0], [3.0]])
    assert made.values() == pytest.approx([0.4])


def resampled_homes(made, rng, resamples=20_000):
    """[resamples, n_runs]: the runs' values on homes drawn with replacement, each with all of its rules."""
    homes = len(made.totals)
    times = rng.multinomial(homes, np.full(homes, 1 / homes), size=resamples)
    return (times @ made.totals) / (times @ made.weights)


def test_the_error_over_homes_is_that_of_a_bootstrap_over_homes():
    rng = np.random.default_rng(1)
    weight = rng.integers(1, 6, 80).astype(float)[:, None]
    made = panel(weight * rng.beta(1, 3, (80, 1)), weight)
    found = made.estimate([0])
    # A bootstrap of n homes has (n - 1) / n of the variance; 20,000 draws give a standard deviation to 0.5 %.
    assert resampled_homes(made, rng).std() == pytest.approx(found.error * np.sqrt(79 / 80), rel=0.03)
    assert found.freedom == 79
    assert np.isnan(found.spread)


def test_three_homes_and_two_seeds_by_hand():
    # One rule per home. Seeds: (0.1 + 0.2 + 0.6) / 3 = 0.3 and (0.3 + 0.4 + 0.8) / 3 = 0.5; mean 0.4.
    # Homes around the mean of their seed: -0.2, -0.1, 0.3 and -0.2, -0.1, 0.3. Every entry of D is the sum of products
    # 0.04 + 0.01 + 0.09 = 0.14 over 2 * 3: 0.14 / 6. So A = 0.14 / 6, and no home is easier with one of the seeds:
    # E = 0. Variance of 0.3 and 0.5: 0.02; B = 0.02 / 2 = 0.01.
    made = panel([[0.1, 0.3], [0.2, 0.4], [0.6, 0.8]], methods=("a", "a"), seeds=(0, 1))
    found = made.estimate([0, 1])
    a, b = 0.14 / 6, 0.01
    assert (found.value, found.spread, found.error) == pytest.approx((0.4, np.sqrt(0.02), np.sqrt(a + b)))
    # Two degrees of freedom of three homes, one of two seeds.
    assert found.freedom == pytest.approx((a + b) ** 2 / (a**2 / 2 + b**2 / 1))
    half = stats.t.isf(0.025, found.freedom) * np.sqrt(a + b)
    assert found.interval() == pytest.approx((0.4 - half, 0.4 + half))
    assert found.p() == pytest.approx(2 * stats.t.sf(0.4 / np.sqrt(a + b), found.freedom))


def test_what_hidden_rules_change_from_seed_to_seed_counts_once():
    # Around the means 0.3 of both seeds: -0.2, 0, 0.2 and 0.2, 0, -0.2. D has 0.08 / 6 on the diagonal and -0.08 / 6
    # off it, so A = 0 instead of less than 0. E = 0.16 / 6; the seeds do not differ (0), so B = E / 2 = 0.08 / 6.
    found = panel([[0.1, 0.5], [0.3, 0.3], [0.5, 0.1]], methods=("a", "a"), seeds=(0, 1)).estimate([0, 1])
    assert (found.spread, found.error) == pytest.approx((0, np.sqrt(0.08 / 6)))
    assert found.freedom == pytest.approx(1)  # all of it is of two seeds


def test_homes_count_where_each_of_three_seeds_measured_others_and_seeds_differ_less_than_they_explain():
    # Two homes of each seed, one rule in each: 0.3 +- 0.2, 0.4 +- 0.2, 0.5 +- 0.2; the mean is 0.4. A home changes the
    # value of its seed by 0.2 / 2 = 0.1, so D has 6 / 5 * (0.01 + 0.01) = 0.024 on the diagonal and 0 off it: A = 0,
    # E = 0.024. Variance of 0.3, 0.4 and 0.5: 0.01, less than E, so B = 0.024 / 3 = 0.008.
    own = np.kron(np.eye(3), np.ones((2, 1)))  # six homes, three seeds
    totals = own * (np.array([0.3, 0.4, 0.5]) + np.array([0.2, -0.2] * 3)[:, None])
    found = panel(totals, own, methods=("a",) * 3, seeds=(0, 1, 2)).estimate([0, 1, 2])
    assert (found.value, found.error) == pytest.approx((0.4, np.sqrt(0.008)))
    # q = (0.01 / 0.024)^2 = 0.1736 with 2 degrees of freedom, the rest with the 5 of six homes.
    q = (0.01 / 0.024) ** 2
    assert found.freedom == pytest.approx(1 / ((1 - q) ** 2 / 5 + q**2 / 2))


values = st.floats(0, 1, width=32)


@given(st.lists(st.tuples(values, values, values), min_size=3, max_size=3))
def test_the_covariance_over_homes_is_that_of_all_draws_of_three_homes(homes):
    """Every one of the 3^3 draws instead of a formula; with equal weights the ratio is a mean, and both are exact."""
    table = np.array(homes)
    draws = np.array([table[list(drawn)].mean(axis=0) for drawn in itertools.product(range(3), repeat=3)])
    exact = np.cov(draws.T, bias=True) * 3 / 2  # a bootstrap of 3 homes has 2 / 3 of the variance
    own, common = np.trace(exact) / 3, (exact.sum() - np.trace(exact)) / 6
    scatter = table.mean(axis=0).var(ddof=1)
    of_homes, of_seeds = max(common, 0), max(own - common, scatter) / 3
    found = panel(table, methods=("a",) * 3, seeds=(0, 1, 2)).estimate([0, 1, 2])
    assert found.error**2 == pytest.approx(of_homes + of_seeds, rel=1e-6, abs=1e-15)


def test_crossed_effects_add_up_to_the_error():
    # Homes 0.3 / sqrt(2000), seeds 0.1 / sqrt(400), both together 0.5 / sqrt(2000 * 400): 0.0067, 0.0050 and 0.0006.
    rng = np.random.default_rng(7)
    homes, seeds = rng.normal(0, 0.3, (2000, 1)), rng.normal(0, 0.1, (1, 400))
    made = panel(1 + homes + seeds + rng.normal(0, 0.5, (2000, 400)), methods=("a",) * 400, seeds=tuple(range(400)))
    expected = np.sqrt(0.3**2 / 2000 + 0.1**2 / 400 + 0.5**2 / (2000 * 400))
    assert made.estimate(range(400)).error == pytest.approx(expected, rel=0.03)


@given(st.integers(2, 4), st.integers(2, 6), st.integers(0, 2**32))
def test_the_order_of_homes_and_of_seeds_changes_nothing(seeds, homes, seed):
    rng = np.random.default_rng(seed)
    weights = np.repeat(rng.integers(1, 4, (homes, 1)), seeds, axis=1).astype(float)
    made = panel(rng.random((homes, seeds)), weights, methods=("a",) * seeds, seeds=tuple(range(seeds)))
    one = made.estimate(range(seeds))
    order = rng.permutation(homes)
    other = Panel(made.methods, made.seeds, made.totals[order], weights[order]).estimate(rng.permutation(seeds))
    assert (other.value, other.error, other.spread) == pytest.approx((one.value, one.error, one.spread))
    assert one.freedom >= min(seeds, homes) - 1 - 1e-9
    assert one.error**2 >= one.spread**2 / seeds - 1e-12  # never more certain than the seeds alone allow


def test_a_method_whose_seeds_differ_is_not_known_better_than_they_are():
    # Seeds as those of graphrule on ifttt-fedrule once were, mean 0.1004, and homes 0.05 above and below. The seeds'
    # squared deviations add up to 0.002859, over 4 and 5: B = 1.43e-4. A = 0.0025 / 129 = 1.94e-5. The error is
    # sqrt(1.624e-4) = 0.01274, its degrees of freedom 1.624e-4^2 / (1.43e-4^2 / 4 + 1.94e-5^2 / 129) = 5.16, where
    # 95 % of t are within 2.55; 2.55 * 0.01274 = 0.0325. Over homes alone, 1.98 * 0.0050 = 0.010.
    runs = np.array([0.060, 0.131, 0.107, 0.091, 0.113])
    homes = np.tile([0.05, -0.05], 65)[:, None]
    found = panel(runs + homes, methods=("graphrule",) * 5, seeds=tuple(range(5))).estimate(range(5))
    assert found.freedom == pytest.approx(5.16, abs=0.01)
    assert found.interval() == pytest.approx((0.1004 - 0.0325, 0.1004 + 0.0325), abs=1e-4)


def test_the_interval_of_a_difference_covers_the_truth_about_as_often_as_it_says():
    # Homes share their difficulty, and the rules of a home are alike: a wins by 0.05 on average in every simulation.
    rng = np.random.default_rng(2)
    covered = wrong = 0
    trials = 400
    for _ in range(trials):
        weight = rng.integers(1, 5, (60, 1)).astype(float)
        difficulty, seeds = rng.normal(0.5, 0.3, (60, 1)), rng.normal(0, 0.03, (2, 5))
        a = difficulty + 0.05 + seeds[0] + rng.normal(0, 0.1, (60, 5))
        b = difficulty + seeds[1] + rng.normal(0, 0.1, (60, 5))
        both = panel(
            np.hstack([a, b]) * weight, np.repeat(weight, 10, axis=1), ("a",) * 5 + ("b",) * 5, (*range(5), *range(5))
        )
        found = compare(both, "a", "b")
        covered += found.low <= 0.05 <= found.high
        own = both.estimate(range(5), range(5, 10))
        wrong += replace(own, value=own.value - 0.05).p() < 1 - LEVEL
    # binomial(400, 0.95): standard deviation 4.4
    assert 366 <= covered <= 396
    assert wrong == trials - covered  # p < 0.05 where the interval does not contain 0


def test_pairing_finds_a_difference_that_separate_intervals_hide():
    rng = np.random.default_rng(3)
    difficulty = rng.random(100)
    made = panel(np.stack([difficulty + 0.02, difficulty + rng.normal(0, 0.02, 100)], axis=1))
    found = compare(made, "a", "b")
    assert found.low > 0
    assert found.p < 0.01
    (low_a, _), (_, high_b) = made.estimate([0]).interval(), made.estimate([1]).interval()
    assert low_a < high_b


def test_a_method_against_itself_is_no_difference():
    values = np.random.default_rng(0).random((20, 1))
    found = compare(panel(np.hstack([values, values])), "a", "b")
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_a_difference_without_any_scatter_is_certain():
    assert Estimate(0.1, homes=3, seeds=1, error=0.0, freedom=2).p() == 0.0
    assert Estimate(0.1, homes=3, seeds=1, error=0.0, freedom=2).interval() == (0.1, 0.1)


def test_one_home_or_a_run_without_a_value_has_no_interval_and_no_difference():
    (single, nothing) = panel([[0.5, 0.0]], weights=[[1, 0]]).estimate([0]), panel([[1.0, 0], [0, 0]], [[1, 0], [1, 0]])
    assert single.value == 0.5
    assert np.isnan(single.interval()).all()
    assert single.p() == 1.0
    found = compare(nothing, "a", "b")
    assert np.isnan((found.difference, found.low, found.high)).all()
    assert found.p == 1.0


def test_what_an_interval_is_over_is_said():
    assert interval_scope([5, 3]) == "over homes and seeds"
    assert interval_scope([1, 1]) == "over homes only: one seed"
    assert interval_scope([5, 1]) == "over homes and seeds (over homes only in rows of one seed)"


def test_seeds_are_averaged_and_only_common_ones_compared():
    # a has seeds 0, 1, b has 1, 2: only seed 1 is in both, where a has 4 and b has 1
    made = panel([[2.0, 4.0, 1.0, 9.0]], methods=("a", "a", "b", "b"), seeds=(0, 1, 1, 2))
    found = compare(made, "a", "b")
    assert (found.seeds, found.value_a, found.value_b) == ((1,), 4.0, 1.0)
    with pytest.raises(DataError, match="a and c have no seed in common"):
        compare(panel([[1.0, 2.0]], methods=("a", "c"), seeds=(0, 1)), "a", "c")


def test_homes_are_matched_by_user_whatever_their_order(tmp_path):
    a = keep(tmp_path, "a", [0.1, 0.9], n_hidden=[1, 2], users=["x", "y"])
    b = keep(tmp_path, "b", [0.8, 0.3], n_hidden=[2, 1], users=["y", "x"])
    made = Panel.of([("a", a), ("b", b)], "mrr")
    assert made.totals.tolist() == [[0.1, 0.3], [1.8, 1.6]]
    alike = Panel.of([("a", a), ("b", b)], "mrr_home")
    assert alike.values() == pytest.approx([0.5, 0.55])


def test_runs_on_other_hidden_rules_are_refused(tmp_path):
    runs = [("a", keep(tmp_path, "a", [0.1, 0.9])), ("b", keep(tmp_path, "b", [0.8, 0.3], n_hidden=[2, 1]))]
    with pytest.raises(DataError, match="seed 0: the runs were not tested on the same hidden rules"):
        Panel.of(runs, "mrr")


def test_an_unknown_metric_is_answered_with_the_known_ones(tmp_path):
    with pytest.raises(DataError, match="did you mean 'mrr'"):
        Panel.of([("a", keep(tmp_path, "a", [0.1]))], "mmr")


def test_results_of_different_data_never_stand_in_one_list(tmp_path):
    keep(tmp_path, "a", [0.1])
    keep(tmp_path, "b", [0.2], fingerprint="f" * 16)
    keep(tmp_path, "b", [0.2], protocol="paper")
    results = load_results(tmp_path)
    shown = "wyze-synthetic, 1 homes, types, holdout"
    assert sorted(board.title for board in boards(results)) == [
        f"{shown}, paper",
        f"{shown}, ranking, data 0000000000000000",
        f"{shown}, ranking, data ffffffffffffffff",
    ]
    with pytest.raises(DataError, match="results of different data cannot be compared"):
        Panel.of([(result.key.method, result) for result in results], "mrr")


def test_the_title_of_a_list_says_what_was_not_the_default(tmp_path):
    keep(tmp_path, "a", [0.1], data_options={"seed": 3}, overrides=Overrides(data_options={"homes": 7, "seed": 3}))
    keep(
        tmp_path, "a", [0.1], split={**KEY.split, "fraction": 0.5}, overrides=Overrides(split_options={"fraction": 0.5})
    )
    keep(tmp_path, "a", [0.1], data="theirs", overrides=Overrides(data_options={"min_pair_count": 11}))
    assert sorted(board.title for board in boards(load_results(tmp_path))) == [
        "theirs (min_pair_count=11), 1 homes, types, holdout, ranking",
        "wyze-synthetic (seed=3), 1 homes, types, holdout, ranking",
        "wyze-synthetic, 1 homes, types, holdout (fraction=0.5), ranking",
    ]


def test_runs_of_other_commits_or_versions_are_pointed_out(tmp_path):
    keep(tmp_path, "a", [0.1], commit="c1", versions={"numpy": "2.1", "python": "3.11"})
    keep(tmp_path, "b", [0.1], commit="c1", versions={"numpy": "2.1", "python": "3.11", "torch": "2.6"})
    (board,) = boards(load_results(tmp_path))
    assert board.warnings() == []  # that only one of them needs torch is no difference
    keep(tmp_path, "c", [0.1], commit="", versions={"numpy": "2.2", "python": "3.11"})
    keep(tmp_path, "d", [0.1], commit=f"{'0123456789' * 4} with changes", versions={})
    (board,) = boards(load_results(tmp_path))
    assert board.warnings() == [
        "the runs differ in commit: 0123456789 with changes, c1, unknown; "
        "`python -m benchmarks reproduce` tells whether that matters",
        "the runs differ in numpy: 2.1, 2.2",
    ]


@pytest.mark.parametrize("metric", ["loss", "loss_home", "mr", "mr_home", "mr_rt_home"])
def test_where_less_is_better_the_least_is_first(tmp_path, metric):
    values = np.random.default_rng(0).random(50)
    for method, more in (("worst", 2.0), ("best", 0.0), ("middle", 1.0)):
        keep(tmp_path, method, values + more, metric=metric.replace("_home", ""), protocol="paper")
    (board,) = boards(load_results(tmp_path))
    table = leaderboard(board, metric)
    assert table["method"].tolist() == ["best", "middle", "worst"]
    assert table["group"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("metric", ["unanswered", "n_hidden", "user", "unseen", "non_rules"])
def test_a_count_is_nothing_to_be_better_by(tmp_path, metric):
    made = keep(tmp_path, "a", [0.1])
    (board,) = boards([made])
    assert not board.has(metric)
    with pytest.raises(DataError, match="unknown metric per home of protocol ranking"):
        Panel.of([("a", made)], metric)


def test_the_same_run_never_counts_as_another_seed(tmp_path):
    made = keep(tmp_path, "a", [0.1], seed=3)
    with pytest.raises(DataError, match="a, seed 3 is there twice on wyze-synthetic; each seed counts once"):
        Panel.of([("a", made), ("a", made)], "mrr")


def pair(a, b, p):
    return Comparison(a, b, 1.0, 0.0, 1.0, 0.5, 1.5, p, 100, (0, 1))


def test_a_difference_that_chance_would_show_in_one_of_several_comparisons_makes_no_group():
    # p = 0.03 alone is a difference; as one of three comparisons, of which the third has p = 1, Holm makes it 0.09.
    two = {("a", "b"): pair("a", "b", 0.03)}
    assert tie_groups(two, ["a", "b"]) == [1, 2]
    three = two | {("a", "c"): pair("a", "c", 0.03), ("b", "c"): pair("b", "c", 1.0)}
    assert tie_groups(three, ["a", "b", "c"]) == [1, 1, 1]


def test_a_long_list_can_be_told_apart(tmp_path):
    # 23 methods are 253 pairs: the first of them needs p < 0.05 / 253 = 0.0002.
    values = np.random.default_rng(0).random(60)
    for method in range(23):
        keep(tmp_path, f"m{method:02}", values - method)
    (board,) = boards(load_results(tmp_path))
    assert leaderboard(board, "mrr")["group"].tolist() == list(range(1, 24))


def test_methods_that_only_their_training_tells_apart_are_tied(tmp_path):
    """Seeds go up and down by 0.1, homes hardly at all: over homes alone every difference would be significant."""
    rng = np.random.default_rng(8)
    for method in "abc":
        for seed in range(5):
            keep(tmp_path, method, 0.5 + rng.normal(0, 0.1) + rng.normal(0, 0.01, 200), seed=seed)
    (board,) = boards(load_results(tmp_path))
    assert leaderboard(board, "mrr")["group"].tolist() == [1, 1, 1]
    (one_seed,) = boards([run for run in load_results(tmp_path) if run.key.seed == 0])
    assert leaderboard(one_seed, "mrr")["group"].tolist() == [1, 2, 3]


def test_other_options_tracks_splits_and_protocols_are_other_lists(tmp_path):
    keep(tmp_path, "a", [0.1])
    keep(tmp_path, "a", [0.1], seed=1)
    keep(tmp_path, "a", [0.1], data_options={"homes": 7}, fingerprint="f" * 16)
    keep(tmp_path, "a", [0.1], track="instances")
    keep(tmp_path, "a", [0.1], split={**KEY.split, "fraction": 0.5})
    keep(tmp_path, "a", [0.1], protocol="paper")
    assert sorted(len(board.runs) for board in boards(load_results(tmp_path))) == [1, 1, 1, 1, 2]


def test_the_list_has_the_best_first_and_groups_of_methods_that_cannot_be_told_apart(tmp_path):
    rng = np.random.default_rng(4)
    base = rng.random(300)
    for seed in range(5):
        keep(tmp_path, "good", base + 0.2 + rng.normal(0, 0.2, 300), seed=seed)
        keep(tmp_path, "as good", base + 0.195 + rng.normal(0, 0.2, 300), seed=seed)
        keep(tmp_path, "bad", base - 0.3 + rng.normal(0, 0.2, 300), seed=seed)
    (board,) = boards(load_results(tmp_path))
    table = leaderboard(board, "mrr")
    assert table["method"].tolist()[2] == "bad"
    assert table["group"].tolist() == [1, 1, 2]
    assert table["seeds"].tolist() == [5, 5, 5]
    # The seeds share the homes, so they differ by 0.2 / sqrt(300) = 0.0115 each.
    assert table["sd over seeds"].to_numpy() == pytest.approx(0.0115, rel=0.7)
    assert (table["low"] < table["mrr"]).all()
    assert (table["mrr"] < table["high"]).all()
    assert board.title == "wyze-synthetic, 300 homes, types, holdout, ranking"
    # A home's mean over five seeds has standard deviation sqrt(1/12 + 0.2^2 / 5) = 0.30: 2 * 1.97 * 0.30 / sqrt(300)
    assert (table["high"] - table["low"]).to_numpy() == pytest.approx(0.069, rel=0.15)


@pytest.mark.parametrize(
    ("metric", "protocol", "values", "high"),
    [
        ("mrr", "ranking", [0, 1, 1, 0], 1),  # 0.5 +- 3.182 * sqrt(1/3) / 2 = 0.919
        ("mr", "paper", [0, 1, 2, 3], 3.554),  # 1.5 +- 3.182 * sqrt(5/3) / 2 = 2.054
    ],
)
def test_an_interval_ends_where_its_metric_does(tmp_path, metric, protocol, values, high):
    keep(tmp_path, "a", values, metric=metric, protocol=protocol)
    (board,) = boards(load_results(tmp_path))
    (row,) = leaderboard(board, metric).to_dict("records")
    assert (row["low"], row["high"]) == pytest.approx((0, high), abs=0.001)


def test_a_group_is_measured_from_its_leader_and_not_from_its_neighbour(tmp_path):
    # Steps of 0.01 with paired noise of 0.1 / sqrt(300) = 0.006: neighbours tie, the ends of the chain do not.
    rng = np.random.default_rng(5)
    base = rng.random(300)
    for step in range(6):
        noise = rng.normal(0, 0.1, 300)
        keep(tmp_path, f"m{step}", base - 0.01 * step + noise - noise.mean())
    (board,) = boards(load_results(tmp_path))
    groups = leaderboard(board, "mrr")["group"].tolist()
    assert groups[0] == groups[1] == 1
    assert groups[-1] > 1
    assert groups == sorted(groups)


def changed(folder, parameters, defaults):
    """A run of a method with these defaults at that time."""
    keep(folder, "toy", [0.1], parameters={**defaults, **parameters}, overrides=Overrides(parameters))


def test_a_row_shows_every_parameter_that_was_not_the_default(tmp_path):
    defaults = {"rounds": 3, "noise": 0.1, "sign": 1.0}
    changed(tmp_path, {"noise": 2.0, "sign": -1.0}, defaults)
    (board,) = boards(load_results(tmp_path))
    assert board.methods() == ["toy (noise=2.0, sign=-1.0)"]  # also where it is the only run
    assert board.label("toy") == "toy (noise=2.0, sign=-1.0)"
    changed(tmp_path, {}, defaults)
    (board,) = boards(load_results(tmp_path))
    assert sorted(board.methods()) == ["toy", "toy (noise=2.0, sign=-1.0)"]


def test_runs_that_differ_in_the_defaults_of_two_versions_are_told_apart(tmp_path):
    changed(tmp_path, {}, {"rounds": 3, "noise": 0.1})
    changed(tmp_path, {"noise": 1.0}, {"rounds": 3, "noise": 0.1})
    (board,) = boards(load_results(tmp_path))
    assert sorted(board.methods()) == ["toy", "toy (noise=1.0)"]
    changed(tmp_path, {}, {"rounds": 5, "noise": 0.1})
    changed(tmp_path, {}, {"noise": 0.1})  # a version without rounds
    (board,) = boards(load_results(tmp_path))
    expected = ["toy (noise=1.0)", "toy (rounds=3)", "toy (rounds=5)", "toy (without rounds)"]
    assert sorted(board.methods()) == expected


def test_a_bare_name_is_the_run_with_default_parameters(tmp_path):
    for noise in (1.0, 2.0):
        changed(tmp_path, {"noise": noise}, {})
    (board,) = boards(load_results(tmp_path))
    with pytest.raises(DataError, match=r"name one of: 'toy \(noise=1.0\)', 'toy \(noise=2.0\)'"):
        board.label("toy")
    assert board.label("other") is None
    changed(tmp_path, {}, {"noise": 0.1})
    (board,) = boards(load_results(tmp_path))
    assert board.label("toy") == "toy"


def test_rows_of_different_seeds_are_pointed_out(tmp_path):
    for method, seed in (("a", 0), ("a", 1), ("b", 0), ("b", 1)):
        keep(tmp_path, method, [0.1], seed=seed)
    (board,) = boards(load_results(tmp_path))
    assert board.warnings() == []
    keep(tmp_path, "c", [0.1], seed=1)
    (board,) = boards(load_results(tmp_path))
    assert board.warnings() == ["the rows are of different seeds (0, 1: a, b; 1: c)"]


def test_methods_that_answer_little_are_pointed_out(tmp_path):
    counts = {"hidden": 4.0, "non_rules": 8.0}
    made = [
        ("mute", {"unanswered": 4.0, "unanswered_non_rules": 8.0}),
        ("half", {"unanswered": 3.0, "unanswered_non_rules": 4.0}),  # 4 of 8 is not more than half
        ("few", {"unanswered": 0.0, "unanswered_non_rules": 5.0}),
    ]
    for protocol in ("ranking", "paper"):
        results = []
        for method, unanswered in made:
            result = keep(tmp_path, method, [0.1], protocol=protocol)
            results.append(replace(result, summary=result.summary | counts | unanswered))
        (board,) = boards(results)
        none, *more = board.warnings()
        assert none == "answered none of the hidden rules: mute"
        expected = [
            "more than half of the non-rules are unanswered by few, mute: "
            "auc then says mostly which triples a method knows; see auc_feasible"
        ]
        assert more == (expected if protocol == "paper" else [])


def test_a_metric_that_cannot_rank_is_answered_with_those_of_each_protocol(tmp_path):
    ranking = keep(tmp_path, "a", [0.1])
    paper = keep(tmp_path, "a", [0.1], protocol="paper", metric="auc")
    paper = replace(paper, summary=paper.summary | {"auc_pooled": 0.5})
    known = "Metrics of each protocol: paper: auc; ranking: mrr"
    assert str(no_metric("mmr", [ranking, paper])) == f"unknown metric 'mmr'; did you mean 'mrr'? {known}"
    assert str(no_metric("zzz", [ranking, paper])) == f"unknown metric 'zzz'. {known}"
    pooled = "auc_pooled has no value per home that methods could be ranked or compared by."
    assert str(no_metric("auc_pooled", [ranking, paper])) == f"{pooled} {known}"


def test_a_ratio_has_the_error_of_what_is_left_of_a_without_it():
    # a / b = 2 / 1. What is left, a - 2 b, is -1, 1, -1, 1: its mean has the error 1 / sqrt(3) = 0.577, of 3 degrees of
    # freedom, so 3.182 * 0.577 = 1.837; over a = 2 that is 0.919 in logarithms, a factor of 2.506.
    found = ratio(panel([[1, 1], [3, 1], [1, 1], [3, 1]]), "a", "b")
    assert (found.value, found.low, found.high) == pytest.approx((2, 2 / 2.506, 2 * 2.506), rel=1e-3)
    turned = ratio(panel([[1, 1], [3, 1], [1, 1], [3, 1]]), "b", "a")
    assert (turned.value, turned.low, turned.high) == pytest.approx((1 / 2, 1 / found.high, 1 / found.low))


def test_a_ratio_that_is_the_same_in_every_home_has_no_error():
    found = ratio(panel([[2, 1], [4, 2], [1, 0.5]], weights=[[2, 2], [1, 1], [1, 1]]), "a", "b")
    assert (found.value, found.low, found.high, found.seeds) == pytest.approx((2, 2, 2, 1))


def test_a_ratio_needs_a_seed_in_common_and_something_to_divide_by():
    apart = panel([[1, 1], [1, 1]], seeds=(0, 1))
    assert ratio(apart, "a", "b") is None
    assert ratio(panel([[1, 0], [1, 0]]), "a", "b") is None
    nothing = ratio(panel([[0, 1], [0, 1]]), "a", "b")
    assert nothing.value == 0
    assert np.isnan(nothing.low)
