"""How many rules a home has room for, and numbers of rules that fit."""

from __future__ import annotations

import numpy as np

from datasets.homes import Array
from datasets.synthetic.catalogue import Catalogue
from datasets.synthetic.households import Households


def room(lived: Households, catalogue: Catalogue) -> Array:
    """[n_homes]: how many different rules a home could have."""
    n = lived.n_types
    offered = np.diff(catalogue.pair_start).reshape(n, n)
    alone = np.bincount(catalogue.trigger_type[catalogue.alone], minlength=n)
    owned = lived.owned()
    rules: Array = np.einsum("ht,tu,hu->h", owned, offered, owned) - owned @ (np.diagonal(offered) - alone)
    return rules


def roomy(n_rules: Array, capacity: Array) -> Array:
    """The same numbers of rules, changed between homes with several so that none has more than about its room allows.

    A home keeps its number unless it would use a third of all it could have: those change with the roomiest homes.
    """
    several = np.flatnonzero(n_rules >= 2)
    crowded = several[n_rules[several] > np.maximum(capacity[several] // 3, 1)]
    if not len(crowded):
        return n_rules
    roomiest = several[np.argsort(-capacity[several], kind="stable")[: 2 * len(crowded)]]
    pool = np.union1d(crowded, roomiest)
    result = n_rules.copy()
    result[pool[np.argsort(capacity[pool], kind="stable")]] = np.sort(n_rules[pool])
    excess = np.maximum(result - capacity, 0)  # only ever where a handful of homes are asked for
    result -= excess
    order = np.argsort(result - capacity, kind="stable")
    before = np.cumsum((capacity - result)[order]) - (capacity - result)[order]
    result[order] += np.clip(excess.sum() - before, 0, (capacity - result)[order])
    return result
