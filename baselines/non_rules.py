"""Rules that a home does not have, drawn as items to stand against those it has.

Within a home a draw is uniform over its candidates: the items whose two entity types it owns, which are what it will be
asked about, or all items. A draw that hits a rule of the home is left out, so a home that has nearly all gets fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from baselines.items import Items
from datasets.candidates import Pairs
from datasets.homes import Array, Homes


@dataclass(frozen=True, slots=True, eq=False)
class NonRules:
    """The candidates of every home as one run each, and the rules to keep clear of."""

    n_items: int
    rule: Array  # [n_rules]  home * n_items + item, sorted
    start: Array  # [n_homes]  where the run of each home begins
    length: Array  # [n_homes]
    candidate: npt.NDArray[np.int32]  # items, home by home; all items once where any may be drawn

    @classmethod
    def of(cls, homes: Homes, items: Items, *, owned: bool = True) -> NonRules:
        """Of these homes and their rules; `owned` draws only items whose entity types the home owns."""
        known = items.matrix(homes)
        home = np.repeat(np.arange(homes.n_homes), np.diff(known.indptr))
        rule = np.sort(home * len(items) + known.indices)
        if owned:
            return cls(len(items), rule, *_candidates(homes, items))
        none = np.zeros(homes.n_homes, dtype=np.int64)
        return cls(len(items), rule, none, none + len(items), np.arange(len(items), dtype=np.int32))

    def draw(self, home: Array, rng: np.random.Generator, *, rules: Array | None = None) -> tuple[Array, Array]:
        """One draw for each of these homes, each of which has a candidate: the places in `home` that got one, its item.

        `rules` are the keys (home * n_items + item, sorted) to keep clear of in place of all rules.
        """
        rules = self.rule if rules is None else rules
        item = self.candidate[self.start[home] + rng.integers(0, self.length[home])].astype(np.int64)
        if not len(rules):
            return np.arange(len(home)), item
        key = home * self.n_items + item
        free = np.flatnonzero(rules[np.minimum(np.searchsorted(rules, key), len(rules) - 1)] != key)
        return free, item[free]

    def matrix(self) -> csr_array:
        """[n_homes, n_items]: 1 for each candidate that the home does not have as a rule."""
        shape = (len(self.start), self.n_items)
        place = np.repeat(self.start - (np.cumsum(self.length) - self.length), self.length)
        item = self.candidate[place + np.arange(len(place))]
        home = np.repeat(np.arange(len(self.start)), self.length)
        free = ~np.isin(home * self.n_items + item, self.rule)
        return csr_array((np.ones(free.sum(), dtype=np.float32), (home[free], item[free])), shape=shape)


def _candidates(homes: Homes, items: Items) -> tuple[Array, Array, npt.NDArray[np.int32]]:
    """Every item of every ordered pair of entity types that a home owns: start and length of its run, and the runs."""
    merged, valid = homes.merged_types(), items.valid
    pairs = Pairs.of(merged, self_pairs=True)
    _, trigger, action = pairs.devices(np.arange(pairs.start[-1]))
    type_pair = merged.device_type[trigger] * valid.n_types + merged.device_type[action]
    begin = valid.start[type_pair]
    length = valid.start[type_pair + 1] - begin
    behind = np.cumsum(length)
    item = np.repeat(begin - (behind - length), length) + np.arange(length.sum())
    start = np.concatenate([[0], behind])[pairs.start]
    return start[:-1], np.diff(start), item.astype(np.int32)
