"""Random numbers for what is drawn home by home: of one generator for all homes, or of each home's own.

With one generator what a home gets depends on which other homes there are. A federated client draws for itself and has
to get the same whoever else takes part; `Keyed` numbers depend on nothing but (seed, round, client) and their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.homes import Array, frozen

Bits: TypeAlias = npt.NDArray[np.uint64]


class Chance(Protocol):
    """Numbers for elements that belong to homes; `home` has their positions, sorted. Each call gives new numbers."""

    def random(self, home: Array) -> npt.NDArray[np.float64]:
        """Uniform in [0, 1)."""

    def below(self, home: Array, bound: Array) -> Array:
        """Uniform among 0 to bound[i] - 1, for every element i."""

    def stream(self, purpose: int) -> Chance:
        """Numbers of another purpose: how many calls one draw took never shifts the numbers of another."""


@dataclass(frozen=True, slots=True)
class Together:
    """One generator for all homes, one number after the other, whatever the purpose."""

    rng: np.random.Generator

    def random(self, home: Array) -> npt.NDArray[np.float64]:
        return self.rng.random(len(home))

    def below(self, home: Array, bound: Array) -> Array:  # noqa: ARG002  the home makes no difference
        return self.rng.integers(0, bound)

    def stream(self, purpose: int) -> Together:  # noqa: ARG002  nor does the purpose
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Keyed:
    """The i-th number of a home in the t-th call: a function of (seed, round, client, purpose, t, i) alone.

    Counter-based, as Salmon et al. (2011, SC, "Parallel random numbers: as easy as 1, 2, 3") call it: no state is
    carried from number to number, so all are computed at once. Each part of the key in turn chooses an output of the
    SplitMix64 generator whose state the parts before it have led to (Steele, Lea and Flood, 2014, OOPSLA, "Fast
    splittable pseudorandom number generators"); that output is the state for the next part. It is one-to-one in each
    part, so that no two clients of a round share a state. Not for secrets: SplitMix64 can be run backwards.

    A stream that is asked for again starts again: a `Keyed` draws the same each time it is handed to the same draw.
    """

    seed: int
    round: int
    client: Array  # [n_homes]  the id of each home in the population; homes of one id draw alike
    purposes: tuple[int, ...] = ()  # the streams that led here
    _turns: Iterator[int] = field(default_factory=count, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("seed", self.seed), ("round", self.round), *(("purpose", p) for p in self.purposes)):
            if not 0 <= value < 2**64:
                raise DataError(f"chance: {name} {value} must be at least 0 and have at most 64 bits")
        ids = np.asarray(self.client)
        if ids.size and ids.dtype.kind not in "iu":
            told_apart = f"chance: clients are told apart by whole numbers, not {ids.dtype}"
            raise DataError(f"{told_apart}; hand in their positions in the population")
        object.__setattr__(self, "client", frozen(ids))

    def random(self, home: Array) -> npt.NDArray[np.float64]:
        # The 53 highest bits, as many as a float64 holds.
        return (self._bits(home) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, home: Array, bound: Array) -> Array:
        # Below `bound` also after rounding, up to 2 ** 53; there no number is likelier than another by more than
        # bound / 2 ** 53, which for a million candidates is one part in nine billion.
        return (self.random(home) * bound).astype(np.int64)

    def stream(self, purpose: int) -> Keyed:
        return Keyed(self.seed, self.round, self.client, (*self.purposes, purpose))

    def _bits(self, home: Array) -> Bits:
        """[len(home)]: 64 random bits each."""
        state: Bits = np.zeros(1, dtype=np.uint64)
        # How many purposes there are is part of the key, or a stream could go on where another key ends.
        for part in (self.seed, self.round, len(self.purposes), *self.purposes, next(self._turns)):
            state = output(state, np.array([part], dtype=np.uint64))
        step = np.diff(home, prepend=-1)
        if step.min(initial=0) < 0:
            raise DataError(
                "chance: homes must be sorted, or a number would come twice; sort what is drawn for by home"
            )
        first = np.flatnonzero(step)
        number = np.arange(len(home)) - np.repeat(first, np.diff(first, append=len(home)))  # within each home
        return output(output(state, self.client[home].view(np.uint64)), number.view(np.uint64))


def output(state: Bits, number: Bits) -> Bits:
    """The output of this number, from 0 on, of the SplitMix64 generator with this state; the two broadcast."""
    # Arrays, not scalars, throughout: numpy wraps around without a warning in arrays only.
    bits = state + (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def chance_of(rng: np.random.Generator | Chance) -> Chance:
    """A generator as the chance of all homes together; a chance as it is."""
    return Together(rng) if isinstance(rng, np.random.Generator) else rng
