"""What is in the list of a home, and what is left out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.common.errors import DataError
from fedrule.homeassistant.selection import (
    DIRECTION,
    MIN_HOMES,
    OPPOSITE,
    PER_DEVICE,
    SIMILAR,
    Selection,
    rule_of,
)
from fedrule.homeassistant.suggestions import devices_in, homes_text
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.automation import NotWritable, WrittenAutomation
from fedrule.inference.output import Recommendation, Support
from fedrule.inference.sentences import sentence, without_marks

TYPES = {"binary": "MotionSensor", "door": "ContactSensor", "lamp": "Light", "me": "Notification", "time": "Clock"}


def candidate(trigger: str, state: str, action: str, device: str, *, homes: int = 50, rank: int = 1) -> Recommendation:
    """A recommendation between devices whose type is the first word of their id."""
    kinds = [TYPES.get(id_.split()[0], id_.split()[0]) for id_ in (trigger, device)]
    text = sentence(trigger, state, action, device, trigger_type=kinds[0])
    return Recommendation(rank, trigger, state, action, device, 0.9, text, Support(homes, 100, *kinds))


def selected(
    candidates: Sequence[Recommendation],
    *,
    k: int = 10,
    rules: Sequence[tuple[str, str, str, str]] = (),
    off: Sequence[tuple[str, str, str, str]] = (),
    room: dict[str, str] | None = None,
    words: dict[str, frozenset[int]] | None = None,
    **options: object,
) -> Selection:
    """The selection after these candidates; what acts on a device called broken cannot be written."""

    def write(each: Recommendation) -> WrittenAutomation | NotWritable:
        if each.action_device == "broken":
            return NotWritable("it cannot do that")
        return WrittenAutomation({"id": f"id {'|'.join(rule_of(each))}"})

    known, known_off = ([AutomationRule(*rule) for rule in some] for some in (rules, off))
    selection = Selection(k, known, known_off, room or {}, words or {}, write, **options)  # type: ignore[arg-type]
    for each in candidates:
        selection.consider(each)
    return selection


def lines(selection: Selection) -> list[list[str]]:
    """For each line its devices, and those of what is folded into it."""
    return [[f"{each.trigger} > {each.action_device}" for each, _ in line] for line in selection.lines]


def test_rules_of_one_kind_are_one_line() -> None:
    on = [candidate("binary 1", "state:on", "turn_on", f"lamp {number}") for number in (1, 2)]
    other = candidate("binary 2", "state:on", "turn_on", "lamp 3")
    off = candidate("binary 1", "state:off", "turn_off", "lamp 1")
    selection = selected([on[0], off, on[1], other])
    assert lines(selection) == [
        ["binary 1 > lamp 1", "binary 1 > lamp 2", "binary 2 > lamp 3"],
        ["binary 1 > lamp 1"],
    ]


def test_a_line_has_no_end_of_similar_ones() -> None:
    many = [candidate("binary", "state:on", "turn_on", f"lamp {number}") for number in range(20)]
    selection = selected(many)
    assert len(selection.lines) == 1
    assert len(selection.lines[0]) == 1 + SIMILAR
    # The line and 5 folded into it, of 20: 14 are left out.
    assert selection.left_out() == {"of a kind that is in the list with enough devices": 14}


@pytest.mark.parametrize(
    ("has", "proposed", "reason"),
    [
        ("turn_on", "turn_off", "contradicts a rule of the home or of the list"),
        ("turn_on", "toggle", "contradicts a rule of the home or of the list"),
        ("set_brightness", "turn_on", "nearly the same as a rule of the home or of the list"),
        ("open", "close", "contradicts a rule of the home or of the list"),
        ("lock", "unlock", "contradicts a rule of the home or of the list"),
        ("arm_away", "disarm", "contradicts a rule of the home or of the list"),
    ],
)
def test_nothing_contradicts_the_home(has: str, proposed: str, reason: str) -> None:
    new = candidate("door", "state:on", proposed, "lamp")
    assert selected([new], rules=[("door", "state:on", has, "lamp")]).left_out() == {reason: 1}
    linked = [("door 2", "state:on", has, "lamp"), ("door", "state:other", "set_value", "lamp")]
    assert lines(selected([new], rules=linked)) == [["door > lamp"]]


def test_nothing_contradicts_a_line_above() -> None:
    selection = selected([candidate("door", "state:on", act, "lamp") for act in ("turn_on", "turn_off")])
    assert lines(selection) == [["door > lamp"]]
    assert selection.lines[0][0][0].action == "turn_on"


def test_two_actions_that_go_together_are_both_in_the_list() -> None:
    heat = [candidate("door", "state:on", act, "Thermostat") for act in ("set_hvac_mode", "set_temperature")]
    assert len(selected(heat).lines) == 2


def test_the_opposite_event_does_not_do_the_same() -> None:
    selection = selected(
        [candidate("Sun", "sun:sunrise", "turn_on", "lamp")], rules=[("Sun", "sun:sunset", "turn_on", "lamp")]
    )
    assert selection.left_out() == {"does the same as another rule at the opposite event": 1}


def test_a_device_may_switch_itself_off_and_nothing_else() -> None:
    assert selected([candidate("lamp", "state:on", "turn_off", "lamp")]).lines
    for state, action in (("state:off", "turn_on"), ("state:on", "toggle"), ("state:on", "set_color")):
        assert not selected([candidate("lamp", state, action, "lamp")]).lines


def test_only_one_of_several_people_is_notified() -> None:
    told = [candidate("door", "state:on", "notify", f"me {number}") for number in (1, 2)]
    assert lines(selected(told)) == [["door > me 1"]]
    home = [("door", "state:on", "notify", "me 3")]
    assert selected(told, rules=home).left_out() == {"differs from another only by who is notified": 2}


def test_there_is_one_line_in_ten_of_the_clock() -> None:
    clock = [candidate("time", "time:at", act, "lamp") for act in ("turn_on", "set_color", "set_value", "x", "y")]
    assert len(selected(clock, k=10).lines) == 1
    assert len(selected(clock, k=5).lines) == 1
    assert len(selected(clock, k=20).lines) == 2


def test_one_device_does_not_fill_the_list() -> None:
    acts = [f"act {number}" for number in range(9)]
    from_one = selected([candidate("door", "state:on", act, f"lamp {act}") for act in acts])
    to_one = selected([candidate(f"door {act}", "state:on", act, "lamp") for act in acts])
    assert len(from_one.lines) == len(to_one.lines) == PER_DEVICE


@pytest.mark.parametrize(("here", "there", "shown"), [("Hall", "Hall", 1), ("Hall", "Attic", 0), ("", "Attic", 1)])
def test_a_sensor_switches_lamps_of_its_own_room(here: str, there: str, shown: int) -> None:
    selection = selected([candidate("door", "state:on", "turn_on", "lamp")], room={"door": here, "lamp": there})
    assert len(selection.lines) == shown


def test_rooms_that_the_home_has_connected_stay_connected() -> None:
    selection = selected(
        [candidate("door", "state:off", "turn_off", "lamp")],
        rules=[("door", "state:on", "turn_on", "lamp")],
        room={"door": "Hall", "lamp": "Attic"},
    )
    assert lines(selection) == [["door > lamp"]]


def test_a_notification_may_come_from_any_room() -> None:
    selection = selected([candidate("door", "state:on", "notify", "me")], room={"door": "Hall", "me": "Attic"})
    assert lines(selection) == [["door > me"]]


def test_what_the_owner_has_switched_off_is_not_recommended_again() -> None:
    rule = ("door", "state:on", "turn_on", "lamp")
    assert selected([candidate(*rule)], off=[rule]).left_out() == {
        "in an automation of the home that is switched off": 1
    }


def test_a_habit_of_two_homes_is_not_advice() -> None:
    rare = candidate("door", "state:on", "turn_on", "lamp", homes=MIN_HOMES - 1)
    assert selected([rare]).left_out() == {"fewer than 3 homes have it": 1}


def test_what_cannot_be_written_makes_room_for_the_next_and_is_counted() -> None:
    found = selected([candidate("door", "state:on", "turn_on", device) for device in ("broken", "lamp")])
    assert lines(found) == [["door > lamp"]]
    assert found.left_out() == {"it cannot do that": 1}


def test_what_was_dismissed_by_its_id_is_gone() -> None:
    rule = ("door", "state:on", "turn_on", "lamp")
    assert selected([candidate(*rule)], without={f"id {'|'.join(rule)}"}).left_out() == {"dismissed": 1}


RULES = st.builds(
    candidate,
    st.sampled_from(["door 1", "door 2", "binary 1", "time", "lamp 1"]),
    st.sampled_from([*OPPOSITE, "state:changed"]),
    st.sampled_from([*DIRECTION, "notify", "set_value"]),
    st.sampled_from(["lamp 1", "lamp 2", "me 1", "me 2", "broken"]),
    homes=st.integers(0, 100),
)


@given(st.lists(RULES, max_size=60), st.lists(RULES, max_size=10), st.integers(1, 12))
def test_no_list_contradicts_itself_or_the_home(
    candidates: list[Recommendation], known: list[Recommendation], k: int
) -> None:
    home = [rule_of(each) for each in known]
    wanted = [each for each in candidates if rule_of(each) not in home]  # as a model recommends
    selection = selected(wanted, k=k, rules=home)
    taken = [rule_of(each) for line in selection.lines for each, _ in line]
    assert len(set(taken)) == len(taken)
    for number, rule in enumerate(taken):
        for other in [*home, *taken[:number]]:
            same_event = (rule.trigger, rule.trigger_state) == (other.trigger, other.trigger_state)
            if same_event and rule.action_device == other.action_device:
                assert not {rule.action, other.action} <= DIRECTION.keys()
            assert not (same_event and rule.action == other.action == "notify")
    assert len(selection.lines) <= k
    if len(selection.lines) < k:  # every candidate is in the list or counted, once
        assert selection.left_out().total() + len(taken) == len(wanted)


@pytest.mark.parametrize(
    ("support", "text"),
    [
        (Support(63, 131, "ContactSensor", "Light"), "63 of the 131 homes with a contact sensor and a light have it."),
        (Support(1063, 2131, "Light", "Light"), "1,063 of the 2,131 homes with a light have it."),
        (Support(5, 40, "Clock", "InputBoolean"), "5 of the 40 homes with an input boolean have it."),
        (Support(5, 40, "Clock", "System"), "5 of the 40 homes have it."),
        (Support(0, 0, "Light", "Light"), "How many homes have it is not known."),
    ],
)
def test_the_reason_in_words(support: Support, text: str) -> None:
    assert homes_text(support) == text


def test_marks_are_not_for_the_terminal() -> None:
    assert without_marks("When *Front door* opens, turn on *Hall*") == "When Front door opens, turn on Hall"


def test_an_area_is_found_by_its_name_or_by_a_word_of_names(home_of) -> None:  # type: ignore[no-untyped-def]
    home = home_of(
        "- trigger: {platform: state, entity_id: binary_sensor.kitchen_door, to: 'on'}\n"
        "  action: {service: light.turn_on, target: {entity_id: light.hall}}\n"
    )
    assert devices_in(home, "KITCHEN") == {"binary_sensor.kitchen_door"}
    with pytest.raises(DataError, match=r"--area Attic: no device is there.*no device of this home has an area"):
        devices_in(home, "Attic")


@pytest.mark.parametrize(
    ("tie", "shown"),
    [
        ({}, 0),
        ({"words": {"Sensor": frozenset((1, 2)), "lamp": frozenset((2,))}}, 1),
        ({"words": {"Sensor": frozenset((1,)), "lamp": frozenset((2,))}}, 0),
        ({"room": {"Sensor": "Hall", "lamp": "Hall"}}, 1),
        ({"rules": [("Sensor", "state:off", "turn_off", "lamp")]}, 1),
    ],
)
@pytest.mark.parametrize("kind", ["Sensor", "InputBoolean", "Switch"])
def test_what_could_be_anything_has_something_to_do_with_the_device(
    tie: dict[str, dict[str, Any]], kind: str, shown: int
) -> None:
    named = {
        name: [(kind, *rule[1:]) for rule in value]
        if name == "rules"
        else {kind if id_ == "Sensor" else id_: each for id_, each in value.items()}
        for name, value in tie.items()
    }
    assert len(selected([candidate(kind, "state:on", "turn_on", "lamp")], **named).lines) == shown


def test_a_sensor_of_any_kind_may_be_told_of() -> None:
    assert lines(selected([candidate("Sensor", "state:on", "notify", "me")])) == [["Sensor > me"]]


def test_devices_that_belong_together_are_not_folded_with_others() -> None:
    candidates = [candidate(f"door {a}", "state:on", "turn_on", f"lamp {b}") for a, b in ((1, 1), (1, 2), (2, 2))]
    rooms = {f"{kind} {at}": f"room {at}" for kind in ("lamp",) for at in (1, 2)} | {"door 1": "room 1"}
    words = {"door 2": frozenset((7,)), "lamp 2": frozenset((7,))}
    # door 1 and lamp 1 share a room, door 2 and lamp 2 a word; door 1 and lamp 2 are in two rooms.
    assert lines(selected(candidates, room=rooms, words=words)) == [["door 1 > lamp 1", "door 2 > lamp 2"]]
    assert lines(selected(candidates)) == [["door 1 > lamp 1", "door 1 > lamp 2", "door 2 > lamp 2"]]


def test_a_script_does_not_run_at_an_event_and_at_its_opposite() -> None:
    selection = selected(
        [candidate("door", "state:off", "script_run", "Script")], rules=[("door", "state:on", "script_run", "Script")]
    )
    assert selection.left_out() == {"does the same as another rule at the opposite event": 1}


@pytest.mark.parametrize("kind", ["Event", "Automation"])
def test_what_does_nothing_by_itself_is_left_out(kind: str) -> None:
    assert not selected([candidate("door", "state:on", "turn_on", kind)]).lines


def test_two_lines_do_not_drive_each_other() -> None:
    both = [candidate(a, "state:on", "turn_on", b) for a, b in (("lamp 1", "Switch 1"), ("Switch 1", "lamp 1"))]
    words = dict.fromkeys(("lamp 1", "Switch 1"), frozenset((1,)))
    assert selected(both, words=words).left_out() == {"the other way round of a line": 1}


def test_a_lamp_that_turns_on_turns_another_off_only_if_the_home_does_such_things() -> None:
    off = candidate("door", "state:on", "turn_off", "lamp")
    assert selected([off]).left_out() == {"switches a device the other way than its trigger": 1}
    assert selected([off], rules=[("door", "state:off", "turn_on", "lamp")]).lines


def test_any_change_does_not_switch_one_way() -> None:
    assert not selected([candidate("door", "state:changed", "turn_on", "lamp")]).lines
    assert selected([candidate("door", "state:changed", "toggle", "lamp")]).lines
    rules = [("door", "state:changed", "toggle", "lamp")]  # which happens when it opens, too
    assert not selected([candidate("door", "state:on", "turn_on", "lamp")], rules=rules).lines


def test_a_line_for_some_lamps_is_not_contradicted_for_others() -> None:
    both = [candidate("me", "state:on", act, f"lamp {act}") for act in ("turn_on", "toggle")]
    assert selected(both).left_out() == {"contradicts a line for other devices of the same type": 1}


def test_a_guessed_value_is_not_the_same_at_an_event_and_at_its_opposite() -> None:
    both = [candidate("door", state, "set_value", "Number") for state in ("state:on", "state:off")]
    assert selected(both).left_out() == {"does the same as another rule at the opposite event": 1}
    # The home has chosen its value itself, and may want another one.
    assert selected(both[1:], rules=[("door", "state:on", "set_value", "Number")]).lines


def test_what_is_nearly_switched_off_is_not_recommended() -> None:
    off = [("door", "state:on", "turn_on", "lamp")]
    assert not selected([candidate("door", "state:on", "set_brightness", "lamp")], off=off).lines


def test_few_of_many_homes_are_no_reason_unless_the_home_has_connected_the_two() -> None:
    # 2 of 100 are fewer than three homes; 3 of 100 are just 3 %, and 3 of 101 are less.
    rare = candidate("door", "state:off", "turn_off", "lamp", homes=3)
    assert selected([rare]).lines
    rarer = rare._replace(why=rare.why._replace(homes_with_both=101))
    assert selected([rarer]).left_out() == {"fewer than 3% of the homes that could have it": 1}
    assert selected([rarer], rules=[("door", "state:on", "turn_on", "lamp")]).lines


def test_when_the_list_is_full_rules_are_folded_into_lines_and_nothing_else() -> None:
    on, off = ("state:on", "turn_on"), ("state:off", "turn_off")
    some = [("door 1", on, "lamp 1"), ("door 2", off, "lamp 2"), ("door 2", on, "lamp 2")]
    found = selected([candidate(a, *relation, b) for a, relation, b in some], k=1)
    assert lines(found) == [["door 1 > lamp 1", "door 2 > lamp 2"]]
    assert not found.left_out()


def test_where_there_are_no_areas_names_tell_rooms_apart() -> None:
    rule = candidate("door", "state:on", "turn_on", "lamp")
    assert not selected([rule], words={"door": frozenset((1,)), "lamp": frozenset((2,))}).lines
    assert selected([rule], words={"door": frozenset((1,))}).lines  # nothing is known of the lamp
    same = {"door": "Hall", "lamp": "Hall"}
    assert selected([rule], words={"door": frozenset((1,)), "lamp": frozenset((2,))}, room=same).lines
