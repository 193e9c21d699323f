"""Optimizers of the clients (Adam, Kingma and Ba 2015) and of the server (FedOpt, Reddi et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError, unknown
from datasets.homes import Array
from fedrule.federated.vectors import Vector

ServerOptimizers: TypeAlias = Literal["plain", "momentum", "adam", "yogi"]
Precise: TypeAlias = npt.NDArray[np.float64]

FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8  # of the clients' Adam


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """State of Adam, for n clients side by side."""

    first: Vector  # [n, size]
    second: Vector
    steps: Array  # [n]

    def step(self, g: Vector) -> tuple[Moments, Vector]:
        """The next state, and the direction of the step."""
        steps = self.steps + 1
        first = FIRST_DECAY * self.first + (1 - FIRST_DECAY) * g
        second = SECOND_DECAY * self.second + (1 - SECOND_DECAY) * g**2
        level, square = ((1 - decay**steps).astype(np.float32)[:, None] for decay in (FIRST_DECAY, SECOND_DECAY))
        size = np.sqrt(second / square) + EPSILON
        return Moments(first, second, steps), (first / level / size).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class OptimizerState:
    """Moments of the mean update; empty where the optimizer needs none."""

    first: Precise
    second: Precise
    steps: int = 0


@dataclass(frozen=True, slots=True)
class ServerOptimizer:
    """How the mean update of the clients, taken as a gradient, moves the global model.

    `plain` with rate 1 is FedAvg and Algorithm 2. Unlike in FedOpt, `adam` and `yogi` correct the bias of their first
    steps, as Adam does elsewhere.
    """

    kind: ServerOptimizers = "plain"
    first_decay: float = 0.9  # of the mean update: momentum, adam, yogi
    second_decay: float = 0.99  # of its square: adam, yogi
    epsilon: float = 1e-8  # added to the root of the second moment: adam, yogi

    def __post_init__(self) -> None:
        if self.kind not in get_args(ServerOptimizers):
            raise unknown("server optimizer", self.kind, get_args(ServerOptimizers))
        for name in ("first_decay", "second_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise DataError(f"server {name} must be in [0, 1), got {getattr(self, name)}")
        if not self.epsilon > 0:
            raise DataError(f"server epsilon must be positive, got {self.epsilon}")

    def initial(self, size: int) -> OptimizerState:
        first = 0 if self.kind == "plain" else size
        return OptimizerState(np.zeros(first), np.zeros(size if self.kind in ("adam", "yogi") else 0))

    @np.errstate(over="ignore")  # a model that diverges is not kept
    def step(self, model: Vector, update: Precise, state: OptimizerState, rate: float) -> tuple[Vector, OptimizerState]:
        """The model after a step of this rate along the mean update."""
        steps, first, second = state.steps + 1, state.first, state.second
        if self.kind == "plain":
            return (model - rate * update).astype(np.float32), OptimizerState(first, second, steps)
        if self.kind == "momentum":
            first = self.first_decay * first + update
            return (model - rate * first).astype(np.float32), OptimizerState(first, second, steps)
        first = self.first_decay * first + (1 - self.first_decay) * update
        square = update**2
        if self.kind == "adam":
            second = self.second_decay * second + (1 - self.second_decay) * square
        else:
            second = second - (1 - self.second_decay) * square * np.sign(second - square)
        mean = first / (1 - self.first_decay**steps)
        root = np.sqrt(second / (1 - self.second_decay**steps)) + self.epsilon
        return (model - rate * mean / root).astype(np.float32), OptimizerState(first, second, steps)
