"""A probe of the data, not a competitor: what a list is worth that knows only which devices have no rule yet.

Where homes list only devices that are used by rules, a device without a known rule (an orphan) is certainly in a hidden
one. Any method may learn that hint; the row of this probe says how much it is worth, and that it is worth nothing on
the closed lists of `benchmarks.evaluation.ranking`, from which orphans are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from baselines.method import Fitted, OnRound, Scores, ignore
from baselines.registry import register
from datasets.homes import Array, Homes


@register("orphans")
@dataclass(frozen=True)
class Orphans:
    """Probe: how many devices of a candidate have no known rule, and nothing else."""

    learns: ClassVar[bool] = False

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """Nothing is learned."""
        del train, rng
        fitted = OrphansModel()
        on_round(1, 1, fitted, {})
        return fitted


class OrphansModel:
    """0, 1 or 2, the same for every relation."""

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """A device that acts on itself counts once."""
        orphan = ~homes.used_devices
        count = orphan[trigger] + (orphan[action] & (trigger != action)).astype(np.float32)
        return np.repeat(count[:, None], len(homes.relations), axis=1)
