"""Item-based neighbours: rules that the same homes have are similar, and a home may want what is similar to its own.

Sarwar, Karypis, Konstan and Riedl (2001), "Item-based collaborative filtering recommendation algorithms", WWW;
Deshpande and Karypis (2004), "Item-based top-N recommendation algorithms", ACM TOIS 22(1), for lists from yes-or-no
data: the score of a rule is the sum of its similarities to the rules the home has, each rule keeping only its k most
similar ones. With c_ij homes that have both and n_i that have rule i, the similarity is the cosine with shrinkage
c_ij / (sqrt(n_i n_j) + shrinkage): what few homes show counts less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import coo_array

from baselines.items import Items, LinearModel
from baselines.method import Fitted, OnRound, check_range, ignore
from baselines.registry import register
from datasets.homes import Homes


@register("itemknn")
@dataclass(frozen=True)
class ItemNeighbours:
    """Rules similar to those the home has, by homes that have both (Sarwar et al. 2001, Deshpande and Karypis 2004)."""

    neighbours: int = 100  # k: how many similar rules each rule keeps
    shrinkage: float = 20.0  # added to the denominator of the cosine; 0 is the plain cosine

    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {"neighbours": ("int", 5, 1000), "shrinkage": ("log", 0.1, 300.0)}

    def __post_init__(self) -> None:
        check_range("itemknn", self, "at least 1", "neighbours")
        check_range("itemknn", self, "at least 0", "shrinkage")

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """Count the homes of every two rules, then keep the k largest similarities of each."""
        del rng
        items = Items.of(train)
        have = items.matrix(train)
        homes = np.asarray(have.sum(axis=0)).ravel()  # n_i
        pairs = (have.T @ have).tocoo()
        other = pairs.row != pairs.col
        known, wanted, both = pairs.row[other], pairs.col[other], pairs.data[other]
        similarity = both / (np.sqrt(homes[known] * homes[wanted]) + self.shrinkage)
        order = np.lexsort((known, -similarity, wanted))  # ties in the order of rules
        place = np.arange(len(order)) - np.searchsorted(wanted[order], wanted[order])
        kept = order[place < self.neighbours]
        table = coo_array((similarity[kept], (known[kept], wanted[kept])), shape=(len(items), len(items))).tocsr()
        fitted = LinearModel(items, train, table)
        on_round(1, 1, fitted, {})
        return fitted
