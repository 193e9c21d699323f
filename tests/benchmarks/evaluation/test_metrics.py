"""Every metric against an independent implementation, on random inputs with ties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import rankdata
from sklearn.metrics import label_ranking_average_precision_score, log_loss, ndcg_score, roc_auc_score

from baselines.calibration import Calibration
from benchmarks.evaluation.metrics import (
    auc,
    average_rank,
    cross_entropy,
    discounted_gain,
    hits,
    mean,
    mean_by,
    reciprocal_rank,
)

# Few distinct values, so that ties are the rule.
SCORE = st.sampled_from([-2.5, -1.0, 0.0, 0.5, 1.0, 3.0])
EXAMPLES = st.lists(st.tuples(SCORE, st.booleans(), st.integers(0, 3)), min_size=1, max_size=25)
LISTS = st.lists(st.lists(SCORE, min_size=2, max_size=12), min_size=1, max_size=6)
CUTS = st.integers(1, 12)


def columns(examples: list[tuple[float, bool, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    score, positive, group = zip(*examples, strict=True)
    return np.array(score), np.array(positive), np.array(group)


def ranks_of_the_first(lists: list[list[float]]) -> np.ndarray:
    """The first entry of each list is the hidden rule; scipy says where it stands."""
    return np.array([rankdata([-score for score in scores])[0] for scores in lists])


@given(LISTS, CUTS)
def test_hit_rate_counts_the_lists_whose_hidden_rule_is_among_the_first_n(lists, n):
    expected = 0
    for scores in lists:
        above = sum(score > scores[0] for score in scores)
        level = sum(score == scores[0] for score in scores)
        places = range(above + 1, above + level + 1)
        expected += sum(places) / len(places) <= n
    assert hits(ranks_of_the_first(lists), n).sum() == expected


def test_metrics_of_two_hidden_rules_by_hand():
    # Ranks 1 and 4: hit rate@3 = 1/2, MRR = (1 + 1/4) / 2 = 0.625, MRR@3 = 1/2, NDCG@10 = (1 + 1/log2(5)) / 2.
    rank = np.array([1.0, 4.0])
    assert mean(hits(rank, 3)) == 0.5
    assert mean(reciprocal_rank(rank)) == 0.625
    assert mean(reciprocal_rank(rank, 3)) == 0.5
    assert mean(discounted_gain(rank, 10)) == pytest.approx((1 + 1 / math.log2(5)) / 2)


def test_a_rule_that_was_not_found_gains_nothing():
    nowhere = np.array([np.inf])
    assert hits(nowhere, 50) == reciprocal_rank(nowhere) == discounted_gain(nowhere, 10) == 0


@given(st.lists(st.permutations(range(9)), min_size=1, max_size=6))
def test_reciprocal_rank_and_gain_agree_with_scikit_learn_where_nothing_ties(lists):
    relevant = np.zeros((len(lists), 9), dtype=int)
    relevant[:, 0] = 1
    rank = ranks_of_the_first(lists)
    assert mean(reciprocal_rank(rank)) == pytest.approx(label_ranking_average_precision_score(relevant, lists))
    for n in (1, 5, 10):
        assert mean(discounted_gain(rank, n)) == pytest.approx(ndcg_score(relevant, lists, k=n))


@given(EXAMPLES)
def test_average_rank_is_scipys_within_each_group(examples):
    score, _, group = columns(examples)
    expected = np.empty(len(score))
    for number in range(4):
        expected[group == number] = rankdata(score[group == number])
    assert average_rank(score, group).tolist() == expected.tolist()


@given(EXAMPLES)
def test_auc_is_scikit_learns_within_each_group(examples):
    score, positive, group = columns(examples)
    found = auc(score, positive, group, 4)
    for number in range(4):
        inside = group == number
        if len(set(positive[inside].tolist())) == 2:
            assert found[number] == pytest.approx(roc_auc_score(positive[inside], score[inside]))
        else:
            assert np.isnan(found[number])


@given(EXAMPLES, st.data())
def test_auc_takes_a_missing_score_for_the_lowest(examples, data):
    score, positive, group = columns(examples)
    missing = np.array(data.draw(st.lists(st.booleans(), min_size=len(score), max_size=len(score))))
    with_nan, with_low = np.where(missing, np.nan, score), np.where(missing, -99.0, score)
    np.testing.assert_array_equal(auc(with_nan, positive, group, 4), auc(with_low, positive, group, 4))


@given(st.lists(st.tuples(st.floats(-15, 15), st.booleans()), min_size=1, max_size=20))
def test_cross_entropy_is_scikit_learns_log_loss(examples):
    logit, positive = (np.array(column) for column in zip(*examples, strict=True))
    expected = log_loss(positive, 1 / (1 + np.exp(-logit)), labels=[False, True])
    assert mean(cross_entropy(logit, positive)) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_cross_entropy_stays_finite_for_huge_scores():
    logit, positive = np.array([1e4, -1e4, 1e4]), np.array([True, True, False])
    assert cross_entropy(logit, positive).tolist() == [0.0, 1e4, 1e4]


@given(EXAMPLES)
def test_means_by_group_average_what_is_there(examples):
    score, _, group = columns(examples)
    found = mean_by(score, group, 5)
    for number in range(5):
        inside = score[group == number]
        assert found[number] == pytest.approx(mean(inside), nan_ok=True)
    assert np.isnan(found[4])
    assert mean(np.array([1.0, np.nan, 3.0])) == 2.0


@given(st.lists(st.tuples(st.floats(-50, 50), st.booleans()), min_size=1, max_size=30))
def test_calibration_is_the_optimum_that_scipy_finds(examples):
    score, positive = (np.array(column) for column in zip(*examples, strict=True))
    many, few = positive.sum(), (~positive).sum()
    target = np.where(positive, (many + 1) / (many + 2), 1 / (few + 2))

    def loss(slope: float, offset: float) -> float:
        logit = slope * score + offset
        return float(np.mean(np.logaddexp(0, logit) - target * logit))

    found = Calibration.of(score, positive)
    best = minimize(lambda weights: loss(*weights), [0.0, 0.0], method="Nelder-Mead")
    assert loss(found.slope, found.offset) <= best.fun + 1e-7


def test_calibration_brings_scaled_log_odds_back():
    # Scores are 3 s + 5 of the log-odds s, so s = score / 3 - 5 / 3.
    rng = np.random.default_rng(0)
    log_odds = rng.normal(0, 2, 200_000)
    positive = rng.random(len(log_odds)) < 1 / (1 + np.exp(-log_odds))
    found = Calibration.of(3 * log_odds + 5, positive)
    assert found.slope == pytest.approx(1 / 3, rel=0.02)
    assert found.offset == pytest.approx(-5 / 3, rel=0.02)


def test_calibration_of_equal_scores_or_none_says_only_how_frequent_rules_are():
    # 3 rules among 4: targets 4/5 for the rules and 1/3 for the other, mean 0.68333, log-odds 0.7691.
    found = Calibration.of(np.full(4, 7.0), np.array([True, True, True, False]))
    assert found.apply(np.array([7.0]))[0] == pytest.approx(math.log(0.683333 / 0.316667), abs=1e-5)
    assert Calibration.of(np.zeros(0), np.zeros(0, dtype=bool)).apply(np.array([3.0])) == 0.0


def test_calibration_gives_what_has_no_score_the_share_of_rules_among_it():
    # Without a score: 1 rule and 3 others, with one of each kind added 2 to 4, log-odds log(1/2).
    score, positive = np.array([np.nan] * 4 + [1.0, 2.0]), np.array([True, False, False, False, False, True])
    found = Calibration.of(score, positive)
    assert found.apply(np.array([np.nan]))[0] == pytest.approx(math.log(1 / 2))
    answered = Calibration.of(score[4:], positive[4:])
    assert (found.slope, found.offset) == (answered.slope, answered.offset)
    assert Calibration().apply(np.array([np.nan, 3.0])).tolist() == [0.0, 3.0]


def test_calibration_of_log_odds_says_only_what_no_score_means():
    # As above, log(1/2) for what has no score; 1.0 and 2.0 are log-odds and stay.
    score, positive = np.array([np.nan] * 4 + [1.0, 2.0]), np.array([True, False, False, False, False, True])
    found = Calibration.of(score, positive, log_odds=True)
    assert found.apply(score).tolist() == pytest.approx([math.log(1 / 2)] * 4 + [1.0, 2.0])
    assert not found.rescales
    assert Calibration.of(score, positive).rescales
