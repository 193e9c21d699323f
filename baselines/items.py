"""The user-item formulation: a home is a user, a typed rule (trigger type, relation, action type) an item.

Devices of one type cannot be told apart here, so all pairs of devices with the same two types share their scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from baselines.method import Scores
from datasets.candidates import Pairs
from datasets.common.random import RandomSource, random_source
from datasets.homes import Array, Homes, Mask
from datasets.private_counts import owned_types
from datasets.valid import ValidRules

Factors: TypeAlias = npt.NDArray[np.float64]
FoldIn: TypeAlias = Callable[[csr_array], Factors]  # factors [n_homes, n_factors] of homes with these rules


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The items: every typed rule that some training home has, numbered as the valid-rule tensor numbers them."""

    valid: ValidRules

    @classmethod
    def of(cls, train: Homes) -> Items:
        return cls(ValidRules.of(train))

    def __len__(self) -> int:
        return len(self.valid)

    def number(self, homes: Homes) -> Array:
        """The item of each rule of these homes, -1 where there is no such item."""
        trigger_type, relation, action_type = homes.typed()
        return self.valid.number(trigger_type, action_type, relation)

    def matrix(self, homes: Homes) -> csr_array:
        """[n_homes, n_items]: 1 where the home has the rule, however many of its devices carry it out."""
        item = self.number(homes)
        known = item >= 0
        shape = (homes.n_homes, len(self))
        table = csr_array((np.ones(known.sum()), (homes.rules.home[known], item[known])), shape=shape)
        table.sum_duplicates()
        table.data[:] = 1.0
        return table

    def spread(self, homes: Homes, trigger: Array, action: Array, scores: npt.NDArray[np.floating]) -> Scores:
        """[n_pairs, n_relations] from scores [n_homes of the pairs, n_items]; NaN where there is no such item.

        `scores` has one row for each distinct home among the pairs, in the order of homes.
        """
        row = np.unique(homes.device_home[trigger], return_inverse=True)[1]
        pair, item = self.valid.of_pairs(homes.device_type[trigger], homes.device_type[action])
        spread = np.full((len(trigger), self.valid.n_relations), np.nan, dtype=np.float32)
        spread[pair, self.valid.relation[item]] = scores[row[pair], item]
        return spread


class UserItemModel(ABC):
    """A fitted user-item model: it scores items for homes, and the pairs of devices take their item's score."""

    def __init__(self, items: Items, train: Homes) -> None:
        import pandas as pd  # slow to import, and those who count only do without

        self.items = items
        self._users = pd.Index(train.users)

    @abstractmethod
    def score_items(self, homes: Homes, which: Array) -> npt.NDArray[np.floating]:
        """[len(which), n_items] for these homes, given their rules; a row of NaN for a home that it cannot score."""

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """Logits of the items that the devices' types make of each relation; NaN where training had no such item."""
        which = np.unique(homes.device_home[trigger])
        scores = self.score_items(homes, which)
        if scores.shape != (len(which), len(self.items)):
            expected = f"[{len(which)}, {len(self.items)}], a row for each home and a column for each item"
            raise ValueError(f"score_items gave scores of shape {list(scores.shape)}, expected {expected}")
        return self.items.spread(homes, trigger, action, scores)

    def training_row(self, homes: Homes, which: Array) -> Array:
        """The row of each home in the training data, by user, -1 for a home that was not there."""
        import pandas as pd

        return self._users.get_indexer(pd.Index(homes.users[which])).astype(np.int64)


class LinearModel(UserItemModel):
    """Scores are sums of the weights from the rules that a home has, and a bias where there is one.

    Without a bias, a home without rules gets no scores.
    """

    def __init__(
        self,
        items: Items,
        train: Homes,
        weight: npt.NDArray[np.float64] | csr_array,
        *,
        bias: npt.NDArray[np.float64] | None = None,
    ) -> None:
        super().__init__(items, train)
        self.weight = weight  # [n_items, n_items]  from a rule that the home has
        self.bias = bias  # [n_items]

    def score_items(self, homes: Homes, which: Array) -> npt.NDArray[np.floating]:
        """X B as a sparse product, home by home, so that no score depends on which other homes are scored."""
        have = self.items.matrix(homes)[which]
        product = have @ self.weight
        scores = np.asarray(product.toarray() if issparse(product) else product)
        if self.bias is not None:
            return scores + self.bias
        scores[np.diff(have.indptr) == 0] = np.nan
        return scores


class FactorModel(UserItemModel):
    """Scores are products of the rules' factors with those of the home; a home without rules gets none."""

    def __init__(self, items: Items, train: Homes, factors: Factors, fold_in: FoldIn) -> None:
        super().__init__(items, train)
        self.factors = factors  # [n_items, n_factors]
        self.fold_in = fold_in

    def score_items(self, homes: Homes, which: Array) -> npt.NDArray[np.floating]:
        """In float64: rounded to float32 the scores do not depend on which homes share a product."""
        have = self.items.matrix(homes)[which]
        scores = self.home_factors(homes, which, have) @ self.factors.T
        scores[np.diff(have.indptr) == 0] = np.nan
        return scores

    def home_factors(self, homes: Homes, which: Array, have: csr_array) -> Factors:  # noqa: ARG002  others use them
        """[len(which), n_factors] of these homes, which have these rules."""
        return self.fold_in(have)


def homes_with_both(homes: Homes) -> npt.NDArray[np.float64]:
    """[n_types ** 2]: how many homes own devices of both types of each ordered pair, so that they could have a rule."""
    owns = owned_types(homes)
    return np.asarray((owns.T @ owns).todense(), dtype=np.float64).ravel()


def automations(homes: Homes, items: Items) -> Array:
    """[n_entries of the matrix of rules]: entries of one automation share a number; without groups each has its own.

    An entry of several automations belongs to the first one. Numbers are consecutive from 0.
    """
    rules = homes.rules
    entry, first = np.unique(rules.home * len(items) + items.number(homes), return_index=True)
    if rules.group is None:
        return np.arange(len(entry))
    pairs = np.stack([rules.home[first], rules.group[first]], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class NonRules:
    """Draws negative items for homes: rules that they do not have.

    Within a home a draw is uniform over its candidates: the items whose two entity types it owns, which are those that
    it will be scored on, or all items. A draw that hits a rule of the home is dropped, so a home that has nearly all
    gets fewer.
    """

    n_items: int
    rule: Array  # [n_rules]  home * n_items + item, sorted
    start: Array  # [n_homes]  where the run of each home begins
    length: Array  # [n_homes]
    candidate: npt.NDArray[np.int32]  # items, home by home; all items once if any may be drawn

    @classmethod
    def of(cls, homes: Homes, items: Items, *, owned: bool = True) -> NonRules:
        """For these homes and their rules; `owned` draws only items whose entity types the home owns."""
        known = items.matrix(homes)
        home = np.repeat(np.arange(homes.n_homes), np.diff(known.indptr))
        rule = np.sort(home * len(items) + known.indices)
        if owned:
            return cls(len(items), rule, *_candidates(homes, items))
        none = np.zeros(homes.n_homes, dtype=np.int64)
        return cls(len(items), rule, none, none + len(items), np.arange(len(items), dtype=np.int32))

    def draw(
        self, home: Array, rng: np.random.Generator | RandomSource, *, rules: Array | None = None
    ) -> tuple[Array, Array]:
        """One draw for each of these homes, which all have candidates: the positions in `home` that got one, its item.

        `rules` are the keys (home * n_items + item, sorted) to avoid instead of all rules. Keyed random numbers, which
        do not depend on the other homes, need sorted homes.
        """
        rules = self.rule if rules is None else rules
        item = self.candidate[self.start[home] + random_source(rng).below(home, self.length[home])].astype(np.int64)
        if not len(rules):
            return np.arange(len(home)), item
        key = home * self.n_items + item
        free = np.flatnonzero(rules[np.minimum(np.searchsorted(rules, key), len(rules) - 1)] != key)
        return free, item[free]

    def draw_each(self, home: Array, n: int, rng: np.random.Generator | RandomSource) -> tuple[Array, Mask]:
        """[len(home), n] items, and whether there is one: a draw that hits a rule of the home is none."""
        place, drawn = self.draw(np.repeat(home, n), rng)
        item, is_drawn = np.zeros(len(home) * n, dtype=np.int64), np.zeros(len(home) * n, dtype=np.bool_)
        item[place], is_drawn[place] = drawn, True
        return item.reshape(len(home), n), is_drawn.reshape(len(home), n)

    def matrix(self) -> csr_array:
        """[n_homes, n_items]: 1 for each candidate that the home does not have as a rule."""
        shape = (len(self.start), self.n_items)
        place = np.repeat(self.start - (np.cumsum(self.length) - self.length), self.length)
        item = self.candidate[place + np.arange(len(place))]
        home = np.repeat(np.arange(len(self.start)), self.length)
        free = ~np.isin(home * self.n_items + item, self.rule)
        return csr_array((np.ones(free.sum(), dtype=np.float32), (home[free], item[free])), shape=shape)


def _candidates(homes: Homes, items: Items) -> tuple[Array, Array, npt.NDArray[np.int32]]:
    """Every item of every ordered pair of entity types that a home owns: start and length of its run, and the runs.

    Homes that own the same types share a run: of 2,000 homes of wyze-synthetic, 241 own different ones.
    """
    owns = np.zeros((homes.n_homes, len(homes.types)), dtype=np.bool_)
    owns[homes.device_home, homes.device_type] = True
    _, first, kind = np.unique(np.packbits(owns, axis=1), axis=0, return_index=True, return_inverse=True)
    start, length, item = _candidates_of_each(homes.subset(first), items)
    return start[kind.reshape(-1)], length[kind.reshape(-1)], item


def _candidates_of_each(homes: Homes, items: Items) -> tuple[Array, Array, npt.NDArray[np.int32]]:
    """The same with a run for each home."""
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
