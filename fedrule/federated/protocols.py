"""The work of a round: some clients, what they are told and what they remember, in arrays that are filled in place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from datasets.homes import Array, Homes, Mask
from fedrule.federated.algorithm import Plan, Precise
from fedrule.federated.client import Task
from fedrule.federated.states import Aligned
from fedrule.federated.vectors import Layout, Vector


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What the server tells: the model, and what it shares for corrections."""

    model: Vector  # [size]
    shared: Vector  # [n_groups, size]
    group: Array  # [n_clients of the round]  which of these is a client's shared_k; -1: none


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A chunk of the round's clients."""

    first: int  # of the round's clients, and behind the last of the chunk
    end: int
    plan: Plan
    told: Told  # of the whole round
    weight: Precise  # [n]  of each client of the chunk
    broken: Mask  # [n]  clients that are to send what is no number: a fault to try
    memory: Aligned  # what they remember, changed in place for clients that end finite
    # What comes of it.
    update: Precise  # [size]  sum of weight * (Delta_k - its base, see `Round`), on the grid
    progress: Precise  # [size or 0]  sum of weight * p_k, likewise, where it is sent
    loss: npt.NDArray[np.float32]  # [n]
    finite: Mask  # [n]


class Round(Protocol):
    """The clients of one round and what each is asked about.

    The base of a client's update is what its shared vector alone does to the rows of relations, tau eta lambda
    shared_k: rows that it does not touch move by just that. It is left out of the sums of Work, so that nobody has to
    add up what is the same for many; the engine adds it for all rows at once. Only where the plan is row-sparse.
    """

    @property
    def clients(self) -> Array:
        """Those that have something to learn from in this round, of the ones it was begun with; sorted."""

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        """Start [n + 1] and relations, sorted within a client, that clients first to end of them are asked about."""

    def train(self, work: Work) -> None:
        """Train these clients; may be called for several chunks at once."""


class Trainer(Protocol):
    """A population of clients."""

    @property
    def layout(self) -> Layout: ...

    @property
    def rules(self) -> Array:
        """[n_clients]: how many rules each has; those without any never take part."""

    @property
    def threads(self) -> int:
        """How many chunks may be trained at once."""

    def begin(self, number: int, clients: Array, model: Vector) -> Round:
        """Begin round `number`, from 0, with these clients; the model is the one they are sent."""


# --- Homes as clients: what all trainers have in common.


@dataclass(frozen=True, eq=False)
class Population:
    """The homes of training, and what each of them is told once."""

    homes: Homes
    task: Task

    @property
    def layout(self) -> Layout:
        return self.task.layout

    @cached_property
    def rules(self) -> Array:
        return np.bincount(self.homes.rules.home, minlength=self.homes.n_homes)

    @property
    def threads(self) -> int:
        return torch.get_num_threads()  # what torch was told stands for all
