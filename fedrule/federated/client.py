"""The local training of one client on plain vectors: steps, correction and what it remembers (see `plan`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedrule.federated.layout import Layout, Vector
from fedrule.federated.plan import EPSILON, FIRST_DECAY, SECOND_DECAY, Plan

# The model and the number of the step, from 0; the loss and its gradient.
Gradient: TypeAlias = Callable[[Vector, int], tuple[float, Vector]]


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """What Adam remembers."""

    first: Vector
    second: Vector
    steps: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What a client keeps from one round to the next."""

    own: Vector | None = None  # own_k; None where nothing is corrected, or before the first round
    moments: Moments | None = None  # of kept-adam, likewise

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


@np.errstate(over="ignore", invalid="ignore")  # whoever does not end finite is left out
def train_locally(
    plan: Plan, layout: Layout, model: Vector, gradient: Gradient, memory: Memory, shared: Vector | None
) -> tuple[Sent, Memory]:
    """What the client sends, and what it remembers if its update was counted; nothing that it was given is changed."""
    rate = layout.by_part(plan.theta_rate, plan.phi_rate).astype(np.float32)
    share = layout.by_part(plan.theta_lambda, plan.phi_lambda).astype(np.float32)
    own = np.zeros_like(model) if memory.own is None else memory.own
    off = own - (0 if shared is None else shared)  # delta_k
    moments = memory.moments or Moments(np.zeros_like(model), np.zeros_like(model))
    x, along, begin = model.copy(), np.zeros_like(model), np.nan
    for step in range(plan.steps):
        loss, found = gradient(x, step)
        begin = loss if step == 0 else begin
        slope = found - share * off if plan.corrects else found
        if plan.proximal:
            slope = slope + np.float32(plan.proximal) * (x - model)
        along += slope
        if plan.adam:
            moments, slope = _adam(moments, slope)
        x -= rate * slope
    update = model - x
    progress = along / np.float32(plan.steps)
    if plan.adam and plan.control == "updates":
        progress = update / (rate * np.float32(plan.steps))
    kept = moments if plan.optimizer == "kept-adam" else None
    return Sent(update, progress, begin), Memory(off + progress if plan.corrects else None, kept)


def _adam(moments: Moments, slope: Vector) -> tuple[Moments, Vector]:
    """The moments after a step, and its direction."""
    steps = moments.steps + 1
    first = FIRST_DECAY * moments.first + (1 - FIRST_DECAY) * slope
    second = SECOND_DECAY * moments.second + (1 - SECOND_DECAY) * slope**2
    size = np.sqrt(second / (1 - SECOND_DECAY**steps)) + EPSILON
    return Moments(first, second, steps), (first / (1 - FIRST_DECAY**steps) / size).astype(np.float32)
