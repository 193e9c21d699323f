"""Clients that score by weighed evidence alone, trained many at once: vectors side by side, slopes by a compiled loop.

Who stands beside a client never changes a bit of what it sends: slopes are found client by client, all else is done
number by number, and sums are made on the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from datasets.common.random import KeyedRandom
from datasets.homes import Array, Homes, Mask
from fedrule.evidence.features import NAMES
from fedrule.federated.algorithm import Moments, Precise, train_side_by_side
from fedrule.federated.client import Task
from fedrule.federated.cohort import Purpose
from fedrule.federated.protocols import Population, Work
from fedrule.federated.states import Aligned
from fedrule.federated.vectors import Vector, on_grid
from fedrule.federated.vectors import Vector as Floats
from fedrule.model.terms import EvidenceNetwork
from fedrule.training.loop import TrainingBatch
from fedrule.training.losses import bce, ranking

# --- Compiled loops: the loss of many clients that score by weighed evidence, and its slopes, each with its own model.
#
# A client is worked out by itself, in products of its own matrices, so that nothing depends on who else is in the loop.
# With features f of its candidates and the names of `fedrule.model.terms`,
#
#     h1 = dropout(relu(f first + first_bias)),  h2 = dropout(relu(h1 second + second_bias)),  s = f direct + h2 last
#
# and backwards by the chain rule. What dropout keeps is a function of the client's seed and the place in h1 and h2.

Bits = npt.NDArray[np.uint64]
F = TypeVar("F", bound=Callable[..., object])

ZERO = np.float32(0)
WORDS = 2.0**32  # different words


def compiled(function: F) -> F:
    """Compile as written."""
    made: F = njit(nogil=True, cache=True, error_model="numpy")(function)
    return made


@compiled
def slopes(
    x: Floats,  # [n_clients, size]  direct, first, first_bias, second, second_bias and last, one after the other
    hidden: int,
    features: Floats,  # [n, n_features]  of candidates of all clients
    positive: Mask,  # [n]  which of them are rules
    begin: Array,  # [n_clients]  where the candidates of each client begin
    many: Array,  # [n_clients]  how many it has, one at least
    seeds: Bits,  # [n_clients]  of dropout
    share: float,  # that dropout drops
    ranks: bool,  # by the ranking loss; otherwise by cross entropy
    loss: npt.NDArray[np.float64],  # [n_clients]  written
    slope: Floats,  # [n_clients, size]  written
) -> None:
    """Write the loss of every client, and its slopes at the client's model."""
    bar, scale = np.uint64(math.ceil(share * WORDS)), np.float32(1 / (1 - share))
    for c in range(len(begin)):
        n = many[c]
        f, is_rule = features[begin[c] : begin[c] + n], positive[begin[c] : begin[c] + n]
        direct, first, first_bias, second, second_bias, last = parts(x[c], f.shape[1], hidden)
        h1 = np.dot(f, first)
        activate(h1, first_bias, seeds[c], 0, bar, scale)
        h2 = np.dot(h1, second)
        activate(h2, second_bias, seeds[c], n * hidden, bar, scale)
        s = np.dot(f, direct) + np.dot(h2, last)
        of_s = np.zeros(n, dtype=np.float32)  # the slope of each logit
        loss[c] = ranking_slopes(s, is_rule, of_s) if ranks else cross_entropy(s, is_rule, of_s)

        of_direct, of_first, of_first_bias, of_second, of_second_bias, of_last = parts(slope[c], f.shape[1], hidden)
        of_direct[:] = np.dot(of_s, f)
        of_last[:] = np.dot(of_s, h2)
        turn_back(np.outer(of_s, last), h2, of_second_bias, scale)
        of_second[:] = np.dot(h1.T, h2)
        turn_back(np.dot(h2, second.T), h1, of_first_bias, scale)
        of_first[:] = np.dot(f.T, h1)


@compiled
def parts(vector: Floats, n: int, hidden: int) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
    """The parameters in a vector, without a copy."""
    first_bias = n + n * hidden
    second_bias = first_bias + hidden + hidden * hidden
    return (
        vector[:n],
        vector[n:first_bias].reshape(n, hidden),
        vector[first_bias : first_bias + hidden],
        vector[first_bias + hidden : second_bias].reshape(hidden, hidden),
        vector[second_bias : second_bias + hidden],
        vector[second_bias + hidden :],
    )


@compiled
def activate(h: Floats, bias: Floats, seed: np.uint64, place: int, bar: np.uint64, scale: np.float32) -> None:
    """dropout(relu(h + bias)), written over h, whose elements take their words from this place on."""
    n, width = h.shape
    for i in range(n):
        for j in range(width):
            value = h[i, j] + bias[j]
            if value <= 0:  # what is no number stays what it is
                value = ZERO
            elif bar > 0:
                value = value * scale if word(seed, np.uint64(place + i * width + j)) >= bar else ZERO
            h[i, j] = value


@compiled
def turn_back(slope: Floats, h: Floats, of_bias: Floats, scale: np.float32) -> None:
    """From the slope of what `activate` made to that of what it was given, written over h; its sums are the bias's."""
    of_bias[:] = 0
    for i in range(h.shape[0]):
        for j in range(h.shape[1]):
            h[i, j] = slope[i, j] * scale if h[i, j] != 0 else ZERO
            of_bias[j] += h[i, j]


@compiled
def ranking_slopes(s: Floats, positive: Mask, of_s: Floats) -> float:
    """`fedrule.training.losses.ranking` of one home, whose rules all weigh the same: their mean. `of_s` comes as zeros."""
    rules = positive.sum()
    if rules == 0 or rules == len(s):
        return 0.0
    largest = s[~positive].max()
    against = np.where(positive, 0.0, np.exp((s - largest).astype(np.float64)))
    total = against.sum()
    together = largest + math.log(total)
    loss, pushed = 0.0, 0.0
    for i in range(len(s)):
        if positive[i]:
            over = together - s[i]
            loss += softplus(over)
            of_s[i] = -sigmoid(over) / rules
            pushed += sigmoid(over) / rules
    for i in range(len(s)):
        if not positive[i]:
            of_s[i] = pushed * against[i] / total
    return float(loss / rules)


@compiled
def cross_entropy(s: Floats, positive: Mask, of_s: Floats) -> float:
    """`fedrule.training.losses.bce` of one home: the mean over its candidates, -log p of a rule and -log (1 - p) else."""
    loss = 0.0
    for i in range(len(s)):
        logit = float(s[i])
        loss += softplus(-logit if positive[i] else logit)
        of_s[i] = (sigmoid(logit) - positive[i]) / len(s)
    return loss / len(s)


@compiled
def softplus(value: float) -> float:
    """log(1 + e^value) without overflow."""
    return (value if value > 0 else 0.0) + math.log1p(math.exp(-abs(value)))


@compiled
def sigmoid(value: float) -> float:
    """Its slope."""
    return 1 / (1 + math.exp(-value))


@compiled
def word(seed: np.uint64, place: np.uint64) -> np.uint64:
    """32 bits: the upper half of this output of SplitMix64 (`datasets.common.random.output`)."""
    bits = seed + (place + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits >> np.uint64(32)


# --- What clients that score by evidence are asked about: features of their candidates, in one table for many clients.
#
# Features are costly to gather, so that they are gathered for many clients at once, and kept where draws come again.


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """Of some clients of a population; where in the table the others begin is -1."""

    begin: Array  # [n_homes]
    many: Array  # [n_homes]  candidates of each, 0 of a client that is asked nothing
    features: Vector  # [n, n_features]
    positive: Mask  # [n]

    @classmethod
    def none(cls, n_homes: int) -> Lessons:
        """Of nobody yet."""
        features = np.zeros((0, len(NAMES)), dtype=np.float32)
        return cls(np.full(n_homes, -1), np.zeros(n_homes, dtype=np.int64), features, np.zeros(0, dtype=bool))

    @property
    def nbytes(self) -> int:
        return self.features.nbytes + self.positive.nbytes

    def missing(self, clients: Array) -> Array:
        """Those of these clients that are not here."""
        return clients[self.begin[clients] < 0]

    def asked(self, clients: Array) -> Array:
        """Those of these clients that are asked something."""
        return clients[self.many[clients] > 0]

    def with_more(self, task: Task, homes: Homes, clients: Array, *, number: int, model: Vector) -> Lessons:
        """With these clients as well: what each is asked in round `number` does not depend on the others."""
        key, score = task.key(number, clients), task.score(model)
        examples = task.sampler(homes.subset(clients)).draw(key, score=score)
        batch = TrainingBatch.of(task.scorer, examples)
        (observed,) = batch.query.observed
        many = np.bincount(examples.candidates.home, minlength=len(clients))
        all_begin, all_many = self.begin.copy(), self.many.copy()
        all_begin[clients] = len(self.positive) + np.cumsum(many) - many
        all_many[clients] = many
        features = np.concatenate([self.features, observed["features"].numpy()])
        return Lessons(all_begin, all_many, features, np.concatenate([self.positive, examples.positive]))


AT_ONCE = 64  # clients whose vectors stand side by side: 2 MB each of model, slope and what else a step needs
KEPT_BYTES = 1 << 30  # of lessons that are kept for their draw to come again
TOGETHER = 1024  # clients that are asked all together when the first of them is: that takes as long as to ask a few
PARAMETERS = tuple(f"evidence.{name}" for name in ("direct", "first", "first_bias", "second", "second_bias", "last"))


def is_evidence(task: Task) -> bool:
    """Whether the score is weighed evidence and nothing else."""
    terms = task.scorer.terms
    alone = task.scorer.network is None and len(terms) == 1 and isinstance(terms[0], EvidenceNetwork)
    return alone and task.objective in (bce, ranking) and task.layout.names == PARAMETERS


@dataclass(frozen=True, eq=False)
class Batched(Population):
    """The homes of training as clients."""

    kept: dict[int, Lessons] = field(default_factory=dict)  # by draw, where draws come again

    def begin(self, number: int, clients: Array, model: Vector) -> BatchedRound:
        turn = self.task.turn(number)
        lessons = Lessons.none(self.homes.n_homes)
        if turn is not None:
            lessons = self.kept.get(turn, lessons)
        missing = lessons.missing(clients)
        if len(missing):
            if turn is not None and self.homes.n_homes <= TOGETHER:
                missing = lessons.missing(np.flatnonzero(self.rules))
            lessons = lessons.with_more(self.task, self.homes, missing, number=number, model=model)
            others = sum(kept.nbytes for place, kept in self.kept.items() if place != turn)
            if turn is not None and others + lessons.nbytes <= KEPT_BYTES:
                self.kept[turn] = lessons
        return BatchedRound(self.task, number, lessons.asked(clients), lessons)


@dataclass(frozen=True, slots=True, eq=False)
class BatchedRound:
    """One round of them."""

    task: Task
    number: int
    clients: Array
    lessons: Lessons

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        return np.zeros(end - first + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)  # the model has none

    def train(self, work: Work) -> None:
        for first in range(0, work.end - work.first, AT_ONCE):
            self._train(work, slice(first, min(first + AT_ONCE, work.end - work.first)))

    def _train(self, work: Work, some: slice) -> None:
        """These clients of a chunk."""
        clients = self.clients[work.first : work.end][some]
        seeds = self._seeds(clients)
        trained = train_side_by_side(
            work.plan,
            self.task.layout,
            work.told.model,
            lambda x, step: self._slopes(x, clients, seeds[step]),
            n=len(clients),
            off=_off(work, some) if work.plan.corrects else None,
            moments=_moments(work.memory, some),
        )
        finite = trained.finite & ~work.broken[some]
        work.loss[some], work.finite[some] = trained.loss, finite
        weight = work.weight[some][finite, None]
        work.update[:] += on_grid(weight * trained.update[finite]).sum(axis=0)
        if len(work.progress):
            work.progress[:] += on_grid(weight * trained.progress[finite]).sum(axis=0)
        if trained.own is not None:
            work.memory.own.dense[some][finite] = trained.own[finite]
        if trained.moments is not None:
            work.memory.first.dense[some][finite] = trained.moments.first[finite]
            work.memory.second.dense[some][finite] = trained.moments.second[finite]
            work.memory.steps[some][finite] = trained.moments.steps[finite]

    def _slopes(self, x: Vector, clients: Array, seeds: Array) -> tuple[Precise, Vector]:
        """The losses of these clients and their slopes."""
        (term,) = self.task.scorer.terms
        assert isinstance(term, EvidenceNetwork)
        loss, slope = np.empty(len(clients)), np.empty_like(x)
        slopes(
            x,
            term.hidden,
            self.lessons.features,
            self.lessons.positive,
            self.lessons.begin[clients],
            self.lessons.many[clients],
            seeds.view(np.uint64),
            term.dropout,
            self.task.objective is ranking,
            loss,
            slope,
        )
        return loss, slope

    def _seeds(self, clients: Array) -> Array:
        """[n_steps, n_clients]: of dropout."""
        steps, n = self.task.plan.steps, len(clients)
        drops = KeyedRandom(self.task.seed, self.number, clients).stream(Purpose.DROPOUT)
        seeds = drops.below(np.repeat(np.arange(n), steps), np.full(n * steps, 2**62))
        return np.ascontiguousarray(seeds.reshape(n, steps).T)


def _off(work: Work, some: slice) -> Vector:
    """delta_k = own_k - shared_k; a client that was told nothing yet has no shared_k."""
    off = work.memory.own.dense[some].copy()
    group = work.told.group[work.first : work.end][some]
    told = np.flatnonzero(group >= 0)
    off[told] -= work.told.shared[group[told]]
    return off


def _moments(memory: Aligned, some: slice) -> Moments | None:
    """Those that clients have kept."""
    if memory.first.empty:
        return None
    return Moments(memory.first.dense[some], memory.second.dense[some], memory.steps[some])
