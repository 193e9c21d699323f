"""Vocabularies of entity types and relations: aligned between data sets, renumbered, and merged by type.

A part that is read alone numbers only what occurs in it: relation 5 of the test part is not relation 5 of the training
part. The Wyze challenge trains on one and predicts for the other:

    train, test = load("wyze"), load("wyze", part="test")
    train = align(train, like=test)  # learns about everything that either part has
    test = align(test, like=train)   # the same numbers; nothing is left to append
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Relation, Rules

Entry = TypeVar("Entry", bound=Hashable)


def align(homes: Homes, like: Homes) -> Homes:
    """`homes` with the types, relations and source codes of `like`, in its order; what only `homes` has comes last.

    A model of `like` cannot score what was appended: align both ways, as above.
    """
    types = dict.fromkeys([*like.types, *homes.types])
    relations = dict.fromkeys([*like.relations, *homes.relations])
    known, own = like.provenance.codes, homes.provenance.codes
    codes = {kind: own.get(kind, {}) | known.get(kind, {}) for kind in [*known, *own]}
    aligned = with_vocabulary(homes, tuple(types), tuple(relations))
    return replace(aligned, provenance=replace(aligned.provenance, codes=codes))


def with_vocabulary(homes: Homes, types: Sequence[str], relations: Sequence[tuple[str, str]]) -> Homes:
    """The same homes encoded by other vocabularies; an error if a type or relation in use is missing."""
    pairs = [Relation(*pair) for pair in relations]
    return replace(
        homes,
        types=tuple(types),
        relations=tuple(pairs),
        device_type=_renumber(homes.device_type, homes.types, types, f"{homes.name}: entity type"),
        rules=replace(
            homes.rules, relation=_renumber(homes.rules.relation, homes.relations, pairs, f"{homes.name}: relation")
        ),
        provenance=homes.provenance.derived(),
    )


def _renumber(column: Array, old: Sequence[Entry], new: Sequence[Entry], what: str) -> Array:
    place = {entry: i for i, entry in enumerate(new)}
    number = np.array([place.get(entry, -1) for entry in old], dtype=np.int64)
    used = np.bincount(column, minlength=len(old)) > 0
    lost = [str(old[i]) for i in np.flatnonzero(used & (number < 0)).tolist()]
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        raise DataError(f"{what} {', '.join(lost[:3])}{more} is used but not in the new vocabulary; add it there")
    return number[column]


def merge_types(homes: Homes) -> Homes:
    """The `types` track: one device per entity type and home (with the first one's id), each rule once.

    Automations that gave the same typed rule become one group: hiding one of them and training on the other would leak.
    Words are dropped: the one light that stands for those of all rooms is in none.
    """
    key = homes.device_home * max(len(homes.types), 1) + homes.device_type
    _, first, merged = np.unique(key, return_index=True, return_inverse=True)
    moved = replace(homes.rules, trigger=merged[homes.rules.trigger], action=merged[homes.rules.action])
    rule, kept, copy_of = np.unique(
        moved.keys(len(first), len(homes.relations)), return_index=True, return_inverse=True
    )
    if moved.group is not None:
        moved = replace(moved, group=_united(moved, copy_of, len(rule)))
    return replace(
        homes,
        device_home=homes.device_home[first],
        device_type=homes.device_type[first],
        device_ids=homes.device_ids[first],
        rules=moved.take(np.sort(kept)),
        provenance=homes.provenance.derived(),
        words=None,
    )


def _united(rules: Rules, copy_of: Array, n_distinct: int) -> Array:
    """Group numbers after joining all groups of a home that share a rule, named by their first member."""
    assert rules.group is not None
    # The bipartite graph of groups and distinct rules: what hangs together is one group. A group never leaves its home.
    pairs = np.stack([rules.home, rules.group], axis=1)
    group_of = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    n_groups = int(group_of.max(initial=-1)) + 1
    size = n_groups + n_distinct
    links = coo_array((np.ones(len(rules)), (group_of, n_groups + copy_of)), shape=(size, size))
    part = connected_components(links, directed=False)[1][group_of]
    _, first, back = np.unique(part, return_index=True, return_inverse=True)
    return rules.group[first][back]
