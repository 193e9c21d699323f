"""Clients that score by the evidence network alone, many at once: `algorithm.client_round` with compiled gradients.

The gradients of a client are computed from products of its own matrices, so that no client depends on the others in the
loop. With features f of its candidates and the parameters of `fedrule.network.terms`,

    h = dropout(relu(f first + first_bias)),  s = f direct + h last

and backwards by the chain rule. Dropout depends on the client's seed and the position in h.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from datasets.common import random
from datasets.common.compiled import as_written, entry_point
from datasets.common.random import Bits, KeyedRandom
from datasets.homes import Array, Homes, Mask
from fedrule.federated.algorithm import Gradients, client_round
from fedrule.federated.client import LocalTraining
from fedrule.federated.optimizers import Precise
from fedrule.federated.trainers.trainer import ClientChunk, Population
from fedrule.federated.vectors import Vector
from fedrule.network.encoders import DRAWN
from fedrule.network.terms import EvidenceNetwork
from fedrule.training.losses import bce, ranking

ZERO = np.float32(0)
SOURCES = (Path(random.__file__),)  # of the machine code
output = as_written(random.output)
CLIENTS_PER_CALL = 64  # 2 MB each of models, gradients and whatever else a step needs
CACHE_BYTES = 1 << 30  # of batches that will be used again
DRAWN_TOGETHER = 1024  # clients whose batches are drawn at once: that takes as long as drawing a few
PARAMETERS = tuple(f"evidence.{name}" for name in ("direct", "first", "first_bias", "last"))


def is_evidence(task: LocalTraining) -> bool:
    """Whether the score is the evidence network and nothing else."""
    terms = task.scorer.terms
    alone = task.scorer.network is None and len(terms) == 1 and isinstance(terms[0], EvidenceNetwork)
    return alone and task.objective in (bce, ranking) and task.layout.names == PARAMETERS


def evidence_network(task: LocalTraining) -> EvidenceNetwork:
    """The only term of such a score."""
    (term,) = task.scorer.terms
    assert isinstance(term, EvidenceNetwork)
    return term


@dataclass(slots=True, eq=False)
class Table:
    """Features of candidates, with room behind them: to copy them for each addition takes as long as a round."""

    features: Vector  # [capacity, n_features]
    positive: Mask  # [capacity]
    used: int = 0  # rows

    def extended(self, n: int, features: Vector, positive: Mask) -> Table:
        """One with these rows behind the first n; it is this one where there is room and nothing else is there."""
        end, table = n + len(positive), self
        if self.used != n or end > len(self.positive):
            room = end + end // 2 if n else end  # without the pages that are never written to
            table = Table(np.empty((room, features.shape[1]), dtype=np.float32), np.empty(room, dtype=np.bool_))
            table.features[:n], table.positive[:n] = self.features[:n], self.positive[:n]
        table.features[n:end], table.positive[n:end], table.used = features, positive, end
        return table


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Features of the candidates of some clients, in one table; they are costly and gathered for many at once."""

    begin: Array  # [n_homes]  where the candidates of each client begin; -1: the client is not in the table
    counts: Array  # [n_homes]  candidates of each; 0 also where there is nothing to train on
    log_stands_for: Vector  # [n_homes]  log of how many non-rules each drawn one stands for
    features: Vector  # [n, n_features]
    positive: Mask  # [n]
    table: Table  # whose first n rows they are

    @classmethod
    def empty(cls, n_homes: int, n_features: int) -> Batches:
        features = np.zeros((0, n_features), dtype=np.float32)
        begin, counts, log_stands_for = (
            np.full(n_homes, -1),
            np.zeros(n_homes, dtype=np.int64),
            np.zeros(n_homes, np.float32),
        )
        positive = np.zeros(0, dtype=np.bool_)
        return cls(begin, counts, log_stands_for, features, positive, Table(features, positive))

    @property
    def nbytes(self) -> int:
        return self.features.nbytes + self.positive.nbytes

    def missing(self, clients: Array) -> Array:
        """Those of these clients that are not in the table."""
        return clients[self.begin[clients] < 0]

    def trainable(self, clients: Array) -> Array:
        """Those of these clients that have candidates."""
        return clients[self.counts[clients] > 0]

    def with_more(
        self, task: LocalTraining, homes: Homes, clients: Array, *, key: KeyedRandom, model: Vector
    ) -> Batches:
        """With the batches of these clients, drawn with their `key`; each depends on its own client only."""
        drawn = task.sampler(homes.subset(clients)).draw(key, score=task.score(model))
        examples = task.labelled(drawn, key.client)
        similar = task.scorer.similar(examples.context, examples.candidates)
        seen = evidence_network(task).features(examples.context, similar, leave_out=examples.full)
        counts = np.bincount(examples.candidates.home, minlength=len(clients))
        all_begin, all_counts, log_stands_for = self.begin.copy(), self.counts.copy(), self.log_stands_for.copy()
        all_begin[clients] = len(self.positive) + np.cumsum(counts) - counts
        all_counts[clients] = counts
        log_stands_for[clients] = np.log(examples.stands_for)
        table = self.table.extended(len(self.positive), seen, examples.positive)
        whole = table.features[: table.used], table.positive[: table.used]
        return Batches(all_begin, all_counts, log_stands_for, *whole, table)


@dataclass(frozen=True, eq=False)
class EvidenceTrainer(Population):
    """The training homes as clients."""

    cache: dict[int, Batches] = field(default_factory=dict)  # by draw, where draws are used again

    def begin(self, number: int, clients: Array, model: Vector) -> EvidenceRound:
        turn = self.task.turn(number)
        batches = Batches.empty(self.homes.n_homes, evidence_network(self.task).n_features)
        if turn is not None:
            batches = self.cache.get(turn, batches)
        missing = batches.missing(clients)
        if len(missing):
            if turn is not None and self.homes.n_homes <= DRAWN_TOGETHER:
                missing = batches.missing(np.flatnonzero(self.rule_counts))
            key = self.task.key(number, self.numbers_of(missing))
            batches = batches.with_more(self.task, self.homes, missing, key=key, model=model)
            others = sum(cached.nbytes for draw, cached in self.cache.items() if draw != turn)
            if turn is not None and others + batches.nbytes <= CACHE_BYTES:
                self.cache[turn] = batches
        trained = batches.trainable(clients)
        return EvidenceRound(self.task, number, trained, self.numbers_of(trained), batches)


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceRound:
    """A round of `EvidenceTrainer`."""

    task: LocalTraining
    number: int
    clients: Array
    numbers: Array  # of these in the federation
    batches: Batches

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        return np.zeros(end - first + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)  # the model has none

    def train(self, chunk: ClientChunk) -> None:
        for first in range(0, chunk.end - chunk.first, CLIENTS_PER_CALL):
            some = slice(first, min(first + CLIENTS_PER_CALL, chunk.end - chunk.first))
            which = slice(chunk.first + some.start, chunk.first + some.stop)
            found = client_round(
                chunk.h,
                chunk.layout,
                chunk.broadcast.model,
                self._gradients(which),
                chunk.state(some),
                shared=chunk.shared(some),
                n=some.stop - some.start,
            )
            chunk.add(some, *found)

    def _gradients(self, which: slice) -> Gradients:
        """Of these of the round's clients."""
        term, clients = evidence_network(self.task), self.clients[which]
        batches, ranks = self.batches, self.task.objective is ranking
        begin, counts = batches.begin[clients], batches.counts[clients]
        log_stands_for = batches.log_stands_for[clients]
        seeds = self.task.dropout_seeds(self.number, self.numbers[which])
        drop = np.uint64(math.ceil(term.dropout * DRAWN)), np.float32(1 / (1 - term.dropout))

        def at(x: Vector, step: int) -> tuple[Precise, Vector]:
            loss, gradient = np.empty(len(clients)), np.empty_like(x)
            table = batches.features, batches.positive, begin, counts, log_stands_for
            gradients(x, term.hidden, *table, seeds[step].view(np.uint64), *drop, ranks, loss, gradient)
            return loss, gradient

        return at


# Loops instead of operations on whole arrays (`where`, `outer`, a sum of two), which take numba ten times as long.


@entry_point(*SOURCES)
def gradients(
    x: Vector,  # [n_clients, size]  direct, first, first_bias and last, one after the other
    hidden: int,
    features: Vector,  # [n, n_features]  of candidates of all clients
    positive: Mask,  # [n]  which of them are rules
    begin: Array,  # [n_clients]  where the candidates of each client begin
    counts: Array,  # [n_clients]  how many it has, at least one
    log_stands_for: Vector,  # [n_clients]  log of how many non-rules each drawn one stands for
    seeds: Bits,  # [n_clients]  of dropout
    bar: np.uint64,  # a unit is kept where its 16 bits are not below
    scale: np.float32,  # of the units that are kept
    ranks: bool,  # ranking loss; otherwise cross entropy
    loss: npt.NDArray[np.float64],  # [n_clients]  written
    gradient: Vector,  # [n_clients, size]  written
) -> None:
    """Write the loss of every client and its gradient at the client's model."""
    for c in range(len(begin)):
        n = counts[c]
        f, is_rule = features[begin[c] : begin[c] + n], positive[begin[c] : begin[c] + n]
        direct, first, first_bias, last = parts(x[c], f.shape[1], hidden)
        h = np.dot(f, first)
        activate(h, first_bias, kept_units(seeds[c], h.size, bar), scale)
        s = np.dot(f, direct)
        add(s, np.dot(h, last))
        d_s = np.zeros(n, dtype=np.float32)  # gradient of the logits
        loss[c] = ranking_loss(s, is_rule, log_stands_for[c], d_s) if ranks else cross_entropy(s, is_rule, d_s)

        d_direct, d_first, d_first_bias, d_last = parts(gradient[c], f.shape[1], hidden)
        np.dot(d_s, f, d_direct)
        np.dot(d_s, h, d_last)
        activate_backward(d_s, last, h, d_first_bias, scale)
        np.dot(f.T, h, d_first)


@entry_point(*SOURCES)
def parts(vector: Vector, n: int, hidden: int) -> tuple[Vector, Vector, Vector, Vector]:
    """The parameters in a vector, without a copy."""
    bias = n + n * hidden
    return vector[:n], vector[n:bias].reshape(n, hidden), vector[bias : bias + hidden], vector[bias + hidden :]


@entry_point(*SOURCES)
def kept_units(seed: np.uint64, n: int, bar: np.uint64) -> Mask:
    """Which of n units are kept: `fedrule.network.encoders.Dropout`."""
    kept = np.ones((n + 3) // 4 * 4, dtype=np.bool_)
    if bar > 0:
        for word in range(len(kept) // 4):
            bits = output(seed, np.uint64(word))
            for lane in range(4):
                kept[4 * word + lane] = (bits >> np.uint64(16 * lane)) & np.uint64(0xFFFF) >= bar
    return kept


@entry_point(*SOURCES)
def activate(h: Vector, bias: Vector, kept: Mask, scale: np.float32) -> None:
    """dropout(relu(h + bias)), written over h; NaN of a kept unit stays NaN."""
    n, width = h.shape
    for i in range(n):
        for j in range(width):
            value = h[i, j] + bias[j]
            value = ZERO if value <= 0 else value * scale
            h[i, j] = value if kept[i * width + j] else ZERO


@entry_point(*SOURCES)
def add(out: Vector, values: Vector) -> None:
    for i in range(len(out)):
        out[i] += values[i]


@entry_point(*SOURCES)
def activate_backward(d_s: Vector, last: Vector, h: Vector, d_bias: Vector, scale: np.float32) -> None:
    """The gradient of the input of `activate`, written over h, and that of the bias."""
    scaled, total = np.zeros(len(last), np.float32), np.zeros(len(last), np.float32)
    for j in range(len(last)):
        scaled[j] = last[j] * scale
    for i in range(h.shape[0]):
        d = d_s[i]
        for j in range(h.shape[1]):
            d_h = d * scaled[j]  # before it is known whether it counts: without a branch the loop is ten times faster
            d_h = d_h if h[i, j] != 0 else ZERO
            h[i, j] = d_h
            total[j] += d_h
    for j in range(len(last)):
        d_bias[j] = total[j]


@entry_point(*SOURCES)
def ranking_loss(s: Vector, positive: Mask, log_stands_for: float, d_s: Vector) -> float:
    """`fedrule.training.losses.ranking` of one home, the mean over its rules; `d_s` has to be zeros."""
    rules, largest = 0, np.float32(-np.inf)
    for i in range(len(s)):
        if positive[i]:
            rules += 1
        elif s[i] > largest or s[i] != s[i]:  # NaN stays NaN
            largest = s[i]
    if rules == 0 or rules == len(s):
        return 0.0
    exps, total = np.zeros(len(s)), 0.0
    for i in range(len(s)):
        if not positive[i]:
            exps[i] = math.exp(np.float64(s[i] - largest))
            total += exps[i]
    log_sum = largest + math.log(total) + log_stands_for
    loss, pull = 0.0, 0.0
    for i in range(len(s)):
        if positive[i]:
            margin = log_sum - s[i]
            loss += softplus(margin)
            d_s[i] = -sigmoid(margin) / rules
            pull += sigmoid(margin) / rules
    for i in range(len(s)):
        if not positive[i]:
            d_s[i] = pull * exps[i] / total
    return float(loss / rules)


@entry_point(*SOURCES)
def cross_entropy(s: Vector, positive: Mask, d_s: Vector) -> float:
    """`fedrule.training.losses.bce` of one home, the mean over its candidates: -log p of a rule, else -log(1 - p)."""
    loss = 0.0
    for i in range(len(s)):
        logit = float(s[i])
        loss += softplus(-logit if positive[i] else logit)
        d_s[i] = (sigmoid(logit) - positive[i]) / len(s)
    return loss / len(s)


@entry_point(*SOURCES)
def softplus(value: float) -> float:
    """log(1 + e^value) without overflow."""
    return (value if value > 0 else 0.0) + math.log1p(math.exp(-abs(value)))


@entry_point(*SOURCES)
def sigmoid(value: float) -> float:
    """1 / (1 + e^-value), the derivative of softplus."""
    return 1 / (1 + math.exp(-value))
