"""Rules in words: the vocabularies of the data sets, words that nobody has foreseen, names that try to break out."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from datasets import load
from fedrule.inference.sentences import sentence, template, without_marks


@pytest.mark.parametrize(
    ("state", "action", "said"),
    [
        ("Open", "Power On", "When *A* opens, turn on *B*"),
        ("Being Open", "Power On For A While", "When *A* is open, turn on *B* for a while"),
        ("Motion Detected", "Change Brightness", "When *A* detects motion, change the brightness of *B*"),
        ("Person Detected", "Siren On", "When *A* detects a person, turn on the siren of *B*"),
        ("Motion Cleared", "Notifications Off", "When *A* no longer detects motion, turn off the notifications of *B*"),
        ("Temperature Above", "Set Mode Off", "When *A* reports temperature above a level, set *B* to off"),
        ("CO Detected", "Fan Auto", "When *A* detects CO, set the fan of *B* to auto"),
        ("Button Pressed Twice", "Start Cleaning", "When *A*'s button is pressed twice, start cleaning with *B*"),
        ("state:on", "turn_on", "When *A* turns on, turn on *B*"),
        ("state:armed_away", "arm_away", 'When *A* changes to "armed away", arm *B* for away'),
        ("state:locked", "scene_activate", "When *A* is locked, activate *B*"),
        ("device:turned_on", "toggle", "When *A* turns on, toggle *B*"),
        ("sun:sunset", "close", "At sunset (*A*), close *B*"),
        ("time:at", "notify", "At a set time (*A*), send a notification through *B*"),
        ("event:zha_event", "volume_set", 'When *A* sends the event "zha event", set the volume of *B*'),
        ("new_tweet_by_you", "send_a_notification", "When *A* has a new tweet by you, send a notification via *B*"),
        ("You Enter an Area", "Add File from Url", "When *A* sees that you enter an area, add a file from URL via *B*"),
        ("every_day_of_the_week_at", "post_a_tweet", "Every day of the week at a set time (*A*), post a tweet via *B*"),
        ("Say a Phrase", "Mute Ringtone", "When you say a phrase to *A*, mute the ringtone of *B*"),
        ("todays_weather_report", "Send an Sms", "When *A* gives today's weather report, send an SMS via *B*"),
    ],
)
def test_the_words_of_the_data_are_said_as_people_say_them(state, action, said):
    assert sentence("A", state, action, "B") == said


@pytest.mark.parametrize(
    ("kind", "state", "said"),
    [
        ("ContactSensor", "state:on", "When *A* opens, turn on *B*"),
        ("MotionSensor", "state:off", "When *A* no longer detects motion, turn on *B*"),
        ("LeakSensor", "state:on", "When *A* detects water, turn on *B*"),
        ("Light", "state:on", "When *A* turns on, turn on *B*"),
        ("ContactSensor", "state:unavailable", "When *A* is unavailable, turn on *B*"),
    ],
)
def test_what_on_means_depends_on_the_type(kind, state, said):
    assert sentence("A", state, "turn_on", "B", trigger_type=kind) == said


def test_how_a_word_is_spelled_does_not_matter():
    spellings = ("Motion Detected", "motion_detected", "MOTION-DETECTED", "MotionDetected", " motion  detected ")
    assert {template(spelling, "turn-ON") for spelling in spellings} == {template("Motion Detected", "Turn On")}


def test_a_word_that_no_phrase_is_known_for_is_quoted():
    assert sentence("Tank", "flush_b", "yaw", "Gate") == 'When *Tank* reports "flush b", let *Gate* do "yaw"'
    assert sentence("Tank", "device:quirk", "yaw", "Gate") == 'When *Tank* reports "quirk", let *Gate* do "yaw"'


def test_what_is_in_a_word_neither_ends_the_quotation_nor_marks_a_device():
    said = sentence("A", 'x*y"z\n', "{} [x] \0*", "B")
    assert said == 'When *A* reports "x\u2217y\'z", let *B* do "{ } [x] \u2217"'


def test_a_sentence_without_marks_reads_as_plain_text():
    assert (
        without_marks(sentence("my *own* lamp", "on", "off", "B"))
        == "When my \u2217own\u2217 lamp turns on, turn off B"
    )


def test_asterisks_and_lines_in_a_name_do_not_break_the_marking():
    assert sentence("my *own*\nlamp", "on", "off", "\t") == "When *my \u2217own\u2217 lamp* turns on, turn off *?*"


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("wyze-synthetic", {"homes": 300}),
        ("wyze-synthetic", {"homes": 300, "preset": "public"}),
        ("ifttt-synthetic", {}),
    ],
)
def test_no_word_of_the_generated_data_is_left_unsaid(data, options):
    quoted = [relation for relation in load(data, **options).relations if '"' in "".join(template(*relation))]
    assert quoted == []


WORDS = st.text(max_size=20) | st.sampled_from(
    ["new ", "state:", "device:", "turn x on", "event:a", "set mode", "any new a"]
)


@given(trigger=st.text(max_size=12), state=WORDS, action=WORDS, device=st.text(max_size=12))
@example(trigger="{}", state="{} detected", action="set {}", device="[x]")
def test_whatever_the_words_are_there_is_one_line_with_two_marked_names(trigger, state, action, device):
    said = sentence(trigger, state, action, device)
    assert said.isprintable()
    assert re.fullmatch(r"(?:When|At|Every)[^*]* \(?\*[^*]+\*[^*]*, [^*]+ \*[^*]+\*[^*]*", said)
    before, between, after = template(state, action)
    assert said.startswith(before)
    assert said.endswith(after)
    assert between in said
