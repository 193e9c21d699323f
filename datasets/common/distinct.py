"""Distinct numbers, drawn for all homes at once: each home has a run of numbers, of which some are taken."""

from __future__ import annotations

import numpy as np

from datasets.common.chance import Chance
from datasets.homes import Array, Mask


def distinct(numbers: Array) -> Array:
    """Numbers from 0 on, sorted and each once."""
    # numpy's own `unique` hashes since 2.3: a million of them take 25 times as long as sorting.
    ordered = np.sort(numbers)
    first: Mask = np.diff(ordered, prepend=-1) != 0
    return ordered[first]


def how_many_free(start: Array, taken: Array) -> Array:
    """How many of the numbers start[h] to start[h + 1] are not in `taken` (sorted), for every home."""
    return np.diff(start - np.searchsorted(taken, start))


def nth_not_in(taken: Array, nth: Array) -> Array:
    """The number that has `nth` smaller ones outside of `taken` (sorted, distinct)."""
    # taken[j] - j numbers below taken[j] are free, so it is skipped by every nth that reaches as far.
    return nth + np.searchsorted(taken - np.arange(len(taken)), nth, side="right")


def draw_distinct(start: Array, taken: Array, wanted: Array, chance: Chance, *, first: int = 0) -> Array:
    """Per home h `wanted[h]` distinct numbers of start[h] to start[h + 1] not in `taken`, or all; sorted, uniform.

    To `chance` the homes are first, first + 1 and so on.
    """
    free_start = start - np.searchsorted(taken, start)
    free = np.diff(free_start)
    wanted = np.minimum(wanted, free)
    return nth_not_in(taken, _draw_numbers(free_start, free, wanted, chance, first))


def _draw_numbers(start: Array, free: Array, wanted: Array, chance: Chance, first: int) -> Array:
    """Per home h `wanted[h]` <= free[h] distinct numbers from start[h] on, sorted; every subset is equally likely."""
    # More than half of what there is: shuffle it all, which is less than twice what is wanted, and keep the first.
    all_of = np.where(2 * wanted > free, free, 0)
    home = np.repeat(np.arange(len(free)), all_of)
    number = np.arange(len(home)) - (np.cumsum(all_of) - all_of)[home]  # 0, 1, 2, ... within each home
    order = np.lexsort((chance.random(first + home), home))
    kept = number < wanted[home]
    found = np.sort(start[home[kept]] + number[order][kept])
    # Otherwise draw with repetition until enough are distinct: at least half of the draws are new. Homes that have
    # enough are laid aside, so that each turn has less to sort; the others ask in every turn, so that a home's turns
    # are the same whichever homes ask beside it.
    enough, so_far = [found], np.zeros(0, dtype=np.int64)
    goal = np.where(2 * wanted > free, 0, wanted)
    missing = goal
    while missing.any():
        home = np.repeat(np.arange(len(free)), missing)
        so_far = distinct(np.concatenate([so_far, start[home] + chance.below(first + home, free[home])]))
        home = np.searchsorted(start, so_far, side="right") - 1
        goal = np.where(missing > 0, goal, 0)
        missing = goal - np.bincount(home, minlength=len(free))
        enough.append(so_far[missing[home] == 0])
        so_far = so_far[missing[home] > 0]
    return np.sort(np.concatenate(enough))
