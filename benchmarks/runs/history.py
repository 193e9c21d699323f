"""Who listens to the rounds of a fit: keeps the history, has the model measured when that is due, passes them on."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from baselines.method import Fitted
from baselines.scoring import CHUNK, Examples, ScoredExamples, part_rules
from benchmarks.evaluation.metrics import auc, cross_entropy, mean, mean_by
from benchmarks.results.curves import CURVES
from datasets.common.errors import DataError
from datasets.common.random import Stream, generator
from datasets.homes import Array
from datasets.splits import Split

# --- Curves: how well the model as it stands after a round does on train, validation and test (the paper's figures).
#
# Every `every`-th round, the first and the last are measured as protocol `paper` measures, by the names of the paper's
# panels: <part>_loss, <part>_auc and <part>_mr, with part train, validation or test.
#
# - train: the training rules themselves, which are known and send messages while they are asked for, as in the paper.
#   Their mean rank is among all relations of the pair; mr_rt has no meaning there.
# - validation is kept apart: the model is fitted on train only. So a run with curves is another run than one without,
#   has a key of its own and stands in a list of its own.
# - test is there to be looked at beside the others. Nothing may be chosen by it: not the round to stop at, not a setting.
#   `validation` is for that.
# - A loss needs log-odds. It is left out where a method's scores are none, or where it has no score for some example:
#   calibrated anew each round, it would say more about the calibration than about the method.
#
# At most HOMES homes of a part are asked about, the same ones for all methods and rounds of a seed, so that a curve on
# many homes stays cheap. A curve of a larger part is therefore near, and not equal to, the number that the run reports.

HOMES = 2000  # of a part at most: a mean over so many has a standard error of about 2 % of the spread between homes
PARTS = {"train": Stream.TRAIN_CURVE, "validation": Stream.VALIDATION_CURVE, "test": Stream.TEST_CURVE}


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

    def _panel(self, sampled: ScoredExamples) -> dict[str, float]:
        score, positive, home, n_homes = sampled.score, sampled.positive, sampled.rules.home, sampled.homes.n_homes
        values = {"auc": mean(auc(score, positive, home, n_homes)), "mr": mean(sampled.rank)}
        if self.log_odds and not np.isnan(score).any():
            values["loss"] = mean(mean_by(cross_entropy(score, positive), home, n_homes))
        return values


def some_homes(split: Split, part: str, seed: int) -> Array:
    """The homes of a part that its curve is measured on: all that are asked about, or HOMES of them by chance."""
    homes = np.unique(part_rules(split, part).rules.home)
    if len(homes) <= HOMES:
        return homes
    return np.sort(generator(PARTS[part], seed, split.seed).permutation(homes)[:HOMES])


log = logging.getLogger(__name__)

History: TypeAlias = list[dict[str, float]]
Told: TypeAlias = Callable[[int, int], None]  # told the rounds done and the rounds in all


def nobody(done: int, of: int) -> None:
    """Nobody wants to know the rounds."""


class Rounds:
    """By round what the method measured, the curves where they are due, and the seconds of fitting since it began.

    Measuring takes time of its own, which is not counted as the method's. A checkpoint keeps what was heard up to then,
    and where a run goes on from it the seconds do as well; see `fedrule.federated.checkpoint.CheckpointExtra`.
    """

    def __init__(self, told: Told = nobody, curves: Curves | None = None) -> None:
        self.history: History = []
        self.measuring = 0.0  # seconds
        self._told, self._curves = told, curves
        self._unmeasured: Fitted | None = None  # the model of the last round, where its curves were not due
        self._begin = time.perf_counter()

    @property
    def fitting(self) -> float:
        """Seconds of fitting so far."""
        return time.perf_counter() - self._begin - self.measuring

    def __call__(self, done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:
        """After each round of the method; see `baselines.method.OnRound`."""
        # A method may call what it measures by the name of a curve, and mean rules of its own choice.
        measured = {f"own_{name}" if name in CURVES else name: float(value) for name, value in values.items()}
        row = {"round": float(done), **measured, "seconds": self.fitting}
        if self._curves is not None:
            self._unmeasured = fitted
            if self._curves.due(done, of):
                self._measure(self._curves, row, fitted)
        self.history.append(row)
        self._told(done, of)

    def end(self, fitted: Fitted) -> None:
        """Measure the last round of a fit that ended early, or the model of a method that tells no rounds as its first.

        The last round is that of the model as it stood then, which need not be the one that a method settles on.
        """
        if self._curves is None:
            return
        if not self.history:
            self.history.append({"round": 1.0, "seconds": time.perf_counter() - self._begin})
            self._unmeasured = fitted
        if self._unmeasured is not None:
            self._measure(self._curves, self.history[-1], self._unmeasured)

    def arrays(self) -> dict[str, npt.NDArray[np.uint8]]:
        """All that was heard so far, as the bytes of JSON; Python reads back the same numbers, NaN included."""
        heard = {"history": self.history, "fitting": self.fitting, "measuring": self.measuring}
        return {"heard": np.frombuffer(json.dumps(heard).encode(), dtype=np.uint8)}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.uint8]]) -> None:
        """Go on from what was heard then."""
        heard = json.loads(arrays["heard"].tobytes())
        self.history, self.measuring = heard["history"], heard["measuring"]
        self._begin = time.perf_counter() - heard["fitting"] - heard["measuring"]

    def _measure(self, curves: Curves, row: dict[str, float], fitted: Fitted) -> None:
        """Add the curves to a round; a model that is beyond measure, such as one that diverges, has none."""
        begin = time.perf_counter()
        self._unmeasured = None
        try:
            row |= curves.measure(fitted)
        except DataError as error:  # listening never ends a fit that would go on by itself
            log.warning("round %.0f is not measured: %s", row["round"], error)
        self.measuring += time.perf_counter() - begin
