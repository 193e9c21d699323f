"""Who listens to the rounds of a fit: keeps the history, has the model measured when that is due, passes them on."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from baselines.method import Fitted
from benchmarks.runs.curves import NAMES, Curves
from datasets.common.errors import DataError

log = logging.getLogger(__name__)

History: TypeAlias = list[dict[str, float]]
Told: TypeAlias = Callable[[int, int], None]  # told the rounds done and the rounds in all


def nobody(done: int, of: int) -> None:
    """Nobody wants to know the rounds."""


class Rounds:
    """By round what the method measured, the curves where they are due, and the seconds of fitting since it began.

    Measuring takes time of its own, which is not counted as the method's. A checkpoint keeps what was heard up to then,
    and where a run goes on from it the seconds do as well; see `fedrule.federated.beside.Remembers`.
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
        measured = {f"own_{name}" if name in NAMES else name: float(value) for name, value in values.items()}
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

    def recall(self, arrays: Mapping[str, npt.NDArray[np.uint8]]) -> None:
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
