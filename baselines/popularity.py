"""The most used rules: the baseline that every method has to beat.

Cremonesi, Koren and Turrin (2010), "Performance of recommender algorithms on top-N recommendation tasks", RecSys, show
how hard to beat it is on the list that a person sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import logit

from baselines.items import Items, homes_with_both
from baselines.method import Fitted, OnRound, Scores, check_range, ignore
from baselines.registry import register
from datasets.common.errors import unknown
from datasets.homes import Array, Homes

By: TypeAlias = Literal["owners", "type_pair", "global"]
Floats: TypeAlias = npt.NDArray[np.float64]


@register("popularity")
@dataclass(frozen=True)
class Popularity:
    """The share of homes that already use a relation between devices of these two types."""

    by: By = "owners"  # of homes with both types; type_pair: of all homes; global: of all, whatever the types
    smoothing: float = 5.0  # pseudo-count of homes that use the relation as often as over all types

    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "by": ("choice", "owners", "type_pair", "global"),
        "smoothing": ("log", 0.1, 100.0),
    }

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            raise unknown("by of popularity", self.by, get_args(By))
        check_range("popularity", self, "above 0", "smoothing")

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """Count homes, not devices: equal rules of a home count once."""
        del rng
        n_types, n_relations = len(train.types), len(train.relations)
        items = Items.of(train)
        place = np.divmod(items.valid.cell, max(n_relations, 1))
        used: csr_array = csr_array((items.matrix(train).sum(axis=0), place), shape=(n_types**2, n_relations))
        homes = homes_with_both(train) if self.by == "owners" else np.full(n_types**2, float(train.n_homes))
        rate = (np.asarray(used.sum(axis=0)).ravel() + 0.5) / (homes.sum() + 1)  # never 0 or 1: its logit is finite
        if self.by == "global":
            used, homes = csr_array(used.shape), np.zeros_like(homes)
        fitted = PopularityModel(used, homes, rate, self.smoothing)
        on_round(1, 1, fitted, {})
        return fitted


class PopularityModel:
    """The same list for every home; a rule that no home has gets the score of the smoothing."""

    def __init__(self, used: csr_array, homes: Floats, rate: Floats, smoothing: float) -> None:
        self._used = used  # [n_types ** 2, n_relations]  homes that use the relation from a type to another
        self._homes = homes  # [n_types ** 2]  out of so many
        self._rate = rate  # [n_relations]  the same share over all pairs of types
        self._smoothing = smoothing

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """logit((used + smoothing * rate) / (homes + smoothing)); never NaN."""
        type_pair = homes.device_type[trigger] * len(homes.types) + homes.device_type[action]
        present, row = np.unique(type_pair, return_inverse=True)
        used = self._used[present].toarray() + self._smoothing * self._rate
        of = self._homes[present] + self._smoothing
        scores: Scores = logit(used / of[:, None]).astype(np.float32)
        return scores[row]
