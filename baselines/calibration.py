"""Platt scaling, p = 1 / (1 + exp(-(slope s + offset))): probabilities from scores that are not log-odds.

Platt 1999 with the smoothed targets that keep slope and offset finite where rules and non-rules separate, by Newton's
method with step halving (Lin, Lin and Weng 2007). Fitted on validation data, never on the test. Where scores are
log-odds already, slope 1 and offset 0 are kept and only the probability of a missing score is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baselines.method import Fitted
from baselines.scoring import CHUNK, Values, score_examples
from datasets.homes import Mask
from datasets.splits import Split

STEPS = 100
TOLERANCE = 1e-10  # step length at which Newton's method has converged


@dataclass(frozen=True, slots=True)
class Calibration:
    """Turns scores into log-odds; the default leaves them unchanged."""

    slope: float = 1.0
    offset: float = 0.0
    unanswered: float = 0.0  # log-odds where a model has no score; 0 is probability 1/2

    @property
    def rescales(self) -> bool:
        """Whether it changes scores."""
        return (self.slope, self.offset) != (1.0, 0.0)

    @classmethod
    def of(cls, score: Values, positive: Mask, *, log_odds: bool = False) -> Calibration:
        """The best slope and offset for these scores; slope 0 where all scores are equal, or there are none.

        Log-odds stay as they are. Examples without a score (NaN) share one probability: the share of rules among
        them, with add-one smoothing.
        """
        missing = np.isnan(score)
        unanswered = float(
            np.log1p(np.count_nonzero(positive & missing)) - np.log1p(np.count_nonzero(~positive & missing))
        )
        if log_odds:
            return cls(unanswered=unanswered)
        score, positive = score[~missing], positive[~missing]
        if not len(score):
            return cls(0.0, 0.0, unanswered)
        many, few = np.count_nonzero(positive), np.count_nonzero(~positive)
        target = np.where(positive, (many + 1) / (many + 2), 1 / (few + 2))
        center, spread = float(np.mean(score)), float(np.std(score)) or 1.0
        if score.min() == score.max():  # their mean is rounded, and they may differ from it
            center, spread = float(score[0]), 1.0
        features = np.stack([(score - center) / spread, np.ones(len(score))])  # standardized, for Newton's sake
        weights = _newton(features, target)
        slope = float(weights[0]) / spread
        return cls(slope, float(weights[1]) - slope * center, unanswered)

    def apply(self, score: Values) -> Values:
        """Log-odds of every score, also of missing ones."""
        return np.where(np.isnan(score), self.unanswered, self.slope * score + self.offset)


def calibrate(
    fitted: Fitted, split: Split, *, seed: int = 0, chunk: int = CHUNK, log_odds: bool = False
) -> Calibration:
    """From the validation part's hidden rules and as many non-rules.

    `fitted` must come from `split.train`: a model refitted with the validation rules has seen them. Use the
    calibration of the first fit for the refitted model instead.
    """
    examples = score_examples(fitted, split, part="validation", seed=seed, chunk=chunk)
    return Calibration.of(examples.score, examples.positive, log_odds=log_odds)


def _newton(features: Values, target: Values) -> Values:
    """The weights [2] that minimize the cross-entropy against targets between 0 and 1."""

    def loss(weights: Values) -> float:
        logit = weights @ features
        return float(np.sum(np.logaddexp(0.0, logit) - target * logit))

    weights = np.zeros(2)
    now = loss(weights)
    for _ in range(STEPS):
        probability = 1 / (1 + np.exp(-(weights @ features)))
        gradient = features @ (probability - target)
        curvature = (features * (probability * (1 - probability))) @ features.T + 1e-12 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        while loss(weights - step) > now and np.abs(step).max() > TOLERANCE:
            step = step / 2
        weights, now = weights - step, loss(weights - step)
        if np.abs(step).max() <= TOLERANCE:
            break
    return weights
