"""Checkpoints of runs, from which a killed run is resumed.

    <results>/checkpoints/<hash>.npz              of the fit that is measured
    <results>/checkpoints/<hash>.calibration.npz  of the second fit, where probabilities need one

The hash is that of the result's key without the protocol, since all protocols measure one fit. Methods write
checkpoints if their `fit` takes a `checkpoint` (`fedrule.federated.checkpoint.Checkpoint`). The interval is no part of
the key: a resumed run gives the same numbers as an uninterrupted one, except its seconds. Checkpoints are deleted when
the results are stored. Those of other code are not used.
"""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeGuard

import numpy as np

from baselines.method import Fitted, Method, OnRound, ignore
from benchmarks.results.store import Store
from benchmarks.runs.experiment import Experiment, refuse_bad_interval
from benchmarks.runs.history import HistoryRecorder
from datasets.common.errors import DataError
from datasets.homes import Homes

if TYPE_CHECKING:
    from fedrule.federated.checkpoint import Checkpoint

log = logging.getLogger(__name__)


class Resumable(Protocol):
    """A method that writes checkpoints while it fits."""

    def fit(
        self,
        train: Homes,
        *,
        rng: np.random.Generator,
        on_round: OnRound = ignore,
        checkpoint: Checkpoint | None = None,
    ) -> Fitted:
        """As every method's; resumes from the last state of `checkpoint`."""


@dataclass(frozen=True, slots=True)
class RunCheckpoints:
    """The checkpoints of one run."""

    folder: Path
    name: str  # what their file names begin with
    code: str  # hash of the code
    every: int  # rounds; 0: never

    @classmethod
    def of(cls, experiment: Experiment, fingerprint: str, store: Store, every: int) -> RunCheckpoints:
        """Of an experiment on homes with this fingerprint."""
        refuse_bad_interval("checkpoints", every)
        key = next(iter(experiment.keys(fingerprint).values()))
        return cls(store.folder / "checkpoints", replace(key, protocol="").hash, experiment.code, every)

    def checkpoint(self, recorder: HistoryRecorder, fit: str = "") -> Checkpoint:
        """For the fit with this history, or for another fit of the run by its name."""
        from fedrule.federated.checkpoint import Checkpoint  # with torch, which only some methods need

        path = self.folder / f"{self.name}{fit and f'.{fit}'}.npz"
        return Checkpoint(path, self.every, {"code": self.code}, {"rounds": recorder})

    def log_resumed(self, run: str) -> None:
        """Log that a run is resumed; a checkpoint of other code is deleted, and the log says that the run restarts."""
        if not self.every or not self._files():
            return
        from fedrule.federated.checkpoint import about

        for path in self._files():
            try:
                found = about(path)
            except DataError:  # the run refuses it, and that is stored as its error
                continue
            if found["run"].get("code") == self.code:
                log.info("%s: resumed after round %d", run, found["round"])
            else:
                log.warning("%s: its checkpoint of round %d is of other code; it starts again", run, found["round"])
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete them when the run is finished."""
        for path in self.folder.glob(f"*{self.name}.*"):  # and temporary files of a killed process
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.name}.*npz"))


def is_resumable(method: Method | Resumable) -> TypeGuard[Resumable]:
    """Whether its fit takes `checkpoint`."""
    return "checkpoint" in inspect.signature(method.fit).parameters
