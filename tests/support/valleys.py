"""Clients whose losses are quadratic, f_k(x) = 1/2 sum_i a_ki (x_i - b_ki)^2: all of their training is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from datasets.homes import Array
from fedrule.federated.algorithm import Gradients, client_round
from fedrule.federated.rounds import Engine
from fedrule.federated.states import ServerState
from fedrule.federated.trainers.trainer import ClientChunk
from fedrule.federated.vectors import FlatParameters, Vector

Floats = npt.NDArray[np.float64]
# One number of the GNN, one of the predictor's dense part, and three rows of relations with one number each.
LAYOUT = FlatParameters(("theta.x", "phi.y"), ((1,), (1,)), n_theta=1, n_rows=3, row_length=1)


@dataclass(frozen=True, slots=True, eq=False)
class Valleys:
    """A trainer: client k has curvature a[k] and its lowest point at b[k]; rows of curvature 0 it never touches."""

    curvature: Floats  # a [n_clients, 5]
    lowest: Floats  # b [n_clients, 5]
    rule_counts: Array
    gradients: dict[tuple[int, int], list[Vector]] = field(default_factory=dict)  # gradients seen, by round and client

    @classmethod
    def of(cls, curvature: list[float], lowest: list[float]) -> Valleys:
        """The same quadratic for all five numbers of a client."""
        each = np.ones(LAYOUT.size)
        return cls(np.outer(curvature, each), np.outer(lowest, each), np.ones(len(curvature), dtype=np.int64))

    @property
    def layout(self) -> FlatParameters:
        return LAYOUT

    @property
    def threads(self) -> int:
        return 1

    @property
    def optimum(self) -> Floats:
        """Where the mean of the losses is lowest: sum a_k b_k / sum a_k."""
        total: Floats = (self.curvature * self.lowest).sum(axis=0) / self.curvature.sum(axis=0)
        return total

    def begin(self, number: int, clients: Array, model: Vector) -> ValleysRound:  # noqa: ARG002
        return ValleysRound(self, number, clients)


@dataclass(frozen=True, slots=True, eq=False)
class ValleysRound:
    """One round of them."""

    valleys: Valleys
    number: int
    clients: Array

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        touched = self.valleys.curvature[self.clients[first:end], LAYOUT.n_dense :] > 0
        return np.concatenate([[0], np.cumsum(touched.sum(axis=1))]), np.nonzero(touched)[1]

    def train(self, chunk: ClientChunk) -> None:
        for i, k in enumerate(self.clients[chunk.first : chunk.end].tolist()):
            one, model = slice(i, i + 1), chunk.broadcast.model
            state, shared = chunk.state(one), chunk.shared(one)
            chunk.add(one, *client_round(chunk.h, LAYOUT, model, self._gradients(k), state, shared=shared))

    def _gradients(self, k: int) -> Gradients:
        a, b = self.valleys.curvature[k], self.valleys.lowest[k]
        seen = self.valleys.gradients.setdefault((self.number, k), [])

        def at(x: Vector, _: int) -> tuple[Floats, Vector]:
            gradient: Vector = (a * (x - b)).astype(np.float32)
            seen.append(gradient[0])
            loss = (a * (x - b) ** 2).sum(axis=1) / 2
            return np.clip(loss, -1e38, 1e38), gradient  # a loss is float32

        return at


def descended(
    engine: Engine, valleys: Valleys, rounds: int, *, seed: int = 0, rate: float = 1.0
) -> tuple[ServerState, list[Vector]]:
    """The state after so many rounds from zero, and the models on the way."""
    state, models = engine.begin(valleys, np.zeros(LAYOUT.size, dtype=np.float32)), []
    for _ in range(rounds):
        state, _ = engine.step(valleys, state, seed=seed, rate=rate)
        models.append(state.model)
    return state, models
