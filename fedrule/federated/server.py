"""The server's step: the clients' mean update is taken as a gradient (FedOpt, Reddi et al. 2021).

Unlike theirs, `adam` and `yogi` correct the bias of their first steps, as Adam does elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError, unknown
from fedrule.federated.layout import Vector

ServerRule: TypeAlias = Literal["plain", "momentum", "adam", "yogi"]
Precise: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """What a server optimizer remembers; empty where it needs nothing."""

    first: Precise
    second: Precise
    steps: int = 0


@dataclass(frozen=True, slots=True)
class ServerOptimizer:
    """How the mean update moves the global model; `plain` with rate 1 is FedAvg and Algorithm 2."""

    rule: ServerRule = "plain"
    first_decay: float = 0.9  # of the mean update; momentum, adam, yogi
    second_decay: float = 0.99  # of its square; adam, yogi
    epsilon: float = 1e-8  # added to the root of the square, in units of an update; adam, yogi

    def __post_init__(self) -> None:
        if self.rule not in get_args(ServerRule):
            raise unknown("server optimizer", self.rule, get_args(ServerRule))
        for name in ("first_decay", "second_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise DataError(f"server {name} {getattr(self, name)} is no share from 0 to below 1")
        if not self.epsilon > 0:
            raise DataError(f"server epsilon {self.epsilon} is not above 0")

    def initial(self, size: int) -> Moved:
        first = 0 if self.rule == "plain" else size
        return Moved(np.zeros(first), np.zeros(size if self.rule in ("adam", "yogi") else 0))

    @np.errstate(over="ignore")  # a model that runs away is not kept
    def step(self, model: Vector, update: Precise, moved: Moved, rate: float) -> tuple[Vector, Moved]:
        """The model after a step of this rate along the mean update."""
        steps = moved.steps + 1
        if self.rule == "plain":
            return (model - rate * update).astype(np.float32), Moved(moved.first, moved.second, steps)
        if self.rule == "momentum":
            first = self.first_decay * moved.first + update
            return (model - rate * first).astype(np.float32), Moved(first, moved.second, steps)
        first = self.first_decay * moved.first + (1 - self.first_decay) * update
        square = update**2
        if self.rule == "adam":
            second = self.second_decay * moved.second + (1 - self.second_decay) * square
        else:
            second = moved.second - (1 - self.second_decay) * square * np.sign(moved.second - square)
        level = first / (1 - self.first_decay**steps)
        size = np.sqrt(second / (1 - self.second_decay**steps)) + self.epsilon
        return (model - rate * level / size).astype(np.float32), Moved(first, second, steps)
