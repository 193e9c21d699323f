"""Runs that go on where they were killed: checkpoints in the folder of the results.

    <results>/checkpoints/<hash>.npz              of the fit that is measured
    <results>/checkpoints/<hash>.calibration.npz  of the second fit, where probabilities need one

The hash is that of the result's key without the protocol, since all protocols measure one fit. Methods keep checkpoints
if their `fit` takes a `checkpoint` (`fedrule.federated.checkpoint.Checkpoint`). How often is no part of the
key: a run that went on is the run that was never killed, its seconds apart. When its results are written, its
checkpoints go. Those of other code are not used.
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
from benchmarks.runs.history import Rounds
from datasets.common.errors import DataError
from datasets.homes import Homes

if TYPE_CHECKING:
    from fedrule.federated.checkpoint import Checkpoint

log = logging.getLogger(__name__)


class Resumable(Protocol):
    """A method that keeps checkpoints while it fits."""

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
class Checkpoints:
    """Those of one run."""

    folder: Path
    name: str  # what their files' names begin with
    code: str  # of the method
    every: int  # rounds; 0: none are kept

    @classmethod
    def of(cls, asked: Experiment, fingerprint: str, store: Store, every: int) -> Checkpoints:
        """Of an experiment on homes with this fingerprint."""
        refuse_bad_interval("checkpoints", every)
        key = next(iter(asked.keys(fingerprint).values()))
        return cls(store.folder / "checkpoints", replace(key, protocol="").hash, asked.code, every)

    def checkpoint(self, rounds: Rounds, of: str = "") -> Checkpoint:
        """For the fit whose rounds these are, or for another one of the run's by its name."""
        from fedrule.federated.checkpoint import Checkpoint  # with torch, which only some methods need

        path = self.folder / f"{self.name}{of and f'.{of}'}.npz"
        return Checkpoint(path, self.every, {"code": self.code}, {"rounds": rounds})

    def announce(self, run: str) -> None:
        """Say in the log that a run goes on; a checkpoint of other code goes, and the log says that it starts again."""
        if not self.every or not self._files():
            return
        from fedrule.federated.checkpoint import about

        for path in self._files():
            try:
                found = about(path)
            except DataError:  # the run refuses it, and that is kept as its error
                continue
            if found["run"].get("code") == self.code:
                log.info("%s: goes on after round %d", run, found["round"])
            else:
                log.warning("%s: its checkpoint of round %d is of other code; it starts again", run, found["round"])
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """They are not needed any more."""
        for path in self.folder.glob(f"*{self.name}.*"):  # and what a killed process left while it wrote
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.name}.*npz"))


def is_resumable(method: Method | Resumable) -> TypeGuard[Resumable]:
    """Whether its fit takes `checkpoint`."""
    return "checkpoint" in inspect.signature(method.fit).parameters
