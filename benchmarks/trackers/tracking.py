"""Results on their way to trackers: each is sent once, and a tracker that fails loses no result.

    --track-to mlflow:http://host:5000    --track-to mlflow:sqlite:///mlflow.db    --track-to tensorboard:DIR

Only stored results are sent. What a tracker does not take, because it cannot be reached or refuses it, is tried once
more at the end, and a warning then has the command that sends it later.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.results.store import Result
from benchmarks.trackers.tracked_run import TrackedRun, tracked_run
from datasets.common.errors import DataError, counted, error_line, install_hint, unknown

log = logging.getLogger(__name__)


class Tracker(Protocol):
    """Where runs are sent. Every call may raise; opening one does not connect."""

    def connect(self) -> None:
        """An error where it cannot be reached."""

    def has(self, run: TrackedRun) -> bool:
        """Whether it has this run, complete and of this result."""

    def send(self, run: TrackedRun) -> None:
        """Write a run, in place of an older result of the same key."""


class Kind(NamedTuple):
    """A kind of tracker."""

    module: str  # of ours
    tracker: str  # its class there
    packages: tuple[str, ...]  # of the extra track
    example: str


KINDS = {
    "mlflow": Kind(
        "benchmarks.trackers.mlflow",
        "MlflowTracker",
        ("mlflow", "sqlalchemy", "alembic"),
        "mlflow:sqlite:///mlflow.db",
    ),
    "tensorboard": Kind(
        "benchmarks.trackers.tensorboard",
        "TensorBoardTracker",
        ("tensorboard",),
        "tensorboard:DIR",
    ),
}


def open_tracker(address: str) -> Tracker:
    """The tracker of KIND:PLACE; an error for what can never work, none for one that does not answer now."""
    name, _, place = address.partition(":")
    if name not in KINDS:
        raise unknown("tracker", name, KINDS)
    kind = KINDS[name]
    if not place:
        raise DataError(f"{address}: no place to write to; write e.g. {kind.example}")
    if any(importlib.util.find_spec(package) is None for package in kind.packages):
        raise DataError(f"{address} needs {install_hint('track')}")
    tracker: Tracker = getattr(importlib.import_module(kind.module), kind.tracker)(place)
    return tracker


@dataclass(eq=False)
class Destination:
    """A tracker with what was sent to it and what it did not take."""

    address: str
    tracker: Tracker
    sent: int = 0
    there: int = 0  # were there before
    reason: str = ""  # why the last result was not taken
    reachable: bool = True
    _done: set[str] = field(default_factory=set)  # hashes
    _unsent: dict[str, Result] = field(default_factory=dict)  # by hash

    @property
    def unsent(self) -> int:
        """How many results it did not take."""
        return len(self._unsent)

    def connect(self) -> bool:
        """Whether it can be reached."""
        try:
            self.tracker.connect()
            self.reachable = True
        except Exception as error:
            self._fail(error)
            self.reachable = False
        return self.reachable

    def send(self, result: Result) -> None:
        """Send a result that is not there; remember it where that fails."""
        name = result.key.hash
        if name in self._done:
            return
        self._unsent[name] = result
        if not self.reachable:
            return
        try:
            run = tracked_run(result)
            if self.tracker.has(run):
                self.there += 1
            else:
                self.tracker.send(run)
                self.sent += 1
        except Exception as error:  # whatever a tracker raises, the results are stored and the other runs go on
            log.debug("%s: %s", self.address, result.key, exc_info=True)
            self.connect()
            self._fail(error)
            return
        self._done.add(name)
        del self._unsent[name]

    def retry(self) -> None:
        """Try what was not taken once more."""
        if self._unsent and self.connect():
            for result in list(self._unsent.values()):
                self.send(result)

    def _fail(self, error: Exception) -> None:
        text = error_line(str(error))
        # urllib3 puts what matters last: "... (Caused by NewConnectionError("HTTPConnection(...): Failed to ..."))"
        cause = re.search(r"Caused by \w+\(.*?\): (.*?)[\"')]*$", text)
        self.reason = cause[1] if cause else f"{type(error).__name__}: {text}"


class Tracking:
    """The trackers that the command line names; without any, nothing happens."""

    def __init__(self, addresses: Iterable[str], results: Path | str) -> None:
        self.destinations = [Destination(each, open_tracker(each)) for each in dict.fromkeys(addresses)]
        self.results = results
        for each in self.destinations:
            if not each.connect():
                log.warning("%s: %s. Results are stored, and sent at the end if it can be reached then", *_why(each))

    def send(self, result: Result) -> None:
        """Send a stored result to every tracker; never raises."""
        for each in self.destinations:
            working = not each.unsent and each.reachable
            each.send(result)
            if working and each.unsent:  # once, not for each of hundreds
                log.warning("%s: %s. Not sent: %s; tried again at the end", *_why(each), result.key)

    def finish(self, results: Sequence[Result]) -> list[str]:
        """Send the results that were not sent yet, and what failed once more; a line on each tracker."""
        for result in results:
            self.send(result)
        lines = []
        for each in self.destinations:
            each.retry()
            lines.append(f"{each.address}: {counted(each.sent, 'run')} sent, {each.there} were there")
            if each.unsent:
                to, folder = shlex.quote(each.address), shlex.quote(str(self.results))
                command = f"python -m benchmarks track --to {to} --results {folder}"
                what = f"{counted(each.unsent, 'run')} not sent ({each.reason})"
                log.warning("%s: %s. They are stored; to send them again: %s", each.address, what, command)
        return lines

    @property
    def complete(self) -> bool:
        """Whether every tracker has every result."""
        return not any(each.unsent for each in self.destinations)


def _why(destination: Destination) -> tuple[str, str]:
    return destination.address, destination.reason
