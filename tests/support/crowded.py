"""Homes with many devices that nothing tells apart: of one type, with the same words, in no rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from datasets import Homes, Rules, Words
from datasets.homes import Array
from tests.support.strategies import homes


def crowded(some: Homes, copies: Array, seed: int) -> Homes:
    """Every device d with copies[d] more of its type and words that no rule uses, in any order within its home."""
    original = np.concatenate([np.arange(some.n_devices), np.repeat(np.arange(some.n_devices), copies)])
    chance = np.random.default_rng(seed).random(len(original))
    order = np.lexsort((chance, some.device_home[original]))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    source, rules = original[order], some.rules
    words = some.words
    if words is not None:
        start = some.word_start
        many = np.diff(start)[source]
        entries = np.concatenate([np.zeros(0, np.int64), *(np.arange(start[d], start[d + 1]) for d in source)])
        words = Words(np.repeat(np.arange(len(source)), many), words.word[entries])
    return replace(
        some,
        device_home=some.device_home[source],
        device_type=some.device_type[source],
        device_ids=np.arange(len(source)),
        rules=Rules(rules.home, place[rules.trigger], place[rules.action], rules.relation),
        words=words,
    )


@st.composite
def crowded_homes(draw: st.DrawFn, *, min_homes: int = 0, words: bool | None = None) -> Homes:
    some = draw(homes(min_homes=min_homes, max_homes=3, max_rules=6, words=words))
    copies = draw(st.lists(st.integers(0, 3), min_size=some.n_devices, max_size=some.n_devices))
    return crowded(some, np.array(copies, dtype=np.int64), draw(st.integers(0, 99)))
