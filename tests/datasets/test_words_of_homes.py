"""Words of devices go with their devices through every way of making homes of homes, and are looked up by pairs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import DataError, Homes, Words, split
from datasets.homes import HomeSubset
from datasets.readers.filters import cut_homes, keep_used_devices
from tests.support.strategies import homes, words_by_device


def by_home(some: Homes) -> list[dict[int | str, list[int]]]:
    """The words of each home's devices, by their id."""
    words = words_by_device(some)
    assert words is not None
    ids, start = some.device_ids.tolist(), some.device_start.tolist()
    return [
        dict(zip(ids[start[h] : start[h + 1]], words[start[h] : start[h + 1]], strict=True)) for h in range(len(some))
    ]


def test_entries_are_counted_and_none_are_nought(two: Homes) -> None:
    named = replace(two, words=Words([0, 2, 2], [4, 0, 4]))
    assert named.word_start.tolist() == [0, 1, 1, 3, 3]
    assert two.word_start.tolist() == [0, 0, 0, 0, 0]
    assert named.words is not None
    assert len(named.words) == 3
    assert repr(named.words) == "<3 words of devices>"


@pytest.mark.parametrize(
    ("device", "word", "message"),
    [
        ([0, 1], [0], "columns of words differ in length"),
        ([1, 0], [0, 0], "not sorted by device and number; Words.of sorts them"),
        ([0, 0], [1, 0], "not sorted by device and number"),
        ([0, 0], [1, 1], "a device has one word twice"),
        ([0], [-1], "must be in 0..2147483647"),
        ([0], [2**31], "must be in 0..2147483647"),
        ([0], [0.5], "whole numbers"),
    ],
)
def test_words_that_cannot_be_are_refused(device: list[int], word: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Words(device, word)


def test_a_word_of_a_device_before_the_first_is_refused(two: Homes) -> None:
    with pytest.raises(DataError, match="two: a word names a device that is not there"):
        replace(two, words=Words([-1], [0]))


def test_no_column_of_words_can_be_written_to() -> None:
    words = Words(np.array([0, 1]), np.array([0, 0]))
    for column in (words.device, words.word):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3))))
def test_entries_in_any_order_are_sorted_and_kept_once(entries: list[tuple[int, int]]) -> None:
    words = Words.of(*np.array(entries, dtype=np.int64).reshape(-1, 2).T)
    assert list(zip(words.device.tolist(), words.word.tolist(), strict=True)) == sorted(set(entries))


def test_columns_of_different_lengths_are_not_sorted_either() -> None:
    with pytest.raises(DataError, match="differ in length"):
        Words.of(np.array([1, 0]), np.array([1]))


@given(homes(words=True), st.data())
def test_a_subset_has_the_words_of_its_devices(some: Homes, data: st.DataObject) -> None:
    chosen = data.draw(st.permutations(range(some.n_homes)).flatmap(lambda p: st.sampled_from([p, p[: len(p) // 2]])))
    expected = [by_home(some)[home] for home in chosen]
    assert by_home(some.subset(np.array(chosen, dtype=np.int64))) == expected
    assert by_home(HomeSubset.of(some, np.array(chosen, dtype=np.int64)).homes) == expected


@given(homes(words=True), st.integers(1, 3))
def test_rules_and_vocabularies_change_and_words_stay(some: Homes, pieces: int) -> None:
    assert by_home(some.with_rules(np.zeros(some.n_rules, dtype=np.bool_))) == by_home(some)
    turned = some.with_vocabulary(
        ["more", *reversed(some.types)] if "more" not in some.types else some.types, some.relations
    )
    assert by_home(turned) == by_home(some)
    used = keep_used_devices(some)
    for before, after in zip(by_home(some), by_home(used), strict=True):
        assert after.items() <= before.items()
    cut = cut_homes(some, pieces)
    if some.n_rules:
        of_user = dict(zip(map(str, some.users.tolist()), by_home(some), strict=True))
        for user, words in zip(cut.users.tolist(), by_home(cut), strict=True):
            assert words.items() <= of_user[user.rpartition("/")[0]].items()


@pytest.mark.parametrize("how", ["holdout", "leave_one_out", "new_homes"])
@given(some=homes(words=True, min_homes=2, bare=False))
def test_every_part_of_a_split_has_the_words_of_its_homes(how: str, some: Homes) -> None:
    parts = split(some, how, validation=True)
    words = dict(zip(some.users.tolist(), by_home(some), strict=True))
    for part in (parts.train, parts.validation.homes, parts.test.homes, parts.refit().train):
        assert by_home(part) == [words[user] for user in part.users.tolist()]


@given(homes(words=True))
def test_pairs_share_a_word_just_where_their_devices_have_one_in_common(some: Homes) -> None:
    words = words_by_device(some)
    assert words is not None
    pairs = [
        (one, other)
        for one, other in product(range(some.n_devices), repeat=2)
        if some.device_home[one] == some.device_home[other]
    ]
    one, other = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    assert some.share_word(one, other).tolist() == [bool(set(words[a]) & set(words[b])) for a, b in pairs]
    assert not some.without_words().share_word(one, other).any()


def test_the_description_says_how_far_words_reach_only_where_there_are_any(two: Homes) -> None:
    # Ann's sensor shares a word with her second lamp, and has a rule with it; Bob's lamp only has a rule with itself.
    named = replace(two, words=Words([1, 2, 3], [0, 0, 0])).describe().statistics
    assert named["share of devices with a word"] == 3 / 4
    assert named["share of rules between devices that share a word"] == 1 / 4
    assert set(named) - set(two.describe().statistics) == {
        "share of devices with a word",
        "share of rules between devices that share a word",
    }
