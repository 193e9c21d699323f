"""The user-item formulation: a home is a user, a typed rule (trigger type, relation, action type) an item.

Devices of one type cannot be told apart here, so all pairs of devices with the same two types share their scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array

from baselines.method import Scores
from datasets.homes import Array, Homes
from datasets.valid import ValidRules


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
        self.items = items
        self._users = pd.Index(train.users)

    @abstractmethod
    def score_items(self, homes: Homes, which: Array) -> npt.NDArray[np.floating]:
        """[len(which), n_items] for these homes, given their rules; a row of NaN for a home it cannot answer."""

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
        return self._users.get_indexer(pd.Index(homes.users[which])).astype(np.int64)
