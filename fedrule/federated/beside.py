"""What a run remembers beside the server's state, and needs again as it was when it goes on from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from fedrule.federated.layout import Vector
from fedrule.federated.state import AnyArray
from fedrule.training.training import Watch


class Remembers(Protocol):
    """Something that changes from round to round, e.g. the history that a listener writes."""

    def arrays(self) -> Mapping[str, AnyArray]:
        """All that it remembers, by name."""

    def recall(self, arrays: Mapping[str, AnyArray]) -> None:
        """Remember this from now on; KeyError where something is missing."""


@dataclass(slots=True, eq=False)
class LastGood:
    """The last model whose loss was in bounds, and after which round that was: the result of a run that runs away."""

    model: Vector
    round: int = 0

    def arrays(self) -> dict[str, AnyArray]:
        return {"model": self.model, "round": np.asarray(self.round)}

    def recall(self, arrays: Mapping[str, AnyArray]) -> None:
        self.model, self.round = arrays["model"], int(arrays["round"])


@dataclass(frozen=True, slots=True, eq=False)
class WatchBeside:
    """The loss on rules kept back: the best one so far, and the parameters that it belongs to."""

    watch: Watch

    def arrays(self) -> dict[str, AnyArray]:
        best = {f"best.{name}": value.numpy() for name, value in self.watch.best.items()}
        return {"lowest": np.asarray(self.watch.lowest), "lowest_round": np.asarray(self.watch.lowest_round), **best}

    def recall(self, arrays: Mapping[str, AnyArray]) -> None:
        self.watch.lowest, self.watch.lowest_round = float(arrays["lowest"]), int(arrays["lowest_round"])
        best = {name.removeprefix("best."): value for name, value in arrays.items() if name.startswith("best.")}
        self.watch.best = {name: torch.from_numpy(value) for name, value in best.items()}
