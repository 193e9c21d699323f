"""Cohorts: which clients take part in a round, and which of them fail by a simulated fault."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, TypeAlias, get_args

import numpy as np

from datasets.common.errors import DataError, unknown
from datasets.common.random import KeyedRandom
from datasets.homes import Array, Mask

Sampling: TypeAlias = Literal["uniform", "poisson"]


class Purpose(IntEnum):
    """Streams of random numbers of a round; those of `fedrule.training.examples` count from 0."""

    SAMPLING = 100
    FAULTS = 101
    DROPOUT = 102
    ATTACKERS = 120
    COUNTS = 200  # noise in counts before training
    ROUNDS = 201  # noise in the update of a round


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """The clients of a round."""

    present: Array  # send in time, sorted
    corrupted: Mask  # [n_present]  but send NaN
    dropped: int  # dropped out during the round
    late: int  # sent after the round
    absent: Array  # clients that dropped out or were late, sorted

    def without(self, missing: Array) -> Cohort:
        """The same where these clients, which may be others too, dropped out as well."""
        there = ~np.isin(self.present, missing)
        dropped = self.dropped + int((~there).sum())
        absent = np.union1d(self.absent, self.present[~there])
        return Cohort(self.present[there], self.corrupted[there], dropped, self.late, absent)


@dataclass(frozen=True, slots=True)
class Cohorts:
    """How cohorts are sampled, and simulated faults; all random numbers are keyed by (seed, round, client)."""

    participation: float = 1.0  # fraction of clients in a round
    sampling: Sampling = "uniform"  # a fixed number of clients; poisson: each client independently
    drop_out: float = 0.0  # fraction of a cohort
    late: float = 0.0
    corrupted: float = 0.0
    size: int = 0  # number of clients in a round, at most all; 0: by participation

    def __post_init__(self) -> None:
        if not 0 < self.participation <= 1:
            raise DataError(f"participation must be in (0, 1], got {self.participation}")
        if self.size < 0:
            raise DataError(f"cohort must be non-negative, got {self.size}")
        if self.size and self.participation < 1:
            raise DataError(f"give cohort ({self.size}) or participation ({self.participation}), not both")
        if self.sampling not in get_args(Sampling):
            raise unknown("sampling", self.sampling, get_args(Sampling))
        for name in ("drop_out", "late", "corrupted"):
            if not 0 <= getattr(self, name) <= 1:
                raise DataError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        if self.drop_out + self.late + self.corrupted > 1:
            raise DataError(
                f"drop_out {self.drop_out}, late {self.late} and corrupted {self.corrupted} add up to more than 1"
            )

    def fraction(self, n_clients: int) -> float:
        """Of so many clients, the fraction that is to take part in a round."""
        return min(self.size / max(n_clients, 1), 1.0) if self.size else self.participation

    def count(self, n_clients: int, *, of: int | None = None) -> int:
        """How many of so many clients, out of a federation `of` these or more, are in a round; at least one.

        With Poisson sampling in the mean.
        """
        fraction = self.fraction(n_clients if of is None else of)
        return max(round(fraction * n_clients), min(n_clients, 1))

    def of(self, clients: Array, *, seed: int, number: int, n_clients: int | None = None) -> Cohort:
        """The cohort of round `number`, out of these clients, which are sorted, and are so many unless given."""
        source = KeyedRandom(seed, number, clients)
        each = np.arange(len(clients))
        chosen = each
        fraction = self.fraction(len(clients) if n_clients is None else n_clients)
        if fraction < 1:
            drawn = source.stream(Purpose.SAMPLING).random(each)
            if self.sampling == "poisson":
                chosen = np.flatnonzero(drawn < fraction)
            else:  # those with the smallest numbers
                count = self.count(len(clients), of=n_clients)
                chosen = np.sort(np.argsort(drawn, kind="stable")[:count])
        fault = source.stream(Purpose.FAULTS).random(each)[chosen]
        dropped = fault < self.drop_out
        late = ~dropped & (fault < self.drop_out + self.late)
        present = ~(dropped | late)
        corrupted = fault[present] < self.drop_out + self.late + self.corrupted
        absent = clients[chosen[~present]]
        return Cohort(clients[chosen[present]], corrupted, int(dropped.sum()), int(late.sum()), absent)
