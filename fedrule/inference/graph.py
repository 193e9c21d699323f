"""Homes as numbers of a model's vocabulary, what a search is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from datasets.homes import Array, Homes, Mask

Scores: TypeAlias = npt.NDArray[np.float32]
Matrix: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float64]

LARGEST = float(np.finfo(np.float32).max)
RUN = 32  # scores of which only the highest is looked at first


class Graph(NamedTuple):
    """Devices and rules of one home, or of many one after the other; no rule twice."""

    device_type: Array  # [n_devices]
    device_start: Array  # [n_homes + 1]  home h owns devices device_start[h] to device_start[h + 1]
    trigger: Array  # [n_rules]  a device
    action: Array  # [n_rules]  a device
    relation: Array  # [n_rules]

    @classmethod
    def of(cls, homes: Homes) -> Graph:
        """Homes whose vocabularies are the model's."""
        rules = homes.rules
        return cls(homes.device_type, homes.device_start, rules.trigger, rules.action, rules.relation)


class Found(NamedTuple):
    """The best candidates of each home, home after home, best first; equal scores in the order of devices."""

    home: Array
    trigger: Array
    action: Array
    relation: Array
    score: Scores

    def take(self, which: Array | Mask) -> Found:
        """Some of them, in that order."""
        home, trigger, action, relation, score = self
        return Found(home[which], trigger[which], action[which], relation[which], score[which])

    @classmethod
    def joined(cls, parts: Sequence[Found]) -> Found:
        """One part after the other, of which there is at least one."""
        home, trigger, action, relation, score = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(home, trigger, action, relation, score)


def nothing() -> Found:
    """Where homes have no candidate at all."""
    none = np.zeros(0, dtype=np.int64)
    return Found(none, none, none, none, none.astype(np.float32))


class Search(Protocol):
    """Finds what homes lack, among the rules that are valid."""

    def one(self, graph: Graph, k: int) -> Found:
        """The best `k` of a graph of one home; as fast as it can be."""

    def many(self, homes: Homes, k: int) -> Found:
        """The best `k` of each of these homes, in the model's vocabulary; memory grows with the homes given."""


def best_of_each(score: Scores, start: Array, k: int) -> Array:
    """Positions of the `k` highest scores of each home, home after home, highest first, equal ones in order.

    The scores of home h are those from start[h] to start[h + 1]. Homes with about as many are laid into one table, so
    that nothing loops over homes.
    """
    many = np.diff(start)
    size = np.frexp(many.astype(np.float64))[1]  # homes of one table differ by less than a factor of 2
    kept = [np.zeros(0, dtype=np.int64)]
    for each in np.unique(size[many > 0]).tolist():
        homes = np.flatnonzero(size == each)
        width = int(many[homes].max())
        place = start[homes][:, None] + np.arange(width)
        inside = np.arange(width) < many[homes][:, None]
        table = np.where(inside, score[np.minimum(place, len(score) - 1)], -np.inf)
        if width > k:
            least = np.partition(table, width - k, axis=1)[:, width - k, None]
            inside &= table >= least
        kept.append(place[inside & (table > -np.inf)])
    positions = np.sort(np.concatenate(kept))
    home = np.searchsorted(start, positions, side="right") - 1
    order = np.lexsort((positions, -score[positions], home))
    rank = np.arange(len(home)) - np.searchsorted(home, home)
    return positions[order[rank < k]]


def not_below(score: Numbers, k: int, error: float) -> Array:
    """Positions of all scores that may be among the `k` highest, where two may be wrong by `error` together."""
    least = max(_low(score, k) - error, float(np.finfo(score.dtype).min))  # minus infinity is never among them
    return np.flatnonzero(score >= score.dtype.type(least))


def _low(score: Numbers, k: int) -> float:
    """No more than the k-th highest score, and mostly little less: found among the highest of short runs."""
    whole = len(score) // RUN
    if whole < 4 * k:
        return float(np.partition(score, len(score) - k)[len(score) - k]) if len(score) > k else -np.inf
    highest = score[: whole * RUN].reshape(whole, RUN).max(axis=1)
    return float(np.partition(highest, whole - k)[whole - k])
