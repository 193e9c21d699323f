"""Clients that score by weighed evidence alone, trained many at once: vectors side by side, slopes by a compiled loop.

Who stands beside a client never changes a bit of what it sends: slopes are found client by client, all else is done
number by number, and sums are made on the grid.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from datasets.common.chance import Keyed
from datasets.homes import Array
from fedrule.federated.aligned import Aligned
from fedrule.federated.at_home import Task
from fedrule.federated.cohort import Purpose
from fedrule.federated.trainers.evidence_kernel import slopes
from fedrule.federated.grid import on_grid
from fedrule.federated.layout import Vector
from fedrule.federated.trainers.lessons import Lessons
from fedrule.federated.population import Population
from fedrule.federated.server import Precise
from fedrule.federated.side_by_side import Moments, train_side_by_side
from fedrule.federated.work import Work
from fedrule.training.losses import bce, ranking
from fedrule.model.weighed import WeighedEvidence

AT_ONCE = 64  # clients whose vectors stand side by side: 2 MB each of model, slope and what else a step needs
KEPT_BYTES = 1 << 30  # of lessons that are kept for their draw to come again
TOGETHER = 1024  # clients that are asked all together when the first of them is: that takes as long as to ask a few
NAMES = tuple(f"evidence.{name}" for name in ("direct", "first", "first_bias", "second", "second_bias", "last"))


def is_evidence(task: Task) -> bool:
    """Whether the score is weighed evidence and nothing else."""
    terms = task.scorer.terms
    alone = task.scorer.network is None and len(terms) == 1 and isinstance(terms[0], WeighedEvidence)
    return alone and task.objective in (bce, ranking) and task.layout.names == NAMES


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
        assert isinstance(term, WeighedEvidence)
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
        drops = Keyed(self.task.seed, self.number, clients).stream(Purpose.DROPOUT)
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
