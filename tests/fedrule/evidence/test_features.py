"""Every feature of a candidate against a plain count, one candidate and one rule at a time."""

from __future__ import annotations

from dataclasses import replace
from math import log, log1p

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.contract import planted_homes
from datasets import Homes, Rules, Words
from fedrule.evidence import feature_blocks
from fedrule.evidence.evidence import Evidence
from fedrule.evidence.features import IS_WORD, NAMES, WORD
from tests.support.plain_evidence import PlainEvidence
from tests.support.strategies import every_candidate, homes, triples, words_by_device

SMALL = {"max_homes": 4, "max_devices": 4, "max_relations": 3, "max_rules": 6}


def context_of(train, seed):
    """The same homes with some of their rules."""
    return train.with_rules(np.random.default_rng(seed).random(train.n_rules) < 0.6)


@settings(max_examples=25)
@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("words", [False, True])
@given(data=st.data(), seed=st.integers(0, 9))
def test_every_feature_is_a_plain_count(left_out, words, data, seed):
    train = data.draw(homes(words=words, **SMALL))
    context, candidates = context_of(train, seed), every_candidate(train)
    features = Evidence.of(train).features(context, candidates, leave_out=train if left_out else None)
    assert features.shape == (len(candidates), len(NAMES))
    assert features.dtype == np.float32
    plain = PlainEvidence(train)
    for candidate, found in zip(triples(candidates), features.tolist(), strict=True):
        expected = plain.features(context, candidate, left_out=left_out)
        assert dict(zip(NAMES, found, strict=True)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_every_feature_has_one_name_and_every_block_its_place():
    assert len(set(NAMES)) == len(NAMES) == feature_blocks.N_FEATURES
    begins = {
        0: "rules of the home",
        feature_blocks.N_HOME: "goes with the home's rules",
        feature_blocks.TRIGGER: "rules of the home, same trigger",
        feature_blocks.ACTION: "rules of the home, same action",
        feature_blocks.PAIR: "paths by one device",
        feature_blocks.MATCHING: "rules of the home, same trigger, action, state",
    }
    assert {at: NAMES[at] for at in begins} == begins


@given(train=homes(min_homes=2, bare=False, **SMALL), seed=st.integers(0, 9))
def test_to_leave_a_home_out_is_to_count_the_others(train, seed):
    context, candidates = context_of(train, seed), every_candidate(train)
    evidence = Evidence.of(train)
    features = evidence.features(context, candidates, leave_out=train)
    for home in range(train.n_homes):
        others = Evidence.of(train.subset(np.arange(train.n_homes) != home))
        own = candidates.home == home
        # All but EASE: what a home adds to its diagonal by dropout stays (tests/baselines/test_cooccurrence.py).
        exact = np.array([name != "goes with the home's rules" for name in NAMES])
        if others.rooms.any != evidence.rooms.any:  # nobody else has words, so that those of this home are not read
            exact &= ~IS_WORD
        expected = others.features(context, candidates.take(own))
        assert features[own][:, exact].tobytes() == expected[:, exact].tobytes()


@given(train=homes(**SMALL), other=st.integers(0, 9), left_out=st.booleans())
def test_features_do_not_depend_on_what_else_is_asked(train, other, left_out):
    evidence, candidates = Evidence.of(train), every_candidate(train)
    leave_out = train if left_out else None
    together = evidence.features(train, candidates, leave_out=leave_out)
    some = np.random.default_rng(other).random(len(candidates)) < 0.5
    assert evidence.features(train, candidates.take(some), leave_out=leave_out).tobytes() == together[some].tobytes()
    for home in range(train.n_homes):  # nor on the other homes
        own, alone = candidates.take(candidates.home == home), train.subset([home])
        moved = own.moved(np.zeros(len(own), dtype=np.int64), -train.device_start[[home]])
        found = evidence.features(alone, moved, leave_out=alone if left_out else None)
        assert found.tobytes() == together[candidates.home == home].tobytes()


@given(train=homes(words=True, max_homes=2, max_devices=7, max_types=2, max_relations=2), seed=st.integers(0, 9))
def test_which_number_a_word_has_does_not_matter(train, seed):
    number = np.random.default_rng(seed).permutation(4)
    renamed = [sorted(number[words].tolist()) for words in words_by_device(train)]
    device = np.repeat(np.arange(train.n_devices), [len(words) for words in renamed])
    other = replace(train, words=Words(device, np.array([w for words in renamed for w in words], dtype=np.int64)))
    candidates = every_candidate(train)
    ours, theirs = (Evidence.of(some).features(some, candidates) for some in (train, other))
    assert ours.tobytes() == theirs.tobytes()


def test_equally_near_is_equally_near_in_whatever_order_words_are_added_up():
    # Of 11 devices sensor 0 shares words that 2, 3 and 5 have with lamp 1, and words that 2, 5 and 3 have with lamp 2.
    # As float32, log(11 / 2) + log(11 / 3) + log(11 / 5) is not the sum in the other order.
    words = [[0, 1, 2, 3, 4, 5], [0, 1, 2], [3, 4, 5], [1], [2], [2], [2], [4], [4], [4], [5]]
    home = by_hand([0, *[1] * 10], [(0, 3, 0)], words)
    how_near = [f"{WORD}devices of the action's type {how} to the trigger" for how in ("nearer", "as near")]
    for lamp in (1, 2):
        assert [feature(home, name, (0, lamp, 0)) for name in how_near] == pytest.approx([0, log1p(1)])


@given(train=homes(words=True, **SMALL))
def test_words_change_no_other_feature(train):
    candidates, without = every_candidate(train), train.without_words()
    ours, theirs = (Evidence.of(some).features(some, candidates) for some in (train, without))
    assert ours[:, ~IS_WORD].tobytes() == theirs[:, ~IS_WORD].tobytes()
    # Without words all are zero but the shares of other homes: 0 of 0, log(0.5 / 2).
    shares = np.array([name.startswith(f"{WORD}share of homes") for name in NAMES])
    assert not theirs[:, IS_WORD & ~shares].any()
    assert theirs[:, shares] == pytest.approx(log(0.25))


@given(train=homes(words=False, **SMALL), other=st.integers(0, 9))
def test_where_training_had_no_words_those_of_a_home_are_not_read(train, other):
    chance = np.random.default_rng(other)
    named = np.flatnonzero(chance.random(train.n_devices) < 0.7)
    home = replace(train, words=Words(named, chance.integers(0, 3, len(named))))
    candidates, evidence = every_candidate(train), Evidence.of(train)
    assert evidence.features(home, candidates).tobytes() == evidence.features(train, candidates).tobytes()


def by_hand(types, rules, words=None):
    """One home of sensors (0) and lamps (1) with the relations On -> Turn on and Off -> Turn off."""
    device = [at for at, own in enumerate(words or []) for _ in own]
    columns = np.array(rules, dtype=np.int64).reshape(-1, 3).T
    return Homes(
        "one",
        ("Sensor", "Lamp"),
        (("On", "Turn on"), ("Off", "Turn off")),
        np.array([7]),
        np.zeros(len(types), dtype=np.int64),
        np.array(types),
        np.arange(len(types)),
        Rules(np.zeros(len(rules), dtype=np.int64), *columns),
        words=None if words is None else Words(np.array(device), np.array([w for own in words for w in own])),
    )


def feature(home, name, candidate, evidence=None):
    asked = Rules(*np.array([[0], *([value] for value in candidate)]))
    return (evidence or Evidence.of(home)).features(home, asked)[0, NAMES.index(name)]


def test_a_lamp_that_goes_with_another_is_three_rules_away():
    # sensor 0 -> lamp 2; sensor 1 -> lamps 2 and 3. From 0 to 3: 0 -> 2 <- 1 -> 3 is the one path of three rules.
    # In the mean: 0 has one lamp (1/1), lamp 2 has two sensors, one of them is 1 (1/2), and 1 acts on 3: 1/2.
    home = by_hand([0, 0, 1, 1], [(0, 2, 0), (1, 2, 0), (1, 3, 0)])
    paths = [feature(home, name, (0, 3, 0)) for name in NAMES if name.startswith("paths")]
    assert paths == pytest.approx([0, 0, 0, log1p(1), log1p(5 * 0.5)])


def test_the_lamp_in_the_room_of_the_sensor_is_the_nearest():
    # Kitchen (0): sensor 0, lamp 2. Hall (1): sensor 1, lamps 3 and 4. The kitchen is on 2 of 5 devices: log(5 / 2).
    home = by_hand([0, 0, 1, 1, 1], [(1, 3, 0)], [[0], [1], [0], [1], [1]])
    nearer, as_near = (f"{WORD}devices of the action's type {how} to the trigger" for how in ("nearer", "as near"))
    assert feature(home, f"{WORD}rarity of all that are shared", (0, 2, 0)) == pytest.approx(log(2.5) / 3, abs=1e-4)
    assert feature(home, f"{WORD}cosine", (0, 2, 0)) == pytest.approx(1)
    assert [feature(home, name, (0, 2, 0)) for name in (nearer, as_near)] == [0, 0]
    # From the kitchen to lamp 3: lamp 2 is nearer, lamp 4 as near. From the hall to lamp 3: lamp 4 is as near.
    assert [feature(home, name, (0, 3, 0)) for name in (nearer, as_near)] == pytest.approx([log1p(1), log1p(1)])
    assert [feature(home, name, (1, 3, 0)) for name in (nearer, as_near)] == pytest.approx([0, log1p(1)])
    # The one rule stays in the hall: (1 + 0.5) / (1 + 1.5). Sensor 1 already does something in the room of lamp 4.
    assert feature(home, f"{WORD}share of the home's rules in one room", (0, 2, 0)) == pytest.approx(log(1.5 / 2.5))
    assert feature(home, f"{WORD}rules of the trigger in the room of the action", (1, 4, 0)) == pytest.approx(log1p(1))


def test_a_home_that_switches_a_lamp_on_is_to_switch_it_off():
    # The one training home has both relations on sensor 0 and lamp 1: of 1 home with On, 1 has Off too, 1 / (1 + 3).
    evidence = Evidence.of(by_hand([0, 1], [(0, 1, 0), (0, 1, 1)]))
    asked = by_hand([0, 1, 1], [(0, 1, 0)])
    both, trigger, action = (
        f"goes with a relation of {what}" for what in ("trigger and action", "the trigger", "the action")
    )
    # On a pair of devices, of 1 home with On from a sensor to a lamp 1 has Off too: (1 + 3 / 4) / (1 + 3).
    share, typed = log1p(20 / 4), log1p(20 * 1.75 / 4)
    assert [feature(asked, name, (0, 1, 1), evidence) for name in (both, trigger, action)] == pytest.approx(
        [typed, share, share]
    )
    # Lamp 2 has no rule yet, but its trigger has.
    assert [feature(asked, name, (0, 2, 1), evidence) for name in (both, trigger, action)] == pytest.approx(
        [0, share, 0]
    )
    # From lamp to lamp no home has either: only the share by relations alone is left, (0 + 3 / 4) / (0 + 3).
    lamps = by_hand([0, 1, 1], [(1, 2, 0)])
    assert feature(lamps, both, (1, 2, 1), evidence) == pytest.approx(share)
    # A relation does not go with itself.
    assert [feature(asked, name, (0, 2, 0), evidence) for name in (both, trigger, action)] == [0, 0, 0]


def test_homes_that_were_not_there_in_training_have_features():
    train = planted_homes()
    evidence = Evidence.of(train.subset(np.arange(1, train.n_homes)))
    new = train.subset(np.array([0]))
    features = evidence.features(new, every_candidate(new))
    assert np.isfinite(features).all()


def test_no_candidate_has_no_features():
    train = planted_homes()
    none = Rules(*[np.zeros(0, dtype=np.int64)] * 4)
    assert Evidence.of(train).features(train, none, leave_out=train).shape == (0, len(NAMES))
