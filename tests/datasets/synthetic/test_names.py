"""Words of synthetic devices: those of real data in kind, drawn apart from everything else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datasets import Homes, load
from datasets.describe import statistics
from datasets.synthetic.households import ANYWHERE, Households
from datasets.synthetic.names import draw_words
from tests.support.two_homes import assert_same


@pytest.fixture(scope="module")
def homes() -> Homes:
    return load("wyze-synthetic", preset="public", homes=2000, seed=0)


def zones(n_homes: int, zone: list[int], home: list[int]) -> Households:
    """Devices of one type in these zones."""
    nothing, one = np.zeros(n_homes, dtype=np.int64), np.ones(len(zone))
    kinds = np.zeros(len(zone), dtype=np.int64)
    rooms = np.zeros(max(zone) + 1, dtype=np.int64)
    return Households(n_homes, 1, np.array(home), kinds, np.array(zone), one, rooms, nothing, nothing)


def test_homes_are_the_same_with_and_without_words(homes: Homes) -> None:
    bare = load("wyze-synthetic", preset="public", homes=2000, seed=0, words=False)
    assert bare.words is None
    assert homes.words is not None
    assert_same(homes.without_words(), bare)


def test_another_seed_draws_other_words() -> None:
    one, other = (draw_words(zones(1, [0, 0, 1, 1] * 5, [0] * 20), np.random.default_rng(seed)) for seed in (0, 1))
    assert (one.device.tolist(), one.word.tolist()) != (other.device.tolist(), other.word.tolist())


def test_a_word_is_of_several_and_of_at_most_half_of_the_devices_of_its_home(homes: Homes) -> None:
    assert homes.words is not None
    home = homes.device_home[homes.words.device]
    pairs, count = np.unique(np.stack([home, homes.words.word]), axis=1, return_counts=True)
    assert count.min() == 2
    assert np.all(2 * count <= np.diff(homes.device_start)[pairs[0]])
    for number in np.unique(home).tolist():  # numbers of a home have no gap
        assert pairs[1][pairs[0] == number].tolist() == list(range((pairs[0] == number).sum()))


def test_most_devices_of_larger_homes_have_a_word_and_some_have_two(homes: Homes) -> None:
    large = np.diff(homes.device_start)[homes.device_home] >= 6
    count = np.diff(homes.word_start)[large]
    assert 0.55 < (count >= 1).mean() < 0.75  # 0.64 in the real homes
    assert 0.05 < (count >= 2).mean() < (count == 1).mean()


def test_rules_keep_to_devices_that_share_a_word_more_than_types_explain(homes: Homes) -> None:
    told = statistics(homes)
    among_all = told["the same between any devices of these types"]
    assert told["share of rules between devices that share a word"] > 1.3 * among_all > 0


def test_words_tell_mostly_zones_and_err_sometimes() -> None:
    n_homes = 300
    home = np.repeat(np.arange(n_homes), 12)
    households = zones(n_homes, (4 * home + np.tile(np.arange(12) % 4, n_homes)).tolist(), home.tolist())
    words = draw_words(households, np.random.default_rng(0))
    named = replace(load("wyze-synthetic", homes=5, words=False), words=None)  # any homes: only their look-up is used
    nothing = named.rules.take(np.zeros(0, dtype=np.int64))
    made = replace(
        named,
        users=np.arange(n_homes),
        device_home=home,
        device_type=0 * home,
        device_ids=np.arange(len(home)),
        rules=nothing,
        words=words,
    )
    one = np.repeat(np.arange(len(home)), 12)
    other = one // 12 * 12 + np.tile(np.arange(12), len(home))
    shared = made.share_word(one, other)
    same, apart = households.zone[one] == households.zone[other], one != other
    near, far = shared[same & apart].mean(), shared[~same].mean()
    assert 0 < 3 * far < near < 1


def test_what_is_anywhere_has_no_word() -> None:
    households = zones(1, [ANYWHERE, 0, 0, ANYWHERE, 0, 1, 1, 1] * 4, [0] * 32)
    words = draw_words(households, np.random.default_rng(0))
    assert not np.isin(words.device, np.flatnonzero(households.zone == ANYWHERE)).any()
    assert len(words)
