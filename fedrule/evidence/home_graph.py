"""One home's graph as compiled loops read it: its rules by device and by type, who acts on whom, and shared words.

Homes come as flat arrays (`Graphs`); `graph_of` takes one of them out and prepares what is looked up again and again.
The decorators are those of all compiled loops of evidence, which `feature_blocks`, `forward_pass` and `best_candidates`
add to.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from datasets.common.compiled import REORDERED, entry_point
from datasets.homes import Array

Table: TypeAlias = npt.NDArray[np.float32]

# Files with loops that call each other: when one of them changes, all are compiled anew.
SOURCES = tuple(
    Path(__file__).with_name(f"{name}.py")
    for name in ("home_graph", "feature_blocks", "forward_pass", "best_candidates")
)
RARITY_STEP = 4096.0  # the rarity of a word in steps of 1 / 4096: sums are exact, whatever the numbers of the words
LOG1P = np.log1p(np.arange(1024)).astype(np.float32)  # most features are logarithms of small counts


compiled = entry_point(*SOURCES)
# As a part of each caller: inner loops, where handing over a home, some 200 numbers, takes longest, and all that calls
# what is `reordered`, but for what Python calls.
inlined = entry_point(*SOURCES, forceinline=True)
reordered = entry_point(*SOURCES, forceinline=True, fastmath=REORDERED)  # sums may be taken in any order


@inlined
def log_count(count: float) -> float:
    """log(1 + count) of a whole number."""
    at = int(count)
    return float(LOG1P[at]) if at < len(LOG1P) else math.log1p(at)


class Graphs(NamedTuple):
    """Homes as flat arrays; devices and rules of home h begin at device_start[h] and rule_start[h]."""

    device_start: Array  # [n_homes + 1]
    type: Array  # [n_devices]
    rule_start: Array  # [n_homes + 1]
    trigger: Array  # [n_rules]  devices by position among all
    action: Array  # [n_rules]
    relation: Array  # [n_rules]
    word_start: Array  # [n_devices + 1]
    word: Array  # [n_words]  numbers that count within a home


class Vocabulary(NamedTuple):
    """Valid rules by pairs of types, and the halves of relations."""

    n_types: int
    n_states: int
    n_acts: int
    start: Array  # [n_types ** 2 + 1]  where the valid rules of each pair of types begin
    relation: Array  # [n_valid]
    state: Array  # [n_relations]
    act: Array  # [n_relations]


class HomeGraph(NamedTuple):
    """One home, devices numbered from 0, and what is looked up again and again."""

    type: Array  # [n]
    of_type: Array  # [n_types]  how many devices
    of_relation: Array  # [n_relations]  how many rules
    of_state: Array  # [n_states]
    of_act: Array  # [n_acts]
    trigger: Array  # [n_rules]
    action: Array  # [n_rules]
    state: Array  # [n_rules]
    act: Array  # [n_rules]
    relation: Array  # [n_rules]
    trigger_start: Array  # [n + 1]  rules by trigger
    by_trigger: Array  # [n_rules]
    action_start: Array  # [n + 1]  rules by action
    by_action: Array  # [n_rules]
    trigger_type_start: Array  # [n_types + 1]  rules by the trigger's type
    by_trigger_type: Array  # [n_rules]
    action_type_start: Array  # [n_types + 1]
    by_action_type: Array  # [n_rules]
    acts: Table  # [n, n]  how many rules from one device to another
    targets_start: Array  # [n + 1]  the devices that each one acts on, each once
    targets: Array
    sources_start: Array  # [n + 1]  the devices that act on each one, each once
    sources: Array
    shared: Table  # [n, n]  rarity of the words that two devices share, summed; [0, 0] where the home has no words
    rarest: Table  # [n, n]  that of the rarest one
    has_words: Table  # [n]  1 or 0
    near: Array  # [n, n_types]  how many devices of a type share a word with a device, itself not counted
    room_share: float  # log share of its rules between devices with words whose devices share one
    own: Array  # its cells of `Companions`, which are left out in training; nothing otherwise


@compiled
def group_by(keys: Array, n: int) -> tuple[Array, Array]:
    """Positions sorted by key, and where each key's begin."""
    start = np.zeros(n + 1, dtype=np.int64)
    for key in keys:
        start[key + 1] += 1
    for at in range(n):
        start[at + 1] += start[at]
    order, place = np.empty(len(keys), dtype=np.int64), start[:-1].copy()
    for position in range(len(keys)):
        key = keys[position]
        order[place[key]] = position
        place[key] += 1
    return start, order


@compiled
def neighbours(start: Array, order: Array, ends: Array) -> tuple[Array, Array]:
    """The other ends of each device's rules, each once."""
    n = len(start) - 1
    seen = np.full(n, -1, dtype=np.int64)
    first, found, many = np.zeros(n + 1, dtype=np.int64), np.empty(len(order), dtype=np.int64), 0
    for device in range(n):
        for at in range(start[device], start[device + 1]):
            end = ends[order[at]]
            if seen[end] != device:
                seen[end] = device
                found[many] = end
                many += 1
        first[device + 1] = many
    return first, found[:many]


@compiled
def insertion_sort(values: Array, low: int, high: int) -> None:
    """Sort a few numbers in place; what numba has for sorting takes seconds to compile."""
    for at in range(low + 1, high):
        value, to = values[at], at
        while to > low and values[to - 1] > value:
            values[to] = values[to - 1]
            to -= 1
        values[to] = value


@compiled
def shared_words(start: Array, words: Array, first: int, n: int) -> tuple[Table, Table]:
    """The rarity of shared words, summed, and that of the rarest: log(devices / devices with the word)."""
    many = start[first + n] - start[first]
    if many == 0:
        return np.zeros((0, 0), dtype=np.float32), np.zeros((0, 0), dtype=np.float32)
    shared, rarest = np.zeros((n, n), dtype=np.float32), np.zeros((n, n), dtype=np.float32)
    entries = np.empty(many, dtype=np.int64)  # sorted by word, then by device
    for device in range(n):
        for at in range(start[first + device], start[first + device + 1]):
            entries[at - start[first]] = words[at] * n + device
    insertion_sort(entries, 0, many)
    high = 0
    while high < many:
        low, word = high, entries[high] // n
        while high < many and entries[high] // n == word:
            high += 1
        rarity = np.float32(round(math.log(n / (high - low)) * RARITY_STEP) / RARITY_STEP)
        for a in range(low, high):
            for b in range(low, high):
                one, other = entries[a] % n, entries[b] % n
                shared[one, other] += rarity
                rarest[one, other] = max(rarest[one, other], rarity)
    return shared, rarest


@compiled
def graph_of(graphs: Graphs, vocabulary: Vocabulary, own: Array, h: int) -> HomeGraph:
    """One of the homes, on its own."""
    first, last = graphs.device_start[h], graphs.device_start[h + 1]
    begin, end = graphs.rule_start[h], graphs.rule_start[h + 1]
    n, n_types = last - first, vocabulary.n_types
    types = graphs.type[first:last]
    of_type = np.zeros(n_types, dtype=np.int64)
    for device in range(n):
        of_type[types[device]] += 1
    trigger, action, relation = (
        graphs.trigger[begin:end] - first,
        graphs.action[begin:end] - first,
        graphs.relation[begin:end],
    )
    state, act = vocabulary.state[relation], vocabulary.act[relation]
    of_relation = np.zeros(len(vocabulary.state), dtype=np.int64)
    of_state, of_act = np.zeros(vocabulary.n_states, dtype=np.int64), np.zeros(vocabulary.n_acts, dtype=np.int64)
    for rule in range(end - begin):
        of_relation[relation[rule]] += 1
        of_state[state[rule]] += 1
        of_act[act[rule]] += 1
    trigger_start, by_trigger = group_by(trigger, n)
    action_start, by_action = group_by(action, n)
    trigger_type_start, by_trigger_type = group_by(types[trigger], n_types)
    action_type_start, by_action_type = group_by(types[action], n_types)
    acts = np.zeros((n, n), dtype=np.float32)
    for rule in range(end - begin):
        acts[trigger[rule], action[rule]] += 1
    targets_start, targets = neighbours(trigger_start, by_trigger, action)
    sources_start, sources = neighbours(action_start, by_action, trigger)
    shared, rarest = shared_words(graphs.word_start, graphs.word, first, n)
    near = np.zeros((n if len(shared) else 0, n_types), dtype=np.int64)
    has_words = np.zeros(n, dtype=np.float32)
    for one in range(len(shared)):
        has_words[one] = shared[one, one] > 0
        for other in range(n):
            if other != one and shared[one, other] > 0:
                near[one, types[other]] += 1
    between, together = 0, 0
    for rule in range(end - begin):
        if len(shared) and is_named(shared, trigger[rule], action[rule]):
            between += 1
            together += shared[trigger[rule], action[rule]] > 0
    room_share = math.log((together + 0.5) / (between + 1.5))
    return HomeGraph(
        types,
        of_type,
        of_relation,
        of_state,
        of_act,
        trigger,
        action,
        state,
        act,
        relation,
        trigger_start,
        by_trigger,
        action_start,
        by_action,
        trigger_type_start,
        by_trigger_type,
        action_type_start,
        by_action_type,
        acts,
        targets_start,
        targets,
        sources_start,
        sources,
        shared,
        rarest,
        has_words,
        near,
        room_share,
        own,
    )


@inlined
def is_named(shared: Table, one: int, other: int) -> bool:
    """Whether two different devices both have words."""
    return bool(one != other and shared[one, one] > 0 and shared[other, other] > 0)


@compiled
def similarity(home: HomeGraph, one: int, other: int) -> float:
    """The cosine of two devices' words, weighted by rarity; 0 where they share none."""
    if not home.shared[one, other] > 0:
        return 0.0
    return float(home.shared[one, other] / math.sqrt(home.shared[one, one] * home.shared[other, other]))


@inlined
def is_in_sorted(ordered: Array, value: int) -> bool:
    """Whether a sorted array has a value."""
    at = lower_bound(ordered, value)
    return bool(at < len(ordered) and ordered[at] == value)


@inlined
def lower_bound(ordered: Array, value: int) -> int:
    """The first place of a sorted array with at least a value; np.searchsorted is slower here, and slow to compile."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
