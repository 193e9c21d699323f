"""Words of labels: how they are split, which are shared, and which labels are opposites."""

from __future__ import annotations

import pytest

from fedrule.evidence.label_words import opposite_labels, shared_words, words


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("OutdoorCamera", ("outdoor", "camera")),
        ("Power On For A While", ("power", "on", "for", "a", "while")),
        ("state:armed_home", ("state", "armed", "home")),
        ("CO Detected", ("co", "detected")),
        ("500px", ("500", "px")),
        ("", ()),
    ],
)
def test_a_label_is_split_into_its_words(label, found):
    assert words(label) == found


def test_only_words_of_several_labels_are_shared():
    # "outdoor" and "plug" are words of two labels each; "camera" and "light" of one.
    label, word = shared_words(["OutdoorPlug", "Plug", "OutdoorCamera", "Light"])
    assert list(zip(label.tolist(), word.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1), (2, 0)]
    assert [column.tolist() for column in shared_words([])] == [[], []]


def opposites(*labels):
    one, other = opposite_labels(labels)
    return [(labels[a], labels[b]) for a, b in zip(one.tolist(), other.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Power On", "Power Off"),
        ("Open", "Being Closed"),  # one has all other words of the other
        ("lock", "unlock"),
        ("arm_home", "disarm"),
        ("Motion", "No Motion"),
        ("turn_on", "turn_off"),
    ],
)
def test_opposites_are_found_in_both_directions(one, other):
    assert opposites(one, other) == [(one, other), (other, one)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Fan On", "Power Off"),  # each has a word of its own
        ("Power On", "Power On For A While"),
        ("Motion", "No Sound"),
        ("play_pause", "stop"),  # a toggle
        ("No Motion", "Not Motion"),
    ],
)
def test_labels_about_something_else_are_not_opposites(one, other):
    assert opposites(one, other) == []
