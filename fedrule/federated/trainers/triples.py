"""Clients that learn embeddings of triples (trigger type, relation, action type), many at once in compiled loops.

The score of a triple and the vector u of a home are those of `baselines.knowledge_graph.methods`. With q = h + u and
y = t conj(r), a candidate has the score s = q . y (ComplEx) or gamma - |q - y| (RotatE), and a client the loss

    mean over its rules of (softplus(-s) + sum over non-rules i of p_i softplus(s_i)) + lambda / 2 |rows it holds|^2

with p = softmax(alpha s_i), taken as constant. Gradients are written out by the chain rule; a client's depend on its
own rows only, so that no client depends on the others in the loop.

The model is a table of rows of 2 d numbers: entities, relations (of RotatE d angles, the other half unused), and the
vectors that u is made of. A client holds the rows of its rules, of the types that it owns and of the non-rules that it
has drawn in the round. It sends these alone, and behind each the number 1, of which the sum is the number of clients
that hold the row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from baselines.items import NonRules
from datasets.common.environment import thread_count
from datasets.common.random import KeyedRandom
from datasets.homes import Array, Mask, runs
from datasets.valid import ValidRules
from fedrule.federated.algorithm import Gradients, client_round
from fedrule.federated.optimizers import Precise
from fedrule.federated.trainers.evidence import compiled, sigmoid, softplus
from fedrule.federated.trainers.trainer import ClientChunk
from fedrule.federated.vectors import FlatParameters, Vector

CLIENTS_PER_CALL = 64  # some MB each of models and gradients


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the rows of each table begin."""

    n_types: int
    n_relations: int
    dimension: int  # d
    personal: bool  # whether homes have a vector

    @property
    def relation(self) -> int:
        """Entities are the first rows."""
        return self.n_types

    @property
    def rule_relation(self) -> int:
        return self.relation + self.n_relations

    @property
    def rule_trigger(self) -> int:
        return self.rule_relation + self.n_relations

    @property
    def rule_action(self) -> int:
        return self.rule_trigger + self.n_types

    @property
    def owned(self) -> int:
        return self.rule_action + self.n_types

    @property
    def layout(self) -> FlatParameters:
        """Rows alone: 2 d numbers, and how many clients hold the row."""
        n_rows = self.owned + self.n_types if self.personal else self.rule_relation
        return FlatParameters((), (), 0, n_rows, 2 * self.dimension + 1)


@dataclass(frozen=True, slots=True)
class TripleLoss:
    """The loss of a client."""

    rotates: bool  # RotatE; otherwise ComplEx
    margin: float  # gamma
    temperature: float  # alpha
    regularization: float  # lambda


@dataclass(frozen=True, eq=False)
class TripleTrainer:
    """The training homes as clients."""

    tables: Tables
    loss: TripleLoss
    valid: ValidRules  # the items
    known: csr_array  # [n_homes, n_items]  rules
    automation: Array  # [n_rules]  of each entry of `known`
    owned: csr_array  # [n_homes, n_types]
    non_rules: NonRules
    n_non_rules: int  # drawn for each rule
    seed: int

    @property
    def layout(self) -> FlatParameters:
        return self.tables.layout

    @cached_property
    def rule_counts(self) -> Array:
        return np.diff(self.known.indptr).astype(np.int64)

    @property
    def threads(self) -> int:
        return thread_count()

    def begin(self, number: int, clients: Array, model: Vector) -> TripleRound:  # noqa: ARG002  non-rules are random
        """Non-rules are drawn anew in each round, with random numbers keyed by client."""
        rule = runs(self.known.indptr.astype(np.int64), clients)
        home, item = np.repeat(clients, self.rule_counts[clients]), self.known.indices[rule].astype(np.int64)
        repeated = np.repeat(home, self.n_non_rules)
        key = KeyedRandom(self.seed, number, np.arange(len(self.rule_counts)))
        place, drawn = self.non_rules.draw(repeated, key)
        other, is_drawn = np.repeat(item, self.n_non_rules), np.ones((len(item), 1 + self.n_non_rules), dtype=np.bool_)
        is_drawn[:, 1:] = np.isin(np.arange(len(repeated)), place, assume_unique=True).reshape(len(item), -1)
        other[place] = drawn
        return TripleRound(
            trainer=self,
            clients=clients,
            start=_starts(self.rule_counts[clients]),
            candidate=np.column_stack([item, other.reshape(len(item), -1)]),
            is_drawn=is_drawn,
            automation=self.automation[rule],
            owned_start=_starts(np.diff(self.owned.indptr)[clients]),
            owned=self.owned.indices[runs(self.owned.indptr.astype(np.int64), clients)].astype(np.int64),
        )


def _starts(counts: npt.NDArray[np.integer]) -> Array:
    return np.concatenate([[0], np.cumsum(counts)])


@dataclass(frozen=True, eq=False)
class TripleRound:
    """The clients of a round with their rules and non-rules."""

    trainer: TripleTrainer
    clients: Array
    start: Array  # [n_clients + 1]  of the rules of each
    candidate: Array  # [n_rules, 1 + n_non_rules]  items: the rule, then non-rules
    is_drawn: Mask  # [n_rules, 1 + n_non_rules]  whether there is one
    automation: Array  # [n_rules]
    owned_start: Array  # [n_clients + 1]
    owned: Array  # types

    @cached_property
    def held(self) -> tuple[Array, Array]:
        """Start [n_clients + 1] and rows, sorted within a client, that each holds."""
        tables, n_clients = self.trainer.tables, len(self.clients)
        rule, width = np.diff(self.start), self.candidate.shape[1]
        client = np.repeat(np.arange(n_clients), rule)
        trigger, action, relation = self.trainer.valid.typed()
        some, of_some = self.candidate[self.is_drawn], np.repeat(client, width)[self.is_drawn.reshape(-1)]
        found = [(of_some, trigger[some]), (of_some, action[some]), (of_some, tables.relation + relation[some])]
        if tables.personal:
            own, of_types = self.candidate[:, 0], np.repeat(np.arange(n_clients), np.diff(self.owned_start))
            found += [
                (client, tables.rule_relation + relation[own]),
                (client, tables.rule_trigger + trigger[own]),
                (client, tables.rule_action + action[own]),
                (of_types, tables.owned + self.owned),
            ]
        n_rows = tables.layout.n_rows
        key = np.unique(np.concatenate([of * n_rows + row for of, row in found]))
        return np.searchsorted(key, np.arange(n_clients + 1) * n_rows), key % n_rows

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        start, row = self.held
        return start[first : end + 1] - start[first], row[start[first] : start[end]]

    def train(self, chunk: ClientChunk) -> None:
        for first in range(chunk.first, chunk.end, CLIENTS_PER_CALL):
            end = min(first + CLIENTS_PER_CALL, chunk.end)
            some = slice(first - chunk.first, end - chunk.first)
            sent, state = client_round(
                chunk.h,
                chunk.layout,
                chunk.broadcast.model,
                self._gradients(first, end),
                chunk.state(some),
                n=end - first,
            )
            start, row = self.rows(first, end)
            update = sent.update.reshape(end - first, chunk.layout.n_rows, -1)
            update[np.repeat(np.arange(end - first), np.diff(start)), row, -1] = 1
            chunk.add(some, replace(sent, update=update.reshape(end - first, -1)), state)

    def _gradients(self, first: int, end: int) -> Gradients:
        """Of these of the round's clients."""
        tables, loss = self.trainer.tables, self.trainer.loss
        start, row = self.held
        offsets = tables.relation, tables.rule_relation, tables.rule_trigger, tables.rule_action, tables.owned
        options = loss.rotates, loss.margin, loss.temperature, loss.regularization, tables.personal
        trigger, action, relation = self.trainer.valid.typed()
        clients = self.start[first : end + 1], self.owned_start[first : end + 1], start[first : end + 1]

        def at(x: Vector, step: int) -> tuple[Precise, Vector]:  # noqa: ARG001  all steps have the same batch
            found, gradient = np.zeros(end - first), np.zeros_like(x)
            shape = end - first, tables.layout.n_rows, tables.layout.row_length
            gradients(
                x.reshape(shape),
                offsets,
                options,
                (trigger, relation, action),
                self.candidate,
                self.is_drawn,
                self.automation,
                self.owned,
                row,
                *clients,
                found,
                gradient.reshape(shape),
            )
            return found, gradient

        return at


@compiled
def gradients(
    x: npt.NDArray[np.float32],  # [n_clients, n_rows, 2 d + 1]  their models
    offsets: tuple[int, int, int, int, int],  # of all tables but the first
    options: tuple[bool, float, float, float, bool],  # those of `TripleLoss`, and whether homes have a vector
    typed: tuple[Array, Array, Array],  # [n_items]  trigger type, relation and action type
    candidate: Array,
    is_drawn: Mask,
    automation: Array,
    owned: Array,
    held: Array,
    start: Array,  # [n_clients + 1]  of each client's rules
    owned_start: Array,  # [n_clients + 1]
    held_start: Array,  # [n_clients + 1]
    loss: Precise,  # [n_clients]  written
    gradient: npt.NDArray[np.float32],  # [n_clients, n_rows, 2 d + 1]  added to
) -> None:
    """Write the loss of every client and its gradient at the client's model."""
    at_relation, at_rule_relation, at_rule_trigger, at_rule_action, at_owned = offsets
    rotates, margin, temperature, regularization, personal = options
    trigger, relation, action = typed
    width, n_candidates = x.shape[2] - 1, candidate.shape[1]
    y, d_y = np.zeros((n_candidates, width)), np.zeros(width)
    scores, d_scores = np.zeros(n_candidates), np.zeros(n_candidates)
    turns = np.zeros((at_rule_relation - at_relation, width))  # relations as complex numbers, and their gradients
    d_turns = np.zeros_like(turns)
    for c in range(len(start) - 1):
        model, out, rows = x[c], gradient[c], held[held_start[c] : held_start[c + 1]]
        read_turns(model[at_relation:at_rule_relation], rows - at_relation, rotates, turns, d_turns)
        first, n = start[c], start[c + 1] - start[c]
        types = owned[owned_start[c] : owned_start[c + 1]]
        # Vectors of rules, their sum, and the mean of the owned types.
        rule, total, base = np.zeros((n, width)), np.zeros(width), np.zeros(width)
        if personal:
            for i in range(n):
                item = candidate[first + i, 0]
                for k in range(width):
                    value = model[at_rule_relation + relation[item], k] + model[at_rule_trigger + trigger[item], k]
                    rule[i, k] = value + model[at_rule_action + action[item], k]
                    total[k] += rule[i, k]
            for kind in types:
                for k in range(width):
                    base[k] += model[at_owned + kind, k] / len(types)
        d_u, d_total, d_base = np.zeros((n, width)), np.zeros(width), np.zeros(width)
        for i in range(n):
            # u without the rule's automation.
            u, others = total.copy(), n
            for j in range(n):
                if automation[first + j] == automation[first + i]:
                    others -= 1
                    for k in range(width):
                        u[k] -= rule[j, k]
            scale = 1 / math.sqrt(others + 1)
            for k in range(width):
                u[k] = u[k] * scale + base[k]
            for j in range(n_candidates):
                item = candidate[first + i, j]
                turn(model[action[item]], turns[relation[item]], y[j])
                scores[j] = score(model[trigger[item]], u, y[j], rotates, margin)
            loss[c] += adversarial(scores, is_drawn[first + i], temperature, d_scores) / n
            for j in range(n_candidates):
                if not is_drawn[first + i, j]:
                    continue
                item, d_s = candidate[first + i, j], d_scores[j] / n
                head = model[trigger[item]]
                distance = margin - scores[j]
                for k in range(width):
                    q = head[k] + u[k]
                    if rotates:
                        d_y[k] = d_s * (q - y[j, k]) / distance if distance > 0 else 0.0
                        d_q = -d_y[k]
                    else:
                        d_y[k], d_q = d_s * q, d_s * y[j, k]
                    out[trigger[item], k] += d_q
                    d_u[i, k] += d_q
                turn_backward(
                    model[action[item]], turns[relation[item]], d_y, out[action[item]], d_turns[relation[item]]
                )
            for k in range(width):
                d_base[k] += d_u[i, k]
                d_u[i, k] *= scale
                d_total[k] += d_u[i, k]
        if personal:
            for i in range(n):
                item = candidate[first + i, 0]
                d_rule = d_total.copy()
                for j in range(n):
                    if automation[first + j] == automation[first + i]:
                        for k in range(width):
                            d_rule[k] -= d_u[j, k]
                for k in range(width):
                    out[at_rule_relation + relation[item], k] += d_rule[k]
                    out[at_rule_trigger + trigger[item], k] += d_rule[k]
                    out[at_rule_action + action[item], k] += d_rule[k]
            for kind in types:
                for k in range(width):
                    out[at_owned + kind, k] += d_base[k] / len(types)
        write_turns(turns, d_turns, rows - at_relation, rotates, out[at_relation:at_rule_relation])
        for row in rows:
            for k in range(width):
                loss[c] += regularization / 2 * model[row, k] ** 2
                out[row, k] += regularization * model[row, k]


@compiled
def score(head: Vector, u: Precise, y: Precise, rotates: bool, margin: float) -> float:
    """(h + u) . y, or gamma - |h + u - y|."""
    total = 0.0
    for k in range(len(u)):
        q = head[k] + u[k]
        total += (q - y[k]) ** 2 if rotates else q * y[k]
    return margin - math.sqrt(total) if rotates else total


@compiled
def read_turns(table: npt.NDArray[np.float32], rows: Array, rotates: bool, turns: Precise, d_turns: Precise) -> None:
    """Write those of these rows that are relations as complex numbers, of angles with RotatE; gradients become 0."""
    d = turns.shape[1] // 2
    for row in rows:
        if 0 <= row < len(turns):
            for k in range(d):
                value = np.float64(table[row, k])
                turns[row, k] = math.cos(value) if rotates else value
                turns[row, d + k] = math.sin(value) if rotates else np.float64(table[row, d + k])
                d_turns[row, k] = d_turns[row, d + k] = 0.0


@compiled
def write_turns(turns: Precise, d_turns: Precise, rows: Array, rotates: bool, out: npt.NDArray[np.float32]) -> None:
    """The gradients of what `read_turns` read, by those of what it wrote."""
    d = turns.shape[1] // 2
    for row in rows:
        if 0 <= row < len(turns):
            for k in range(d):
                if rotates:
                    out[row, k] = turns[row, k] * d_turns[row, d + k] - turns[row, d + k] * d_turns[row, k]
                else:
                    out[row, k], out[row, d + k] = d_turns[row, k], d_turns[row, d + k]


@compiled
def turn(t: Vector, r: Precise, y: Precise) -> None:
    """t conj(r), written to y."""
    d = len(y) // 2
    for k in range(d):
        y[k] = t[k] * r[k] + t[d + k] * r[d + k]
        y[d + k] = t[d + k] * r[k] - t[k] * r[d + k]


@compiled
def turn_backward(t: Vector, r: Precise, d_y: Precise, d_t: Vector, d_r: Precise) -> None:
    """Add the gradients of t and r, given that of t conj(r)."""
    d = len(d_y) // 2
    for k in range(d):
        re, im = d_y[k], d_y[d + k]
        d_t[k] += r[k] * re - r[d + k] * im
        d_t[d + k] += r[d + k] * re + r[k] * im
        d_r[k] += t[k] * re + t[d + k] * im
        d_r[d + k] += t[d + k] * re - t[k] * im


@compiled
def adversarial(scores: Precise, is_drawn: Mask, temperature: float, d_scores: Precise) -> float:
    """The loss of one rule, whose score is the first; gradients are written, 0 where there is no non-rule."""
    largest, total = -np.inf, 0.0
    for j in range(1, len(scores)):
        if is_drawn[j] and not temperature * scores[j] <= largest:  # NaN stays NaN
            largest = temperature * scores[j]
    for j in range(1, len(scores)):
        if is_drawn[j]:
            total += math.exp(temperature * scores[j] - largest)
    loss = softplus(-scores[0])
    d_scores[0] = -sigmoid(-scores[0])
    for j in range(1, len(scores)):
        d_scores[j] = 0.0
        if is_drawn[j]:
            share = math.exp(temperature * scores[j] - largest) / total
            loss += share * softplus(scores[j])
            d_scores[j] = share * sigmoid(scores[j])
    return loss
