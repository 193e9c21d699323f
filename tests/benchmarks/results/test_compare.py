"""Statistics between methods, against hand arithmetic, SciPy and simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import benchmarks.results.compare
from benchmarks.results.compare import (
    Panel,
    bootstrap_p,
    compare,
    holm,
    interval,
    mean_over_seeds,
    no_metric,
    resamples_for,
    wilcoxon_p,
)
from benchmarks.results.leaderboard import all_pairs, boards, leaderboard, tie_groups
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


def test_wilcoxon_is_scipys_on_the_homes_that_differ():
    rng = np.random.default_rng(0)
    differences = np.where(rng.random(60) < 0.3, 0.0, rng.normal(0.3, 1, 60))
    assert wilcoxon_p(differences) == stats.wilcoxon(differences[differences != 0]).pvalue
    assert wilcoxon_p(np.zeros(5)) == 1.0
    # four differences of one sign, each size once: 2 of the 2^4 sign patterns are as extreme, p = 2 / 16
    assert wilcoxon_p(np.array([1.0, 2.0, 3.0, 4.0])) == 0.125


def test_the_value_of_a_run_is_the_mean_over_hidden_rules_and_not_over_homes():
    # home 1: one rule with 1.0; home 2: three rules with 0.2 on average; (1 * 1.0 + 3 * 0.2) / 4 = 0.4
    made = panel([[1.0], [0.6]], weights=[[1.0], [3.0]])
    assert made.values() == pytest.approx([0.4])


def test_homes_are_drawn_with_all_of_their_rules_as_scipy_draws_them():
    rng = np.random.default_rng(1)
    weight = rng.integers(1, 6, 80).astype(float)
    total = weight * rng.beta(1, 3, 80)

    def ratio(t, w, axis):
        return t.sum(axis=axis) / w.sum(axis=axis)

    theirs = stats.bootstrap((total, weight), ratio, paired=True, method="percentile", n_resamples=20_000, rng=rng)
    draws = panel(total[:, None], weight[:, None]).resampled(resamples=20_000)[:, 0]
    # 20,000 draws give a quantile to about 0.02 standard errors
    tolerance = 0.05 * theirs.standard_error
    assert interval(draws) == pytest.approx(tuple(theirs.confidence_interval), abs=tolerance)
    assert draws.std() == pytest.approx(theirs.standard_error, rel=0.03)


def test_how_much_is_drawn_at_once_changes_no_number(monkeypatch):
    made = panel(np.random.default_rng(0).random((13, 2)))
    whole = made.resampled(resamples=50)
    monkeypatch.setattr(benchmarks.results.compare, "DRAWS_AT_ONCE", 13 * 7)
    np.testing.assert_allclose(made.resampled(resamples=50), whole, rtol=1e-14)


def test_the_interval_of_a_difference_covers_the_truth_about_as_often_as_it_says():
    # Homes share their difficulty, and the rules of a home are alike: a wins by 0.05 on average in every simulation.
    rng = np.random.default_rng(2)
    covered = wrong = 0
    trials = 200
    for trial in range(trials):
        weight = rng.integers(1, 5, 60).astype(float)
        difficulty = rng.normal(0.5, 0.3, 60)
        a = difficulty + 0.05 + rng.normal(0, 0.1, 60)
        b = difficulty + rng.normal(0, 0.1, 60)
        made = panel(np.stack([a, b], axis=1) * weight[:, None], np.stack([weight, weight], axis=1))
        found = compare(made, "a", "b", resampled=made.resampled(resamples=500, seed=trial))
        covered += found.low <= 0.05 <= found.high
        nothing = panel(np.stack([a - 0.05, b], axis=1) * weight[:, None], np.stack([weight, weight], axis=1))
        wrong += compare(nothing, "a", "b", resampled=nothing.resampled(resamples=500, seed=trial)).p_bootstrap < 0.05
    # binomial(200, 0.95): standard deviation 3.1; percentile intervals of 60 homes are known to be a little short
    assert 178 <= covered <= 198
    # binomial(200, 0.05): standard deviation 3.1
    assert 2 <= wrong <= 22


def test_pairing_finds_a_difference_that_separate_intervals_hide():
    rng = np.random.default_rng(3)
    difficulty = rng.random(100)
    made = panel(np.stack([difficulty + 0.02, difficulty + rng.normal(0, 0.02, 100)], axis=1))
    draws = made.resampled(resamples=2000)
    found = compare(made, "a", "b", resampled=draws)
    assert found.low > 0
    assert found.p_bootstrap < 0.01
    (low_a, _), (_, high_b) = interval(draws[:, 0]), interval(draws[:, 1])
    assert low_a < high_b


def test_a_method_against_itself_is_no_difference():
    values = np.random.default_rng(0).random((20, 1))
    found = compare(panel(np.hstack([values, values])), "a", "b")
    assert (found.difference, found.low, found.high, found.p_bootstrap, found.p_wilcoxon) == (0, 0, 0, 1, 1)


def test_the_bootstrap_p_counts_the_wrong_side_twice_and_never_says_zero():
    # 1 of 9 draws is on the wrong side: 2 * (1 + 1) / (9 + 1) = 0.4; none of 9: 2 * 1 / 10
    assert bootstrap_p(np.array([-1.0, *[1.0] * 8])) == pytest.approx(0.4)
    assert bootstrap_p(np.ones(9)) == pytest.approx(0.2)
    assert bootstrap_p(np.zeros(9)) == 1.0


def test_seeds_are_averaged_and_only_common_ones_compared():
    # a has seeds 0, 1, b has 1, 2: only seed 1 is in both, where a has 4 and b has 1
    made = panel([[2.0, 4.0, 1.0, 9.0]], methods=("a", "a", "b", "b"), seeds=(0, 1, 1, 2))
    found = compare(made, "a", "b")
    assert (found.seeds, found.value_a, found.value_b) == ((1,), 4.0, 1.0)
    with pytest.raises(DataError, match="a and c have no seed in common"):
        compare(panel([[1.0, 2.0]], methods=("a", "c"), seeds=(0, 1)), "a", "c")


def test_a_draw_without_any_rule_of_a_seed_leaves_that_seed_out():
    assert mean_over_seeds(np.array([[1.0, np.nan], [1.0, 3.0]])).tolist() == [1.0, 2.0]
    assert np.isnan(interval(np.array([np.nan]))).all()


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
    (board,) = boards(load_results(tmp_path))
    assert board.warnings() == ["the runs differ in commit: c1, unknown", "the runs differ in numpy: 2.1, 2.2"]


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


def test_a_difference_that_chance_would_show_in_one_of_several_comparisons_makes_no_group():
    # Of 999 draws 14 are on the wrong side: p = 2 * 15 / 1000 = 0.03. Alone that is a difference; with three
    # comparisons, of which the third (b against c, always level) has p = 1, Holm makes it 3 * 0.03 = 0.09.
    ahead = np.where(np.arange(999) < 14, -1.0, 1.0)
    draws = np.stack([ahead, np.zeros(999), np.zeros(999)], axis=1)
    two = all_pairs(panel([[1.0, 0.0]]), draws[:, :2], ["a", "b"])
    assert tie_groups(two, ["a", "b"]) == [1, 2]
    three = all_pairs(panel([[1.0, 0.0, 0.0]]), draws, ["a", "b", "c"])
    assert tie_groups(three, ["a", "b", "c"]) == [1, 1, 1]


def test_a_long_list_is_resampled_often_enough_to_tell_anything_apart(tmp_path):
    # 23 methods are 253 pairs; the least p of 10,000 resamples is 2 / 10,001, and 253 times that is 0.0506.
    assert 253 * 2 / (10_000 + 1) > 0.05
    assert resamples_for(1) == 10_000
    assert resamples_for(253) == 4 * 253 * 20
    values = np.random.default_rng(0).random(60)
    for method in range(23):
        keep(tmp_path, f"m{method:02}", values - method)
    (board,) = boards(load_results(tmp_path))
    assert leaderboard(board, "mrr")["group"].tolist() == list(range(1, 24))


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
    for seed in (0, 1):
        keep(tmp_path, "good", base + 0.5 + rng.normal(0, 0.2, 300), seed=seed)
        keep(tmp_path, "as good", base + 0.49 + rng.normal(0, 0.2, 300), seed=seed)
        keep(tmp_path, "bad", base + rng.normal(0, 0.2, 300), seed=seed)
    (board,) = boards(load_results(tmp_path))
    table = leaderboard(board, "mrr")
    assert table["method"].tolist()[2] == "bad"
    assert table["group"].tolist() == [1, 1, 2]
    assert table["seeds"].tolist() == [2, 2, 2]
    assert (table["low"] < table["mrr"]).all()
    assert (table["mrr"] < table["high"]).all()
    assert board.title == "wyze-synthetic, 300 homes, types, holdout, ranking"
    # A home's mean over two seeds has standard deviation sqrt(1/12 + 0.2^2 / 2) = 0.32: 2 * 1.96 * 0.32 / sqrt(300)
    assert (table["high"] - table["low"]).to_numpy() == pytest.approx(0.073, rel=0.15)


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
