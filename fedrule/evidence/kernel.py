"""Compiled loops behind evidence: the features of chosen candidates, and the scores of all candidates of homes.

A feature belongs to one of five blocks by what it depends on, for a candidate <i, (state, act), j>:

    typed      the types of i and j and the relation: what the home, and what other homes, do with such devices
    trigger    device i, the type of j and the relation
    action     device j, the type of i and the relation
    pair       devices i and j: rules between them, paths, words that they share
    matching   devices i and j and the relation; 0 for nearly all candidates

Training needs rows of features (`candidate_features`). Scoring does not: what enters the hidden layer of the evidence
network is linear in the features, so it is computed for each block once and added up (`score_homes`), which saves most
of the work because far fewer blocks of each kind differ than there are candidates. Both fill the blocks by the same
functions.

Most pairs of devices are connected by nothing: no rule, path or word. Then only the role of each device counts, what it
does or what is done to it, and what is scored for one pair of roles holds for all such pairs.

All is in one file because numba, which keeps machine code on disk, compiles a function anew only when its own file has
changed: with the blocks in another file it would go on with old ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from datasets.homes import Array, Mask

Function = TypeVar("Function", bound=Callable[..., object])
Table: TypeAlias = npt.NDArray[np.float32]

N_HOME, N_GIVEN = 16, 14  # typed features: those counted in the home, and those given for each rule, EASE first
N_TYPED, N_TRIGGER, N_ACTION, N_PAIR, N_MATCHING = N_HOME + N_GIVEN, 10, 10, 21, 6
TRIGGER, ACTION, PAIR = N_TYPED, N_TYPED + N_TRIGGER, N_TYPED + N_TRIGGER + N_ACTION  # first column of each block
MATCHING = PAIR + N_PAIR
N_FEATURES = MATCHING + N_MATCHING
ROWS = 17  # numbers for each device that depend on the trigger alone
MEAN_SCALE = 5.0  # the means along paths are small; scaled, log1p still spreads them
COMPANION_SCALE, COMPANION_PRIOR = 20.0, 3.0  # of the share of homes in which one relation goes with another
PAIRS, TRIGGERS, ACTIONS = range(3)  # what two relations may have in common: both devices, the trigger, the action
RARITY_STEP = 4096.0  # the rarity of a word in steps of 1 / 4096: sums are exact, whatever the numbers of the words
RARITY_SCALE = 1 / 3  # brings the rarity of shared words, up to 5, to the size of the other features


LOG1P = np.log1p(np.arange(1024)).astype(np.float32)  # most features are logarithms of small counts


def compiled(function: Function) -> Function:
    """A loop in machine code, kept on disk, so that it is compiled once after installation; it releases the lock."""
    made: Function = njit(cache=True, nogil=True, error_model="numpy")(function)
    return made


def inlined(function: Function) -> Function:
    """The same as a part of each caller: for inner loops, where handing over a home, some 200 numbers, takes longest.

    And for callers of what is `compiled_in_any_order`.
    """
    made: Function = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function)
    return made


def compiled_in_any_order(function: Function) -> Function:
    """The same where a sum may be taken in any order, so that several numbers are added at once.

    It and its callers, but for those that Python calls, are `inlined`: of a function that is called there are copies,
    each optimised anew, and numba calls one of them where it compiles and another where it loads from its cache.
    """
    made: Function = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"}, forceinline=True)(
        function
    )
    return made


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


class Companions(NamedTuple):
    """How many homes have two relations on the same pair of devices, of the same trigger, or of the same action.

    In training a home leaves its own contribution out: `own` are its cells of `together`.
    """

    together: Table  # [3, n_relations, n_relations]  by PAIRS, TRIGGERS, ACTIONS; the diagonal counts single relations
    typed_start: Array  # [n_types ** 2 + 1]
    typed: Table  # for each pair of types a table [n_valid of it] ** 2, flat: on a pair of devices of these types
    own_start: Array  # [n_homes + 1]  or nothing
    own: Array  # cells of `together` and, behind them, of `typed`, sorted within each home


class Home(NamedTuple):
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
def runs(keys: Array, n: int) -> tuple[Array, Array]:
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
def sort(values: Array, low: int, high: int) -> None:
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
    sort(entries, 0, many)
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
def home_of(graphs: Graphs, vocabulary: Vocabulary, own: Array, h: int) -> Home:
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
    trigger_start, by_trigger = runs(trigger, n)
    action_start, by_action = runs(action, n)
    trigger_type_start, by_trigger_type = runs(types[trigger], n_types)
    action_type_start, by_action_type = runs(types[action], n_types)
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
    return Home(
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
def similarity(home: Home, one: int, other: int) -> float:
    """The cosine of two devices' words, weighted by rarity; 0 where they share none."""
    if not home.shared[one, other] > 0:
        return 0.0
    return float(home.shared[one, other] / math.sqrt(home.shared[one, one] * home.shared[other, other]))


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
    both = together[what, known, relation] - holds(own, row + relation)
    have = together[what, known, known] - holds(own, row + known)
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
    one, other = place_of(valid, known), place_of(valid, relation)
    both, have = 0.0, 0.0
    if one < len(valid) and valid[one] == known:
        row = companions.typed_start[types] + one * len(valid)
        is_valid = other < len(valid) and valid[other] == relation
        have += companions.typed[row + one]
        both += companions.typed[row + other] if is_valid else 0.0
        if len(own):
            before = companions.together.size
            have -= holds(own, before + row + one)
            both -= is_valid and holds(own, before + row + other)
    return float((both + COMPANION_PRIOR * share) / (have + COMPANION_PRIOR))


@inlined
def holds(ordered: Array, value: int) -> bool:
    """Whether a sorted array has a value."""
    at = place_of(ordered, value)
    return bool(at < len(ordered) and ordered[at] == value)


@inlined
def place_of(ordered: Array, value: int) -> int:
    """The first place of a sorted array with at least a value; np.searchsorted is slower here, and slow to compile."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def typed_block(block: Table, home: Home, vocabulary: Vocabulary, one: int, other: int, relation: int) -> None:
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
    block: Table, home: Home, vocabulary: Vocabulary, together: Table, i: int, other: int, relation: int
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
    block: Table, home: Home, vocabulary: Vocabulary, together: Table, j: int, one: int, relation: int
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
def pair_rows(rows: Table, home: Home, i: int) -> None:
    """[ROWS, n]: for trigger i and every device j the numbers that `pair_block` takes logarithms of."""
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
def nearer(home: Home, device: int, end: int, kind: int, near: float) -> tuple[int, int]:
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
def pair_block(block: Table, home: Home, rows: Table, i: int, j: int) -> None:
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
def word_features(block: Table, home: Home, rows: Table, i: int, j: int) -> None:
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
    block: Table, home: Home, vocabulary: Vocabulary, companions: Companions, i: int, j: int, relation: int
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
        home, begin = home_of(graphs, vocabulary, own_cells(companions, h), h), graphs.device_start[h]
        many = len(home.type)
        rows = np.zeros((ROWS, many), dtype=np.float32)
        start, order = runs(trigger[first:last] - begin, many)
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
        home, begin = home_of(graphs, vocabulary, nothing, h), graphs.device_start[h]
        rows = np.zeros((ROWS, len(home.type)), dtype=np.float32)
        start, order = runs(trigger[first:last] - begin, len(home.type))
        for i in range(len(home.type)):
            if start[i] < start[i + 1]:
                pair_rows(rows, home, i)
            for at in range(start[i], start[i + 1]):
                c = first + order[at]
                pair_block(features[c], home, rows, i, action[c] - begin)
        first = last


class Weights(NamedTuple):
    """The evidence network; the direct weights are a column behind the hidden units of the first layer."""

    of_rule: Table  # [n_valid, hidden + 1]  what enters the first layer for each typed rule: bias and given features
    first: Table  # [n_features, hidden + 1]
    last: Table  # [hidden]


@inlined
def add_product(sums: Table, row: int, block: Table, first: Table, begin: int, many: int) -> None:
    """Add what a block of features adds to the first layer; most features are zero."""
    for at in range(many):
        value = block[at]
        if value != 0:
            for unit in range(sums.shape[1]):
                sums[row, unit] += value * first[begin + at, unit]


@compiled_in_any_order
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
def roles(home: Home, n_types: int) -> tuple[Array, Array]:
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
        sort(trigger_key, low, high)
        low, high = home.action_start[device], home.action_start[device + 1]
        for at in range(low, high):
            rule = home.by_action[at]
            action_key[at] = home.relation[rule] * n_types + home.type[home.trigger[rule]]
        sort(action_key, low, high)
    one = same_role(home, home.trigger_start, trigger_key, home.action_start)
    other = same_role(home, home.action_start, action_key, home.trigger_start)
    return one, other


@compiled
def same_role(home: Home, start: Array, key: Array, others: Array) -> Array:
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
def find_connected(connected: Mask, home: Home, rows: Table, i: int) -> None:
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
    home = home_of(graphs, vocabulary, own_cells(companions, h), h)
    n, n_types, start = len(home.type), vocabulary.n_types, vocabulary.start
    width = weights.first.shape[1]
    trigger_role, action_role = roles(home, n_types)
    known, together = known_items(home, vocabulary), companions.together
    owned: Array = np.flatnonzero(home.of_type)
    block, rows = np.zeros(N_TYPED, dtype=np.float32), np.zeros((ROWS, n), dtype=np.float32)
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
                add_product(typed, cell, block, weights.first, 0, N_HOME + 1)
        at = 0
        for j in range(n):
            if action_role[j] != j:
                continue
            action_at[j] = at
            for item in range(start[one * n_types + home.type[j]], start[one * n_types + home.type[j] + 1]):
                action_block(block, home, vocabulary, together, j, one, vocabulary.relation[item])
                add_product(of_action, at, block, weights.first, ACTION, N_ACTION)
                at += 1
        for role in range(n):  # the triggers of this type, one role after the other
            if home.type[role] != one or trigger_role[role] != role:
                continue
            for other in owned:
                for item in range(start[one * n_types + other], start[one * n_types + other + 1]):
                    cell = first_cell[other] + item - start[one * n_types + other]
                    trigger_block(block, home, vocabulary, together, role, other, vocabulary.relation[item])
                    of_trigger[cell] = typed[cell]
                    add_product(of_trigger, cell, block, weights.first, TRIGGER, N_TRIGGER)
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
                    add_product(of_pair, 0, block, weights.first, PAIR, N_PAIR)
                    cell, at = first_cell[other], action_at[acted]
                    if not can_match(rows, j):
                        rest_of_network(scores, to, many, of_trigger, cell, of_action, at, of_pair, weights.last)
                        continue
                    for r in range(many):
                        relation = vocabulary.relation[start[one * n_types + other] + r]
                        matching_block(block, home, vocabulary, companions, i, j, relation)
                        matching[:] = of_pair
                        add_product(matching, 0, block, weights.first, MATCHING, N_MATCHING)
                        rest_of_network(
                            scores, to + r, 1, of_trigger, cell + r, of_action, at + r, matching, weights.last
                        )


@compiled
def known_items(home: Home, vocabulary: Vocabulary) -> Array:
    """The typed rules that a home has, as numbers of valid ones, each once."""
    found, many = np.empty(len(home.relation), dtype=np.int64), 0
    for rule in range(len(home.relation)):
        pair = home.type[home.trigger[rule]] * vocabulary.n_types + home.type[home.action[rule]]
        low, high = vocabulary.start[pair], vocabulary.start[pair + 1]
        item = low + place_of(vocabulary.relation[low:high], home.relation[rule])
        if item < high and vocabulary.relation[item] == home.relation[rule]:
            found[many] = item
            many += 1
    sort(found, 0, many)
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


class Best(NamedTuple):
    """The best candidates of homes; home h has the first many[h] of its row, best first."""

    many: Array  # [n_homes]
    trigger: Array  # [n_homes, k]  devices by position among all
    action: Array  # [n_homes, k]
    relation: Array  # [n_homes, k]
    score: Table  # [n_homes, k]


@compiled
def best_of_homes(
    best: Best,  # written
    scores: Table,  # [most candidates of a home]  space
    place: Array,  # [most pairs of a home]  space
    graphs: Graphs,
    vocabulary: Vocabulary,
    companions: Companions,
    inverse: npt.NDArray[np.float64],
    scale: npt.NDArray[np.float64],
    weights: Weights,
    self_rules: npt.NDArray[np.bool_],  # [n_valid]  those that a device may have with itself
) -> None:
    """The best valid rules that each home lacks; equal scores in the order of trigger, action and relation."""
    k = best.score.shape[1]
    heap = np.empty(k, dtype=np.float32)
    for h in range(len(graphs.device_start) - 1):
        first, n = graphs.device_start[h], graphs.device_start[h + 1] - graphs.device_start[h]
        kind, at = graphs.type[first : first + n], 0
        for i in range(n):
            for j in range(n):
                pair = kind[i] * vocabulary.n_types + kind[j]
                place[i * n + j] = at
                at += vocabulary.start[pair + 1] - vocabulary.start[pair]
        score_home(scores, place[: n * n].reshape(n, n), graphs, vocabulary, companions, inverse, scale, weights, h)
        for rule in range(graphs.rule_start[h], graphs.rule_start[h + 1]):
            i, j = graphs.trigger[rule] - first, graphs.action[rule] - first
            pair = kind[i] * vocabulary.n_types + kind[j]
            low, high = vocabulary.start[pair], vocabulary.start[pair + 1]
            item = low + place_of(vocabulary.relation[low:high], graphs.relation[rule])
            if item < high and vocabulary.relation[item] == graphs.relation[rule]:
                scores[place[i * n + j] + item - low] = np.nan
        for i in range(n):
            pair = kind[i] * vocabulary.n_types + kind[i]
            for item in range(vocabulary.start[pair], vocabulary.start[pair + 1]):
                if not self_rules[item]:
                    scores[place[i * n + i] + item - vocabulary.start[pair]] = np.nan
        found = 0  # the k highest scores as a heap, the lowest first
        for c in range(at):
            if np.isnan(scores[c]):
                continue
            if found < k:
                heap[found] = scores[c]
                found += 1
                rise(heap, found - 1)
            elif scores[c] > heap[0]:
                heap[0] = scores[c]
                sink(heap, k)
        least = heap[0] if found == k else -np.inf
        above = 0
        for c in range(at):
            above += scores[c] > least
        ties = found - above  # of the lowest score, the first ones
        many = 0
        for i in range(n):
            for j in range(n):
                pair = kind[i] * vocabulary.n_types + kind[j]
                low, begin = vocabulary.start[pair], place[i * n + j]
                for item in range(low, vocabulary.start[pair + 1]):
                    score = scores[begin + item - low]
                    if score > least or (score == least and ties > 0):
                        ties -= score == least
                        insert(best, h, many, first + i, first + j, vocabulary.relation[item], score)
                        many += 1
        best.many[h] = many


@compiled
def rise(heap: Table, at: int) -> None:
    """Put the last number of a heap where it belongs."""
    while at > 0 and heap[at] < heap[(at - 1) // 2]:
        heap[at], heap[(at - 1) // 2] = heap[(at - 1) // 2], heap[at]
        at = (at - 1) // 2


@compiled
def sink(heap: Table, n: int) -> None:
    """Put the first number of a heap where it belongs."""
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and heap[child + 1] < heap[child]:
            child += 1
        if heap[at] <= heap[child]:
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@compiled
def insert(best: Best, h: int, many: int, trigger: int, action: int, relation: int, score: float) -> None:
    """Put a candidate among those found so far, behind all of the same score."""
    at = many
    while at > 0 and best.score[h, at - 1] < score:
        best.trigger[h, at], best.action[h, at] = best.trigger[h, at - 1], best.action[h, at - 1]
        best.relation[h, at], best.score[h, at] = best.relation[h, at - 1], best.score[h, at - 1]
        at -= 1
    best.trigger[h, at], best.action[h, at] = trigger, action
    best.relation[h, at], best.score[h, at] = relation, score
