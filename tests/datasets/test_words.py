"""Words of names: which devices share one, in whatever language, and never what it is."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import DataError
from datasets.words import LONGEST_ENDING, tokens, vocabulary, words_of_homes, words_of_names

OTHERS = ["Attic", "Cellar", "Shed", "Porch"]  # so that two devices are not more than half of the home


def share(one: str, other: str, **options: object) -> bool:
    """Whether two names have a word in common, in a home with others."""
    first, second, *_ = words_of_names([one, other, *OTHERS], **options)
    return bool(set(first) & set(second))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Kitchen lamp 2", ["kitchen", "lamp", "2"]),
        ("light.living_room-lamp", ["light", "living", "room", "lamp"]),
        ("kitchenMotionSensor", ["kitchen", "motion", "sensor"]),
        ("HallTV2", ["hall", "tv", "2"]),
        ("ESPBedroom", ["esp", "bedroom"]),
        ("Tom's desk", ["tom", "desk"]),
        ("Tom\u2019s desk", ["tom", "desk"]),
        ("K\u00fcche", ["kuche"]),
        ("Ku\u0308che", ["kuche"]),  # the same, written with a combining mark
        ("STRASSE stra\u00dfe", ["strasse", "strasse"]),
        ("\uff2b\uff49\uff54\uff43\uff48\uff45\uff4e", ["kitchen"]),  # full width
        ("\u092c\u0948\u0920\u0915", ["\u092c\u0948\u0920\u0915"]),  # a vowel sign does not cut a Hindi word
        ("\u30ac\u30ec\u30fc\u30b8", ["\u30ac\u30ec\u30fc\u30b8"]),  # nor is a Japanese ga a ka
        ("\U0001f6cf bed", ["bed"]),
        ("", []),
        ("...", []),
    ],
)
def test_a_name_is_cut_into_tokens(name: str, expected: list[str]) -> None:
    assert tokens(name) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Kitchen lamp", "motion sensor KITCHEN"),
        ("Flurlicht", "Flur Bewegungsmelder"),
        ("Wohnzimmerlampe", "Thermostat Wohnzimmer"),
        ("\u5ba2\u5385\u706f", "\u5ba2\u5385\u4f20\u611f\u5668"),  # living room: a lamp, a sensor
        ("\u0412\u0430\u043d\u043d\u0430\u044f \u0441\u0432\u0435\u0442", "\u0412\u0430\u043d\u043d\u0430\u044f"),
        ("Bedroom 2 blind", "Bedroom 2 heater"),
        ("Outdoor light", "outdoor camera"),
    ],
)
def test_names_that_say_one_place_share_a_word(one: str, other: str) -> None:
    assert share(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Kitchen light", "Hall light"),
        ("Hue bulb", "hue strip"),
        ("Lampe 2", "Schalter 2"),
        ("Deckenlampe", "Stehlampe"),
        ("Lamp in the hall", "Lamp in the kitchen"),
        ("prise du salon", "interrupteur du couloir"),
        ("\u706f", "\u706f"),
        ("", ""),
    ],
)
def test_what_a_device_is_or_who_made_it_is_no_word(one: str, other: str) -> None:
    assert not share(one, other)


def test_the_words_of_a_type_are_none_in_a_home_that_has_it() -> None:
    assert share("Kitchen dispenser", "Hall dispenser")
    assert not share("Kitchen dispenser", "Hall dispenser", types=["SoapDispenser"])


def test_words_of_one_device_or_of_more_than_half_are_left_out() -> None:
    # Two of four is half, which is kept; three is more.
    assert words_of_names(["hall a", "hall", "x", "y"]) == [(0,), (0,), (), ()]
    assert words_of_names(["hall a", "hall", "hall", "y"]) == [(), (), (), ()]
    assert words_of_names(["hall", "kitchen"]) == [(), ()]


def test_two_tokens_in_a_row_are_a_word_and_numbers_follow_first_appearance() -> None:
    names = ["living room lamp", "room of living", "living room plug", *OTHERS]
    # Numbers: living 0, room 1, "living room" 2; the second device says neither in this order.
    assert words_of_names(names)[:3] == [(0, 1, 2), (0, 1), (0, 1, 2)]


def test_a_device_word_stands_between_two_tokens() -> None:
    # "north lamp wall" is not "north wall": the devices share single words only.
    first, second, *_ = words_of_names(["north lamp wall", "north wall", *OTHERS])
    assert first == second == (0, 1)


def test_a_room_is_one_word_and_the_same_as_that_of_a_name() -> None:
    rooms = ["Living Room", "", "garage lamp", "Garage  Lamp!", "\U0001f6cf", "\U0001f6cf", "", ""]
    names = ["Sonos", "living room lamp", "", "", "", "", "Attic", "Cellar"]
    assert words_of_names(names, rooms=rooms) == [(0,), (0,), (1,), (1,), (2,), (2,), (), ()]


def test_rooms_that_do_not_match_the_names_are_refused() -> None:
    with pytest.raises(DataError, match="3 names of devices but 2 rooms"):
        words_of_names(["a", "b", "c"], rooms=["x", "y"])
    with pytest.raises(DataError, match="2 devices but 3 names"):
        words_of_homes(np.array([0, 0]), ["a", "b", "c"])
    with pytest.raises(DataError, match="2 devices but 1 types"):
        words_of_homes(np.array([0, 0]), ["a", "b"], types=["Lamp"])


NAMES = st.lists(st.sampled_from(["hall lamp", "hall", "Kitchen", "kitchen 2", "dispenser", ""]), max_size=6)


@given(st.lists(NAMES, max_size=4))
def test_many_homes_have_the_words_that_each_has_alone(homes: list[list[str]]) -> None:
    device_home = np.repeat(np.arange(len(homes)), [len(names) for names in homes])
    names = [name for home in homes for name in home]
    found = words_of_homes(device_home, names, rooms=names[::-1], types=["Dispenser"] * len(names))
    expected, first, turned = [], 0, names[::-1]
    for home in homes:
        rooms = turned[first : first + len(home)]
        for place, numbers in enumerate(words_of_names(home, rooms=rooms, types=["Dispenser"]), first):
            expected += [(place, number) for number in numbers]
        first += len(home)
    assert list(zip(found.device.tolist(), found.word.tolist(), strict=True)) == expected


@given(st.lists(st.text(alphabet="aBc 1_\u00e9\u706f\u0301", max_size=6), max_size=8))
def test_any_names_give_words_of_some_and_of_at_most_half_of_the_devices(names: list[str]) -> None:
    words = words_of_names(names)
    numbers = [number for own in words for number in own]
    for number in set(numbers):
        assert 2 <= numbers.count(number) <= len(names) / 2
    assert sorted(set(numbers)) == list(range(len(set(numbers))))
    assert all(list(own) == sorted(set(own)) for own in words)


def test_every_listed_word_is_one_token() -> None:
    known = vocabulary()
    for word in known.device | known.places | known.empty:
        assert tokens(word) == [word]
    assert max(map(len, known.endings)) <= LONGEST_ENDING


def test_reading_names_needs_neither_pandas_nor_torch() -> None:
    code = "import sys, datasets.words as w; w.words_of_names(['a b'] * 4); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pandas", "pyarrow", "torch", "scipy"} & set(done.stdout.split())
