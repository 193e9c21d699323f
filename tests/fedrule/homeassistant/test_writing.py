"""Rules written as automations: the same rule when read again, only what devices can do, guesses and warnings said."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrule.homeassistant import Entity, Installation, InstalledHome, read_folder, read_home, read_live
from fedrule.homeassistant.home import HomeDevice
from fedrule.homeassistant.installation import Automation, RegisteredDevice, Script, items, mapping
from fedrule.homeassistant.translation.devices import Devices
from fedrule.homeassistant.translation.rules import AutomationRule, Outcome, read_automation
from fedrule.homeassistant.translation.vocabulary import action_word, vocabulary
from fedrule.homeassistant.writing.automation import AutomationWriter, NotWritable, WrittenAutomation, to_yaml
from fedrule.homeassistant.writing.tables import tables
from tests.support.home_assistant import DEMO_HOME
from tests.support.home_assistant_proof import shape, trigger_states, written_rules
from tests.support.websocket_server import TOKEN, RecordedServer, serving

VALID = Path(__file__).with_name("valid_parts.json")
MOTION = "binary_sensor.motion"
DOMAINS = sorted(vocabulary().entity_domains)
ALL_FEATURES = 2**24 - 1


def home_of(*entities: Entity, version: str = "2024.3.3", live: bool = True, **more: object) -> InstalledHome:
    """A home with a motion sensor, a lamp, and these."""
    every = [Entity(MOTION, name="Hall", device_class="motion"), Entity("light.lamp", name="Lamp"), *entities]
    installation = Installation(
        "test",
        version=version,
        entities={e.entity_id: e for e in every},
        live=live,
        **more,  # type: ignore[arg-type]
    )
    return read_home(installation)


def write(home: InstalledHome, rule: tuple[str, str, str, str], **options: str) -> WrittenAutomation | NotWritable:
    more = {"text": "When *Hall* sees movement, turn on *Lamp*", "why": "many have it", **options}
    return AutomationWriter(home).write(AutomationRule(*rule), **more)  # type: ignore[arg-type]


def done(home: InstalledHome, rule: tuple[str, str, str, str]) -> WrittenAutomation:
    written = write(home, rule)
    assert isinstance(written, WrittenAutomation), written
    return written


def trigger_of(home: InstalledHome, device: str, state: str) -> Mapping[str, object]:
    (trigger,) = items(done(home, (device, state, "turn_on", "light.lamp")).config["trigger"])
    return mapping(trigger)


def action_of(home: InstalledHome, action: str, device: str) -> Mapping[str, object]:
    (step,) = items(done(home, (MOTION, "state:on", action, device)).config["action"])
    return mapping(step)


def refused(home: InstalledHome, rule: tuple[str, str, str, str]) -> str:
    written = write(home, rule)
    assert isinstance(written, NotWritable)
    return written.reason


def rich(domain: str, name: str = "thing") -> Entity:
    """An entity that can do everything that its domain can."""
    return Entity(
        f"{domain}.{name}",
        name="Thing",
        features=ALL_FEATURES,
        color_modes=("color_temp", "hs"),
        options=("away", "Home", "night"),
        members=("light.lamp",) if domain == "group" else (),
        unit="%" if domain == "sensor" else "",
        capabilities={
            "effect_list": ["none", "rainbow"],
            **{key: ["away", "home"] for key in ("hvac_modes", "preset_modes", "fan_modes", "swing_modes")},
            **{key: ["one", "two"] for key in ("available_modes", "operation_list", "fan_speed_list")},
            **{key: ["one", "two"] for key in ("source_list", "sound_mode_list")},
            **{"min": 0, "max": 10, "min_temp": 7, "max_temp": 35, "has_time": True, "has_date": False},
        },
    )


EVERYTHING = home_of(
    *(rich(domain) for domain in DOMAINS),
    Entity("sensor.when", device_class="timestamp"),
    Entity("sun.sun"),
    Entity("zone.home"),
    Entity("notify.phone"),
    Entity("tts.voice"),
    Entity("group.people", members=("person.thing",)),
    devices={"d1": RegisteredDevice("d1", "Phone")},
)
OTHERS = ("clock", "system", "template", "conversation", "hassio", "persistent_notification", "telegram_bot")
OTHERS += ("mqtt:a/b", "event:automation_reloaded", "event:mine", "device:d1", "webhook:0123", "tag:0123")
OTHERS += (
    "notify@device:d1",
    "notify.nobody",
    "shell_command.x",
    "light.*",
    "media_player.*",
    "light@area:attic",
    "group",
    "tts",
    "",
)
OFFLINE = dataclasses.replace(
    EVERYTHING,
    installation=dataclasses.replace(EVERYTHING.installation, live=False),
    devices=(*EVERYTHING.devices, HomeDevice("shell_command.x", "ShellCommand"), HomeDevice("notify.nobody", "x")),
)
IDS = [*EVERYTHING.installation.entities, *OTHERS]


def read_back(home: InstalledHome, written: WrittenAutomation) -> tuple[AutomationRule, ...]:
    return read_automation(Automation(written.config, "test"), Devices(home.installation)).rules


def recorded_home() -> InstalledHome:
    with serving(RecordedServer()) as server:
        return read_home(read_live(server.address, TOKEN))


def test_every_trigger_that_is_written_is_read_as_the_same_rule():
    writer = AutomationWriter(EVERYTHING)
    kinds = set()
    for id_ in IDS:
        for state in trigger_states():
            rule = AutomationRule(id_, state, "turn_on", "switch.thing")
            written = writer.write(rule, text="", why="")
            if isinstance(written, WrittenAutomation):
                assert read_back(EVERYTHING, written) == (rule,)
                kinds.add(state.partition(":")[0])
    assert kinds == {"state", "numeric", "sun", "time", "zone", "homeassistant", "calendar", "event", "notification"}


@pytest.mark.parametrize("home", [EVERYTHING, OFFLINE], ids=["live", "offline"])
def test_every_action_that_is_written_is_read_as_the_same_rule(home):
    writer = AutomationWriter(home)
    seen = set()
    for id_ in IDS:
        for action in sorted(vocabulary().actions):
            rule = AutomationRule(MOTION, "state:on", action, id_)
            written = writer.write(rule, text="", why="")
            if isinstance(written, WrittenAutomation):
                assert read_back(home, written) == (rule,)
                seen.add(action)
    assert {action_word(*service.split(".")) for service in tables().services} <= seen
    assert {"set_brightness", "set_color", "set_effect", "notify", "speak", "restart", "fire_event", "dismiss"} <= seen


def test_the_new_spelling_is_read_as_the_same_rule():
    home = home_of(version="2025.4.4")
    rule = (MOTION, "state:on", "turn_on", "light.lamp")
    config = done(home, rule).config
    assert list(config) == ["id", "alias", "description", "triggers", "conditions", "actions", "mode"]
    assert config["triggers"] == [{"trigger": "state", "entity_id": MOTION, "to": "on"}]
    assert config["actions"] == [{"action": "light.turn_on", "target": {"entity_id": "light.lamp"}}]
    assert read_back(home, done(home, rule)) == (AutomationRule(*rule),)


@pytest.mark.parametrize(("version", "key"), [("2024.9.3", "trigger"), ("", "trigger"), ("2024.10.0", "triggers")])
def test_the_spelling_is_that_of_the_version(version, key):
    assert key in done(home_of(version=version), (MOTION, "state:on", "turn_on", "light.lamp")).config


def test_parts_that_a_real_server_validated_are_still_the_ones_that_are_written():
    # valid_parts.json: what Home Assistant 2024.3.3 found valid, entities by their domain only (record_demo_home).
    valid = {kind: set(parts) for kind, parts in json.loads(VALID.read_text("utf-8")).items()}
    rules = written_rules(recorded_home())
    assert len(rules) > 500
    for written in rules.values():
        assert shape(written.config["trigger"]) in valid["trigger"]
        assert shape(written.config["action"]) in valid["action"]


# What devices can do.


def test_an_on_off_lamp_is_not_dimmed_and_a_white_one_has_no_colours():
    home = home_of(
        Entity("light.plain", color_modes=("onoff",)),
        Entity("light.dim", color_modes=("brightness",)),
        Entity("light.colour", color_modes=("rgb",)),
    )
    assert "cannot be dimmed" in refused(home, (MOTION, "state:on", "set_brightness", "light.plain"))
    assert action_of(home, "set_brightness", "light.dim")["data"] == {"brightness_pct": 50}
    assert "no colours" in refused(home, (MOTION, "state:on", "set_color", "light.dim"))
    assert action_of(home, "set_color", "light.colour")["data"] == {"rgb_color": [255, 183, 107]}


@pytest.mark.parametrize(
    ("entity", "action"),
    [
        (Entity("cover.x", features=2), "open"),
        (Entity("alarm_control_panel.x", features=2), "arm_home"),
        (Entity("media_player.x", features=1), "volume_set"),
        (Entity("vacuum.x", features=0), "start"),
        (Entity("lock.x"), "open"),
        (Entity("climate.x", features=1), "turn_off"),
        (Entity("switch.x"), "set_brightness"),
        (Entity("sensor.x"), "turn_on"),
        (Entity("scene.x"), "turn_off"),
        (Entity("group.x", members=("light.lamp", "sensor.t")), "set_brightness"),
        (Entity("group.x", members=("person.a",)), "turn_on"),
    ],
    ids=str,
)  # fmt: skip
def test_what_an_entity_does_not_support_is_not_written(entity, action):
    assert refused(home_of(entity), (MOTION, "state:on", action, entity.entity_id))


def test_what_a_running_server_says_of_its_services_counts():
    about = {"target": {"entity": [{"supported_features": [64]}]}, "fields": {}}
    services = {"light": {"turn_on": {}, "turn_off": about}, "notify": {"phone": {}}}
    home = home_of(services=services)
    assert done(home, (MOTION, "state:on", "turn_on", "light.lamp"))
    assert "does not support" in refused(home, (MOTION, "state:on", "turn_off", "light.lamp"))
    assert "no service light.toggle" in refused(home, (MOTION, "state:on", "toggle", "light.lamp"))
    assert done(home, (MOTION, "state:on", "notify", "notify.phone"))
    assert "no service" in refused(home, (MOTION, "state:on", "notify", "notify.tablet"))


@pytest.mark.parametrize(
    ("entity", "state"),
    [
        (Entity("sensor.x", unit="°C"), "state:on"),
        (Entity("sensor.x"), "state:finished"),
        (Entity("light.x"), "state:home"),
        (Entity("light.x"), "numeric:above"),
        (Entity("sensor.x", device_class="timestamp", unit="s"), "numeric:above"),
        (Entity("sensor.x", unit="furlongs"), "numeric:above"),
        (Entity("climate.x", capabilities={"hvac_modes": ["off", "heat"]}), "state:cool"),
        (Entity("input_select.x", options=("day", "night")), "state:away"),
        (Entity("input_boolean.x"), "state:unavailable"),
        (Entity("switch.x", disabled=True), "state:on"),
        (Entity("group.x", members=("light.lamp",)), "state:home"),
        (Entity("switch.x"), "zone:enter"),
        (Entity("light.x"), "time:at"),
        (Entity("light.x"), "event:timer.finished"),
        (Entity("event.x"), "device:action"),
        (Entity("switch.x"), "state:other"),
    ],
    ids=str,
)  # fmt: skip
def test_a_trigger_that_cannot_happen_is_not_written(entity, state):
    assert refused(home_of(entity), (entity.entity_id, state, "turn_on", "light.lamp"))


def test_an_entity_that_is_gone_is_not_written():
    assert refused(home_of(), ("switch.gone", "state:on", "turn_on", "light.lamp")) == "the home has no such entity"


def test_a_state_that_the_homes_own_automation_waits_for_can_happen():
    config = {
        "trigger": {"platform": "state", "entity_id": "sensor.washer", "to": "finished"},
        "action": {"service": "light.turn_on", "target": {"entity_id": "light.lamp"}},
    }
    home = home_of(Entity("sensor.washer"), automations=(Automation(config, "a"),))
    assert trigger_of(home, "sensor.washer", "state:finished")["to"] == "finished"


def test_options_keep_their_capitals():
    home = home_of(Entity("input_select.mode", options=("Home", "AWAY")))
    assert trigger_of(home, "input_select.mode", "state:away")["to"] == "AWAY"


def test_all_lights_are_a_target_and_no_trigger():
    home = home_of()
    assert action_of(home, "turn_off", "light.*")["target"] == {"entity_id": "all"}
    assert refused(home, ("light.*", "state:on", "turn_on", "light.lamp")) == "its trigger is not an entity"


@pytest.mark.parametrize(
    ("entities", "action"),
    [
        ([Entity("alarm_control_panel.a", features=63),
          Entity("alarm_control_panel.b", features=63, capabilities={"code_format": "number"})], "disarm"),
        ([Entity("select.a", options=("one",)), Entity("select.b", options=("two",))], "select_option"),
        ([Entity("select.a", options=("one",)), Entity("select.b", options=("x",), category="config")],
         "select_option"),
        ([Entity("climate.a", features=1), Entity("climate.b", features=1, capabilities={"max_temp": 18})],
         "set_temperature"),
        ([Entity("media_player.a", features=256), Entity("media_player.b")], "turn_off"),
        ([Entity("switch.a", hidden=True)], "turn_off"),
    ],
    ids=str,
)  # fmt: skip
def test_all_entities_of_a_domain_are_a_target_only_if_it_is_right_for_each(entities, action):
    assert refused(home_of(*entities), (MOTION, "state:on", action, f"{entities[0].domain}.*"))


def test_all_entities_of_a_domain_are_a_target_if_one_that_nobody_uses_cannot_do_it():
    players = [Entity("media_player.a", features=256), Entity("media_player.b", hidden=True)]
    assert action_of(home_of(*players), "turn_off", "media_player.*")["target"] == {"entity_id": "all"}
    selects = [Entity(f"select.{name}", options=("Home", "x")) for name in "ab"]
    assert action_of(home_of(*selects), "select_option", "select.*")["data"] == {"option": "Home"}


def test_of_a_folder_without_registries_the_usual_is_taken_as_supported():
    home = home_of(Entity("cover.x", known_from="yaml"), live=False)
    assert action_of(home, "open", "cover.x")["service"] == "cover.open_cover"
    assert "does not support" in refused(home, (MOTION, "state:on", "set_tilt", "cover.x"))


def test_an_alarm_that_asks_for_a_code_is_not_written():
    home = home_of(Entity("alarm_control_panel.x", features=63, capabilities={"code_format": "number"}))
    assert "asks for a code" in refused(home, (MOTION, "state:on", "disarm", "alarm_control_panel.x"))


# Guesses, warnings, loops.


@pytest.mark.parametrize(
    ("rule", "guess"),
    [
        (("clock", "time:at", "turn_on", "light.lamp"), "07:00 is a guess: choose the time that suits you"),
        (("clock", "time:at", "turn_off", "light.lamp"), "23:00 is a guess: choose the time that suits you"),
        (("clock", "time:pattern", "turn_on", "light.lamp"), "Every 15 minutes is a guess: choose how often"),
        (("sensor.t", "numeric:below", "turn_on", "light.lamp"), "18 °C is a guess: choose the level that suits you"),
        ((MOTION, "state:on", "set_brightness", "light.lamp"),
         "A brightness of 50 % is a guess: choose the one that you like"),
        ((MOTION, "state:on", "set_temperature", "climate.c"),
         "21 °C is a guess: choose the temperature that suits you"),
        ((MOTION, "state:on", "select_option", "input_select.mode"),
         "day is a guess: choose the option that you mean"),
    ],
)  # fmt: skip
def test_values_that_the_home_must_choose_are_guesses(rule, guess):
    home = home_of(
        Entity("sensor.t", unit="°C", device_class="temperature"),
        Entity("climate.c", features=1),
        Entity("input_select.mode", options=("day", "dusk")),
    )
    written = done(home, rule)
    assert written.guesses == (guess,)
    assert guess in str(written.config["description"])
    skipped = write(home, rule, values="skip")
    assert isinstance(skipped, NotWritable)
    assert skipped.reason.startswith("it needs a value that you choose")


def test_the_option_is_one_that_fits_the_trigger():
    home = home_of(Entity("input_select.mode", options=("Day", "Away", "Night")), Entity("person.a"), Entity("sun.sun"))
    chosen = [
        mapping(mapping(items(done(home, (*start, "select_option", "input_select.mode")).config["action"])[0])["data"])
        for start in (("person.a", "state:not_home"), ("sun.sun", "sun:sunset"), (MOTION, "state:on"))
    ]
    assert chosen == [{"option": "Away"}, {"option": "Night"}, {"option": "Day"}]


def test_a_window_that_opens_switches_the_heating_off():
    home = home_of(
        Entity("climate.c", capabilities={"hvac_modes": ["heat", "off"]}),
        Entity("binary_sensor.w", device_class="window"),
    )
    for state, mode in (("state:on", "off"), ("state:off", "heat")):
        (step,) = items(done(home, ("binary_sensor.w", state, "set_hvac_mode", "climate.c")).config["action"])
        assert mapping(step)["data"] == {"hvac_mode": mode}


def test_groups_of_groups_that_hold_each_other_have_an_end():
    groups = [Entity(f"group.g{n}", members=tuple(f"group.g{m}" for m in range(100))) for n in range(100)]
    home = home_of(*groups, Entity("group.lamps", members=("group.g1", "light.lamp", "group.lamps")))
    assert action_of(home, "turn_on", "group.lamps")["service"] == "light.turn_on"


@pytest.mark.parametrize(
    ("entity", "value"),
    [
        (Entity("number.x", capabilities={"min": 0, "max": 1, "step": 0.01}), 0.5),
        (Entity("number.x", capabilities={"min": 1, "max": 4, "step": 1}), 3),  # 1 + round(1.5) steps
        (Entity("number.x", unit="°C", capabilities={"min": 15, "max": 35, "step": 1}), 21),
        (Entity("number.x", unit="°C", capabilities={"min": 40, "max": 60}), 40),
        (Entity("input_number.x", capabilities={"min": -10, "max": 10}), 0),
        (Entity("counter.x"), 0),
    ],
    ids=str,
)  # fmt: skip
def test_a_number_is_on_a_step_in_the_middle_of_its_range_and_a_temperature_the_usual_one(entity, value):
    assert action_of(home_of(entity), "set_value", entity.entity_id)["data"] == {"value": value}


def test_a_message_says_what_happened_and_is_no_guess():
    home = home_of(Entity("binary_sensor.door", name="Front door", device_class="door"))
    rule = ("binary_sensor.door", "state:on", "notify", "persistent_notification")
    written = write(home, rule, values="skip")
    assert isinstance(written, WrittenAutomation)
    assert written.guesses == ()
    (step,) = items(written.config["action"])
    assert step == {"service": "persistent_notification.create", "data": {"message": "Front door: opened"}}


@pytest.mark.parametrize(
    ("entity", "action", "part"),
    [
        (Entity("lock.x", name="Door"), "unlock", "anybody can come in"),
        (Entity("lock.x", name="Door"), "lock", "locked out"),
        (Entity("alarm_control_panel.x", features=63), "arm_away", "add the code"),
        (Entity("siren.x", features=3), "turn_on", "sounds a siren"),
        (Entity("cover.x", features=3, device_class="garage"), "open", "garage door or a gate"),
        (Entity("cover.x", features=3, name="Garagentor"), "open", "garage door or a gate"),
        (Entity("cover.x", features=3, name="Blind"), "close", "in its way"),
        (Entity("valve.x", features=3), "open", "valve"),
        (Entity("water_heater.x", features=15), "set_temperature", "scalds"),
        (Entity("switch.x", name="Kitchen oven"), "turn_on", "may get hot"),
        (Entity("group.x", members=("lock.a", "lock.b")), "unlock", "anybody can come in"),
        (Entity("switch.garage_door"), "turn_on", "garage door or a gate"),
        (Entity("button.garage_door_opener"), "press", "garage door or a gate"),
        (Entity("switch.x", name="Haustür Türöffner"), "turn_on", "opener of a door"),
        (Entity("button.unlock_front"), "press", "opener of a door"),
        (Entity("group.gate", members=("switch.a", "switch.b")), "turn_on", "garage door or a gate"),
        (Entity("group.x", members=("light.lamp", "switch.garage_door")), "turn_on", "garage door or a gate"),
        (Entity("scene.x", members=("light.lamp", "lock.a")), "scene_activate", "works a lock"),
        (Entity("script.open_the_gate"), "script_run", "garage door or a gate"),  # its steps are not known
    ],
    ids=str,
)  # fmt: skip
def test_a_warning_stands_before_what_can_do_harm(entity, action, part):
    (warning,) = done(home_of(entity), (MOTION, "state:on", action, entity.entity_id)).warnings
    assert part in warning


@pytest.mark.parametrize(
    ("id_", "action", "part"),
    [
        ("shell_command.x", "run", "runs a command"),
        ("system", "restart", "restarts Home Assistant"),
        ("system", "stop", "nothing works until somebody starts it again"),
    ],
)
def test_a_warning_stands_before_commands_and_the_server_itself(id_, action, part):
    (warning,) = done(OFFLINE, (MOTION, "state:on", action, id_)).warnings
    assert part in warning


@pytest.mark.parametrize(
    ("entity", "action"),
    [
        (Entity("switch.garage_light"), "turn_on"),
        (Entity("switch.washer_child_lock"), "turn_on"),
        (Entity("group.garage", members=("light.lamp",)), "turn_on"),
        (Entity("switch.clock"), "turn_on"),
        (Entity("script.open_the_gate"), "turn_off"),
    ],
    ids=str,
)
def test_no_warning_stands_before_what_only_sounds_like_it(entity, action):
    assert done(home_of(entity), (MOTION, "state:on", action, entity.entity_id)).warnings == ()


def test_the_warning_of_a_script_is_that_of_the_worst_of_its_steps():
    def call(service: str, entity_id: str) -> dict[str, object]:
        return {"service": service, "target": {"entity_id": entity_id}}

    choice = {"if": [], "then": [call("cover.open_cover", "cover.blind"), call("lock.unlock", "lock.front")]}
    scripts = (
        Script("script.inner", {"sequence": [call("light.turn_on", "light.lamp"), choice]}),
        Script("script.outer", {"sequence": [{"service": "script.inner"}, {"service": "script.outer"}]}),
        Script("script.lamps", {"sequence": [call("light.turn_on", "light.lamp")]}),
    )
    own = [Entity(each.entity_id, name="Unlock gate") for each in scripts]
    home = home_of(*own, Entity("lock.front", name="Front"), Entity("cover.blind"), scripts=scripts)
    for id_ in ("script.inner", "script.outer"):
        (warning,) = done(home, (MOTION, "state:on", "script_run", id_)).warnings
        assert warning == "It unlocks Front: anybody can come in who makes the trigger happen."
    assert done(home, (MOTION, "state:on", "script_run", "script.lamps")).warnings == ()
    assert done(home, (MOTION, "state:on", "turn_off", "script.inner")).warnings == ()


@pytest.mark.parametrize(
    ("state", "part"),
    [("unlocked", "It unlocks Front"), ({"state": "unlocked"}, "It unlocks Front"), ("locked", "works a lock (Front)")],
)
def test_the_warning_of_a_scene_is_that_of_the_worst_of_its_states(state, part):
    scene = Script("scene.evening", {"entities": {"light.lamp": True, "lock.front": state}})
    home = home_of(Entity("scene.evening"), Entity("lock.front", name="Front"), scenes=(scene,))
    (warning,) = done(home, (MOTION, "state:on", "scene_activate", "scene.evening")).warnings
    assert part in warning


def test_a_lamp_has_no_warning():
    assert done(home_of(), (MOTION, "state:on", "turn_on", "light.lamp")).warnings == ()


def test_what_would_start_itself_is_not_written():
    home = home_of(Entity("sun.sun"))
    assert "already" in refused(home, ("light.lamp", "state:on", "turn_on", "light.lamp"))
    assert "again and again" in refused(home, ("light.lamp", "state:changed", "turn_on", "light.lamp"))
    assert "again and again" in refused(home, ("light.lamp", "state:on", "toggle", "light.lamp"))
    message = ("persistent_notification", "notification", "notify", "persistent_notification")
    assert "again and again" in refused(home, message)
    assert "never be up" in refused(home, ("system", "homeassistant:start", "restart", "system"))


def test_a_device_that_switches_itself_off_may_stay_on_for_a_while():
    written = done(home_of(), ("light.lamp", "state:on", "turn_off", "light.lamp"))
    (trigger,) = items(written.config["trigger"])
    assert mapping(trigger)["for"] == "00:10:00"
    assert written.guesses == ("10 minutes is a guess: choose how long",)


# The text.


def test_the_id_is_the_same_for_the_same_rule_and_another_for_another():
    home = home_of()
    rule = (MOTION, "state:on", "turn_on", "light.lamp")
    assert done(home, rule).id == done(home_of(version="2025.4.4"), rule).id
    assert done(home, rule).id != done(home, (MOTION, "state:off", "turn_on", "light.lamp")).id
    assert done(home, rule).id.startswith("fedrule_")


def test_the_yaml_is_what_a_person_pastes():
    home = home_of(Entity("lock.door", name="Tür"))
    rules = [("clock", "time:at", "unlock", "lock.door"), (MOTION, "state:on", "turn_on", "light.lamp")]
    pasted = to_yaml([done(home, rule) for rule in rules])
    assert pasted.startswith(
        "# It unlocks Tür: anybody can come in who makes the trigger happen.\n"
        "# 07:00 is a guess: choose the time that suits you\n"
        "- id: fedrule_"
    )
    assert "  alias: When Hall sees movement, turn on Lamp\n" in pasted
    assert "  trigger:\n    - platform: time\n      at: '07:00:00'\n  condition: []\n" in pasted  # 07:00:00 is a number
    assert "      to: 'on'\n" in pasted  # on is a boolean
    assert yaml.safe_load(pasted) == [dict(done(home, rule).config) for rule in rules]
    assert to_yaml([]) == "[]\n"


def test_nothing_of_a_name_is_rendered_as_a_template():
    name = "{{ states('lock.door') }} {% raw %}"
    home = home_of(Entity("switch.x", name=name), Entity("select.y", options=("{{ 1 }}",)))
    (step,) = items(done(home, ("switch.x", "state:on", "notify", "persistent_notification")).config["action"])
    assert "{" not in str(mapping(mapping(step)["data"])["message"])
    assert "options" in refused(home, (MOTION, "state:on", "select_option", "select.y"))


@pytest.mark.parametrize(
    ("device", "state"),
    [
        ("system", "homeassistant:{{ 1 }}"),
        ("system", "homeassistant:other"),
        ("sensor.t", "numeric:{{ 1 }}"),
        ("sensor.t", "numeric:equal"),
        ("sun.sun", "sun:{{ 1 }}"),
        ("event:{{ 1 }}", "event:{{ 1 }}"),
        ("calendar.c", "calendar:{{ 1 }}"),
        ("light.lamp", "state:{{ 1 }}"),
    ],
)
def test_a_state_of_a_model_that_is_none_of_ours_is_not_written(device, state):
    home = home_of(Entity("sensor.t", unit="%"), Entity("sun.sun"), Entity("calendar.c"))
    assert refused(home, (device, state, "notify", "persistent_notification"))


def test_nothing_of_a_state_is_rendered_as_a_template():
    odd = AutomationRule("sensor.washer", "state:{{ 1 }}", "turn_on", "light.lamp")
    home = home_of(Entity("sensor.washer", options=("{{ 1 }}",)))
    seen = dataclasses.replace(home, outcomes=(Outcome(Automation({}, "a"), (odd,)),))
    (step,) = items(done(seen, (*odd[:2], "notify", "persistent_notification")).config["action"])
    assert mapping(mapping(step)["data"])["message"] == "washer: (( 1 ))"


NAMES = st.text(max_size=30) | st.sampled_from(
    [
        '"',
        "'",
        "a: b",
        "- x",
        "#",
        "a\nb",
        "{{ 1 }}",
        "{% if %}",
        "!secret x",
        "on",
        "null",
        "*",
        "&a",
        "🏠 Küche",
        "\u2028",
    ]
)


KINDS = ("state", "numeric", "sun", "time", "zone", "homeassistant", "calendar", "event", "device", "notification")
FREE_STATES = NAMES | st.builds("{}:{}".format, st.sampled_from(KINDS), NAMES)


@st.composite
def entities(draw: st.DrawFn) -> Entity:
    lists = st.lists(NAMES, max_size=3)
    listed = ("effect_list", "hvac_modes", "preset_modes", "source_list", "fan_speed_list")
    limits = dict.fromkeys(
        ("min", "max", "step", "min_temp", "max_temp"), st.floats() | st.text(max_size=3) | st.none()
    )
    able = st.fixed_dictionaries({}, optional=dict.fromkeys(listed, lists) | limits)
    return Entity(
        f"{draw(st.sampled_from([*DOMAINS, 'tts', 'notify', 'air_quality']))}.{draw(st.sampled_from('abc'))}",
        name=draw(NAMES),
        device_class=draw(st.sampled_from(["", "temperature", "motion", "timestamp", "garage", "battery", "enum"])),
        unit=draw(st.sampled_from(["", "%", "°C", "°F", "x"])),
        features=draw(st.integers(0, ALL_FEATURES)),
        color_modes=draw(st.sampled_from([(), ("onoff",), ("hs",), ("color_temp",), ("brightness",)])),
        options=tuple(draw(lists)),
        members=tuple(draw(st.lists(st.sampled_from(["light.a", "group.a", "lock.b", "person.c"]), max_size=3))),
        disabled=draw(st.booleans()),
        known_from=draw(st.sampled_from(["registry", "states", "yaml"])),
        capabilities=draw(able),
    )


@settings(deadline=None)
@given(st.data())
def test_any_rule_of_any_home_is_written_or_refused_and_never_an_error(data):
    own = data.draw(st.lists(entities(), max_size=6, unique_by=lambda entity: entity.entity_id))
    version = data.draw(st.sampled_from(["", "2024.3.3", "2025.4.4", "next"]))
    home = home_of(*own, version=version, live=data.draw(st.booleans()))
    ids = st.sampled_from([*home.installation.entities, *OTHERS]) | NAMES | NAMES.map("event:{}".format)
    writer = AutomationWriter(home)
    written = []
    for _ in range(8):
        rule = AutomationRule(
            data.draw(ids),
            data.draw(st.sampled_from(trigger_states()) | FREE_STATES),
            data.draw(st.sampled_from(sorted(vocabulary().actions)) | NAMES),
            data.draw(ids),
        )
        values = data.draw(st.sampled_from(["guess", "skip"]))
        result = writer.write(rule, text=data.draw(NAMES), why=data.draw(NAMES), values=values)
        if isinstance(result, NotWritable):
            assert result.reason
            continue
        assert read_back(home, result) == (rule,)
        assert not (result.guesses and values == "skip")
        for step in items(result.config.get("action", result.config.get("actions"))):
            assert "{{" not in json.dumps(step)
            assert "{%" not in json.dumps(step)
        assert "{{" not in json.dumps(result.config.get("trigger", result.config.get("triggers")))
        written.append(result)
    assert yaml.safe_load(to_yaml(written)) == [dict(each.config) for each in written]


def test_a_home_read_from_its_folder_is_written_too():
    rules = written_rules(read_home(read_folder(DEMO_HOME)))
    assert len(rules) > 300
