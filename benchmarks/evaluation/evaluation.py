"""What an evaluation gives back: one summary, one row per hidden rule and one row per home."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

OVER_HOMES = frozenset({"loss", "auc", "auc_feasible"})  # means over homes; all others are over hidden rules
COUNTS = frozenset({"hidden", "homes", "unseen", "unanswered", "non_rules", "feasible"})  # by which none is better


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Numbers of one fitted model on one part of one split.

    `homes` has a column `n_hidden` and, for the main metrics, a column with the mean over the home's hidden rules
    under the name that the summary gives it, so that homes can be drawn again (bootstrap) or paired between methods:
    the summary's number is the mean of the column, NaN left out, weighted by `n_hidden` (not where in OVER_HOMES).
    """

    protocol: str
    summary: dict[str, float]
    rules: pd.DataFrame  # a row per hidden rule
    homes: pd.DataFrame  # a row per home with hidden rules
