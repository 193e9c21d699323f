"""Curves: how well the model as it stands after a round does on train, validation and test (the paper's figures).

Every `every`-th round, the first and the last are measured as protocol `paper` measures, by the names of the paper's
panels: <part>_loss, <part>_auc and <part>_mr, with part train, validation or test.

- train: the training rules themselves, which are known and send messages while they are asked for, as in the paper.
  Their mean rank is among all relations of the pair; mr_rt has no meaning there.
- validation is kept apart: the model is fitted on train only. So a run with curves is another run than one without,
  has a key of its own and stands in a list of its own.
- test is there to be looked at beside the others. Nothing may be chosen by it: not the round to stop at, not a setting.
  `validation` is for that.
- A loss needs log-odds. It is left out where a method's scores are none, or where it has no score for some example:
  calibrated anew each round, it would say more about the calibration than about the method.

At most HOMES homes of a part are asked about, the same ones for all methods and rounds of a seed, so that a curve on
many homes stays cheap. A curve of a larger part is therefore near, and not equal to, the number that the run reports.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baselines.method import Fitted
from benchmarks.evaluation.metrics import auc, cross_entropy, mean, mean_by
from benchmarks.evaluation.sampled import Examples, Sampled
from benchmarks.evaluation.scoring import CHUNK, asked_part
from datasets.common.streams import Stream, generator
from datasets.homes import Array
from datasets.splits import Split

HOMES = 2000  # of a part at most: a mean over so many has a standard error of about 2 % of the spread between homes
PARTS = {"train": Stream.TRAIN_CURVE, "validation": Stream.VALIDATION_CURVE, "test": Stream.TEST_CURVE}
METRICS = ("loss", "auc", "mr")
NAMES = frozenset(f"{part}_{metric}" for part in PARTS for metric in METRICS)


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """What a model is asked about every so many rounds."""

    every: int
    examples: dict[str, Examples]  # of each part
    log_odds: bool  # whether the method's scores are

    @classmethod
    def of(cls, split: Split, *, every: int, seed: int, log_odds: bool) -> Curves:
        """Rules and non-rules of each part; an error where a part has no rule to ask for."""
        examples = {
            part: Examples.of(split, part=part, seed=seed, of_homes=some_homes(split, part, seed)) for part in PARTS
        }
        return cls(every, examples, log_odds)

    def due(self, done: int, of: int) -> bool:
        """Whether the model is measured after this round: the first, every so many, and the last."""
        return done == 1 or done % self.every == 0 or done == of

    def measure(self, fitted: Fitted) -> dict[str, float]:
        """The numbers of a model by their names; those that there is nothing to measure for are left out."""
        found = {
            f"{part}_{metric}": value
            for part, examples in self.examples.items()
            for metric, value in self._panel(examples.score(fitted, chunk=CHUNK)).items()
        }
        return {name: value for name, value in found.items() if not np.isnan(value)}

    def _panel(self, sampled: Sampled) -> dict[str, float]:
        score, positive, home, n_homes = sampled.score, sampled.positive, sampled.rules.home, sampled.homes.n_homes
        values = {"auc": mean(auc(score, positive, home, n_homes)), "mr": mean(sampled.rank)}
        if self.log_odds and not np.isnan(score).any():
            values["loss"] = mean(mean_by(cross_entropy(score, positive), home, n_homes))
        return values


def some_homes(split: Split, part: str, seed: int) -> Array:
    """The homes of a part that its curve is measured on: all that are asked about, or HOMES of them by chance."""
    homes = np.unique(asked_part(split, part).rules.home)
    if len(homes) <= HOMES:
        return homes
    return np.sort(generator(PARTS[part], seed, split.seed).permutation(homes)[:HOMES])
