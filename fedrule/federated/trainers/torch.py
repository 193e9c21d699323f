"""Clients trained one after the other by autograd: the reference, for every option; a few hundred clients a second."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from datasets.homes import Array
from fedrule.federated.algorithm import client_round
from fedrule.federated.client import Key, Task, draw_batch, gradients
from fedrule.federated.trainers.trainer import ClientChunk, Population
from fedrule.federated.vectors import Vector
from fedrule.training.loop import TrainingBatch


@dataclass(frozen=True, eq=False)
class TorchTrainer(Population):
    """`algorithm.client_round` for each client, with gradients of torch."""

    cache: dict[tuple[int, int], TrainingBatch | None] = field(default_factory=dict)  # batches by draw and client

    @property
    def threads(self) -> int:
        return 1  # torch uses several itself

    def begin(self, number: int, clients: Array, model: Vector) -> TorchRound:
        batches = {client: self._batch(number, client, model) for client in clients.tolist()}
        return TorchRound(self.task, number, {k: batch for k, batch in batches.items() if batch is not None})

    def _batch(self, number: int, client: int, model: Vector) -> TrainingBatch | None:
        turn = self.task.turn(number)
        if turn is not None and (turn, client) in self.cache:
            return self.cache[turn, client]
        batch = draw_batch(self.task, model, self.homes.subset(np.array([client])), Key(number, client))
        if turn is not None:
            self.cache[turn, client] = batch
        return batch


@dataclass(frozen=True, slots=True, eq=False)
class TorchRound:
    """A round of `TorchTrainer`."""

    task: Task
    number: int
    batches: dict[int, TrainingBatch]

    @property
    def clients(self) -> Array:
        return np.array(sorted(self.batches), dtype=np.int64)

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        if not self.task.layout.n_rows:
            return np.zeros(end - first + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        rows = [np.unique(self.batches[k].query.relation.numpy()) for k in self.clients[first:end].tolist()]
        return np.concatenate([[0], np.cumsum([len(r) for r in rows])]), np.concatenate([np.zeros(0, np.int64), *rows])

    def train(self, chunk: ClientChunk) -> None:
        for i, client in enumerate(self.clients[chunk.first : chunk.end].tolist()):
            one, gradient = slice(i, i + 1), gradients(self.task, self.batches[client], Key(self.number, client))
            model, state, shared = chunk.broadcast.model, chunk.state(one), chunk.shared(one)
            chunk.add(one, *client_round(chunk.h, chunk.layout, model, gradient, state, shared=shared))
