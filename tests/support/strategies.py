"""Small random homes for property tests, with all that real ones have: twins, self rules, groups, words, bare homes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from datasets import Homes, Provenance, Relation, Rules, Words
from datasets.candidates import Pairs

# A value that is neither surely on nor surely off is drawn.
Option = bool | None

NAMES = st.text(max_size=4)
WHOLE = st.integers(-(2**63), 2**63 - 1)


@st.composite
def homes(
    draw: st.DrawFn,
    *,
    min_homes: int = 0,
    max_homes: int = 5,
    max_devices: int = 4,
    max_types: int = 3,
    max_relations: int = 4,
    max_rules: int = 8,
    groups: Option = None,
    words: Option = None,
    text_ids: Option = None,
    self_rules: Option = None,
    twins: Option = None,
    bare: bool = True,
) -> Homes:
    """Homes; `twins` are devices of one type in a home, `bare` homes have no device or no rule.

    An option that is False is kept out; one that is True may occur, or not where there is no room for it.
    """
    groups, words, text_ids, self_rules, twins = (
        draw(st.booleans()) if option is None else option for option in (groups, words, text_ids, self_rules, twins)
    )
    least = 0 if bare else 1
    if not bare and not self_rules:
        least = 2  # a rule needs another device to act on
    n_types = draw(st.integers(max(least, 1), max(max_types, least)))
    types = draw(st.lists(NAMES, min_size=n_types, max_size=n_types, unique=True))
    relations = draw(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=max_relations, unique=True))
    n_homes = draw(st.integers(min_homes, max_homes))

    device_home: list[int] = []
    device_type: list[int] = []
    device_place: list[int] = []
    rules: list[tuple[int, int, int, int]] = []
    for home in range(n_homes):
        some = st.lists(st.integers(0, n_types - 1), min_size=least, max_size=max_devices, unique=not twins)
        owned = draw(some)
        first, count = len(device_home), len(owned)
        device_home += [home] * count
        device_type += owned
        device_place += range(count)
        cells = [
            (home, first + i, first + j, r)
            for i in range(count)
            for j in range(count)
            for r in range(len(relations))
            if self_rules or i != j
        ]
        if cells:
            most = min(max_rules, len(cells))
            rules += draw(st.lists(st.sampled_from(cells), min_size=0 if bare else 1, max_size=most, unique=True))

    ids = st.lists(NAMES if text_ids else WHOLE, min_size=max_devices, max_size=max_devices, unique=True)
    users = st.lists(NAMES if text_ids else WHOLE, min_size=n_homes, max_size=n_homes, unique=True)
    dtype = np.dtypes.StringDType() if text_ids else np.dtype(np.int64)
    columns = np.array(rules, dtype=np.int64).reshape(-1, 4).T
    group = draw(st.lists(st.integers(-1, 2), min_size=len(rules), max_size=len(rules))) if groups else None
    return Homes(
        name=draw(NAMES),
        types=tuple(types),
        relations=tuple(Relation(*r) for r in relations),
        users=np.array(draw(users), dtype=dtype),
        device_home=np.array(device_home, dtype=np.int64),
        device_type=np.array(device_type, dtype=np.int64),
        device_ids=np.array(draw(ids), dtype=dtype)[np.array(device_place, dtype=np.int64)],  # shared between homes
        rules=Rules(*columns, None if group is None else np.array(group, dtype=np.int64)),
        provenance=draw(provenances()),
        words=draw(words_of(len(device_home))) if words else None,
    )


@st.composite
def words_of(draw: st.DrawFn, n_devices: int) -> Words:
    """A few words for devices, of which some have none."""
    entry = st.tuples(st.integers(0, max(n_devices - 1, 0)), st.integers(0, 3))
    entries = draw(st.lists(entry, max_size=2 * n_devices, unique=True))
    return Words(*np.array(sorted(entries), dtype=np.int64).reshape(-1, 2).T)


def words_by_device(some: Homes) -> list[list[int]] | None:
    """The words of each device, as plain numbers; None where the source has none."""
    if some.words is None:
        return None
    start = some.word_start.tolist()
    return [some.words.word[first:last].tolist() for first, last in pairwise(start)]


@st.composite
def provenances(draw: st.DrawFn) -> Provenance:
    """Where homes came from, in arbitrary words."""
    counts = st.dictionaries(NAMES, st.integers(0, 9), max_size=2)
    lines = st.lists(NAMES, max_size=2).map(tuple)
    codes = st.dictionaries(NAMES, counts, max_size=2)
    return Provenance(draw(NAMES), draw(counts), draw(lines), draw(lines), draw(codes), draw(NAMES))


def triples(rules: Rules) -> list[tuple[int, int, int, int]]:
    """Home, trigger, action and relation of each rule, as plain numbers in order."""
    columns = (rules.home, rules.trigger, rules.action, rules.relation)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def every_candidate(some: Homes) -> Rules:
    """All ordered pairs, a device with itself included, with all relations."""
    pairs = Pairs.of(some, self_pairs=True)
    home, trigger, action = pairs.devices(np.repeat(np.arange(pairs.start[-1]), len(some.relations)))
    return Rules(home, trigger, action, np.tile(np.arange(len(some.relations)), int(pairs.start[-1])))
