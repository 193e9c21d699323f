"""Random numbers drawn per home, distinct samples of integers for many homes at once, and the streams of a seed.

With one shared generator, what a home draws depends on which other homes there are. A federated client must draw the
same whoever else takes part: the numbers of `KeyedRandom` depend on (seed, round, client) and their position only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.homes import Array, distinct, frozen

Bits: TypeAlias = npt.NDArray[np.uint64]
Word = TypeVar("Word", Bits, np.uint64)


class RandomSource(Protocol):
    """Random numbers for elements of homes; `home` is the position of each element's home, sorted."""

    def random(self, home: Array) -> npt.NDArray[np.float64]:
        """Uniform in [0, 1)."""

    def below(self, home: Array, bound: Array) -> Array:
        """Uniform among 0 to bound[i] - 1, for every element i."""

    def stream(self, purpose: int) -> RandomSource:
        """An independent source: how often one purpose draws never shifts the numbers of another."""


@dataclass(frozen=True, slots=True)
class SharedRandom:
    """One generator for all homes and purposes."""

    rng: np.random.Generator

    def random(self, home: Array) -> npt.NDArray[np.float64]:
        return self.rng.random(len(home))

    def below(self, home: Array, bound: Array) -> Array:  # noqa: ARG002  the home makes no difference
        return self.rng.integers(0, bound)

    def stream(self, purpose: int) -> SharedRandom:  # noqa: ARG002  nor does the purpose
        return self


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRandom:
    """The i-th number of a home in the t-th call: a function of (seed, round, client, purpose, t, i) alone.

    Counter-based, as Salmon et al. (2011, SC, "Parallel random numbers: as easy as 1, 2, 3") call it: no state is
    carried from number to number, so all are computed at once. Each part of the key in turn chooses an output of the
    SplitMix64 generator whose state the parts before it have led to (Steele, Lea and Flood, 2014, OOPSLA, "Fast
    splittable pseudorandom number generators"); that output is the state for the next part. It is one-to-one in each
    part, so that no two clients of a round share a state. Not for secrets: SplitMix64 can be run backwards.

    The same stream starts anew each time: a `KeyedRandom` draws the same whenever it is passed to the same draw.
    """

    seed: int
    round: int
    client: Array  # [n_homes]  the id of each home in the population; homes of one id draw alike
    purposes: tuple[int, ...] = ()  # the streams that led here
    _turns: Iterator[int] = field(default_factory=count, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("seed", self.seed), ("round", self.round), *(("purpose", p) for p in self.purposes)):
            if not 0 <= value < 2**64:
                raise DataError(f"keyed random: {name} {value} must be at least 0 and have at most 64 bits")
        ids = np.asarray(self.client)
        if ids.size and ids.dtype.kind not in "iu":
            raise DataError(
                f"keyed random: clients must be integers, got {ids.dtype}; pass their positions in the population"
            )
        object.__setattr__(self, "client", frozen(ids))

    def random(self, home: Array) -> npt.NDArray[np.float64]:
        # The 53 highest bits, as many as a float64 holds.
        return (self._bits(home) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, home: Array, bound: Array) -> Array:
        # Below `bound` also after rounding, up to 2 ** 53; there no number is likelier than another by more than
        # bound / 2 ** 53, which for a million candidates is one part in nine billion.
        return (self.random(home) * bound).astype(np.int64)

    def stream(self, purpose: int) -> KeyedRandom:
        return KeyedRandom(self.seed, self.round, self.client, (*self.purposes, purpose))

    def _bits(self, home: Array) -> Bits:
        """[len(home)]: 64 random bits each."""
        state: Bits = np.zeros(1, dtype=np.uint64)
        # The number of purposes is part of the key, or a stream could continue where another key ends.
        for part in (self.seed, self.round, len(self.purposes), *self.purposes, next(self._turns)):
            state = output(state, np.array([part], dtype=np.uint64))
        step = np.diff(home, prepend=-1)
        if step.min(initial=0) < 0:
            raise DataError("keyed random: homes must be sorted, or numbers would repeat; sort the elements by home")
        first = np.flatnonzero(step)
        number = np.arange(len(home)) - np.repeat(first, np.diff(first, append=len(home)))  # within each home
        return output(output(state, self.client[home].view(np.uint64)), number.view(np.uint64))


def output(state: Word, number: Word) -> Word:
    """The output of this number, from 0 on, of the SplitMix64 generator with this state; the two broadcast.

    Scalars are for compiled loops: numpy wraps around without a warning in arrays only.
    """
    bits = state + (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def random_source(rng: np.random.Generator | RandomSource) -> RandomSource:
    """A generator as the source of all homes together; a source as it is."""
    return SharedRandom(rng) if isinstance(rng, np.random.Generator) else rng


def how_many_free(start: Array, taken: Array) -> Array:
    """How many of the numbers start[h] to start[h + 1] are not in `taken` (sorted), for every home."""
    return np.diff(start - np.searchsorted(taken, start))


def nth_not_in(taken: Array, nth: Array) -> Array:
    """The number that has `nth` smaller ones outside of `taken` (sorted, distinct)."""
    # taken[j] - j numbers below taken[j] are free, so it is skipped by every nth that reaches as far.
    return nth + np.searchsorted(taken - np.arange(len(taken)), nth, side="right")


def draw_distinct(start: Array, taken: Array, wanted: Array, source: RandomSource, *, first: int = 0) -> Array:
    """Per home h `wanted[h]` distinct numbers of start[h] to start[h + 1] not in `taken`, or all; sorted, uniform.

    To `source` the homes are first, first + 1 and so on.
    """
    free_start = start - np.searchsorted(taken, start)
    free = np.diff(free_start)
    wanted = np.minimum(wanted, free)
    return nth_not_in(taken, _draw_numbers(free_start, free, wanted, source, first))


def _draw_numbers(start: Array, free: Array, wanted: Array, source: RandomSource, first: int) -> Array:
    """Per home h `wanted[h]` <= free[h] distinct numbers from start[h] on, sorted; every subset is equally likely."""
    # More than half of all: shuffle them all, which is less than twice what is wanted, and keep the first.
    all_of = np.where(2 * wanted > free, free, 0)
    home = np.repeat(np.arange(len(free)), all_of)
    number = np.arange(len(home)) - (np.cumsum(all_of) - all_of)[home]  # 0, 1, 2, ... within each home
    order = np.lexsort((source.random(first + home), home))
    kept = number < wanted[home]
    found = np.sort(start[home[kept]] + number[order][kept])
    # Otherwise draw with repetition until enough are distinct: at least half of the draws are new. Homes that have
    # enough are set aside, so that each turn has less to sort; the others draw in every turn, so that a home's turns do
    # not depend on the other homes.
    enough, so_far = [found], np.zeros(0, dtype=np.int64)
    goal = np.where(2 * wanted > free, 0, wanted)
    missing = goal
    while missing.any():
        home = np.repeat(np.arange(len(free)), missing)
        so_far = distinct(np.concatenate([so_far, start[home] + source.below(first + home, free[home])]))
        home = np.searchsorted(start, so_far, side="right") - 1
        goal = np.where(missing > 0, goal, 0)
        missing = goal - np.bincount(home, minlength=len(free))
        enough.append(so_far[missing[home] == 0])
        so_far = so_far[missing[home] > 0]
    return np.sort(np.concatenate(enough))


class Stream(IntEnum):
    """What random numbers are for, so that no two purposes ever draw the same.

    A generator is keyed [seed, purpose], or [seed, seed of the split, purpose] where it depends on a split as well.
    NumPy pads keys with zeros, so purposes with a split start at 3: none of their keys equals one of the shorter kind.
    """

    HIDE_TEST = 0  # [seed, 0] and so on
    HIDE_VALIDATION = 1
    FITTING = 2
    TEST_NON_RULES = 3  # [seed, split's seed, 3] and so on
    VALIDATION_NON_RULES = 4
    TEST_FEASIBLE = 5
    VALIDATION_FEASIBLE = 6
    TRAIN_NON_RULES = 8
    TRAIN_FEASIBLE = 9
    TRAIN_CURVE = 10  # which homes of a part a curve is measured on
    VALIDATION_CURVE = 11
    TEST_CURVE = 12


def generator(stream: Stream, *seeds: int) -> np.random.Generator:
    """The generator of a purpose under one seed or two."""
    return np.random.default_rng([*seeds, int(stream)])
