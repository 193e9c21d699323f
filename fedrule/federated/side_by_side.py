"""The local training of many clients at once, a row for each, by the equations of `plan`.

Everything but the slopes is done number by number, so that the rows beside it change nothing for a client.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from datasets.homes import Array, Mask
from fedrule.federated.layout import Layout, Vector
from fedrule.federated.plan import EPSILON, FIRST_DECAY, SECOND_DECAY, Plan
from fedrule.federated.server import Precise

# The models [n, size] and the number of the step, from 0; the losses [n] and their slopes [n, size].
Slopes: TypeAlias = Callable[[Vector, int], tuple[Precise, Vector]]


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """What Adam remembers."""

    first: Vector  # [n, size]
    second: Vector
    steps: Array  # [n]

    def after(self, slope: Vector) -> tuple[Moments, Vector]:
        """The moments after a step along this slope, and the direction of the step."""
        steps = self.steps + 1
        first = FIRST_DECAY * self.first + (1 - FIRST_DECAY) * slope
        second = SECOND_DECAY * self.second + (1 - SECOND_DECAY) * slope**2
        level, square = ((1 - decay**steps).astype(np.float32)[:, None] for decay in (FIRST_DECAY, SECOND_DECAY))
        size = np.sqrt(second / square) + EPSILON
        return Moments(first, second, steps), (first / level / size).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What clients send, and what they remember if it is counted."""

    update: Vector  # [n, size]  Delta_k
    progress: Vector  # [n, size]  p_k
    loss: Precise  # [n]  of the model that they were sent
    own: Vector | None  # [n, size]  own_k, where something is corrected
    moments: Moments | None  # of kept-adam

    @property
    def finite(self) -> Mask:
        """[n]: whether all that a client sends and remembers is a number."""
        vectors = [self.update, self.progress, *([] if self.own is None else [self.own])]
        vectors += [] if self.moments is None else [self.moments.first, self.moments.second]
        each = [np.isfinite(self.loss), *(np.isfinite(vector).all(axis=1) for vector in vectors)]
        finite: Mask = np.logical_and.reduce(each)
        return finite


@np.errstate(over="ignore", invalid="ignore")  # whoever does not end finite is left out
def train_side_by_side(
    plan: Plan,
    layout: Layout,
    model: Vector,
    slopes: Slopes,
    *,
    n: int,
    off: Vector | None = None,  # [n, size]  delta_k = own_k - shared_k, where something is corrected
    moments: Moments | None = None,  # of kept-adam, where there are any
) -> Trained:
    """What becomes of n clients that are sent this model; nothing that is handed in is changed."""
    rate = layout.by_part(plan.theta_rate, plan.phi_rate).astype(np.float32)
    x = np.tile(model, (n, 1))
    along, begin = np.zeros_like(x), np.full(n, np.nan)
    correction = None
    if off is not None:
        correction = layout.by_part(plan.theta_lambda, plan.phi_lambda).astype(np.float32) * off
    if moments is None and plan.adam:
        moments = Moments(np.zeros_like(x), np.zeros_like(x), np.zeros(n, dtype=np.int64))
    for step in range(plan.steps):
        loss, slope = slopes(x, step)
        begin = loss if step == 0 else begin
        if correction is not None:
            slope = slope - correction
        if plan.proximal:
            slope = slope + np.float32(plan.proximal) * (x - model)
        along += slope
        if moments is not None:
            moments, slope = moments.after(slope)
        x -= rate * slope
    update = model - x
    progress = along / np.float32(plan.steps)
    if plan.adam and plan.control == "updates":
        progress = update / (rate * np.float32(plan.steps))
    own = None if off is None else off + progress
    return Trained(update, progress, begin, own, moments if plan.optimizer == "kept-adam" else None)
