"""The local training of one client on plain vectors: `side_by_side` for a client that stands alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedrule.federated.layout import Layout, Vector
from fedrule.federated.plan import Plan
from fedrule.federated.server import Precise
from fedrule.federated.side_by_side import Moments, train_side_by_side

# The model and the number of the step, from 0; the loss and its gradient.
Gradient: TypeAlias = Callable[[Vector, int], tuple[float, Vector]]


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What a client keeps from one round to the next."""

    own: Vector | None = None  # own_k; None where nothing is corrected, or before the first round
    moments: Moments | None = None  # of kept-adam, likewise; a row of one

    @property
    def finite(self) -> bool:
        vectors = [] if self.own is None else [self.own]
        if self.moments is not None:
            vectors += [self.moments.first, self.moments.second]
        return all(bool(np.isfinite(vector).all()) for vector in vectors)


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """What a client sends to the server."""

    update: Vector  # Delta_k
    progress: Vector  # p_k; sent only where the server cannot tell it from the update
    loss: float  # of the model that it was sent

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.loss) and np.isfinite(self.update).all() and np.isfinite(self.progress).all())


def train_locally(
    plan: Plan, layout: Layout, model: Vector, gradient: Gradient, memory: Memory, shared: Vector | None
) -> tuple[Sent, Memory]:
    """What the client sends, and what it remembers if its update was counted; nothing that it was given is changed."""

    def alone(x: Vector, step: int) -> tuple[Precise, Vector]:
        loss, found = gradient(x[0], step)
        return np.array([loss]), found[None]

    off = None
    if plan.corrects:  # delta_k
        own = np.zeros_like(model) if memory.own is None else memory.own
        off = (own - (0 if shared is None else shared))[None]
    trained = train_side_by_side(plan, layout, model, alone, n=1, off=off, moments=memory.moments)
    sent = Sent(trained.update[0], trained.progress[0], float(trained.loss[0]))
    return sent, Memory(None if trained.own is None else trained.own[0], trained.moments)
