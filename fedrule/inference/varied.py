"""Lists that do not say the same thing over and over: few rules of one kind, the best ones.

Rules are of one kind where the relation and both types agree. A house with five door sensors and six lamps could fill a
list with one door switching on one lamp, in thirty ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.homes import Array, Homes, Mask
from fedrule.inference.graph import Found, Graph, Search, nothing

FURTHER = 4  # times as many candidates are asked for, and again, until enough of them differ


@dataclass(frozen=True, slots=True, eq=False)
class Varied:
    """A search with at most `alike` rules of one kind in the list of a home."""

    search: Search
    n_types: int
    n_relations: int
    alike: int

    def one(self, graph: Graph, k: int) -> Found:
        asked = FURTHER * k
        while True:
            found = self.search.one(graph, asked)
            kept = np.flatnonzero(self._kept(found, graph.device_type))
            if len(kept) >= k or len(found.home) < asked:
                return found.take(kept[:k])
            asked *= FURTHER

    def many(self, homes: Homes, k: int) -> Found:
        asked, pending, pieces = FURTHER * k, np.arange(homes.n_homes), [nothing()]
        while len(pending):
            some = homes.subset(pending)
            found = self.search.many(some, asked)
            kept = self._kept(found, some.device_type)
            many = np.bincount(found.home[kept], minlength=len(pending))
            done = (many >= k) | (np.bincount(found.home, minlength=len(pending)) < asked)
            kept &= done[found.home]
            kept &= _rank(found.home, kept) < k
            pieces.append(_within(found.take(kept), some, homes, pending))
            asked, pending = FURTHER * asked, pending[~done]
        whole = Found.joined(pieces)
        return whole.take(np.argsort(whole.home, kind="stable"))

    def _kept(self, found: Found, device_type: Array) -> Mask:
        """The first few of each kind in each home."""
        pair = device_type[found.trigger] * self.n_types + device_type[found.action]
        kind = (found.home * self.n_types**2 + pair) * self.n_relations + found.relation
        order = np.argsort(kind, kind="stable")
        kept = np.empty(len(kind), dtype=bool)
        kept[order] = np.arange(len(kind)) - np.searchsorted(kind[order], kind[order]) < self.alike
        return kept


def _rank(home: Array, kept: Mask) -> Array:
    """How many of its home are kept before each."""
    before: Array = np.cumsum(kept) - kept
    return before - before[np.searchsorted(home, home)]


def _within(found: Found, some: Homes, homes: Homes, chosen: Array) -> Found:
    """Homes and devices by their numbers among all homes."""
    shift = (homes.device_start[chosen] - some.device_start[:-1])[found.home]
    return found._replace(home=chosen[found.home], trigger=found.trigger + shift, action=found.action + shift)
