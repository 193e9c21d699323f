"""Rounds one after the other: told to whoever listens, kept in checkpoints, stopped before they run away."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np

from fedrule.federated.beside import LastGood, Remembers
from fedrule.federated.engine import Engine, Report
from fedrule.federated.layout import Vector
from fedrule.federated.state import ServerState
from fedrule.federated.work import Trainer
from fedrule.training.training import RUN_AWAY, ran_away

log = logging.getLogger(__name__)

Watched: TypeAlias = Callable[[int, Vector, Report], bool]  # the round, its model and report; whether to stop


class Saves(Protocol):
    """Where states are kept so that a run that was killed goes on."""

    def of(self, configuration: Mapping[str, object], beside: Mapping[str, Remembers]) -> Saves:
        """The same for a run of this configuration, keeping also what others remember beside the state."""

    def load(self, begun: ServerState) -> ServerState | None:
        """The last state that was saved, of a run that would begin with this one; None where there is none."""

    def save(self, state: ServerState, *, last: bool) -> None:
        """Told every state; keeps those that are due."""


@dataclass(frozen=True, slots=True)
class Run:
    """How long, how fast, and by which seed."""

    name: str  # of the method
    rounds: int
    seed: int
    rate: float = 1.0  # of the server's optimizer
    decay: bool = False  # the rate falls to zero along half a cosine
    client_rate: float = 0.1  # to name when it was too high

    @property
    def rates(self) -> dict[str, float]:
        """To name when one was too high."""
        return {"learning_rate": self.client_rate, "server_rate": self.rate}

    def at(self, done: int) -> float:
        """The server's rate when so many rounds are over."""
        return self.rate * (0.5 + 0.5 * math.cos(math.pi * done / self.rounds)) if self.decay else self.rate


def train(
    engine: Engine, trainer: Trainer, run: Run, state: ServerState, told: Watched, saves: Saves | None = None
) -> Vector:
    """The model after the last round; `told` every round, it may stop.

    Where the loss runs away, or most clients send what is no number, training stops with a warning and the last model
    whose loss was in bounds is the result. Where that is the one it began with nothing has been learned: an error.
    """
    good = LastGood(state.model, state.round)
    if saves is not None:
        saves = saves.of({}, {"good": good})
        state = saves.load(state) or state
        if state.round:
            log.info("%s: goes on after round %d", run.name, state.round)
    while state.round < run.rounds:
        before = state.model
        state, report = engine.step(trainer, state, seed=run.seed, rate=run.at(state.round), donate=True)
        if state.bound == np.inf and report.clients:  # the first round that anybody's update came in
            state = replace(state, bound=RUN_AWAY * max(report.loss, 1.0))
        # Most of those that sent, sent what is no number, and not because they were made to.
        most = report.refused - report.broken > report.clients
        in_bounds = not most and not report.loss > state.bound
        if in_bounds:  # the loss is that of the model before the round
            good.model, good.round = before, state.round - 1
        if not in_bounds or not np.isfinite(state.model).all():
            ran_away(run.name, run.rates, run.rounds, state.round, report.loss, good.round)
            told(state.round, good.model, report._replace(diverged=1))
            return good.model
        if told(state.round, state.model, report):
            break
        if saves is not None:
            saves.save(state, last=state.round == run.rounds)
    return state.model
