"""The features of a candidate <i, (state, act), j> in five blocks, each by what it depends on.

    typed      the types of i and j and the relation: what the home, and what other homes, do with such devices
    trigger    device i, the type of j and the relation
    action     device j, the type of i and the relation
    pair       devices i and j: rules between them, paths, words that they share
    matching   devices i and j and the relation; 0 for nearly all candidates

Training needs rows of features (`candidate_features`). Scoring does not (`forward_pass`), but fills the blocks by the
same functions. `features.py` names the columns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from datasets.homes import Array
from fedrule.evidence.home_graph import (
    Graphs,
    HomeGraph,
    Table,
    Vocabulary,
    compiled,
    graph_of,
    group_by,
    inlined,
    is_in_sorted,
    is_named,
    log_count,
    lower_bound,
    similarity,
)

N_HOME, N_GIVEN = 16, 14  # typed features: those counted in the home, and those given for each rule, EASE first
N_TYPED, N_TRIGGER, N_ACTION, N_PAIR, N_MATCHING = N_HOME + N_GIVEN, 10, 10, 21, 6
TRIGGER, ACTION, PAIR = N_TYPED, N_TYPED + N_TRIGGER, N_TYPED + N_TRIGGER + N_ACTION  # first column of each block
MATCHING = PAIR + N_PAIR
N_FEATURES = MATCHING + N_MATCHING
N_PAIR_ROWS = 17  # numbers for each device that depend on the trigger alone
MEAN_SCALE = 5.0  # the means along paths are small; scaled, log1p still spreads them
COMPANION_SCALE, COMPANION_PRIOR = 20.0, 3.0  # of the share of homes in which one relation goes with another
PAIRS, TRIGGERS, ACTIONS = range(3)  # what two relations may have in common: both devices, the trigger, the action
RARITY_SCALE = 1 / 3  # brings the rarity of shared words, up to 5, to the size of the other features


class Companions(NamedTuple):
    """How many homes have two relations on the same pair of devices, of the same trigger, or of the same action.

    In training a home leaves its own contribution out: `own` are its cells of `together`.
    """

    together: Table  # [3, n_relations, n_relations]  by PAIRS, TRIGGERS, ACTIONS; the diagonal counts single relations
    typed_start: Array  # [n_types ** 2 + 1]
    typed: Table  # for each pair of types a table [n_valid of it] ** 2, flat: on a pair of devices of these types
    own_start: Array  # [n_homes + 1]  or nothing
    own: Array  # cells of `together` and, behind them, of `typed`, sorted within each home


@compiled
def own_cells(companions: Companions, h: int) -> Array:
    """The cells that a home contributed to, if any is left out."""
    if not len(companions.own_start):
        return companions.own[:0]
    return companions.own[companions.own_start[h] : companions.own_start[h + 1]]


@inlined
def companion(together: Table, own: Array, what: int, known: int, relation: int) -> float:
    """The share of homes with one relation that also have the other in common with it; 0 for a relation with itself."""
    n = together.shape[1]
    row = (what * n + known) * n
    both = together[what, known, relation] - is_in_sorted(own, row + relation)
    have = together[what, known, known] - is_in_sorted(own, row + known)
    return 0.0 if known == relation else float(both / (have + COMPANION_PRIOR))


@compiled
def typed_companion(
    companions: Companions, vocabulary: Vocabulary, own: Array, types: int, known: int, relation: int
) -> float:
    """The same on a pair of devices, among homes with devices of such types, where there are enough of them.

    No home has a relation that is not valid for the types, so that a home left out may have been the only one.
    """
    share = companion(companions.together, own, PAIRS, known, relation)
    if known == relation:
        return share
    low, high = vocabulary.start[types], vocabulary.start[types + 1]
    valid = vocabulary.relation[low:high]
    one, other = lower_bound(valid, known), lower_bound(valid, relation)
    both, have = 0.0, 0.0
    if one < len(valid) and valid[one] == known:
        row = companions.typed_start[types] + one * len(valid)
        is_valid = other < len(valid) and valid[other] == relation
        have += companions.typed[row + one]
        both += companions.typed[row + other] if is_valid else 0.0
        if len(own):
            before = companions.together.size
            have -= is_in_sorted(own, before + row + one)
            both -= is_valid and is_in_sorted(own, before + row + other)
    return float((both + COMPANION_PRIOR * share) / (have + COMPANION_PRIOR))


@compiled
def typed_block(block: Table, home: HomeGraph, vocabulary: Vocabulary, one: int, other: int, relation: int) -> None:
    """The first N_HOME features; `one` and `other` are the types."""
    state, act = vocabulary.state[relation], vocabulary.act[relation]
    of_state, of_relation, both, both_state, both_act, both_relation = 0, 0, 0, 0, 0, 0
    between, together = 0, 0
    for at in range(home.trigger_type_start[one], home.trigger_type_start[one + 1]):
        rule = home.by_trigger_type[at]
        of_state += home.state[rule] == state
        of_relation += home.relation[rule] == relation
        if home.type[home.action[rule]] == other:
            both += 1
            both_state += home.state[rule] == state
            both_act += home.act[rule] == act
            both_relation += home.relation[rule] == relation
            if len(home.shared) and is_named(home.shared, home.trigger[rule], home.action[rule]):
                between += 1
                together += home.shared[home.trigger[rule], home.action[rule]] > 0
    on_act, on_relation = 0, 0
    for at in range(home.action_type_start[other], home.action_type_start[other + 1]):
        rule = home.by_action_type[at]
        on_act += home.act[rule] == act
        on_relation += home.relation[rule] == relation
    block[0] = log_count(len(home.relation))
    block[1] = log_count(home.of_relation[relation])
    block[2] = log_count(home.of_state[state])
    block[3] = log_count(home.of_act[act])
    block[4] = log_count(of_state)
    block[5] = log_count(on_act)
    block[6] = log_count(both)
    block[7] = log_count(of_relation)
    block[8] = log_count(on_relation)
    block[9] = log_count(both_state)
    block[10] = log_count(both_act)
    block[11] = log_count(both_relation)
    block[12] = math.log(max(len(home.type), 1))
    block[13] = math.log(max(home.of_type[one], 1))
    block[14] = math.log(max(home.of_type[other], 1))
    block[15] = math.log((together + 0.5) / (between + 1.5)) if len(home.shared) else 0.0


# The loops of the next two are alike but for the role of the device. One loop for both, which takes the columns as
# arguments, was measured to make scoring a quarter slower.
@inlined
def trigger_block(
    block: Table, home: HomeGraph, vocabulary: Vocabulary, together: Table, i: int, other: int, relation: int
) -> None:
    """What device i does already; `other` is the action's type."""
    state, act = vocabulary.state[relation], vocabulary.act[relation]
    first, last = home.trigger_start[i], home.trigger_start[i + 1]
    states, acts, relations, typed, typed_state, typed_relation, share = 0, 0, 0, 0, 0, 0, 0.0
    for at in range(first, last):
        rule = home.by_trigger[at]
        share = max(share, companion(together, home.own, TRIGGERS, home.relation[rule], relation))
        same_state, same_relation = home.state[rule] == state, home.relation[rule] == relation
        states += same_state
        acts += home.act[rule] == act
        relations += same_relation
        if home.type[home.action[rule]] == other:
            typed += 1
            typed_state += same_state
            typed_relation += same_relation
    counted = last - first, states, acts, relations, typed, typed_state, typed_relation
    write_device(block, counted, home.action_start[i + 1] - home.action_start[i], home.has_words[i], share)


@inlined
def action_block(
    block: Table, home: HomeGraph, vocabulary: Vocabulary, together: Table, j: int, one: int, relation: int
) -> None:
    """What already acts on device j; `one` is the trigger's type."""
    state, act = vocabulary.state[relation], vocabulary.act[relation]
    first, last = home.action_start[j], home.action_start[j + 1]
    states, acts, relations, typed, typed_act, typed_relation, share = 0, 0, 0, 0, 0, 0, 0.0
    for at in range(first, last):
        rule = home.by_action[at]
        share = max(share, companion(together, home.own, ACTIONS, home.relation[rule], relation))
        same_act, same_relation = home.act[rule] == act, home.relation[rule] == relation
        states += home.state[rule] == state
        acts += same_act
        relations += same_relation
        if home.type[home.trigger[rule]] == one:
            typed += 1
            typed_act += same_act
            typed_relation += same_relation
    counted = last - first, acts, states, relations, typed, typed_act, typed_relation
    write_device(block, counted, home.trigger_start[j + 1] - home.trigger_start[j], home.has_words[j], share)


@inlined
def write_device(block: Table, counted: tuple[int, ...], other_role: int, has_words: float, share: float) -> None:
    """The features of a device in one role: its rules in it, how many it has in the other one, and companions."""
    for at in range(7):
        block[at] = log_count(counted[at])
    block[7] = log_count(other_role)
    block[8] = has_words
    block[9] = math.log1p(COMPANION_SCALE * share)


@compiled
def pair_rows(rows: Table, home: HomeGraph, i: int) -> None:
    """[N_PAIR_ROWS, n]: for trigger i and every device j the numbers that `pair_block` takes logarithms of."""
    rows[:] = 0
    n = len(home.type)
    many = home.targets_start[i + 1] - home.targets_start[i]
    for a in range(home.targets_start[i], home.targets_start[i + 1]):
        target = home.targets[a]
        for b in range(home.targets_start[target], home.targets_start[target + 1]):
            rows[0, home.targets[b]] += 1  # A A
        sources = home.sources_start[target + 1] - home.sources_start[target]
        for b in range(home.sources_start[target], home.sources_start[target + 1]):
            source = home.sources[b]
            rows[2, source] += 1  # A A^T
            for c in range(home.targets_start[source], home.targets_start[source + 1]):
                rows[3, home.targets[c]] += 1  # A A^T A
                rows[4, home.targets[c]] += np.float32(1.0 / (many * sources))
    for a in range(home.sources_start[i], home.sources_start[i + 1]):
        source = home.sources[a]
        for b in range(home.targets_start[source], home.targets_start[source + 1]):
            rows[1, home.targets[b]] += 1  # A^T A
    for j in range(n):
        rows[5, j] = home.acts[i, j]
        rows[6, j] = home.acts[j, i]
    if not len(home.shared):
        return
    # What this trigger already does in the room of j, and what acts on j from the room of i.
    for at in range(home.trigger_start[i], home.trigger_start[i + 1]):
        target = home.action[home.by_trigger[at]]
        if home.shared[target, target] > 0:
            for j in range(n):
                if j != target and home.shared[target, j] > 0:
                    rows[7, j] += 1
                    rows[8, j] = max(rows[8, j], np.float32(similarity(home, target, j)))
    if home.shared[i, i] > 0:
        for rule in range(len(home.trigger)):
            source, j = home.trigger[rule], home.action[rule]
            if source != i and home.shared[source, i] > 0:
                rows[9, j] += 1
                rows[10, j] = max(rows[10, j], np.float32(similarity(home, source, i)))
    # How many devices of the type of j are nearer to i, and equally near; and the same from the other end.
    for j in range(n):
        near = home.shared[i, j]
        one, other = home.type[i], home.type[j]
        rows[11, j], rows[12, j] = nearer(home, i, j, other, near)
        rows[13, j], rows[14, j] = nearer(home, j, i, one, near)
        if near > 0:
            rows[15, j] = home.rarest[i, j]
            rows[16, j] = similarity(home, i, j)


@compiled
def nearer(home: HomeGraph, device: int, end: int, kind: int, near: float) -> tuple[int, int]:
    """How many other devices of a type share rarer words with a device than `end` does, and how many equally rare."""
    others = home.of_type[kind] - (home.type[device] == kind) - (end != device and home.type[end] == kind)
    if not near > 0:
        above = home.near[device, kind]
        return above, others - above
    above, tied = 0, 0
    for each in range(len(home.type)):
        if home.type[each] == kind and each != device and each != end:
            above += home.shared[device, each] > near
            tied += home.shared[device, each] == near
    return above, tied


@inlined
def pair_block(block: Table, home: HomeGraph, rows: Table, i: int, j: int) -> None:
    """What holds for a pair of devices whatever the relation."""
    for at in range(4):
        block[at] = log_count(rows[at, j])
    block[4] = math.log1p(MEAN_SCALE * rows[4, j])
    block[5] = log_count(rows[5, j])
    block[6] = log_count(rows[6, j])
    block[7] = 1.0 if i == j else 0.0
    block[8:N_PAIR] = 0
    if len(home.shared):
        word_features(block, home, rows, i, j)


@compiled
def word_features(block: Table, home: HomeGraph, rows: Table, i: int, j: int) -> None:
    """Those of a pair by the words of the devices."""
    block[8] = home.shared[i, j] * RARITY_SCALE
    block[9] = rows[15, j] * RARITY_SCALE
    block[10] = rows[16, j]
    block[11] = log_count(rows[11, j])
    block[12] = log_count(rows[12, j])
    block[13] = log_count(rows[13, j])
    block[14] = log_count(rows[14, j])
    block[15] = log_count(rows[7, j])
    block[16] = rows[8, j]
    block[17] = log_count(rows[9, j])
    block[18] = rows[10, j]
    block[19] = home.room_share
    block[20] = home.room_share if home.shared[i, j] > 0 else 0.0


@inlined
def can_match(rows: Table, j: int) -> bool:
    """Whether `matching_block` may be other than zeros."""
    return bool(rows[5, j] > 0 or rows[7, j] > 0 or rows[9, j] > 0)


@compiled
def matching_block(
    block: Table, home: HomeGraph, vocabulary: Vocabulary, companions: Companions, i: int, j: int, relation: int
) -> None:
    """Rules of these very devices, or in their rooms, that agree with the candidate."""
    state, act = vocabulary.state[relation], vocabulary.act[relation]
    states, acts, room_states, room_relations, source_relations, share = 0, 0, 0, 0, 0, 0.0
    words, types = len(home.shared) > 0, home.type[i] * vocabulary.n_types + home.type[j]
    for at in range(home.trigger_start[i], home.trigger_start[i + 1]):
        rule = home.by_trigger[at]
        target = home.action[rule]
        if target == j:
            states += home.state[rule] == state
            acts += home.act[rule] == act
            share = max(share, typed_companion(companions, vocabulary, home.own, types, home.relation[rule], relation))
        elif words and home.shared[target, j] > 0:
            room_states += home.state[rule] == state
            room_relations += home.relation[rule] == relation
    if words:
        for at in range(home.action_start[j], home.action_start[j + 1]):
            rule = home.by_action[at]
            source = home.trigger[rule]
            if source != i and home.shared[source, i] > 0:
                source_relations += home.relation[rule] == relation
    block[0] = log_count(states)
    block[1] = log_count(acts)
    block[2] = log_count(room_states)
    block[3] = log_count(room_relations)
    block[4] = log_count(source_relations)
    block[5] = math.log1p(COMPANION_SCALE * share)


@compiled
def candidate_features(
    features: Table,  # [n, N_FEATURES]  written, but for what is given: the last columns of the typed block
    graphs: Graphs,
    vocabulary: Vocabulary,
    companions: Companions,
    home_of_candidate: Array,  # [n]  sorted
    trigger: Array,  # [n]
    action: Array,  # [n]
    relation: Array,  # [n]
) -> None:
    """The features of these candidates."""
    first, n = 0, len(trigger)
    while first < n:
        h, last = home_of_candidate[first], first
        while last < n and home_of_candidate[last] == h:
            last += 1
        home, begin = graph_of(graphs, vocabulary, own_cells(companions, h), h), graphs.device_start[h]
        many = len(home.type)
        rows = np.zeros((N_PAIR_ROWS, many), dtype=np.float32)
        start, order = group_by(trigger[first:last] - begin, many)
        for i in range(many):
            if start[i] < start[i + 1]:
                pair_rows(rows, home, i)
            for at in range(start[i], start[i + 1]):
                c = first + order[at]
                j, r, row = action[c] - begin, relation[c], features[c]
                one, other = home.type[i], home.type[j]
                typed_block(row, home, vocabulary, one, other, r)
                trigger_block(row[TRIGGER:], home, vocabulary, companions.together, i, other, r)
                action_block(row[ACTION:], home, vocabulary, companions.together, j, one, r)
                pair_block(row[PAIR:], home, rows, i, j)
                if can_match(rows, j):
                    matching_block(row[MATCHING:], home, vocabulary, companions, i, j, r)
                else:
                    row[MATCHING:] = 0
        first = last


@compiled
def pair_features(
    features: Table,  # [n, N_PAIR]  written
    graphs: Graphs,
    vocabulary: Vocabulary,
    home_of_candidate: Array,  # [n]  sorted
    trigger: Array,  # [n]
    action: Array,  # [n]
) -> None:
    """The block `pair` alone."""
    first, n, nothing = 0, len(trigger), graphs.word[:0]  # read-only, as the cells that a home leaves out are
    while first < n:
        h, last = home_of_candidate[first], first
        while last < n and home_of_candidate[last] == h:
            last += 1
        home, begin = graph_of(graphs, vocabulary, nothing, h), graphs.device_start[h]
        rows = np.zeros((N_PAIR_ROWS, len(home.type)), dtype=np.float32)
        start, order = group_by(trigger[first:last] - begin, len(home.type))
        for i in range(len(home.type)):
            if start[i] < start[i + 1]:
                pair_rows(rows, home, i)
            for at in range(start[i], start[i + 1]):
                c = first + order[at]
                pair_block(features[c], home, rows, i, action[c] - begin)
        first = last
