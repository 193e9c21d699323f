"""One home in both formulations (the paper's figure 1): as a graph, and as a row of the user-item matrix.

The home has 4 to 6 devices, each of another type, and 3 to 5 rules; where there is none, the nearest in size. Of those
that qualify it is one all of whose rules are used by other homes, with as few idle devices as possible, and then the
one whose rarest rule most homes share. Beside its row of the matrix stand homes that share rules with it and have
others, over its own items and those that these homes have most often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from baselines.items import Items
from benchmarks.results.readable import beyond, in_words, owned, typed_rule
from benchmarks.results.records import HomeRule, Owned, TypedRule
from datasets import Homes
from datasets.homes import Array

DEVICES, RULES = (4, 6), (3, 5)
OTHERS = 6  # homes beside the example
ITEMS = 12  # columns of the excerpt
OWN_ITEMS = 6  # of these, at most so many that the example home has
LOOKED_AT = 500  # homes that may stand beside it; enough to find different ones


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A home in the excerpt."""

    user: int | str
    has: tuple[bool, ...]  # [n_items]
    rules: int  # of the home in all, also those of no column here


@dataclass(frozen=True, slots=True)
class ExampleHome:
    """A home as a graph, and an excerpt of the user-item matrix around its row."""

    user: int | str
    devices: tuple[Owned, ...]
    rules: tuple[HomeRule, ...]
    items: tuple[TypedRule, ...]
    rows: tuple[MatrixRow, ...]  # the example home first


def example_home(instances: Homes, types: Homes) -> ExampleHome | None:
    """The same homes in both tracks -> one of them; None where there is no rule."""
    if not types.n_rules:
        return None
    items = Items.of(types)
    matrix = items.matrix(types)
    number = items.number(types)
    homes_with = np.bincount(number, minlength=len(items))
    chosen = _choose(instances, types, homes_with[number])
    others = _others(matrix, chosen)
    columns = _columns(matrix, chosen, others, homes_with)
    rows = [chosen, *others]
    has = matrix[rows].toarray()[:, columns] > 0
    cell, n_types, n_relations = items.valid.cell[columns], items.valid.n_types, items.valid.n_relations
    pair, relation = np.divmod(cell, n_relations)
    words = zip((pair // n_types).tolist(), relation.tolist(), (pair % n_types).tolist(), strict=True)
    n_rules = np.diff(types.rule_start)[rows].tolist()
    users = types.users[rows].tolist()
    home = instances.home(chosen)
    return ExampleHome(
        home.user,
        owned(home),
        in_words(home),
        tuple(typed_rule(types, *numbers) for numbers in words),
        tuple(MatrixRow(*row) for row in zip(users, map(tuple, has.tolist()), n_rules, strict=True)),
    )


def _choose(instances: Homes, types: Homes, homes_with: Array) -> int:
    """The position of the example; `homes_with` says of each rule of `types` how many homes have it."""
    n_homes = types.n_homes
    rules, devices = np.diff(types.rule_start), np.diff(instances.device_start)
    rarest = np.full(n_homes, np.iinfo(np.int64).max)
    np.minimum.at(rarest, types.rules.home, homes_with)
    used = np.zeros(instances.n_devices, dtype=np.int64)
    used[instances.rules.trigger] = used[instances.rules.action] = 1
    idle = devices - np.bincount(instances.device_home, used, minlength=n_homes).astype(np.int64)
    itself = np.bincount(types.rules.home[types.rules.trigger == types.rules.action], minlength=n_homes)
    twins = devices - np.diff(types.device_start)
    size = np.where(rules > 0, beyond(instances, devices=DEVICES, rules=RULES), np.iinfo(np.int64).max)
    # lexsort's last key counts first; a rule of a device with itself is a loop, which a drawing shows badly.
    order = np.lexsort((np.arange(n_homes), -rarest, idle, itself > 0, rarest < 2, size + twins * (rules > 0)))
    return int(order[0])


def _others(matrix: csr_array, chosen: int) -> list[int]:
    """Homes that share items with the chosen one and have others, each with a set of items of its own."""
    mine = np.zeros(matrix.shape[1])
    mine[matrix[[chosen]].indices] = 1
    shared, size = matrix @ mine, np.diff(matrix.indptr)
    able = np.flatnonzero((shared > 0) & (size > shared))
    extra = (size - shared)[able]
    order = able[np.lexsort((able, extra, -shared[able]))][:LOOKED_AT]
    sets: dict[tuple[int, ...], int] = {}
    for home in order.tolist():
        sets.setdefault(tuple(np.sort(matrix[[home]].indices).tolist()), home)
    return list(sets.values())[:OTHERS]


def _columns(matrix: csr_array, chosen: int, others: list[int], homes_with: Array) -> Array:
    """The items of the excerpt: those of the chosen home that most have, then those that the others have most often."""
    own = matrix[[chosen]].indices
    own = own[np.lexsort((own, -homes_with[own]))][:OWN_ITEMS]
    nearby = np.asarray(matrix[others].sum(axis=0)).ravel().astype(np.int64) if others else np.zeros_like(homes_with)
    lacking = np.setdiff1d(np.flatnonzero(nearby), matrix[[chosen]].indices)
    lacking = lacking[np.lexsort((lacking, -homes_with[lacking], -nearby[lacking]))][: ITEMS - len(own)]
    return np.concatenate([own, lacking]).astype(np.int64)
