"""The loop over rounds, of a simulation or a deployment: rates, checkpoints and a guard against divergence."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedrule.federated.checkpoint import Checkpoint, GuardExtra
from fedrule.federated.rounds import Engine, RoundReport
from fedrule.federated.states import ServerState
from fedrule.federated.trainers.trainer import Trainer
from fedrule.federated.vectors import Vector
from fedrule.training.loop import DivergenceGuard

log = logging.getLogger(__name__)

# One more round with this rate of the server's optimizer: in a simulation, or by way of nodes.
Step: TypeAlias = Callable[[ServerState, float], tuple[ServerState, RoundReport]]
OnServerRound: TypeAlias = Callable[[int, Vector, RoundReport], bool]  # round, model and report; whether to stop


@dataclass(frozen=True, slots=True)
class ServerSchedule:
    """How long, how fast, and with which seed."""

    name: str  # of the method
    rounds: int
    seed: int
    rate: float = 1.0  # of the server's optimizer
    decay: bool = False  # whether it falls to zero along half a cosine
    client_rate: float = 0.1  # for messages
    losses: bool = True  # whether the server may know the losses of clients; not in a private run

    def rate_after(self, done: int) -> float:
        """The server's rate after so many rounds."""
        return self.rate * (0.5 + 0.5 * math.cos(math.pi * done / self.rounds)) if self.decay else self.rate


def train(
    engine: Engine,
    trainer: Trainer,
    schedule: ServerSchedule,
    state: ServerState,
    on_round: OnServerRound,
    checkpoint: Checkpoint | None = None,
) -> Vector:
    """The model after the last round of a simulation: `run_rounds`."""

    def step(state: ServerState, rate: float) -> tuple[ServerState, RoundReport]:
        return engine.step(trainer, state, seed=schedule.seed, rate=rate, donate=True)

    return run_rounds(step, schedule, state, on_round, checkpoint)


def run_rounds(
    step: Step,
    schedule: ServerSchedule,
    state: ServerState,
    on_round: OnServerRound,
    checkpoint: Checkpoint | None = None,
) -> Vector:
    """The model after the last round; `on_round` is called after each and may stop.

    Training that diverges, or in which most clients send NaN or infinite numbers, stops with a warning and returns the
    last model whose loss was in bounds. Where that is the initial one, nothing has been learned: an error.
    """
    rates = {"learning_rate": schedule.client_rate, "server_rate": schedule.rate}
    guard = DivergenceGuard(schedule.name, schedule.rounds, rates, state.model, state.round)
    if checkpoint is not None:
        checkpoint = checkpoint.extended({}, {"good": GuardExtra(guard)})
        state = checkpoint.load(state) or state
        if state.round:
            log.info("%s: resumes after round %d", schedule.name, state.round)
    while state.round < schedule.rounds:
        before = state.model
        state, report = step(state, schedule.rate_after(state.round))
        losses = [report.loss] if report.clients and schedule.losses and not report.private else []
        if (
            schedule.losses and report.refused - report.corrupted > report.clients
        ):  # most are NaN or infinite, simulated faults aside
            losses = [math.nan]
        if guard.diverged(state.round, before, losses, finite=bool(np.isfinite(state.model).all())):
            on_round(state.round, guard.model, report._replace(diverged=1))
            return guard.model
        if on_round(state.round, state.model, report):
            break
        if checkpoint is not None:
            checkpoint.save(state, last=state.round == schedule.rounds)
    return state.model
