"""The fingerprint changes with everything that homes hold, and with nothing else."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import Homes, Provenance, Rules, Words
from tests.support.strategies import homes
from tests.support.two_homes import BUILD

CHANGED = {
    "the relation of a rule": {"rules": Rules([0, 0, 0, 1], [2, 2, 0, 3], [0, 1, 1, 3], [1, 0, 2, 2], [5, 6, 6, 5])},
    "the trigger of a rule": {"rules": Rules([0, 0, 0, 1], [2, 2, 1, 3], [0, 1, 1, 3], [0, 0, 2, 2], [5, 6, 6, 5])},
    "the action of a rule": {"rules": Rules([0, 0, 0, 1], [2, 2, 0, 3], [0, 1, 0, 3], [0, 0, 2, 2], [5, 6, 6, 5])},
    "a rule less": {"rules": Rules([0, 0, 0], [2, 2, 0], [0, 1, 1], [0, 0, 2], [5, 6, 6])},
    "a group": {"rules": Rules([0, 0, 0, 1], [2, 2, 0, 3], [0, 1, 1, 3], [0, 0, 2, 2], [5, 5, 6, 5])},
    "no groups": {"rules": Rules([0, 0, 0, 1], [2, 2, 0, 3], [0, 1, 1, 3], [0, 0, 2, 2])},
    "the type of a device": {"device_type": [0, 1, 1, 0]},
    "the id of a device": {"device_ids": [7, 8, 9, 6]},
    "ids as text": {"device_ids": np.array(["7", "8", "9", "7"])},
    "a user": {"users": np.array(["ann", "bo"])},
    "another cut between users": {"users": np.array(["an", "nbob"])},
    "a home more": {"users": np.array(["ann", "bob", "cy"])},
    "the name of a type": {"types": ("Light", "Sensor")},
    "a type more": {"types": ("Lamp", "Sensor", "Plug")},
    "the name of a relation": {"relations": (("Open", "On"), ("Open", "Off"), ("On", "Of"))},
    "a relation more": {"relations": (("Open", "On"), ("Open", "Off"), ("On", "Off"), ("On", "On"))},
}

# With words for Ann's second lamp and her sensor.
WORDS = {
    "no words": None,
    "no word of any device": Words([], []),
    "a word less": Words([1], [0]),
    "the number of a word": Words([1, 2], [0, 1]),
    "the device of a word": Words([0, 2], [0, 0]),
    "a word more": Words([1, 1, 2], [0, 1, 0]),
}


@pytest.mark.parametrize("change", CHANGED)
def test_the_fingerprint_changes_with(two: Homes, change: str) -> None:
    assert replace(two, **CHANGED[change]).fingerprint != two.fingerprint


@pytest.mark.parametrize("change", WORDS)
def test_the_fingerprint_changes_with_words(two: Homes, change: str) -> None:
    named = replace(two, words=Words([1, 2], [0, 0]))
    assert replace(named, words=WORDS[change]).fingerprint != named.fingerprint


@given(homes(words=True))
def test_homes_without_their_words_have_the_fingerprint_of_a_source_without_any(some: Homes) -> None:
    bare = some.without_words()
    assert bare.words is None
    assert bare.fingerprint == replace(some, words=None).fingerprint != some.fingerprint
    assert bare.without_words() is bare


@given(homes(max_homes=4, bare=False, min_homes=1), st.data())
def test_the_fingerprint_changes_when_any_one_rule_goes(some: Homes, data: st.DataObject) -> None:
    gone = data.draw(st.integers(0, some.n_rules - 1))
    assert some.with_rules(np.arange(some.n_rules) != gone).fingerprint != some.fingerprint


def test_the_fingerprint_does_not_depend_on_the_name_or_where_homes_came_from(two: Homes) -> None:
    assert replace(two, name="other", provenance=Provenance("elsewhere")).fingerprint == two.fingerprint


def test_another_process_computes_the_same_fingerprint(two: Homes) -> None:
    code = f"{BUILD}\nimport sys\nsys.stdout.write(homes.fingerprint)"
    command = [sys.executable, "-W", "error", "-c", code]
    for hash_seed in ("1", "2"):
        done = subprocess.run(command, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True)
        assert done.stdout == two.fingerprint


def test_the_fingerprint_is_the_one_that_older_results_carry(two: Homes) -> None:
    # Frozen: if this changes, every result on disk loses its data.
    assert two.fingerprint == "d40f544bf2394b0b"
