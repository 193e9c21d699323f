"""The scores of all valid candidates of homes: a forward pass of the evidence network without rows of features.

What enters the hidden layer of the network is linear in the features, so it is computed for each block once and added
up, which saves most of the work because far fewer blocks of each kind differ than there are candidates.

Most pairs of devices are connected by nothing: no rule, path or word. Then only the role of each device counts, what it
does or what is done to it, and what is scored for one pair of roles holds for all such pairs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from datasets.homes import Array, Mask
from fedrule.evidence.feature_blocks import (
    ACTION,
    MATCHING,
    N_ACTION,
    N_HOME,
    N_MATCHING,
    N_PAIR,
    N_PAIR_ROWS,
    N_TRIGGER,
    N_TYPED,
    PAIR,
    TRIGGER,
    Companions,
    action_block,
    can_match,
    matching_block,
    own_cells,
    pair_block,
    pair_rows,
    trigger_block,
    typed_block,
)
from fedrule.evidence.home_graph import (
    Graphs,
    HomeGraph,
    Table,
    Vocabulary,
    compiled,
    graph_of,
    inlined,
    insertion_sort,
    lower_bound,
    reordered,
)


class Weights(NamedTuple):
    """The evidence network; the direct weights are a column behind the hidden units of the first layer."""

    of_rule: Table  # [n_valid, hidden + 1]  what enters the first layer for each typed rule: bias and given features
    first: Table  # [n_features, hidden + 1]
    last: Table  # [hidden]


@inlined
def add_block(sums: Table, row: int, block: Table, first: Table, begin: int, many: int) -> None:
    """Add what a block of features adds to the first layer; most features are zero."""
    for at in range(many):
        value = block[at]
        if value != 0:
            for unit in range(sums.shape[1]):
                sums[row, unit] += value * first[begin + at, unit]


@reordered
def rest_of_network(
    scores: Table, to: int, many: int, typed: Table, rule: int, action: Table, device: int, pair: Table, last: Table
) -> None:
    """The scores of successive relations, given the three parts of what enters the hidden layer.

    `rule` and `device` are the rows of the first one. A score is the lowest where weights are so large that it is not a
    number.
    """
    hidden, zero = len(last), np.float32(0)
    for r in range(many):
        total = typed[rule + r, hidden] + action[device + r, hidden] + pair[0, hidden]
        for at in range(hidden):
            enters = typed[rule + r, at] + action[device + r, at] + pair[0, at]
            total += (enters if enters > 0 else zero) * last[at]
        scores[to + r] = -np.inf if math.isnan(total) else total


@compiled
def roles(home: HomeGraph, n_types: int) -> tuple[Array, Array]:
    """[n] each: the first device that is the same as each one when it triggers, and when it is acted on.

    When it triggers: of the same type, with rules of the same relations that act on the same types, acted on by as many
    rules, and with as many devices of each type that share a word with it. When it is acted on: the other way round.
    """
    n = len(home.type)
    trigger_key, action_key = np.empty(len(home.trigger), np.int64), np.empty(len(home.trigger), np.int64)
    for device in range(n):
        low, high = home.trigger_start[device], home.trigger_start[device + 1]
        for at in range(low, high):
            rule = home.by_trigger[at]
            trigger_key[at] = home.relation[rule] * n_types + home.type[home.action[rule]]
        insertion_sort(trigger_key, low, high)
        low, high = home.action_start[device], home.action_start[device + 1]
        for at in range(low, high):
            rule = home.by_action[at]
            action_key[at] = home.relation[rule] * n_types + home.type[home.trigger[rule]]
        insertion_sort(action_key, low, high)
    one = same_role(home, home.trigger_start, trigger_key, home.action_start)
    other = same_role(home, home.action_start, action_key, home.trigger_start)
    return one, other


@compiled
def same_role(home: HomeGraph, start: Array, key: Array, others: Array) -> Array:
    """[n]: the first device of the same type with the same keys, as many others, and as many near devices."""
    n, words = len(home.type), len(home.shared) > 0
    role = np.arange(n)
    for device in range(n):
        many = start[device + 1] - start[device]
        for first in range(device):
            if role[first] != first or home.type[first] != home.type[device]:
                continue
            if start[first + 1] - start[first] != many:
                continue
            if others[first + 1] - others[first] != others[device + 1] - others[device]:
                continue
            if words and (home.shared[first, first] > 0) != (home.shared[device, device] > 0):
                continue
            same = True
            for at in range(many):
                same = same and key[start[first] + at] == key[start[device] + at]
            if words and same:
                for kind in range(home.near.shape[1]):
                    same = same and home.near[first, kind] == home.near[device, kind]
            if same:
                role[device] = first
                break
    return role


@compiled
def find_connected(connected: Mask, home: HomeGraph, rows: Table, i: int) -> None:
    """[n]: the devices that anything connects with device i. For others their roles decide the score."""
    n = len(connected)
    for j in range(n):
        connected[j] = i == j or rows[7, j] > 0 or rows[9, j] > 0
    for at in range(7):
        for j in range(n):
            connected[j] |= rows[at, j] > 0
    if len(home.shared):
        for j in range(n):
            connected[j] |= home.shared[i, j] > 0


@compiled
def score_homes(
    scores: Table,  # [n]  written: those of the valid relations of each pair, from its place on
    place: Array,  # [n_pairs]  of all pairs of the homes, by home, trigger and action; -1: not wanted
    pair_start: Array,  # [n_homes + 1]
    graphs: Graphs,
    vocabulary: Vocabulary,
    companions: Companions,
    inverse: npt.NDArray[np.float64],  # [n_valid, n_valid]  of EASE
    scale: npt.NDArray[np.float64],  # [n_valid]  of its scores
    weights: Weights,
) -> None:
    """The scores of all valid candidates of the wanted pairs."""
    for h in range(len(pair_start) - 1):
        n = graphs.device_start[h + 1] - graphs.device_start[h]
        pairs = place[pair_start[h] : pair_start[h + 1]]
        wanted = False
        for at in range(len(pairs)):
            wanted = wanted or pairs[at] >= 0
        if wanted:
            score_home(scores, pairs.reshape(n, n), graphs, vocabulary, companions, inverse, scale, weights, h)


@inlined
def score_home(
    scores: Table,
    place: Array,  # [n, n]
    graphs: Graphs,
    vocabulary: Vocabulary,
    companions: Companions,
    inverse: npt.NDArray[np.float64],
    scale: npt.NDArray[np.float64],
    weights: Weights,
    h: int,
) -> None:
    """Those of one home, trigger type by trigger type."""
    home = graph_of(graphs, vocabulary, own_cells(companions, h), h)
    n, n_types, start = len(home.type), vocabulary.n_types, vocabulary.start
    width = weights.first.shape[1]
    trigger_role, action_role = roles(home, n_types)
    known, together = known_items(home, vocabulary), companions.together
    owned: Array = np.flatnonzero(home.of_type)
    block, rows = np.zeros(N_TYPED, dtype=np.float32), np.zeros((N_PAIR_ROWS, n), dtype=np.float32)
    connected = np.zeros(n, dtype=np.bool_)
    first_cell = np.zeros(n_types, dtype=np.int64)  # of each type of action, for triggers of one type
    action_at = np.zeros(n, dtype=np.int64)
    of_pair, matching = np.zeros((1, width), dtype=np.float32), np.zeros((1, width), dtype=np.float32)
    done = np.full((n, n), -1, dtype=np.int64)  # where a pair of roles has been scored
    for one in owned:
        cells, of_devices = 0, 0
        for other in owned:
            first_cell[other] = cells
            many = start[one * n_types + other + 1] - start[one * n_types + other]
            cells += many
            of_devices += many * home.of_type[other]
        # What enters the first layer by the typed rule, by the action and the rule, by the trigger and the rule.
        typed, of_action = np.empty((cells, width), np.float32), np.zeros((of_devices, width), np.float32)
        of_trigger = np.empty((cells, width), dtype=np.float32)
        for other in owned:
            for item in range(start[one * n_types + other], start[one * n_types + other + 1]):
                cell = first_cell[other] + item - start[one * n_types + other]
                typed_block(block, home, vocabulary, one, other, vocabulary.relation[item])
                block[N_HOME] = ease(known, inverse, scale, item)
                typed[cell] = weights.of_rule[item]
                add_block(typed, cell, block, weights.first, 0, N_HOME + 1)
        at = 0
        for j in range(n):
            if action_role[j] != j:
                continue
            action_at[j] = at
            for item in range(start[one * n_types + home.type[j]], start[one * n_types + home.type[j] + 1]):
                action_block(block, home, vocabulary, together, j, one, vocabulary.relation[item])
                add_block(of_action, at, block, weights.first, ACTION, N_ACTION)
                at += 1
        for role in range(n):  # the triggers of this type, one role after the other
            if home.type[role] != one or trigger_role[role] != role:
                continue
            for other in owned:
                for item in range(start[one * n_types + other], start[one * n_types + other + 1]):
                    cell = first_cell[other] + item - start[one * n_types + other]
                    trigger_block(block, home, vocabulary, together, role, other, vocabulary.relation[item])
                    of_trigger[cell] = typed[cell]
                    add_block(of_trigger, cell, block, weights.first, TRIGGER, N_TRIGGER)
            for i in range(role, n):
                if trigger_role[i] != role:
                    continue
                pair_rows(rows, home, i)
                find_connected(connected, home, rows, i)
                for j in range(n):
                    to, other, acted = place[i, j], home.type[j], action_role[j]
                    many = start[one * n_types + other + 1] - start[one * n_types + other]
                    if to < 0 or many == 0:
                        continue
                    if not connected[j]:
                        if done[role, acted] >= 0:
                            for r in range(many):
                                scores[to + r] = scores[done[role, acted] + r]
                            continue
                        done[role, acted] = to
                    of_pair[:] = 0
                    pair_block(block, home, rows, i, j)
                    add_block(of_pair, 0, block, weights.first, PAIR, N_PAIR)
                    cell, at = first_cell[other], action_at[acted]
                    if not can_match(rows, j):
                        rest_of_network(scores, to, many, of_trigger, cell, of_action, at, of_pair, weights.last)
                        continue
                    for r in range(many):
                        relation = vocabulary.relation[start[one * n_types + other] + r]
                        matching_block(block, home, vocabulary, companions, i, j, relation)
                        matching[:] = of_pair
                        add_block(matching, 0, block, weights.first, MATCHING, N_MATCHING)
                        rest_of_network(
                            scores, to + r, 1, of_trigger, cell + r, of_action, at + r, matching, weights.last
                        )


@compiled
def known_items(home: HomeGraph, vocabulary: Vocabulary) -> Array:
    """The typed rules that a home has, as numbers of valid ones, each once."""
    found, many = np.empty(len(home.relation), dtype=np.int64), 0
    for rule in range(len(home.relation)):
        pair = home.type[home.trigger[rule]] * vocabulary.n_types + home.type[home.action[rule]]
        low, high = vocabulary.start[pair], vocabulary.start[pair + 1]
        item = low + lower_bound(vocabulary.relation[low:high], home.relation[rule])
        if item < high and vocabulary.relation[item] == home.relation[rule]:
            found[many] = item
            many += 1
    insertion_sort(found, 0, many)
    kept = 0
    for at in range(many):
        if at == 0 or found[at] != found[at - 1]:
            found[kept] = found[at]
            kept += 1
    return found[:kept]


@compiled
def ease(known: Array, inverse: npt.NDArray[np.float64], scale: npt.NDArray[np.float64], item: int) -> float:
    """The score of a typed rule given the others that a home has (`baselines.ease.Cooccurrence`)."""
    total, has = 0.0, 0.0
    for other in known:
        total += inverse[other, item]
        if other == item:
            has = 1.0
    return float(scale[item] * (has - total / inverse[item, item]))
