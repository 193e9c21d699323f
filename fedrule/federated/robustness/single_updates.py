"""Rounds in which the server sees every update by itself: for robust aggregation, and for simulated attacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Mask
from fedrule.federated.optimizers import Precise
from fedrule.federated.robustness.aggregation import BYTES, Aggregation
from fedrule.federated.states import free_bytes
from fedrule.federated.vectors import Vector, zeros

if TYPE_CHECKING:
    from fedrule.federated.robustness.attacks import Attackers
    from fedrule.federated.trainers.trainer import ClientChunk


@dataclass(frozen=True, slots=True, eq=False)
class SingleUpdates:
    """What the clients of a round send, each in a chunk of its own."""

    updates: Vector  # [n_clients, size]  written as they come
    aggregation: Aggregation
    attackers: Attackers | None

    @classmethod
    def of(
        cls, n_clients: int, size: int, *, aggregation: Aggregation, attackers: Attackers | None, needed_by: str
    ) -> SingleUpdates:
        """Room for so many; an error where they would not fit into memory, which names what they are `needed_by`."""
        needed, free = BYTES * n_clients * size, free_bytes()
        if needed > free:
            raise DataError(
                f"{needed_by} keeps the updates of all {n_clients:,} clients of a round, which need "
                f"{needed / 1e9:.3g} GB; {free / 1e9:.3g} GB are free. Set cohort, e.g. 100"
            )
        return cls(zeros((n_clients, size)), aggregation, attackers)

    @np.errstate(over="ignore")  # an attack may be too large to be sent, and is then refused
    def receive(self, chunk: ClientChunk, client: int) -> bool:
        """Keep Delta_k of the only client of a chunk, with its base, as attackers change it; whether it is finite."""
        h, n_dense, update = chunk.h, chunk.layout.n_dense, chunk.update / chunk.weight[0]
        shared = chunk.shared(slice(0, 1)) if h.corrects and h.row_sparse else None
        if shared is not None:
            update[n_dense:] += h.steps * h.phi_rate * h.phi_lambda * shared[0, n_dense:].astype(float)
        if self.attackers is not None:
            update = self.attackers.sent(update, chunk.broadcast.round, client)
        self.updates[chunk.first] = update
        return bool(np.isfinite(self.updates[chunk.first]).all())

    def total(self, finite: Mask, weight: Precise) -> Precise:
        """The aggregate of the finite ones times their weight [n_finite], in place of their sum."""
        updates = self.updates if finite.all() else self.updates[finite]
        return float(weight.sum()) * self.aggregation(updates, weight)
