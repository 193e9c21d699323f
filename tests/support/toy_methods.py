"""Tiny methods for tests of runs: one that works, others that fail in the ways that methods do.

Tests take them from `tests.support.toys`, which registers them for the length of a test only: the registry is shared.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from baselines.method import Fitted, OnRound, Scores, ignore
from baselines.registry import register
from datasets.homes import Array, Homes


class ByRelation:
    """The same score of a relation for every pair."""

    def __init__(self, score: np.ndarray) -> None:
        self.score = score.astype(np.float32)

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        del homes, action
        return np.tile(self.score, (len(trigger), 1))


@register("toy-count")
@dataclass(frozen=True)
class Count:
    """How often a relation occurs, with a little noise."""

    rounds: int = 3  # how often it says that it is not done yet
    noise: float = 0.1  # spread of what is added
    sign: float = 1.0  # -1 recommends the rarest

    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "noise": ("log", 0.01, 10.0),
        "sign": ("choice", 1.0, -1.0),
        "rounds": ("int", 1, 4),
    }

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        count = np.bincount(train.rules.relation, minlength=len(train.relations))
        fitted = ByRelation(self.sign * (count + self.noise * rng.random(len(count))))
        for done in range(self.rounds):
            on_round(done + 1, self.rounds, fitted, {"loss": 1 / (done + 1)})
        return fitted


@register("toy-rare")
@dataclass(frozen=True)
class Rare(Count):
    """The same with a bad default, so that tuning has something to find."""

    sign: float = -1.0


@register("toy-log-odds")
@dataclass(frozen=True)
class LogOdds(Count):
    """The same, but its scores are log-odds."""

    log_odds: ClassVar[bool] = True


@register("toy-careless")
@dataclass(frozen=True)
class Careless(Count):
    """Declares numbers and lists of one type and has defaults of another."""

    strength: float = 1  # a whole number
    sizes: tuple[float, ...] = (16, 32)  # whole numbers as well
    limit: float | None = 3  # and another


@register("toy-threads")
@dataclass(frozen=True)
class Threads:
    """Tells how many threads its process may use."""

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        fitted = Count(rounds=0).fit(train, rng=rng)
        variables = {name: float(os.environ[name]) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        on_round(1, 1, fitted, variables)
        return fitted


@register("toy-silent")
@dataclass(frozen=True)
class Silent:
    """Has no score for the rarer half of the relations."""

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        fitted = Count().fit(train, rng=rng, on_round=on_round)
        assert isinstance(fitted, ByRelation)
        return ByRelation(np.where(fitted.score < np.median(fitted.score), np.nan, np.log(fitted.score)))


@register("toy-silent-log-odds")
@dataclass(frozen=True)
class SilentLogOdds(Silent):
    """The same, and its scores are log-odds."""

    log_odds: ClassVar[bool] = True


@register("toy-broken")
@dataclass(frozen=True)
class Broken:
    """Fails as long as a file is not there."""

    needs: str = ""  # the path of the file

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        if not os.path.exists(self.needs):  # noqa: PTH110
            raise RuntimeError("the weather is bad")
        return Count().fit(train, rng=rng, on_round=on_round)


@register("toy-killed")
@dataclass(frozen=True)
class Killed:
    """Ends its process from within, as a lack of memory does."""

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        del train, rng, on_round
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


@register("toy-large")
@dataclass(frozen=True)
class Large:
    """Holds many numbers while it fits."""

    megabytes: int = 200  # of these

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        held = np.ones(self.megabytes * 2**20 // 8)
        fitted = Count().fit(train, rng=rng, on_round=on_round)
        del held
        return fitted


@register("toy-slow")
@dataclass(frozen=True)
class Slow:
    """Creates the file named by the variable TOY_SLOW_STARTED and then takes longer than any test."""

    seconds: float = 3_600.0

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        fitted = Count().fit(train, rng=rng, on_round=on_round)
        Path(os.environ["TOY_SLOW_STARTED"]).touch()
        time.sleep(self.seconds)
        return fitted


@register("toy-waiting")
@dataclass(frozen=True)
class Waiting:
    """Writes its process into a file at each fit; the first one then takes longer than any test."""

    fits: str = ""  # the path of the file

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        with Path(self.fits).open("a+") as file:
            file.write(f"{os.getpid()}\n")
            file.seek(0)
            earlier = len(file.readlines()) - 1
        if not earlier:
            time.sleep(3_600)
        return Count().fit(train, rng=rng, on_round=on_round)


@register("toy-full-disk")
@dataclass(frozen=True)
class FullDisk:
    """Fills the disk, as far as its process can tell, for as long as a file is not there."""

    needs: str = ""  # the path of the file

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        if not Path(self.needs).exists():
            pd.DataFrame.to_parquet = write_to_full_disk
        return Count().fit(train, rng=rng, on_round=on_round)


def write_to_full_disk(*_: object) -> None:
    """What writing a file does when the disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
