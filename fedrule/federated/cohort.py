"""Who takes part in a round, and who fails in it."""

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
    """What a client's numbers of a round are drawn for; those of `fedrule.training.examples` count from 0."""

    SAMPLING = 100
    FAULTS = 101
    DROPOUT = 102  # of hidden states


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """The clients of a round."""

    present: Array  # train and send in time, sorted
    broken: Mask  # [n_present]  but what they send is no number
    dropped: int  # vanished in mid-round
    late: int  # sent when the round was over


@dataclass(frozen=True, slots=True)
class Cohorts:
    """How cohorts are sampled, and the faults to try; all keyed by (seed, round, client)."""

    participation: float = 1.0  # share of clients in a round
    sampling: Sampling = "uniform"  # so many, all equally likely; poisson: each by itself with this probability
    drop_out: float = 0.0  # share of a cohort that vanishes
    late: float = 0.0
    broken: float = 0.0
    size: int = 0  # clients of a round, or all where there are fewer; 0: by participation

    def __post_init__(self) -> None:
        if not 0 < self.participation <= 1:
            raise DataError(f"participation {self.participation} is no share above 0, up to 1")
        if self.size < 0:
            raise DataError(f"a cohort of {self.size} homes is negative")
        if self.size and self.participation < 1:
            raise DataError(f"a cohort of {self.size} beside participation {self.participation}: give one of the two")
        if self.sampling not in get_args(Sampling):
            raise unknown("sampling", self.sampling, get_args(Sampling))
        for name in ("drop_out", "late", "broken"):
            if not 0 <= getattr(self, name) <= 1:
                raise DataError(f"{name} {getattr(self, name)} is no share from 0 to 1")
        if self.drop_out + self.late + self.broken > 1:
            raise DataError(
                f"drop_out {self.drop_out}, late {self.late} and broken {self.broken} add up to more than 1"
            )

    def of(self, clients: Array, *, seed: int, number: int) -> Cohort:
        """Of these clients, which are sorted, in round `number`."""
        source = KeyedRandom(seed, number, clients)
        each = np.arange(len(clients))
        chosen = each
        share = min(self.size / max(len(clients), 1), 1.0) if self.size else self.participation
        if share < 1:
            drawn = source.stream(Purpose.SAMPLING).random(each)
            if self.sampling == "poisson":
                chosen = np.flatnonzero(drawn < share)
            else:  # those with the smallest numbers, at least one
                many = max(round(share * len(clients)), min(len(clients), 1))
                chosen = np.sort(np.argsort(drawn, kind="stable")[:many])
        fate = source.stream(Purpose.FAULTS).random(each)[chosen]
        dropped = fate < self.drop_out
        late = ~dropped & (fate < self.drop_out + self.late)
        there = ~(dropped | late)
        broken = fate[there] < self.drop_out + self.late + self.broken
        return Cohort(clients[chosen[there]], broken, int(dropped.sum()), int(late.sum()))
