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
    counts_above,
    cross_entropy,
    discounted_gain,
    first_hit,
    hits,
    ideal_gain,
    mean,
    mean_by,
    precision,
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


def places_of_the_first(lists: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    """Above and tied of the first entry of each list, the hidden rule; scipy says where it stands."""
    least, most = (np.array([rankdata([-s for s in scores], how)[0] for scores in lists]) for how in ("min", "max"))
    return least.astype(int) - 1, (most - least).astype(int) + 1


@given(st.integers(0, 15), st.integers(1, 12), CUTS)
def test_gains_of_one_rule_are_means_over_its_places(above, tied, n):
    places = range(above + 1, above + tied + 1)
    place = np.array([above]), np.array([tied])
    assert hits(*place, n) == pytest.approx(np.mean([k <= n for k in places]))
    gain = np.mean([1 / math.log2(1 + k) if k <= n else 0 for k in places])
    assert discounted_gain(*place, n) == pytest.approx(gain)
    # A reciprocal rank is that of the mean place, which is at most the mean reciprocal rank.
    assert reciprocal_rank(*place) == pytest.approx(1 / np.mean(places))
    expected = np.mean([1 / k if k <= n else 0 for k in places])
    assert reciprocal_rank(*place, n) <= expected + 1e-12
    assert reciprocal_rank(*place, n) == pytest.approx(expected) or min(above + tied, n) > above + 1


def test_metrics_of_two_hidden_rules_by_hand():
    # Ranks 1 and 4: hit rate@3 = 1/2, MRR = (1 + 1/4) / 2 = 0.625, MRR@3 = 1/2, DCG@10 = 1 + 1/log2(5).
    place = np.array([0, 3]), np.array([1, 1])
    assert mean(hits(*place, 3)) == 0.5
    assert mean(reciprocal_rank(*place)) == 0.625
    assert mean(reciprocal_rank(*place, 3)) == 0.5
    assert discounted_gain(*place, 10).sum() == pytest.approx(1 + 1 / math.log2(5))
    # In one home: precision 1/1 and 2/4, first hit at once.
    others = np.array([0, 1]), np.array([0, 0])
    assert precision(*place, *others).tolist() == pytest.approx([1, 0.5])
    assert first_hit(*place, *others).tolist() == [1, 0]
    # Tied with each other and two more behind one candidate: places 2 to 5, the first of two at 1 + 5/3 on average.
    block = np.array([1, 1]), np.array([4, 4]), np.array([0, 0]), np.array([1, 1])
    assert first_hit(*block).sum() == pytest.approx(1 / (1 + 5 / 3))


def test_nineteen_tied_candidates_at_the_head_are_ten_nineteenths_of_a_hit():
    # Their mean place is 10, which must not count as a whole hit at 10.
    place = np.array([0]), np.array([19])
    assert hits(*place, 10) == pytest.approx(10 / 19)
    # Of the cut at 10, the places 1 to 10 with mean 5.5.
    assert reciprocal_rank(*place, 10) == pytest.approx(10 / 19 / 5.5)


def test_a_rule_that_was_not_found_gains_nothing():
    nowhere = np.array([0]), np.array([0])
    assert hits(*nowhere, 50) == reciprocal_rank(*nowhere) == discounted_gain(*nowhere, 10) == 0
    assert precision(*nowhere, np.array([0]), np.array([0])) == first_hit(*nowhere, np.array([0]), np.array([0])) == 0


@given(st.lists(st.permutations(range(9)), min_size=1, max_size=6))
def test_reciprocal_rank_and_gain_agree_with_scikit_learn_where_nothing_ties(lists):
    relevant = np.zeros((len(lists), 9), dtype=int)
    relevant[:, 0] = 1
    place = places_of_the_first(lists)
    assert mean(reciprocal_rank(*place)) == pytest.approx(label_ranking_average_precision_score(relevant, lists))
    for n in (1, 5, 10):
        assert mean(discounted_gain(*place, n)) == pytest.approx(ndcg_score(relevant, lists, k=n))


@given(st.lists(SCORE, min_size=2, max_size=12), st.integers(1, 5), CUTS)
def test_discounted_gain_of_several_rules_is_scikit_learns_also_with_ties(scores, hidden, n):
    # scikit-learn averages the gain of tied scores as well.
    relevant = [[int(number < hidden) for number in range(len(scores))]]
    lists = [[scores[number], *scores[:number], *scores[number + 1 :]] for number in range(min(hidden, len(scores)))]
    found = discounted_gain(*places_of_the_first(lists), n).sum() / ideal_gain(np.array([len(lists)]), n)
    assert found == pytest.approx(ndcg_score(relevant, [scores], k=n))


@given(EXAMPLES)
def test_the_scores_of_the_group_that_are_above_and_tied_are_counted(examples):
    score, _, group = columns(examples)
    above, others = counts_above(score, group)
    for own, mine, higher, equal in zip(score, group, above, others, strict=True):
        assert higher == sum((score > own) & (group == mine))
        assert equal == sum((score == own) & (group == mine)) - 1


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


def test_calibration_of_equal_scores_has_no_slope_also_where_their_mean_is_rounded():
    assert Calibration.of(np.full(3, 0.05), np.zeros(3, dtype=np.bool_)).slope == 0.0


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
