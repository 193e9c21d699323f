"""Clients trained one after the other: works for every option of the graph methods, a few hundred clients a second."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from datasets.homes import Array
from fedrule.federated.algorithm import Memory, Moments, Precise, Sent
from fedrule.federated.client import Key, Task, ask_at_home, learn_at_home
from fedrule.federated.protocols import Population, Work
from fedrule.federated.states import Part
from fedrule.federated.vectors import Layout, Vector, on_grid
from fedrule.training.loop import TrainingBatch

# --- One client of a chunk: its memory out of the chunk's arrays as whole vectors, and what it sends back into them.


def remembered(work: Work, i: int, layout: Layout) -> Memory:
    """What client i of a chunk remembers, as whole vectors."""
    memory = work.memory
    own = None if memory.own.empty else _vector(work, memory.own, i, layout)
    if memory.first.empty:
        return Memory(own)
    first, second = (_vector(work, part, i, layout) for part in (memory.first, memory.second))
    return Memory(own, Moments(first[None], second[None], memory.steps[i : i + 1].copy()))


def hand_in(work: Work, i: int, layout: Layout, sent: Sent, memory: Memory, shared: Vector | None) -> None:
    """Add what client i sent to the sums, and write down what it remembers; nothing of it where that is no number."""
    work.loss[i], work.finite[i] = sent.loss, sent.finite and memory.finite
    if not work.finite[i]:
        return
    update = sent.update.astype(float)
    if work.plan.corrects and work.plan.row_sparse and shared is not None:
        moved = work.plan.steps * work.plan.phi_rate * work.plan.phi_lambda
        update[layout.n_dense :] -= moved * shared[layout.n_dense :].astype(float)
        _only_rows(update, work, i, layout)
    work.update[:] += on_grid(work.weight[i] * update)
    if len(work.progress):
        work.progress[:] += on_grid(work.weight[i] * sent.progress.astype(float))
    if memory.own is not None:
        _write(memory.own, work, work.memory.own, i, layout)
    if memory.moments is not None:
        _write(memory.moments.first[0], work, work.memory.first, i, layout)
        _write(memory.moments.second[0], work, work.memory.second, i, layout)
        work.memory.steps[i] = memory.moments.steps[0]


def _rows(work: Work, i: int) -> slice:
    return slice(int(work.memory.row_start[i]), int(work.memory.row_start[i + 1]))


def _vector(work: Work, part: Part, i: int, layout: Layout) -> Vector:
    vector = np.zeros(layout.size, dtype=np.float32)
    vector[: layout.n_dense] = part.dense[i]
    vector[layout.in_rows(work.memory.row[_rows(work, i)])] = part.rows[_rows(work, i)]
    return vector


def _write(vector: Vector, work: Work, part: Part, i: int, layout: Layout) -> None:
    part.dense[i] = vector[: layout.n_dense]
    part.rows[_rows(work, i)] = vector[layout.in_rows(work.memory.row[_rows(work, i)])]


def _only_rows(update: Precise, work: Work, i: int, layout: Layout) -> None:
    """Zero for the rows that the client did not touch: they moved by their base, up to rounding."""
    rest = np.ones(layout.n_rows, dtype=bool)
    rest[work.memory.row[_rows(work, i)]] = False
    update[layout.in_rows(np.flatnonzero(rest))] = 0


@dataclass(frozen=True, eq=False)
class OneByOne(Population):
    """The homes of training as clients."""

    # By draw and client, where draws come again.
    kept: dict[tuple[int, int], TrainingBatch | None] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        return 1  # torch has threads of its own

    def begin(self, number: int, clients: Array, model: Vector) -> OneByOneRound:
        batches = {int(client): self._batch(number, int(client), model) for client in clients}
        asked = {client: batch for client, batch in batches.items() if batch is not None}
        return OneByOneRound(self.task, number, asked)

    def _batch(self, number: int, client: int, model: Vector) -> TrainingBatch | None:
        turn = self.task.turn(number)
        if turn is not None and (turn, client) in self.kept:
            return self.kept[turn, client]
        batch = ask_at_home(self.task, model, self.homes.subset(np.array([client])), Key(number, client))
        if turn is not None:
            self.kept[turn, client] = batch
        return batch


@dataclass(frozen=True, slots=True, eq=False)
class OneByOneRound:
    """One round of them."""

    task: Task
    number: int
    asked: dict[int, TrainingBatch]

    @property
    def clients(self) -> Array:
        return np.array(sorted(self.asked), dtype=np.int64)

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        if not self.task.layout.n_rows:
            return np.zeros(end - first + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        rows = [np.unique(self.asked[int(c)].query.relation.numpy()) for c in self.clients[first:end]]
        return np.concatenate([[0], np.cumsum([len(r) for r in rows])]), np.concatenate([np.zeros(0, np.int64), *rows])

    def train(self, work: Work) -> None:
        for i, client in enumerate(self.clients[work.first : work.end].tolist()):
            group = work.told.group[work.first + i]
            shared = None if group < 0 else work.told.shared[group]
            known, key = remembered(work, i, self.layout), Key(self.number, client)
            batch = self.asked[client]
            sent, memory = learn_at_home(self.task, work.told.model, batch, known, shared=shared, key=key)
            if work.broken[i]:
                sent = Sent(sent.update * np.nan, sent.progress, sent.loss)
            hand_in(work, i, self.layout, sent, memory, shared)

    @property
    def layout(self) -> Layout:
        return self.task.layout
