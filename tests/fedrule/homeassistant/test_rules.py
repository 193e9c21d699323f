"""The rules of automations: triggers, actions, branches, and old and new spellings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count, product

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fedrule.homeassistant.installation import Area, Automation, Entity, Installation, RegisteredDevice
from fedrule.homeassistant.translation.devices import Devices
from fedrule.homeassistant.translation.rules import read_automation

HALL = Installation(
    "test",
    entities={
        entity.entity_id: entity
        for entity in (
            Entity("light.hall", area="hall", device="d1", registry_id="a" * 32),
            Entity("light.stairs", area="hall", labels=("night",)),
            Entity("light.hidden", area="hall", hidden=True),
            Entity("switch.fan", area="hall"),
            Entity("binary_sensor.x", device_class="motion", area="hall", device="d2", registry_id="b" * 32),
            Entity("group.lamps", members=("light.hall", "light.stairs")),
        )
    },
    areas={"hall": Area("hall", "Hall", floor="ground")},
    devices={"d1": RegisteredDevice("d1", "Lamp"), "d2": RegisteredDevice("d2", "Sensor", labels=("night",))},
)
LAMP = {"service": "light.turn_on", "entity_id": "light.hall"}
MOTION = {"platform": "state", "entity_id": "binary_sensor.x", "to": "on"}


def outcome(config: Mapping[str, object], installation: Installation = HALL):
    return read_automation(Automation(config, "test"), Devices(installation))


def starts(trigger: object, installation: Installation = HALL) -> set[tuple[str, str]]:
    rules = outcome({"trigger": trigger, "action": LAMP}, installation).rules
    return {(rule.trigger, rule.trigger_state) for rule in rules}


def effects(action: object, installation: Installation = HALL) -> set[tuple[str, str]]:
    rules = outcome({"trigger": MOTION, "action": action}, installation).rules
    return {(rule.action, rule.action_device) for rule in rules}


def whole(config: Mapping[str, object]) -> list[tuple[str, str, str, str]]:
    return [tuple(rule) for rule in outcome(config).rules]


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        ({"platform": "state", "entity_id": "light.a, light.b", "to": "on"},
         {("light.a", "state:on"), ("light.b", "state:on")}),
        ({"platform": "state", "entity_id": "light.a", "to": ["on", "off"]},
         {("light.a", "state:on"), ("light.a", "state:off")}),
        ({"platform": "state", "entity_id": "light.a", "to": True}, {("light.a", "state:on")}),
        ({"platform": "state", "entity_id": "light.a"}, {("light.a", "state:changed")}),
        ({"platform": "state", "entity_id": "light.a", "to": None}, {("light.a", "state:changed")}),
        ({"platform": "state", "entity_id": "light.a", "attribute": "x", "to": "on"}, {("light.a", "state:other")}),
        ({"platform": "state", "entity_id": "input_select.m", "to": "Just Left"},
         {("input_select.m", "state:just left")}),
        ({"platform": "state", "entity_id": "input_select.m", "to": "Brunch"}, {("input_select.m", "state:other")}),
        ({"platform": "numeric_state", "entity_id": "sensor.t", "above": 1}, {("sensor.t", "numeric:above")}),
        ({"platform": "numeric_state", "entity_id": "sensor.t", "below": 0}, {("sensor.t", "numeric:below")}),
        ({"platform": "numeric_state", "entity_id": "sensor.t", "above": 1, "below": 2},
         {("sensor.t", "numeric:between")}),
        ({"platform": "sun", "event": "sunset"}, {("sun.sun", "sun:sunset")}),
        ({"platform": "time", "at": "07:00"}, {("clock", "time:at")}),
        ({"platform": "time", "at": ["07:00", "input_datetime.wake"]},
         {("clock", "time:at"), ("input_datetime.wake", "time:at")}),
        ({"platform": "time", "at": {"entity_id": "sensor.alarm", "offset": "-1"}}, {("sensor.alarm", "time:at")}),
        ({"platform": "time", "minutes": "/5"}, {("clock", "time:pattern")}),
        ({"platform": "time_pattern", "minutes": "/5"}, {("clock", "time:pattern")}),
        ({"platform": "homeassistant", "event": "start"}, {("system", "homeassistant:start")}),
        ({"platform": "event", "event_type": "homeassistant_started"}, {("system", "homeassistant:start")}),
        ({"platform": "mqtt", "topic": "home/doors"}, {("mqtt:home/doors", "mqtt")}),
        ({"platform": "event", "event_type": "timer.finished", "event_data": {"entity_id": "timer.t"}},
         {("timer.t", "event:timer.finished")}),
        ({"platform": "event", "event_type": "zha_event", "event_data": {"device_ieee": "00:1"}},
         {("event:zha_event:00:1", "event:zha_event")}),
        ({"platform": "event", "event_type": "mine"}, {("event:mine", "event:other")}),
        ({"platform": "template", "value_template": "{{ is_state('light.a', 'on') }}"}, {("light.a", "template")}),
        ({"platform": "template", "value_template": "{{ states.sensor.t.state|int > 3 }}"}, {("sensor.t", "template")}),
        ({"platform": "template", "value_template": "{{ now().hour == 3 }}"}, {("clock", "template")}),
        ({"platform": "zone", "entity_id": "person.p", "event": "leave"}, {("person.p", "zone:leave")}),
        ({"platform": "calendar", "entity_id": "calendar.c", "event": "end"}, {("calendar.c", "calendar:end")}),
        ({"platform": "conversation", "command": "hi"}, {("conversation", "conversation")}),
        ({"platform": "device", "domain": "binary_sensor", "type": "motion", "device_id": "d2", "entity_id": "b" * 32},
         {("binary_sensor.x", "state:on")}),
        ({"platform": "device", "domain": "light", "type": "turned_off", "device_id": "d1", "entity_id": "light.hall"},
         {("light.hall", "state:off")}),
        ({"platform": "device", "domain": "cover", "type": "opened", "device_id": "d", "entity_id": "cover.c"},
         {("cover.c", "state:open")}),
        ({"platform": "device", "domain": "sensor", "type": "temperature", "device_id": "d", "entity_id": "sensor.t",
          "above": 3}, {("sensor.t", "numeric:above")}),
        ({"platform": "device", "domain": "mqtt", "type": "action", "subtype": "single", "device_id": "r"},
         {("device:r", "device:action")}),
        ({"platform": "device", "domain": "hue", "type": "whatever", "device_id": "r"}, {("device:r", "device:other")}),
        ({"trigger": "light.turned_on", "target": {"area_id": "hall"}},
         {("light.hall", "state:on"), ("light.stairs", "state:on")}),
        ({"trigger": "motion.detected", "target": {"area_id": "hall"}}, {("binary_sensor.x", "state:on")}),
        ({"trigger": "motion.cleared", "target": {"label_id": "night"}}, {("binary_sensor.x", "state:off")}),
        ({"trigger": "temperature.crossed_threshold", "target": {"entity_id": "sensor.t"},
          "options": {"threshold": {"type": "below"}}}, {("sensor.t", "numeric:below")}),
        ({"trigger": "door.opened", "target": {"entity_id": "cover.garage"}}, {("cover.garage", "state:open")}),
        ({"trigger": "cover.blind_closed", "target": {"entity_id": "cover.c"}}, {("cover.c", "state:closed")}),
        ({"trigger": "air_quality.smoke_detected", "entity_id": "binary_sensor.s"}, {("binary_sensor.s", "state:on")}),
        ({"trigger": "battery.became_low", "target": {"entity_id": "sensor.b"}}, {("sensor.b", "state:on")}),
        ({"trigger": "light.brightness_changed", "target": {"entity_id": "light.a"}}, {("light.a", "state:changed")}),
        ({"trigger": "lock.unlocked", "target": {"entity_id": "lock.l"}}, {("lock.l", "state:unlocked")}),
        ({"trigger": "assist_satellite.started_listening", "target": {"entity_id": "assist_satellite.s"}},
         {("assist_satellite.s", "state:other")}),
        ({"trigger": "state", "options": {"entity_id": "light.a", "to": "on"}}, {("light.a", "state:on")}),
        ({"platform": "state", "entity_id": "light.a", "to": "on", "enabled": False}, set()),
        ([{"triggers": [MOTION]}], {("binary_sensor.x", "state:on")}),
    ],
)  # fmt: skip
def test_a_trigger_is_a_device_and_its_state(trigger, expected):
    assert starts(trigger) == expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (LAMP, {("turn_on", "light.hall")}),
        ({"service": "light.turn_on", "data": {"entity_id": "light.a", "brightness": 3}},
         {("set_brightness", "light.a")}),
        ({"service": "light.turn_on", "data_template": {"entity_id": "light.a", "rgb_color": [1, 2], "brightness": 9}},
         {("set_color", "light.a")}),
        ({"service": "light.turn_on", "data": {"effect": "x"}, "target": {"entity_id": "light.a"}},
         {("set_effect", "light.a")}),
        ({"service": "homeassistant.turn_on", "entity_id": ["light.a", "scene.s", "switch.b"]},
         {("turn_on", "light.a"), ("scene_activate", "scene.s"), ("turn_on", "switch.b")}),
        ({"service": "light.turn_off", "entity_id": "all"}, {("turn_off", "light.*")}),
        ({"service": "light.turn_off", "target": {"area_id": "hall"}},
         {("turn_off", "light.hall"), ("turn_off", "light.stairs")}),
        ({"service": "light.turn_off", "target": {"floor_id": "ground"}},
         {("turn_off", "light.hall"), ("turn_off", "light.stairs")}),
        ({"service": "light.turn_off", "target": {"device_id": ["d1"]}}, {("turn_off", "light.hall")}),
        ({"service": "light.turn_off", "target": {"label_id": "night"}}, {("turn_off", "light.stairs")}),
        ({"service": "light.turn_off", "target": {"area_id": "attic"}}, {("turn_off", "light@area:attic")}),
        ({"service": "light.turn_off", "entity_id": "{{ 'light.a' if x else 'light.b' }}"},
         {("turn_off", "light.a"), ("turn_off", "light.b")}),
        ({"service": "light.turn_off", "entity_id": "{{ chosen }}"}, set()),
        ({"service": "homeassistant.turn_off", "target": {"area_id": "hall"}},
         {("turn_off", "light.hall"), ("turn_off", "light.stairs"), ("turn_off", "switch.fan")}),
        ({"service": "script.bedtime"}, {("script_run", "script.bedtime")}),
        ({"service": "script.turn_on", "entity_id": "script.bedtime"}, {("script_run", "script.bedtime")}),
        ({"service": "scene.turn_on", "entity_id": "scene.s"}, {("scene_activate", "scene.s")}),
        ({"scene": "scene.s"}, {("scene_activate", "scene.s")}),
        ({"event": "mine"}, {("fire_event", "event:mine")}),
        ({"service": "notify.phone", "data": {"message": "x"}}, {("notify", "notify.phone")}),
        ({"service": "persistent_notification.create"}, {("notify", "persistent_notification")}),
        ({"service": "tts.say", "data": {"entity_id": "media_player.m"}}, {("speak", "media_player.m")}),
        ({"service": "tts.speak", "target": {"entity_id": "tts.t"},
          "data": {"media_player_entity_id": "media_player.m"}}, {("speak", "media_player.m")}),
        ({"service": "cover.open_cover", "entity_id": "cover.c"}, {("open", "cover.c")}),
        ({"service": "media_player.media_pause", "entity_id": "media_player.m"}, {("pause", "media_player.m")}),
        ({"service": "input_datetime.set_datetime", "entity_id": "input_datetime.d"},
         {("set_value", "input_datetime.d")}),
        ({"service": "shell_command.backup"}, {("run", "shell_command.backup")}),
        ({"service": "mqtt.publish", "data": {"topic": "a/b"}}, {("publish", "mqtt:a/b")}),
        ({"service": "homeassistant.restart"}, {("restart", "system")}),
        ({"service": "my_integration.dance", "data": {"entity_id": "light.a"}}, {("other", "light.a")}),
        ({"service": "my_integration.dance"}, {("other", "my_integration")}),
        ({"domain": "light", "type": "turn_on", "device_id": "d1", "entity_id": "a" * 32, "brightness_pct": 5},
         {("set_brightness", "light.hall")}),
        ({"domain": "light", "type": "toggle", "device_id": "d1"}, {("toggle", "light.hall")}),
        ({"domain": "alarm_control_panel", "type": "arm_away", "device_id": "d", "entity_id": "alarm_control_panel.a"},
         {("arm_away", "alarm_control_panel.a")}),
        ({"domain": "mobile_app", "type": "notify", "device_id": "d9"}, {("notify", "notify@device:d9")}),
        ({"service_template": "{% if x %} light.turn_on {% else %} light.turn_off {% endif %}", "entity_id": "light.a"},
         {("turn_on", "light.a"), ("turn_off", "light.a")}),
        ({"service": "{{ 'light.turn_on' if is_state('sun.sun', 'x') else 'switch.turn_on' }}", "entity_id": "light.a"},
         {("turn_on", "light.a")}),
        ({"repeat": {"count": 2, "sequence": LAMP}}, {("turn_on", "light.hall")}),
        ({"parallel": [LAMP, {"sequence": [{"scene": "scene.s"}]}]},
         {("turn_on", "light.hall"), ("scene_activate", "scene.s")}),
        ({"sequence": [LAMP]}, {("turn_on", "light.hall")}),
        ([{"stop": "done"}, LAMP], set()),
        ({**LAMP, "enabled": False}, set()),
        ({"delay": 5}, set()),
    ],
)  # fmt: skip
def test_a_step_is_an_action_of_a_device(action, expected):
    assert effects(action) == expected


def test_a_service_that_follows_its_trigger_gives_one_rule_for_each_state():
    follow = {"service": "switch.turn_{{ trigger.to_state.state }}", "entity_id": "switch.fan"}
    assert whole({"trigger": {"platform": "state", "entity_id": "switch.a"}, "action": follow}) == [
        ("switch.a", "state:on", "turn_on", "switch.fan"),
        ("switch.a", "state:off", "turn_off", "switch.fan"),
    ]


TWO = [{**MOTION, "id": "on"}, {**MOTION, "to": "off", "id": "off"}]
ON, OFF = ("binary_sensor.x", "state:on"), ("binary_sensor.x", "state:off")


@pytest.mark.parametrize(
    ("condition", "then", "otherwise"),
    [
        ({"condition": "trigger", "id": "on"}, {ON}, {OFF}),
        ({"condition": "trigger", "id": ["on", "off"]}, {ON, OFF}, set()),
        ([{"condition": "trigger", "id": "on"}, {"condition": "state", "entity_id": "light.a", "state": "on"}],
         {ON}, {ON, OFF}),
        ({"condition": "or", "conditions": [{"condition": "trigger", "id": "on"}]}, {ON}, {OFF}),
        ({"or": [{"condition": "trigger", "id": "on"}, {"condition": "sun", "after": "sunset"}]}, {ON, OFF}, {OFF}),
        ({"condition": "not", "conditions": [{"condition": "trigger", "id": "on"}]}, {OFF}, {ON}),
        ("{{ trigger.id == 'on' }}", {ON}, {OFF}),
        ("{{ trigger.id in ['on', 'off'] }}", {ON, OFF}, set()),
        ("{{ trigger.id == 'on' and is_state('light.a', 'on') }}", {ON}, {ON, OFF}),
        ("{{ trigger.id == 'on' or is_state('light.a', 'on') }}", {ON, OFF}, {OFF}),
        ("{{ trigger.id == 'on' and states('light.a') not in ['unknown', 'off'] }}", {ON}, {ON, OFF}),
        ("{{ not is_state('light.a', 'on') and (trigger.id == 'off') }}", {OFF}, {ON, OFF}),
        ("{{ trigger.id != 'on' }}", {OFF}, {ON}),
        ("{{- trigger.id not in ('on', 'other') -}}", {OFF}, {ON}),
        ("{{ not trigger.id == 'on' }}", {OFF}, {ON}),
        ("{{ 'on' == trigger.id }}", {ON}, {OFF}),
        ("{{ (trigger.id == 'on') or (trigger.id == 'off') }}", {ON, OFF}, set()),
        ("{{ trigger.id == 'on' or trigger.id == 'off' and is_state('sun.sun', 'up') }}", {ON, OFF}, {OFF}),
        ("{{ not (trigger.id == 'on' and is_state('light.a', 'on')) }}", {ON, OFF}, {ON}),
        ("{{ true if trigger.id == 'on' else is_state('light.a', 'on') }}", {ON}, {ON, OFF}),
        ({"condition": "template", "value_template": "{{ trigger.id == 'on' }}"}, {ON}, {OFF}),
        ({"condition": "trigger", "id": "on", "enabled": False}, {ON, OFF}, {ON, OFF}),
        ({"condition": "state", "entity_id": "light.a", "state": "on"}, {ON, OFF}, {ON, OFF}),
        ({"condition": "state", "entity_id": "binary_sensor.x", "state": "on"}, {ON}, {OFF}),
        ({"condition": "state", "entity_id": "binary_sensor.x", "state": ["on", "unavailable"]}, {ON}, {OFF}),
        ({"condition": "state", "entity_id": "binary_sensor.x", "state": "on", "for": 300}, {ON, OFF}, {ON, OFF}),
        ({"condition": "state", "entity_id": "binary_sensor.x", "state": "{{ x }}"}, {ON, OFF}, {ON, OFF}),
        ("{{ is_state('binary_sensor.x', 'off') }}", {OFF}, {ON}),
        ("{{ states('binary_sensor.x') == 'off' }}", {OFF}, {ON}),
        ("{{ trigger.to_state.state == 'on' }}", {ON}, {OFF}),
        ("{{ trigger.to_state.state in ['off', 'unavailable'] }}", {OFF}, {ON}),
        ("{{ trigger.to_state.state != 'on' }}", {OFF}, {ON}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["if", "choose"])
def test_a_branch_belongs_to_the_triggers_that_its_condition_names(condition, then, otherwise, kind):
    other = {"service": "light.turn_off", "entity_id": "light.hall"}
    branch = (
        {"if": condition, "then": LAMP, "else": other}
        if kind == "if"
        else {"choose": [{"conditions": condition, "sequence": LAMP}], "default": other}
    )
    rules = outcome({"trigger": TWO, "action": branch}).rules
    assert {(r.trigger, r.trigger_state) for r in rules if r.action == "turn_on"} == then
    assert {(r.trigger, r.trigger_state) for r in rules if r.action == "turn_off"} == otherwise


def test_a_branch_tells_the_state_of_a_trigger_without_one():
    changed = {"platform": "state", "entity_id": "binary_sensor.x"}
    is_on = {"condition": "state", "entity_id": "binary_sensor.x", "state": "on"}
    off = {"service": "light.turn_off", "entity_id": "light.hall"}
    expected = [(*ON, "turn_on", "light.hall"), (*OFF, "turn_off", "light.hall")]
    assert whole({"trigger": changed, "action": {"if": is_on, "then": LAMP, "else": off}}) == expected
    options = [{"conditions": is_on, "sequence": LAMP}, {"conditions": {**is_on, "state": "off"}, "sequence": off}]
    assert whole({"trigger": changed, "action": {"choose": options, "default": {"scene": "scene.never"}}}) == expected


def test_a_state_is_not_that_of_the_trigger_after_waiting():
    is_off = {"condition": "state", "entity_id": "binary_sensor.x", "state": "off"}
    off = {"service": "light.turn_off", "entity_id": "light.hall"}
    steps = [LAMP, {"delay": 60}, {"if": is_off, "then": off}]
    assert whole({"trigger": MOTION, "action": steps}) == [
        (*ON, "turn_on", "light.hall"),
        (*ON, "turn_off", "light.hall"),
    ]
    options = [{"conditions": {"condition": "trigger", "id": "a"}, "sequence": [{"delay": 60}, LAMP]}]
    options += [{"conditions": is_off, "sequence": off}]  # the one above waits, this one does not
    assert whole({"trigger": TWO, "action": {"choose": options}}) == [(*OFF, "turn_off", "light.hall")]


def test_a_condition_that_no_trigger_meets_is_left_out_of_account():
    never = {"condition": "state", "entity_id": "binary_sensor.x", "state": "off"}
    assert whole({"trigger": MOTION, "condition": never, "action": LAMP}) == [(*ON, "turn_on", "light.hall")]


# A condition as text of Jinja, as a mapping of Home Assistant, and as a function of what is true.
ATOMS = st.sampled_from(["trigger.id == 'on'", "trigger.id != 'off'", "is_state('binary_sensor.x', 'off')", "unknown"])
CONDITIONS = st.recursive(
    ATOMS.map(lambda atom: (atom,)),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    ),
    max_leaves=6,
)


def as_template(node, names) -> str:
    if len(node) == 1:
        return f"is_state('light.{next(names)}', 'on')" if node[0] == "unknown" else node[0]
    if node[0] == "not":
        return f"not ({as_template(node[1], names)})"
    return f"({as_template(node[1], names)} {node[0]} {as_template(node[2], names)})"


def as_mapping(node, names) -> object:
    if len(node) == 1:
        return f"{{{{ {as_template(node, names)} }}}}"
    return {"condition": node[0], "conditions": [as_mapping(each, names) for each in node[1:]]}


def holds(node, trigger: str, truths) -> bool:
    if len(node) == 1:
        return next(truths) if node[0] == "unknown" else (trigger == "on") == ("trigger.id" in node[0])
    parts = [holds(each, trigger, truths) for each in node[1:]]
    return not parts[0] if node[0] == "not" else all(parts) if node[0] == "and" else any(parts)


@given(CONDITIONS, st.booleans())
def test_a_branch_is_entered_at_the_triggers_at_which_its_condition_can_hold(node, in_jinja):
    def leaves(part) -> int:
        return int(part == ("unknown",)) if len(part) == 1 else sum(map(leaves, part[1:]))

    names = (f"l{number}" for number in count())
    condition = f"{{{{ {as_template(node, names)} }}}}" if in_jinja else as_mapping(node, names)
    other = {"service": "light.turn_off", "entity_id": "light.hall"}
    rules = outcome({"trigger": TWO, "action": {"if": condition, "then": LAMP, "else": other}}).rules
    for action, wanted in (("turn_on", True), ("turn_off", False)):
        possible = {
            cause
            for trigger, cause in (("on", ON), ("off", OFF))
            for truths in product([True, False], repeat=leaves(node))
            if holds(node, trigger, iter(truths)) is wanted
        }
        assert {(rule.trigger, rule.trigger_state) for rule in rules if rule.action == action} == possible


# Steps with stops and conditions among them, and what they do when they are run, with a truth for each unknown.
STEPS = st.recursive(
    st.lists(
        st.one_of(
            st.just(("call",)),
            st.just(("stop",)),
            st.just(("stop off",)),
            CONDITIONS.map(lambda node: ("condition", node)),
        ),
        max_size=3,
    ),
    lambda inner: st.lists(
        st.one_of(
            st.just(("call",)),
            st.tuples(st.just("if"), CONDITIONS, inner, inner),
            st.tuples(st.just("choose"), CONDITIONS, inner, CONDITIONS, inner, inner),
            st.tuples(st.just("sequence"), inner),
            st.tuples(st.just("list"), inner),
        ),
        max_size=4,
    ),
    max_leaves=4,
)


class Stop(Exception):
    """A run ends."""


def as_steps(steps, calls, names) -> list[object]:
    def condition(node) -> str:
        return f"{{{{ {as_template(node, names)} }}}}"

    def one(kind, *parts) -> object:
        if kind == "call":
            return {"service": "light.turn_on", "entity_id": f"light.n{next(calls)}"}
        if kind.startswith("stop"):
            return {"stop": "", "enabled": kind == "stop"}
        if kind == "condition":
            return condition(parts[0])
        if kind == "if":
            return {
                "if": condition(parts[0]),
                "then": as_steps(parts[1], calls, names),
                "else": as_steps(parts[2], calls, names),
            }
        if kind == "choose":
            options = [
                {"conditions": condition(node), "sequence": as_steps(inner, calls, names)}
                for node, inner in (parts[:2], parts[2:4])
            ]
            return {"choose": options, "default": as_steps(parts[4], calls, names)}
        inner = as_steps(parts[0], calls, names)
        return inner if kind == "list" else {"sequence": inner}

    return [one(*step) for step in steps]


def run(steps, calls, holds_now) -> Iterator[int]:
    """The numbers of the calls that are made; those that are not entered are counted too."""

    def counted(inner) -> int:
        parts = [part for step in inner for part in step[1:] if isinstance(part, list)]
        return sum(step == ("call",) for step in inner) + sum(map(counted, parts))

    start = next(calls)
    going = True
    for kind, *parts in steps:
        if kind == "call":
            if going:
                yield start
            start += 1
        elif kind == "stop" and going:
            raise Stop
        elif kind == "condition":
            going = going and holds_now(parts[0])
        else:
            taken = False
            for at, part in enumerate(parts):
                if not isinstance(part, list):
                    continue
                guard = parts[at - 1] if at and not isinstance(parts[at - 1], list) else None
                entered = going and not taken and (guard is None or holds_now(guard))
                taken = taken or entered
                if entered:
                    yield from run(part, count(start), holds_now)
                start += counted(part)


LEFT = ("condition", ("unknown",))  # by a condition: it ends the sequence around it only


@settings(deadline=None)
@given(STEPS)
@example([("sequence", [LEFT, ("stop",)]), ("call",)])
@example([("sequence", [LEFT, ("if", ("trigger.id == 'on'",), [("stop",)], [])]), ("call",)])
def test_steps_are_reached_at_the_triggers_at_which_a_run_can_reach_them(steps):
    def unknowns(part) -> int:
        if part == ("unknown",):
            return 1
        return sum(map(unknowns, part)) if isinstance(part, (list, tuple)) else 0

    assume(unknowns(steps) <= 6)
    possible = set()
    for (trigger, cause), truths in product((("on", ON), ("off", OFF)), product([True, False], repeat=unknowns(steps))):
        left = iter(truths)
        with suppress(Stop):
            # An unknown is asked at most once in a run, so it does not matter which of the truths it gets.
            for number in run(steps, count(), lambda node, trigger=trigger, left=left: holds(node, trigger, left)):
                possible.add((*cause, "turn_on", f"light.n{number}"))
    written = as_steps(steps, count(), (f"l{number}" for number in count()))
    assert set(whole({"trigger": TWO, "action": written})) == possible


def test_a_branch_that_stops_keeps_its_triggers_from_what_follows():
    off = {"service": "light.turn_off", "entity_id": "light.hall"}
    first = {"if": {"condition": "trigger", "id": "on"}, "then": [LAMP, {"stop": "done"}]}
    expected = [(*ON, "turn_on", "light.hall"), (*OFF, "turn_off", "light.hall")]
    assert whole({"trigger": TWO, "action": [first, off]}) == expected
    changed = {"platform": "state", "entity_id": "binary_sensor.x"}
    is_on = {"condition": "state", "entity_id": "binary_sensor.x", "state": "on"}
    assert whole({"trigger": changed, "action": [{**first, "if": is_on}, off]}) == expected
    in_loop = {"repeat": {"count": 2, "sequence": first}}
    assert whole({"trigger": TWO, "action": [in_loop, off]}) == expected
    beside = {"parallel": [first, {"scene": "scene.s"}]}
    assert [rule[:3] for rule in whole({"trigger": TWO, "action": [beside, off]})] == [
        (*ON, "turn_on"),
        (*ON, "scene_activate"),
        (*OFF, "scene_activate"),
        (*OFF, "turn_off"),
    ]


def test_a_loop_that_may_not_be_entered_stops_nothing_for_certain():
    loop = {"repeat": {"while": [], "sequence": [{"stop": "done"}]}}
    assert whole({"trigger": MOTION, "action": [loop, LAMP]}) == [(*ON, "turn_on", "light.hall")]


@pytest.mark.parametrize("kind", ["if", "choose", "sequence", "parallel"])
def test_the_variables_of_a_branch_end_with_it(kind):
    step = {"service": "light.turn_on", "entity_id": "{{ lamp }}"}
    first = [{"variables": {"lamp": "light.first"}}, step]
    branch = {
        "if": {"if": {"condition": "trigger", "id": "on"}, "then": first, "else": step},
        "choose": {
            "choose": [{"conditions": {"condition": "trigger", "id": "on"}, "sequence": first}],
            "default": step,
        },
        "sequence": [{"sequence": first}, step],
        "parallel": {"parallel": [{"sequence": first}, step]},
    }[kind]
    rules = whole({"trigger": TWO, "variables": {"lamp": "light.outer"}, "action": branch})
    assert {device for *start, _, device in rules if tuple(start) == OFF} == (
        {"light.outer"} if kind in ("if", "choose") else {"light.first", "light.outer"}
    )


def test_a_condition_between_steps_narrows_only_the_steps_after_it():
    steps = [LAMP, {"condition": "trigger", "id": "off"}, {"scene": "scene.s"}]
    assert whole({"trigger": TWO, "action": steps}) == [
        (*ON, "turn_on", "light.hall"),
        (*OFF, "turn_on", "light.hall"),
        (*OFF, "scene_activate", "scene.s"),
    ]


def test_triggers_without_an_id_are_counted_from_0():
    triggers = [MOTION, {**MOTION, "to": "off"}]
    assert whole({"trigger": triggers, "condition": {"condition": "trigger", "id": "1"}, "action": LAMP}) == [
        (*OFF, "turn_on", "light.hall")
    ]


def test_after_waiting_for_a_trigger_that_one_acts():
    off = {"service": "light.turn_off", "entity_id": "light.hall"}
    steps = [LAMP, {"wait_for_trigger": {**MOTION, "to": "off"}}, off]
    assert whole({"trigger": MOTION, "action": steps}) == [
        (*ON, "turn_on", "light.hall"),
        (*OFF, "turn_off", "light.hall"),
    ]


LAMPS = [{"platform": "state", "entity_id": ["light.a", "light.b", "switch.c", "binary_sensor.x"], "to": "on"}]


@pytest.mark.parametrize(
    ("service", "acted_on"),
    [("light", ["light.a", "light.b"]), ("homeassistant", ["light.a", "light.b", "switch.c"]), ("fan", [])],
)
@pytest.mark.parametrize("template", ["{{ trigger.entity_id }}", ["{{trigger.to_state.entity_id}}"]])
def test_a_step_may_act_on_the_entity_that_triggered(service, acted_on, template):
    step = {"action": f"{service}.turn_off", "target": {"entity_id": template}}
    found = outcome({"trigger": LAMPS, "action": step})
    assert [tuple(rule) for rule in found.rules] == [(each, "state:on", "turn_off", each) for each in acted_on]
    assert found.reason == ("" if acted_on else "a template chooses the entity")


@pytest.mark.parametrize(
    "variables",
    [
        {"lamp": "light.hall"},
        {"lamp": ["light.hall"]},
        {"kind": "light", "where": "hall", "lamp": "{{ kind ~ '.' ~ where }}"},
        {"kind": "light", "where": "hall", "lamp": "{{ kind }}.{{ where }}"},
        {"lamp": "{{ 'light.hall' if is_state('sun.sun', 'up') else 'none' }}"},
    ],
)
@pytest.mark.parametrize("of_the_automation", [True, False])
def test_the_values_of_variables_are_put_in(variables, of_the_automation):
    call = {"action": "light.turn_on", "target": {"entity_id": "{{ lamp }}"}}
    config = (
        {"variables": variables, "action": call} if of_the_automation else {"action": [{"variables": variables}, call]}
    )
    assert whole({"trigger": MOTION, **config}) == [(*ON, "turn_on", "light.hall")]


@pytest.mark.parametrize(
    ("template", "lamps"),
    [
        ("{{ states.light | selectattr('state', 'eq', 'on') | map(attribute='entity_id') | list }}", {"light.*"}),
        ("{{ states.light | rejectattr('entity_id', 'in', ['light.a']) | list }}", {"light.*"}),
        ("{{ states.light | selectattr('entity_id', 'in', ['light.a', 'light.b']) }}", {"light.a", "light.b"}),
        ("{{ 'light.a' if states.light.b.state == 'on' else 'light.b' }}", {"light.a", "light.b"}),
        ("{{ states.switch | list }}", set()),
    ],
)
def test_a_template_that_goes_through_all_lamps_acts_on_all(template, lamps):
    call = {"action": "light.turn_off", "target": {"entity_id": template}}
    assert effects(call) == {("turn_off", lamp) for lamp in lamps}


def test_an_event_that_says_which_device_was_pressed_is_of_a_remote_control():
    event = {"platform": "event", "event_type": "my_bridge"}
    assert starts([{**event, "event_data": {"device": each, "action": "double"}} for each in ("attic", "cellar")]) == {
        ("event:my_bridge:attic", "event:other"),
        ("event:my_bridge:cellar", "event:other"),
    }
    assert starts({**event, "event_data": {"device": "attic"}}) == {("event:my_bridge", "event:other")}
    assert starts({**event, "event_data": {"action": "double"}}) == {("event:my_bridge", "event:other")}


def test_the_event_that_a_state_changed_is_a_change_of_its_entity():
    changed = {"platform": "event", "event_type": "state_changed"}
    assert starts({**changed, "event_data": {"entity_id": "light.a"}}) == {("light.a", "state:changed")}
    assert starts(changed) == {("event:state_changed", "event:state_changed")}


def test_variables_of_triggers_tell_remote_controls_apart():
    def topic(name: str) -> set[tuple[str, str]]:
        base = {"base": "zigbee2mqtt", "name": name}
        trigger = {"platform": "mqtt", "topic": "{{ base ~ '/' ~ name }}"}
        found = outcome({"trigger_variables": base, "trigger": trigger, "action": LAMP})
        return {(rule.trigger, rule.trigger_state) for rule in found.rules}

    assert topic("Attic remote") == {("mqtt:zigbee2mqtt/Attic remote", "mqtt")}
    assert topic("Cellar remote") == {("mqtt:zigbee2mqtt/Cellar remote", "mqtt")}


def test_a_loop_acts_on_each_item_that_it_goes_through():
    call = {"action": "light.turn_on", "target": {"entity_id": "{{ repeat.item }}"}}
    part = {"action": "light.turn_on", "target": {"entity_id": "{{ repeat.item.lamp }}"}}
    assert effects({"repeat": {"for_each": ["light.a", "light.b"], "sequence": call}}) == {
        ("turn_on", "light.a"),
        ("turn_on", "light.b"),
    }
    assert effects({"repeat": {"for_each": [{"lamp": "light.a"}], "sequence": part}}) == {("turn_on", "light.a")}
    assert effects([{"repeat": {"for_each": ["light.a"], "sequence": LAMP}}, call]) == {("turn_on", "light.hall")}


def test_variables_that_contain_each_other_many_times_end():
    # 10 values, each ten times the one before: 10 ** 10 lamps in all
    lists = {f"v{n}": [f"{{{{ v{n - 1} }}}}"] * 10 for n in range(1, 11)}
    texts = {f"t{n}": f"{{{{ t{n - 1} ~ t{n - 1} }}}}" for n in range(1, 60)}
    call = {"action": "light.turn_on", "target": {"entity_id": ["{{ v10 }}", "{{ t59 }}", "light.hall"]}}
    variables = {"v0": "light.a", **lists, "t0": "light.b", **texts}
    assert (*ON, "turn_on", "light.hall") in whole({"trigger": MOTION, "variables": variables, "action": call})


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"action": LAMP}, "it has no trigger"),
        ({"trigger": MOTION, "action": {"delay": 5}}, "it does nothing to a device"),
        ({"trigger": {"platform": "unheard_of"}, "action": LAMP}, "the trigger unheard_of is not known"),
        ({"trigger": {**MOTION, "enabled": False}, "action": LAMP}, "a trigger is switched off"),
        ({"trigger": MOTION, "action": {"service": "light.turn_on", "entity_id": "{{ x }}"}},
         "a template chooses the entity"),
        ({"trigger": MOTION, "action": {"service": "{{ x }}"}}, "a template or a secret chooses the service"),
        ({"trigger": MOTION, "action": {"service": "light.turn_on"}}, "a service without a target"),
    ],
)  # fmt: skip
def test_an_automation_without_a_rule_says_why(config, reason):
    found = outcome(config)
    assert found.rules == ()
    assert found.reason == reason


def test_webhooks_and_tags_are_devices_without_their_ids():
    found = starts([{"platform": "webhook", "webhook_id": "hunter2"}, {"platform": "tag", "tag_id": "hunter3"}])
    assert {state for _, state in found} == {"webhook", "tag"}
    assert "hunter" not in repr(found)


ENTITY = st.sampled_from(["light.a", "light.b", "binary_sensor.motion", "switch.c"])
OLD_TRIGGER = st.one_of(
    st.builds(lambda e, to: {"platform": "state", "entity_id": e, "to": to}, ENTITY, st.sampled_from(["on", "off"])),
    st.builds(lambda e: {"platform": "numeric_state", "entity_id": e, "above": 5}, ENTITY),
    st.just({"platform": "sun", "event": "sunset"}),
    st.just({"platform": "time", "at": "07:00:00"}),
)
CALL = st.builds(
    lambda e, s, d: {"service": f"light.{s}", "entity_id": e, "data": d},
    st.lists(ENTITY, min_size=1, max_size=2),
    st.sampled_from(["turn_on", "turn_off", "toggle"]),
    st.sampled_from([{}, {"brightness": 3}, {"rgb_color": [1, 2, 3]}]),
)
OLD_STEP = st.recursive(
    CALL,
    lambda inner: st.one_of(
        st.builds(lambda s: {"repeat": {"count": 2, "sequence": s}}, st.lists(inner, max_size=2)),
        st.builds(
            lambda s, i: {"choose": [{"conditions": [{"condition": "trigger", "id": i}], "sequence": s}], "default": s},
            st.lists(inner, max_size=2),
            st.sampled_from(["0", "1"]),
        ),
    ),
    max_leaves=4,
)


def new_spelling(value: object) -> object:
    """The same in the words of 2024.10 and later: trigger for platform, action for service, target for entity_id."""
    if isinstance(value, list):
        return [new_spelling(each) for each in value]
    if not isinstance(value, dict):
        return value
    value = {key: new_spelling(each) for key, each in value.items()}
    if "platform" in value:
        value["trigger"] = value.pop("platform")
    if "service" in value:
        value["action"] = value.pop("service")
        value["target"] = {"entity_id": value.pop("entity_id")}
    return value


@given(triggers=st.lists(OLD_TRIGGER, min_size=1, max_size=3), steps=st.lists(OLD_STEP, min_size=1, max_size=3))
def test_old_and_new_spellings_give_the_same_rules(triggers, steps):
    old = whole({"trigger": triggers, "condition": [], "action": steps})
    new = whole({"triggers": new_spelling(triggers), "conditions": [], "actions": new_spelling(steps)})
    assert old == new


WORDS = """
trigger triggers platform action actions service entity_id target choose if then else default conditions condition
sequence repeat parallel wait_for_trigger device_id domain type id to at event event_type event_data data or and not
options topic tag_id enabled variables area_id label_id stop scene webhook_id value_template
"""
KEYS = WORDS.split()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["on", "light.a", "{{ x }}", "state", "all", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(config=st.dictionaries(st.sampled_from(["trigger", "triggers", "action", "actions", "condition"]), JSON))
def test_no_configuration_makes_the_translation_fail(config):
    found = outcome(config)
    assert bool(found.rules) != bool(found.reason)
    json.dumps([list(rule) for rule in found.rules])


def test_the_rules_of_an_automation_are_bounded():
    triggers = [{**MOTION, "entity_id": f"light.t{n}"} for n in range(300)]
    actions = [{**LAMP, "entity_id": f"light.a{n}"} for n in range(300)]
    assert len(outcome({"trigger": triggers, "action": actions}).rules) == 5_000  # of 90,000


def test_steps_nested_without_end_are_cut_off():
    step: object = LAMP
    for _ in range(500):
        step = {"choose": [{"conditions": [], "sequence": [step]}]}
    assert outcome({"trigger": MOTION, "action": step}).rules == ()
