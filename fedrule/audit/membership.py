"""Whether a home was trained on: likelihood ratios over shadow models (Carlini et al. 2022, "Membership inference
attacks from first principles", S&P), with the loss of the home's rules as the statistic.

The attacker has the final model and the home that it asks about, and homes of the same population, with parts of which
it trains shadow models as the federation does. For each home the losses of shadow models with it and without it are two
normal distributions, of one variance for all homes since there are few shadows; the log of their ratio at the loss of
the attacked model is the score.
"""

from __future__ import annotations

import numpy as np

from datasets.homes import Mask
from fedrule.federated.optimizers import Precise


def likelihood_ratios(loss: Precise, shadows: Precise, member: Mask) -> Precise:
    """[n_homes]: how much likelier each home is a member than not; NaN where no shadow tells.

    `loss` [n_homes] is of the attacked model, `shadows` [n_shadows, n_homes] of the shadow models, which were trained
    on the homes that are in `member` [n_shadows, n_homes].
    """
    inside, outside = (_mean(shadows, which) for which in (member, ~member))
    rest = shadows - np.where(member, inside, outside)
    free = np.isfinite(rest).sum() - np.isfinite(inside).sum() - np.isfinite(outside).sum()
    variance = np.nansum(rest**2) / max(int(free), 1)
    found: Precise = ((loss - outside) ** 2 - (loss - inside) ** 2) / (2 * max(float(variance), 1e-300))
    return found


def _mean(values: Precise, which: Mask) -> Precise:
    """[n_homes]: over the rows that are in `which`; NaN where there is none."""
    many = which.sum(axis=0)
    return np.where(many > 0, np.where(which, values, 0).sum(axis=0) / np.maximum(many, 1), np.nan)


def auc(score: Precise, positive: Mask) -> float:
    """The share of pairs of a positive and a negative in which the positive has the higher score, ties by half.

    NaN where either is missing; scores may be infinite.
    """
    order, place = np.unique(score, return_inverse=True)
    many = np.bincount(place, minlength=len(order))
    rank = np.cumsum(many) - (many - 1) / 2  # the mean rank of equal scores, from 1 on
    n, others = int(positive.sum()), int((~positive).sum())
    if not n or not others:
        return float("nan")
    return float((rank[place][positive].sum() - n * (n + 1) / 2) / (n * others))


def found_at(score: Precise, positive: Mask, false_alarms: float) -> float:
    """The share of positives that score above all but this share of the negatives; NaN where either is missing."""
    negatives = np.sort(score[~positive])[::-1]
    if not len(negatives) or not positive.any():
        return float("nan")
    bar = negatives[min(int(false_alarms * len(negatives)), len(negatives) - 1)]
    return float((score[positive] > bar).mean())
