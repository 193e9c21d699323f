"""The `types` track: devices of one type merged, duplicate rules dropped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from datasets.homes import Array, Homes, Rules


def merge_types(homes: Homes) -> Homes:
    """One device per entity type and home (it keeps the first one's id); a rule that then stands twice is kept once.

    Automations that gave the same typed rule become one group: hiding one of them and training on the other would
    show the answer.
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
