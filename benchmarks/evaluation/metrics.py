"""Metrics as short functions of arrays of places and scores; each docstring says what happens in edge cases.

The place of a hidden rule is the number of candidates `above` it and the number `tied` with it, itself included; `tied`
is 0 where the rule has no score or is not in the list, which is a miss. Tied scores are worth no more than the same
scores with ties broken at random: hit rate, recall, NDCG and average precision are expectations over a random order of
the tied candidates, in closed form as in McSherry and Najork (2008), "Computing information retrieval performance
measures efficiently in the presence of tied scores", ECIR. Reciprocal ranks take the mean place instead, which is never
more than the expectation, since 1 / x is convex (Jensen).

The functions on places give one gain per hidden rule, so that the same numbers can be averaged over all rules, over the
rules of a home or over a slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import digamma

from baselines.method import Scores
from baselines.scoring import Values
from datasets.homes import Array, Mask


def hits(above: Array, tied: Array, n: int) -> Values:
    """Hit rate@N: the share of the tied places that are among the first N. 0 if the rule was not found."""
    return np.where(tied > 0, np.clip((n - above) / np.maximum(tied, 1), 0.0, 1.0), 0.0)


def hit_curve(above: Array, tied: Array, n: int) -> Values:
    """[n]: the sum of `hits` over all rules at 1 to N. A rule is at each of its tied places with 1 / tied."""
    found = tied > 0
    share, above, tied = 1 / tied[found], above[found], tied[found]
    begin, end = (np.bincount(np.minimum(at, n), share, minlength=n + 1) for at in (above, above + tied))
    return np.cumsum(np.cumsum(begin - end)[:n])


def reciprocal_rank(above: Array, tied: Array, n: float = np.inf) -> Values:
    """MRR@N: 1 / the mean of the tied places up to N, times their share of the tied places.

    Without a cut that is 1 / (above + (tied + 1) / 2). 0 beyond the cut, and 0 if the rule was not found.
    """
    last = np.minimum(above + tied, n)
    inside = np.maximum(last - above, 0.0)
    return np.where(inside > 0, inside / np.maximum(tied, 1) * 2 / (above + 1 + last), 0.0)


def discounted_gain(above: Array, tied: Array, n: int) -> Values:
    """The gain of DCG@N: the mean of 1 / log2(1 + place) over the tied places. 0 beyond the cut or if not found."""
    total = ideal_gain(np.arange(n + 1), n)
    gain = total[np.minimum(above + tied, n)] - total[np.minimum(above, n)]
    return np.asarray(gain / np.maximum(tied, 1))


def ideal_gain(hidden: Array, n: int) -> Values:
    """DCG@N of a list with all of so many hidden rules at its head."""
    total = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, n + 2)))])
    return np.asarray(total[np.minimum(hidden, n)])


def precision(above: Array, tied: Array, others_above: Array, others_tied: Array) -> Values:
    """Precision at the place of the rule, whose mean over a home's hidden rules is average precision. 0 if not found.

    `others_above` and `others_tied` are the other hidden rules among `above` and `tied`. At the j-th of the tied places
    the rule has (j - 1) others_tied / (tied - 1) of them before it: the mean over j of
    (1 + others_above + (j - 1) others_tied / (tied - 1)) / (above + j).
    """
    inverse = digamma(above + tied + 1) - digamma(above + 1)  # sum of 1 / (above + j)
    before = tied - (above + 1) * inverse  # sum of (j - 1) / (above + j)
    total = (1 + others_above) * inverse + others_tied / np.maximum(tied - 1, 1) * before
    return np.asarray(total / np.maximum(tied, 1))


def first_hit(above: Array, tied: Array, others_above: Array, others_tied: Array) -> Values:
    """Reciprocal rank of a home's first hidden rule, shared by the rules that are tied in it. 0 if none was found.

    The first of r among `tied` candidates in random order has the mean place (tied + 1) / (r + 1).
    """
    together = others_tied + 1
    place = above + (tied + 1) / (together + 1)
    return np.where((tied > 0) & (others_above == 0), 1 / (together * place), 0.0)


def counts_above(score: Values | Scores, group: Array) -> tuple[Array, Array]:
    """How many of its group are above each score, and how many others are tied with it."""
    grouped = pd.Series(-score).groupby(group)
    first, last = (np.asarray(grouped.rank(method=which), dtype=np.int64) for which in ("min", "max"))
    return first - 1, last - first


def cross_entropy(logit: Values, positive: Mask) -> Values:
    """-log of the probability given to what is true, 1 / (1 + exp(-logit)) for a positive; finite for finite logits."""
    return np.logaddexp(0.0, np.where(positive, -logit, logit))


def auc(score: Values, positive: Mask, group: Array, n_groups: int) -> Values:
    """Per group: how often a positive scores above a negative, ties counting half, by the rank sum (Mann-Whitney).

    (sum of the positives' ranks - P (P + 1) / 2) / (P N), ranks from the lowest score up. NaN scores below all
    others, tied with its like. NaN where a group lacks positives or negatives: there is nothing to compare.
    """
    rank_sum = np.bincount(group[positive], average_rank(score, group)[positive], minlength=n_groups)
    positives = np.bincount(group[positive], minlength=n_groups)
    cases = positives * np.bincount(group[~positive], minlength=n_groups)
    above = rank_sum - positives * (positives + 1) / 2
    return ratio(above, cases)


def average_rank(score: Values, group: Array) -> Values:
    """The rank of each score in its group, the lowest first; ties take their average. NaN is below all others."""
    value = np.where(np.isnan(score), -np.inf, score)
    return np.asarray(pd.Series(value).groupby(group).rank(), dtype=np.float64)


def mean(values: Values) -> float:
    """The mean of what is not NaN; NaN if that is nothing."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")


def mean_by(values: Values, group: Array, n_groups: int) -> Values:
    """The mean of each group; NaN for an empty one."""
    total = np.bincount(group, values, minlength=n_groups).astype(np.float64)
    return ratio(total, np.bincount(group, minlength=n_groups))


def ratio(above: Values, below: npt.ArrayLike) -> Values:
    """NaN where there is nothing to divide by."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=np.greater(below, 0)))


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Numbers of one fitted model on one part of one split.

    `homes` has a column `n_hidden` and, for the main metrics, a column with the mean over the home's hidden rules
    under the name that the summary gives it, so that a number's error over homes can be estimated and methods be paired
    by home: the summary's number is the mean of the column, NaN left out, weighted by `n_hidden`, or by
    `n_hidden, closed` for the closed lists. Those of `benchmarks.results.compare.OVER_HOMES` are means over homes.
    """

    protocol: str
    summary: dict[str, float]
    rules: pd.DataFrame  # a row per hidden rule
    homes: pd.DataFrame  # a row per home with hidden rules
