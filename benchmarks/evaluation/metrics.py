"""Metrics as short functions of arrays of ranks and scores; each docstring says what happens in edge cases.

A rank is 1-based, ties share their average, and it is infinite where the rule could not be found at all. The functions
on ranks give one gain per hidden rule (lists with one relevant entry each), so that the same numbers can be averaged
over all rules, over the rules of a home or over a slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from baselines.scoring import Values
from datasets.homes import Array, Mask


def hits(rank: Values, n: int) -> Values:
    """Hit rate@N: 1 where rank <= N. A tie that straddles the cut hits as a whole if its average rank does."""
    return (rank <= n).astype(np.float64)


def reciprocal_rank(rank: Values, n: float = np.inf) -> Values:
    """MRR@N: 1 / rank. 0 beyond the cut, and 0 if the rule was not found."""
    return np.where(rank <= n, 1 / rank, 0.0)


def discounted_gain(rank: Values, n: int) -> Values:
    """NDCG@N with one relevant entry, whose ideal is 1: 1 / log2(1 + rank). 0 beyond the cut or if not found."""
    return np.where(rank <= n, 1 / np.log2(1 + rank), 0.0)


def cross_entropy(logit: Values, positive: Mask) -> Values:
    """-log p of what is so, with p = 1 / (1 + exp(-logit)); finite for any finite logit, however wrong it is."""
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
    return _ratio(above, cases)


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
    count = np.bincount(group, minlength=n_groups)
    return _ratio(total, count)


def _ratio(above: Values, below: Array) -> Values:
    return np.asarray(np.divide(above, below, out=np.full(len(below), np.nan), where=below > 0))


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Numbers of one fitted model on one part of one split.

    `homes` has a column `n_hidden` and, for the main metrics, a column with the mean over the home's hidden rules
    under the name that the summary gives it, so that homes can be drawn again (bootstrap) or paired between methods:
    the summary's number is the mean of the column, NaN left out, weighted by `n_hidden`. `loss`,
    `auc` and `auc_feasible` are plain means over homes.
    """

    protocol: str
    summary: dict[str, float]
    rules: pd.DataFrame  # a row per hidden rule
    homes: pd.DataFrame  # a row per home with hidden rules
