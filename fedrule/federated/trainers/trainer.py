"""What the rounds expect of a trainer, the chunks of clients that it is given, and the reference trainer, by torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from datasets.common.environment import thread_count
from datasets.homes import Array, Homes, Mask
from fedrule.federated.algorithm import ClientState, ClientUpdate, Hyperparameters
from fedrule.federated.client import ClientKey, LocalTraining, draw_batch, train_client
from fedrule.federated.optimizers import Moments, Precise
from fedrule.federated.states import Broadcast, ClientVectors, StateView
from fedrule.federated.trainers.state_loops import add_exactly, squared_norms
from fedrule.federated.vectors import ROUND, FlatParameters, Vector, clip_factors
from fedrule.training.loop import TrainingBatch


@dataclass(frozen=True, slots=True, eq=False)
class ClientChunk:
    """Some clients of a round: their states before, then their states after, and the sums of what they send.

    The base of an update is what shared_k alone does to the rows of relations, tau eta lambda shared_k. Rows that are
    not in a client's batch move by just that. Where states are row-sparse, trainers leave it out of the sums, because
    it is the same for many clients, and `Engine.finish_round` adds it once.
    """

    first: int  # of the round's clients; `end` is behind the last one
    end: int
    h: Hyperparameters
    layout: FlatParameters
    broadcast: Broadcast  # to all clients of the round
    group: Array  # [n]  which of its shared vectors is shared_k; -1: none, zeros
    weight: Precise  # [n]
    faulty: Mask  # [n]  clients whose update is made NaN: a simulated fault
    states: StateView  # changed in place for clients that end finite
    # Results.
    update: Precise  # [size]  sum of weight * (Delta_k - base), an exact sum
    mean_gradient: Precise  # [size or 0]  sum of weight * p_k, where it is sent
    loss: Vector  # [n]
    finite: Mask  # [n]
    clip: float = 0.0  # largest L2 norm of a client's weighted update in the sum; 0: any

    def shared(self, some: slice) -> Vector | None:
        """[n, size]: shared_k of some clients of the chunk; None where it is zero for all."""
        group = self.group[some]
        if (group < 0).all():
            return None
        shared = self.broadcast.shared[group]
        shared[group < 0] = 0
        return shared

    def state(self, some: slice) -> ClientState:
        """The states of some clients of the chunk, as whole vectors."""
        states = self.states
        own = None if states.own.empty else self._vectors(states.own, some)
        if states.first.empty:
            return ClientState(own)
        first, second = (self._vectors(part, some) for part in (states.first, states.second))
        return ClientState(own, Moments(first, second, states.steps[some]))

    def add(self, some: slice, sent: ClientUpdate, state: ClientState) -> None:
        """Add what some clients sent to the sums and store their next states; not of clients that are not finite."""
        finite = sent.finite(state) & ~self.faulty[some]
        self.loss[some], self.finite[some] = sent.loss, finite
        if not finite.any():
            return
        weight = self.weight[some][finite]
        rows_only = self.h.corrects and self.h.row_sparse and self.layout.n_rows > 0
        update = self._without_base(sent.update, some) if rows_only else sent.update
        update = update if finite.all() else update[finite]
        if self.clip:
            norm = np.zeros(len(update))
            squared_norms(update, norm)
            weight = weight * clip_factors(weight * np.sqrt(norm), self.clip)
        add_exactly(self.update, update, weight, ROUND)
        if len(self.mean_gradient):
            add_exactly(self.mean_gradient, sent.mean_gradient[finite], weight, ROUND)
        if state.own is not None:
            self._store(state.own, self.states.own, some, finite)
        if state.moments is not None:
            self._store(state.moments.first, self.states.first, some, finite)
            self._store(state.moments.second, self.states.second, some, finite)
            self.states.steps[some][finite] = state.moments.steps[finite]

    def _rows(self, some: slice) -> tuple[slice, Array, Array]:
        """Where the rows of some clients are in the view, whose they are, and their places in a whole vector."""
        start = self.states.row_start[some.start : some.stop + 1]
        rows = slice(int(start[0]), int(start[-1]))
        owner = np.repeat(np.arange(some.stop - some.start), np.diff(start))
        return rows, owner, self.layout.in_rows(self.states.row[rows])

    def _vectors(self, part: ClientVectors, some: slice) -> Vector:
        if not self.layout.n_rows:
            return part.dense[some]
        rows, owner, place = self._rows(some)
        vectors = np.zeros((some.stop - some.start, self.layout.size), dtype=np.float32)
        vectors[:, : self.layout.n_dense] = part.dense[some]
        vectors[owner[:, None], place] = part.rows[rows]
        return vectors

    def _store(self, vectors: Vector, part: ClientVectors, some: slice, finite: Mask) -> None:
        part.dense[some][finite] = vectors[finite, : self.layout.n_dense]
        if self.layout.n_rows:
            rows, owner, place = self._rows(some)
            kept = finite[owner]
            part.rows[rows][kept] = vectors[owner[kept, None], place[kept]]

    def _without_base(self, update: Vector, some: slice) -> Precise:
        """Without the base; rows that are not in the batch moved by it alone, up to rounding, and become zero."""
        n_dense, precise = self.layout.n_dense, update.astype(float)
        shared = self.shared(some)
        if shared is not None:
            base = self.h.steps * self.h.phi_rate * self.h.phi_lambda
            precise[:, n_dense:] -= base * shared[:, n_dense:].astype(float)
        _, owner, place = self._rows(some)
        others = np.ones(update.shape, dtype=bool)
        others[:, :n_dense] = False
        others[owner[:, None], place] = False
        precise[others] = 0
        return precise


class Round(Protocol):
    """The clients of one round and their batches."""

    @property
    def clients(self) -> Array:
        """Those of the cohort that have something to train on, sorted."""

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        """Start [n + 1] and relations, sorted within a client, in the batches of clients first to end."""

    def train(self, chunk: ClientChunk) -> None:
        """Train the clients of a chunk; may be called for several chunks at once."""


class Trainer(Protocol):
    """A population of clients."""

    @property
    def layout(self) -> FlatParameters: ...

    @property
    def rule_counts(self) -> Array:
        """[n_clients]: how many rules each has; clients without any never take part."""

    @property
    def threads(self) -> int:
        """How many chunks may be trained at once."""

    def begin(self, number: int, clients: Array, model: Vector) -> Round:
        """Begin round `number`, counted from 0, with these clients, which are sent this model."""


@dataclass(frozen=True, eq=False)
class Population:
    """Homes as clients, and the task of all of them; the base of all trainers of homes.

    The simulation trains all homes of a federation, a node of a deployment those that it holds. Either way random
    numbers are keyed by a home's number in the federation, so that it computes the same bits.
    """

    homes: Homes
    task: LocalTraining
    numbers: Array | None = None  # [n_homes]  of the homes in the federation, sorted; None: from 0 on

    def numbers_of(self, clients: Array) -> Array:
        """The numbers of some clients in the federation."""
        return clients if self.numbers is None else self.numbers[clients]

    @property
    def layout(self) -> FlatParameters:
        return self.task.layout

    @cached_property
    def rule_counts(self) -> Array:
        return np.bincount(self.homes.rules.home, minlength=self.homes.n_homes)

    @property
    def threads(self) -> int:
        return thread_count()


@dataclass(frozen=True, eq=False)
class TorchTrainer(Population):
    """Clients one after the other, with gradients by autograd: for every option, a few hundred clients a second."""

    cache: dict[tuple[int, int], TrainingBatch | None] = field(default_factory=dict)  # batches by draw and client

    @property
    def threads(self) -> int:
        return 1  # torch uses several itself

    def begin(self, number: int, clients: Array, model: Vector) -> TorchRound:
        batches = {client: self._batch(number, client, model) for client in clients.tolist()}
        trained = {k: batch for k, batch in batches.items() if batch is not None}
        return TorchRound(self.task, number, trained, self.numbers_of(np.array(sorted(trained), dtype=np.int64)))

    def _batch(self, number: int, client: int, model: Vector) -> TrainingBatch | None:
        turn = self.task.turn(number)
        if turn is not None and (turn, client) in self.cache:
            return self.cache[turn, client]
        one = np.array([client])
        key = ClientKey(number, int(self.numbers_of(one)[0]))
        batch = draw_batch(self.task, model, self.homes.subset(one), key)
        if turn is not None:
            self.cache[turn, client] = batch
        return batch


@dataclass(frozen=True, slots=True, eq=False)
class TorchRound:
    """A round of `TorchTrainer`."""

    task: LocalTraining
    number: int
    batches: dict[int, TrainingBatch]
    numbers: Array  # of its clients in the federation

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
            one, batch = slice(i, i + 1), self.batches[client]
            key = ClientKey(self.number, int(self.numbers[chunk.first + i]))
            model, state, shared = chunk.broadcast.model, chunk.state(one), chunk.shared(one)
            chunk.add(one, *train_client(self.task, model, batch, state, shared=shared, key=key))
