"""Probabilities for methods whose scores are not log-odds: Platt scaling, p = 1 / (1 + exp(-(slope s + offset))).

Platt 1999 with the softened targets that keep slope and offset finite where rules and non-rules separate; found by
Newton's method with step halving (Lin, Lin and Weng 2007). Fitted on validation data, which the test never sees. Where
scores are log-odds already, slope 1 and offset 0 are given and only the probability of what has no score is learnt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baselines.method import Fitted
from benchmarks.evaluation.metrics import Values
from benchmarks.evaluation.sampled import sampled_rules
from benchmarks.evaluation.scoring import CHUNK
from datasets.homes import Mask
from datasets.splits import Split

STEPS = 100
SMALLEST = 1e-10  # step length below which nothing changes any more


@dataclass(frozen=True, slots=True)
class Calibration:
    """Turns scores into log-odds; as it is by default, it leaves them alone."""

    slope: float = 1.0
    offset: float = 0.0
    unanswered: float = 0.0  # log-odds of a rule without a score; 0 is probability 1/2

    @property
    def rescales(self) -> bool:
        """Whether it changes the scores that are there."""
        return (self.slope, self.offset) != (1.0, 0.0)

    @classmethod
    def of(cls, score: Values, positive: Mask, *, log_odds: bool = False) -> Calibration:
        """The best slope and offset for these scores; slope 0 where all scores are equal, or there are none.

        Scores that are log-odds stay as they are.

        What has no score (NaN) gets one probability for all: the share of rules among it, one of each kind added.
        """
        silent = np.isnan(score)
        unanswered = float(
            np.log1p(np.count_nonzero(positive & silent)) - np.log1p(np.count_nonzero(~positive & silent))
        )
        if log_odds:
            return cls(unanswered=unanswered)
        score, positive = score[~silent], positive[~silent]
        if not len(score):
            return cls(0.0, 0.0, unanswered)
        many, few = np.count_nonzero(positive), np.count_nonzero(~positive)
        target = np.where(positive, (many + 1) / (many + 2), 1 / (few + 2))
        center, spread = float(np.mean(score)), float(np.std(score)) or 1.0
        features = np.stack([(score - center) / spread, np.ones(len(score))])  # standardized, for Newton's sake
        weights = _newton(features, target)
        slope = float(weights[0]) / spread
        return cls(slope, float(weights[1]) - slope * center, unanswered)

    def apply(self, score: Values) -> Values:
        """Log-odds of every score, and of the lack of one."""
        return np.where(np.isnan(score), self.unanswered, self.slope * score + self.offset)


def calibrate(
    fitted: Fitted, split: Split, *, seed: int = 0, chunk: int = CHUNK, log_odds: bool = False
) -> Calibration:
    """From the validation part's hidden rules and as many non-rules.

    `fitted` has to come from `split.train`: a model that was refitted with the validation rules would be asked about
    what it was told. Carry the calibration of the first fit over to the refitted model instead.
    """
    examples = sampled_rules(fitted, split, part="validation", seed=seed, chunk=chunk)
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
        while loss(weights - step) > now and np.abs(step).max() > SMALLEST:
            step = step / 2
        weights, now = weights - step, loss(weights - step)
        if np.abs(step).max() <= SMALLEST:
            break
    return weights
