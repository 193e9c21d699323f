"""The history of a fit by round: what the method reports, and curves on train, validation and test (paper's figures).

With curves every N rounds, the model after the first, every N-th and the last round is measured as protocol `paper`
does, under the names of the paper's panels: <part>_loss, <part>_auc and <part>_mr, with part train, validation or test.

- train: the training rules themselves, which send messages while they are scored, as in the paper. Their mean rank is
  among all relations of the pair; mr_rt has no meaning there.
- validation: the model is fitted on train only. So a run with curves is another run than one without, with its own key
  and its own leaderboard.
- test: shown beside the others. Nothing may be chosen by it, neither the round to stop at nor a setting; that is what
  validation is for.
- The loss needs log-odds. It is missing where a method's scores are not log-odds, or where some example has no score:
  calibrated anew each round, it would say more about the calibration than about the method.

At most HOMES homes of a part are measured, the same ones for all methods and rounds of a seed, so that curves on many
homes stay cheap. The curve of a larger part is therefore close, but not equal, to the number that the run reports.
"""

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
from datasets.common.training_warnings import TrainingWarning, training_warnings
from datasets.homes import Array
from datasets.splits import Split

log = logging.getLogger(__name__)

HOMES = 2000  # of a part at most: a mean over these has a standard error of about 2 % of the spread between homes
PARTS = {"train": Stream.TRAIN_CURVE, "validation": Stream.VALIDATION_CURVE, "test": Stream.TEST_CURVE}

History: TypeAlias = list[dict[str, float]]
OnProgress: TypeAlias = Callable[[int, int], None]  # gets the rounds done and the rounds in all


def ignore_progress(done: int, of: int) -> None:
    """The default: no progress is shown."""


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """What a model is measured on every so many rounds."""

    every: int
    examples: dict[str, Examples]  # of each part
    log_odds: bool  # whether the method's scores are

    @classmethod
    def of(cls, split: Split, *, every: int, seed: int, log_odds: bool) -> Curves:
        """Rules and non-rules of each part; an error where a part has no rule."""
        examples = {
            part: Examples.of(split, part=part, seed=seed, of_homes=sample_homes(split, part, seed)) for part in PARTS
        }
        return cls(every, examples, log_odds)

    def due(self, done: int, of: int) -> bool:
        """Whether the model is measured after this round: the first, every so many, and the last."""
        return done == 1 or done % self.every == 0 or done == of

    def measure(self, fitted: Fitted) -> dict[str, float]:
        """The metrics of a model by name, without those that cannot be measured."""
        found = {
            f"{part}_{metric}": value
            for part, examples in self.examples.items()
            for metric, value in self._metrics(examples.score(fitted, chunk=CHUNK)).items()
        }
        return {name: value for name, value in found.items() if not np.isnan(value)}

    def _metrics(self, scored: ScoredExamples) -> dict[str, float]:
        score, positive, home, n_homes = scored.score, scored.positive, scored.rules.home, scored.homes.n_homes
        values = {"auc": mean(auc(score, positive, home, n_homes)), "mr": mean(scored.rank)}
        if self.log_odds and not np.isnan(score).any():
            values["loss"] = mean(mean_by(cross_entropy(score, positive), home, n_homes))
        return values


def sample_homes(split: Split, part: str, seed: int) -> Array:
    """The homes of a part that its curve is measured on: all with rules to score, or HOMES random ones."""
    homes = np.unique(part_rules(split, part).rules.home)
    if len(homes) <= HOMES:
        return homes
    return np.sort(generator(PARTS[part], seed, split.seed).permutation(homes)[:HOMES])


class HistoryRecorder:
    """Callback of a fit: collects by round what the method reports, the curves, and the seconds of fitting so far.

    Measuring curves does not count as fitting. Checkpoints include the history, and a resumed run continues it and its
    seconds; see `fedrule.federated.checkpoint`.
    """

    def __init__(self, on_progress: OnProgress = ignore_progress, curves: Curves | None = None) -> None:
        self.history: History = []
        self.measuring = 0.0  # seconds
        self.rounds = 0  # that the method announced
        self._on_progress, self._curves = on_progress, curves
        self._unmeasured: Fitted | None = None  # the model of the last round, where its curves were not due
        self._begin = time.perf_counter()

    @property
    def fitting(self) -> float:
        """Seconds of fitting so far."""
        return time.perf_counter() - self._begin - self.measuring

    @property
    def warnings(self) -> list[TrainingWarning]:
        """What went wrong in the fit."""
        return training_warnings(self.history, self.rounds)

    def __call__(self, done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:
        """After each round of the method; see `baselines.method.OnRound`."""
        self.rounds = of
        # A method may use the name of a curve for something that it measured on rules of its own choice.
        measured = {f"own_{name}" if name in CURVES else name: float(value) for name, value in values.items()}
        row = {"round": float(done), **measured, "seconds": self.fitting}
        if self._curves is not None:
            self._unmeasured = fitted
            if self._curves.due(done, of):
                self._measure(self._curves, row, fitted)
        self.history.append(row)
        self._on_progress(done, of)

    def end(self, fitted: Fitted) -> None:
        """Measure the last round of a fit that stopped early, or the model of a method without rounds as round 1.

        The last round is that of the model at that time, which need not be the one that the method returns.
        """
        if self._curves is None:
            return
        if not self.history:
            self.history.append({"round": 1.0, "seconds": time.perf_counter() - self._begin})
            self._unmeasured = fitted
        if self._unmeasured is not None:
            self._measure(self._curves, self.history[-1], self._unmeasured)

    def arrays(self) -> dict[str, npt.NDArray[np.uint8]]:
        """The state so far as the bytes of JSON, which Python reads back exactly, NaN included."""
        state = {"history": self.history, "rounds": self.rounds, "fitting": self.fitting, "measuring": self.measuring}
        return {"state": np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.uint8]]) -> None:
        """Continue from a state."""
        state = json.loads(arrays["state"].tobytes())
        self.history, self.rounds, self.measuring = state["history"], state["rounds"], state["measuring"]
        self._begin = time.perf_counter() - state["fitting"] - state["measuring"]

    def _measure(self, curves: Curves, row: dict[str, float], fitted: Fitted) -> None:
        """Add the curves to a round; a model that cannot be measured, e.g. after divergence, has none."""
        begin = time.perf_counter()
        self._unmeasured = None
        try:
            row |= curves.measure(fitted)
        except DataError as error:  # measuring never stops a fit
            log.warning("round %.0f is not measured: %s", row["round"], error)
        self.measuring += time.perf_counter() - begin
