"""Clients that learn embeddings of triples (trigger type, relation, action type), many at once in compiled loops.

The score of a triple, the vector u of a home and the loss of a rule are those of `baselines.knowledge_graph`. A client
has the loss

    mean over its rules of their losses + lambda / 2 |rows it holds|^2

and takes the steps of `algorithm.client_round` with FedAvg, by SGD or Adam; tests compare the two. Clients use one
table after the other: of a copy of the model each moves the rows that it holds, and resets them. No client depends on
those before it.

The model is a table of rows of 2 d numbers (`Tables`). A client holds the rows of its rules, of the types that it owns
and of the non-rules that it has drawn in the round. It sends these alone, and behind each its weight: their sum is the
weight of all clients that hold the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from baselines.items import NonRules
from baselines.knowledge_graph import gradients
from baselines.knowledge_graph.gradients import (
    KnownRules,
    Loss,
    Rows,
    Tables,
    Typed,
    add,
    add_home,
    add_rotation_gradient,
    clear,
    f32,
    make_buffers,
)
from datasets.common.compiled import as_written, entry_point, in_any_order
from datasets.common.environment import thread_count
from datasets.common.random import KeyedRandom
from datasets.homes import Array, Mask, runs
from fedrule.federated.optimizers import EPSILON, FIRST_DECAY, SECOND_DECAY, Precise
from fedrule.federated.trainers.trainer import ClientChunk
from fedrule.federated.vectors import ROUND, FlatParameters, Vector

FOLDER = Path(__file__).parents[1]
SOURCES = Path(gradients.__file__), FOLDER / "optimizers.py", FOLDER / "vectors.py"  # of the machine code
MARKED_TOGETHER = 1024  # clients: 2 MB of marks with 2,000 rows


def layout_of(tables: Tables) -> FlatParameters:
    """Rows alone: 2 d numbers, and the weights of the clients that hold the row."""
    return FlatParameters((), (), 0, tables.n_rows, 2 * tables.dimension + 1)


@dataclass(frozen=True, eq=False)
class TripleTrainer:
    """The training homes as clients."""

    tables: Tables
    loss: Loss
    regularization: float  # lambda
    typed: Typed  # the items
    rules: KnownRules
    non_rules: NonRules
    n_non_rules: int  # drawn for each rule
    seed: int

    @property
    def layout(self) -> FlatParameters:
        return layout_of(self.tables)

    @cached_property
    def rule_counts(self) -> Array:
        return np.diff(self.rules.start)

    @property
    def threads(self) -> int:
        return thread_count()

    def begin(self, number: int, clients: Array, model: Vector) -> TripleRound:  # noqa: ARG002  non-rules are random
        """Non-rules are drawn anew in each round, with random numbers keyed by client."""
        entry, home = runs(self.rules.start, clients), np.repeat(clients, self.rule_counts[clients])
        key = KeyedRandom(self.seed, number, np.arange(len(self.rule_counts)))
        other, is_drawn = self.non_rules.draw_each(home, self.n_non_rules, key)
        return TripleRound(
            trainer=self,
            clients=clients,
            start=_starts(self.rule_counts[clients]),
            entry=entry,
            candidate=np.column_stack([self.rules.item[entry], other]),
            is_drawn=np.column_stack([np.ones(len(entry), dtype=np.bool_), is_drawn]),
        )


def _starts(counts: Array) -> Array:
    return np.concatenate([[0], np.cumsum(counts)])


@dataclass(frozen=True, eq=False)
class TripleRound:
    """The clients of a round with their rules and non-rules."""

    trainer: TripleTrainer
    clients: Array
    start: Array  # [n_clients + 1]  of the rules of each
    entry: Array  # [n_rules]  among the rules of all homes
    candidate: Array  # [n_rules, 1 + n_non_rules]  items: the rule, then non-rules
    is_drawn: Mask  # [n_rules, 1 + n_non_rules]  whether there is one

    @cached_property
    def held(self) -> tuple[Array, Array]:
        """Start [n_clients + 1] and rows, sorted within a client, that each holds."""
        parts = [self._held_by(first) for first in range(0, len(self.clients), MARKED_TOGETHER)]
        counts = np.concatenate([np.zeros(1, dtype=np.int64), *(count for count, _ in parts)])
        return np.cumsum(counts), np.concatenate([np.zeros(0, dtype=np.int64), *(row for _, row in parts)])

    def _held_by(self, first: int) -> tuple[Array, Array]:
        """How many rows each client holds, and which, of a chunk of clients from `first` on."""
        trainer, tables = self.trainer, self.trainer.tables
        clients, start = self.clients[first : first + MARKED_TOGETHER], self.start[first : first + MARKED_TOGETHER + 1]
        some = slice(start[0], start[-1])
        is_held = np.zeros((len(clients), tables.n_rows), dtype=np.bool_)
        mark_held(
            is_held, tables.offsets, tables.personal, trainer.typed, trainer.rules,
            clients, start - start[0], self.candidate[some], self.is_drawn[some],
        )  # fmt: skip
        return is_held.sum(axis=1), np.nonzero(is_held)[1]

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        start, row = self.held
        return start[first : end + 1] - start[first], row[start[first] : start[end]]

    def train(self, chunk: ClientChunk) -> None:
        trainer, some = self.trainer, slice(chunk.first, chunk.end + 1)
        shape, (held_start, held) = (chunk.layout.n_rows, chunk.layout.row_length), self.held
        train_clients(
            np.ascontiguousarray(chunk.broadcast.model.reshape(shape)[:, :-1]),
            trainer.tables.offsets,
            trainer.loss,
            Steps(chunk.h.steps, float(chunk.h.phi_rate), chunk.h.adam, float(trainer.regularization)),
            trainer.typed,
            trainer.rules,
            self.clients[chunk.first : chunk.end],
            self.start[some],
            self.entry,
            self.candidate,
            self.is_drawn,
            held_start[some],
            held,
            np.where(chunk.faulty, np.nan, chunk.weight),
            chunk.update.reshape(shape),
            chunk.loss,
            chunk.finite,
        )


class Steps(NamedTuple):
    """Local training of every client."""

    steps: int
    rate: float
    adam: bool  # otherwise SGD
    regularization: float  # lambda


@entry_point(*SOURCES)
def mark_held(
    is_held: Mask,  # [n_clients, n_rows]  false; written
    offsets: tuple[int, int, int, int, int],
    personal: bool,
    typed: Typed,
    rules: KnownRules,
    clients: Array,
    start: Array,
    candidate: Array,
    is_drawn: Mask,
) -> None:
    """Mark the rows that each client holds."""
    at_relation, at_rule_relation, at_rule_trigger, at_rule_action, at_owned = offsets
    trigger, relation, action = typed
    owned, owned_start = rules.owned, rules.owned_start
    for k in range(len(clients)):
        for i in range(start[k], start[k + 1]):
            for j in range(candidate.shape[1]):
                if is_drawn[i, j]:
                    c = candidate[i, j]
                    is_held[k, trigger[c]] = is_held[k, action[c]] = is_held[k, at_relation + relation[c]] = True
            if personal:
                c = candidate[i, 0]
                is_held[k, at_rule_relation + relation[c]] = is_held[k, at_rule_trigger + trigger[c]] = True
                is_held[k, at_rule_action + action[c]] = True
        if personal:
            for place in range(owned_start[clients[k]], owned_start[clients[k] + 1]):
                is_held[k, at_owned + owned[place]] = True


@entry_point(*SOURCES)
def train_clients(
    model: Rows,  # [n_rows, 2 d]
    offsets: tuple[int, int, int, int, int],
    loss: Loss,
    training: Steps,
    typed: Typed,
    rules: KnownRules,
    clients: Array,  # [n]
    start: Array,  # [n + 1]  of the rules of each in `entry`
    entry: Array,
    candidate: Array,
    is_drawn: Mask,
    held_start: Array,  # [n + 1]
    held: Array,
    weight: Precise,  # [n]  in the sum; NaN: a simulated fault
    update: Precise,  # [n_rows, 2 d + 1]  sums of weight * Delta_k, and of weights of those that hold a row
    losses: Vector,  # [n]  of the model; written
    finite: Mask,  # [n]  whether what a client sends is; others add nothing; written
) -> None:
    """Train every client from `model`. With v the sum of the directions of its steps, Delta = rate v."""
    n_rows, width = model.shape
    buffers = make_buffers(offsets, len(typed.trigger), width)
    x, gradient, v = model.copy(), np.zeros((n_rows, width), f32), np.zeros((n_rows, width), f32)
    n_moments = n_rows if training.adam else 0
    first, second = np.zeros((n_moments, width), f32), np.zeros((n_moments, width), f32)
    rate, regularization = f32(training.rate), f32(training.regularization)
    for k in range(len(clients)):
        some, rows = slice(start[k], start[k + 1]), held[held_start[k] : held_start[k + 1]]
        for step in range(training.steps):
            found = add_home(
                x, gradient, offsets, loss, typed, rules, clients[k], entry[some], candidate[some], is_drawn[some],
                1 / (start[k + 1] - start[k]), buffers,
            )  # fmt: skip
            for row in rows:
                if offsets[0] <= row < offsets[1]:
                    relation = row - offsets[0]
                    add_rotation_gradient(gradient, row, buffers.rotation, buffers.d_rotation, relation, loss.rotates)
                    if training.steps > 1:  # the row moves; with one step it is that of the model for all clients
                        buffers.has_rotation[relation] = False
                if step == 0:
                    found += training.regularization / 2 * squared_norm(x, row)
                add(gradient, row, regularization, x, row)
                if training.adam:
                    adam(gradient, first, second, row, step + 1)
                add(v, row, f32(1), gradient, row)
                clear(gradient, row)
                move(x, model, v, rate, row)
            if step == 0:
                losses[k] = found
        finite[k] = np.isfinite(losses[k]) and np.isfinite(weight[k]) and all_finite(x, rows)
        for row in rows:
            if finite[k]:
                add_exactly(update, v, row, weight[k] * training.rate)
                update[row, width] += weight[k]
            clear(v, row)
            move(x, model, v, rate, row)
            if training.adam:
                clear(first, row)
                clear(second, row)


@in_any_order
def adam(gradient: Rows, first: Rows, second: Rows, row: int, steps: int) -> None:
    """The direction of a step of Adam, written over the gradient: `optimizers.Moments`."""
    level, square = f32(1 - FIRST_DECAY**steps), f32(1 - SECOND_DECAY**steps)
    for k in range(gradient.shape[1]):
        g = gradient[row, k]
        first[row, k] = f32(FIRST_DECAY) * first[row, k] + f32(1 - FIRST_DECAY) * g
        second[row, k] = f32(SECOND_DECAY) * second[row, k] + f32(1 - SECOND_DECAY) * g * g
        gradient[row, k] = first[row, k] / level / (np.sqrt(second[row, k] / square) + f32(EPSILON))


@in_any_order
def move(x: Rows, model: Rows, v: Rows, rate: np.float32, row: int) -> None:
    for k in range(x.shape[1]):
        x[row, k] = model[row, k] - rate * v[row, k]


@in_any_order
def squared_norm(x: Rows, row: int) -> float:
    total = 0.0
    for k in range(x.shape[1]):
        total += x[row, k] * x[row, k]
    return total


@in_any_order
def all_finite(x: Rows, rows: Array) -> bool:
    for row in rows:
        for k in range(x.shape[1]):
            if not np.isfinite(x[row, k]):
                return False
    return True


@as_written
def add_exactly(update: Precise, v: Rows, row: int, factor: float) -> None:
    """Add a row times a factor, rounded as in `vectors.exact_addends`: the order of clients does not matter.

    Rounding is adding and subtracting a number, so that sums must stay as written.
    """
    for k in range(v.shape[1]):
        update[row, k] += (factor * v[row, k] + ROUND) - ROUND
