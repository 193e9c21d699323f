"""An installation from its configuration folder."""

from __future__ import annotations

import json
import string

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from datasets.common.errors import DataError
from datasets.common.files import write_json
from fedrule.homeassistant import read_folder, read_home
from fedrule.homeassistant.installation import printable, read_json

MOTION = "{platform: state, entity_id: binary_sensor.hall_motion, to: 'on'}"
LAMP = "{service: light.turn_on, entity_id: light.hall}"
ONE = f"- {{id: one, alias: One, trigger: {MOTION}, action: {LAMP}}}\n"


def stored(name: str, records: list[dict[str, object]]) -> str:
    return json.dumps({"version": 1, "data": {name: records}})


def test_automations_come_from_includes_packages_and_named_keys(write):
    folder = write(
        {
            "configuration.yaml": (
                "homeassistant:\n  packages: !include_dir_named packages\n"
                "automation: !include automations.yaml\nautomation old: !include_dir_merge_list more\n"
            ),
            "automations.yaml": ONE,
            "more/a.yaml": ONE.replace("one", "two"),
            "packages/hall.yaml": f"automation:\n  - {{alias: Three, trigger: {MOTION}, action: {LAMP}}}\n",
        }
    )
    found = read_folder(folder)
    assert sorted(each.key for each in found.automations) == ["automation.three", "one", "two"]
    assert {each.where for each in found.automations} == {
        "automations.yaml line 1",
        "more/a.yaml line 1",
        "packages/hall.yaml line 2",
    }


def test_a_group_may_be_called_by_a_name_with_spaces(write):
    lamps = "group:\n  Attic Lamps:\n    entities: [light.a, light.b]\n  Cellar Lamps: light.c\n"
    found = read_folder(write({"configuration.yaml": lamps})).entities
    assert {id_: (found[id_].name, found[id_].members) for id_ in ("group.attic_lamps", "group.cellar_lamps")} == {
        "group.attic_lamps": ("Attic Lamps", ("light.a", "light.b")),
        "group.cellar_lamps": ("Cellar Lamps", ("light.c",)),
    }


def test_a_broken_file_is_named_and_the_rest_is_read(write):
    folder = write(
        {
            "configuration.yaml": "automation: !include automations.yaml\nscript: !include scripts.yaml\n",
            "automations.yaml": ONE,
            "scripts.yaml": "a: [",
        }
    )
    found = read_folder(folder)
    assert len(found.automations) == 1
    assert [problem.where for problem in found.problems] == ["configuration.yaml line 2"]
    assert "scripts.yaml" in found.problems[0].reason


def test_a_broken_main_file_leaves_the_usual_files(write):
    found = read_folder(write({"configuration.yaml": "a: [", "automations.yaml": ONE}))
    assert len(found.automations) == 1
    assert found.problems[0].where == "configuration.yaml"


def test_a_repository_may_have_its_configuration_in_a_folder_below(write):
    folder = write({"README.md": "", "home/config/configuration.yaml": "automation:\n" + "  " + ONE})
    assert len(read_folder(folder).automations) == 1


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_folder_without_a_configuration_is_an_error(tmp_path, name):
    with pytest.raises(DataError, match="give the folder of a Home Assistant configuration"):
        read_folder(tmp_path / name)


def test_yaml_defines_entities_with_class_unit_and_members(write):
    folder = write(
        {
            "configuration.yaml": """
input_boolean: {guests: {name: Guests}}
input_select: {mode: {options: [day, night]}}
group: {lamps: "light.a, light.b", people: {name: All, entities: [person.x]}}
template:
  - binary_sensor: {name: Kitchen busy, device_class: occupancy}
binary_sensor:
  - {platform: template, sensors: {bath_wet: {friendly_name: Bath, device_class: moisture}}}
light:
  - {platform: group, name: Upper floor, entities: [light.c]}
mqtt:
  sensor: [{name: Hall warmth, unit_of_measurement: K, device_class: temperature}]
homeassistant: {customize: {switch.pump: {friendly_name: Pump}, input_boolean.guests: {friendly_name: Visitors}}}
""",
            "known_devices.yaml": "phone_ann: {name: Ann}\n",
        }
    )
    found = read_folder(folder).entities
    assert found["input_boolean.guests"].name == "Visitors"
    assert found["input_select.mode"].options == ("day", "night")
    assert found["group.lamps"].members == ("light.a", "light.b")
    assert found["binary_sensor.kitchen_busy"].device_class == "occupancy"
    assert (found["binary_sensor.bath_wet"].name, found["binary_sensor.bath_wet"].device_class) == ("Bath", "moisture")
    assert found["light.upper_floor"].members == ("light.c",)
    assert found["sensor.hall_warmth"].unit == "K"
    assert found["device_tracker.phone_ann"].name == "Ann"
    assert found["switch.pump"].name == "Pump"
    assert {"light.a", "light.c", "person.x"} <= set(found)  # named by groups, and there is no registry


def test_a_blueprint_is_filled_in_with_inputs_and_defaults(write):
    blueprint = """
blueprint: {domain: automation, input: {sensor: {}, more: {input: {lamp: {default: light.hall}}}}}
trigger: {platform: state, entity_id: !input sensor, to: "on"}
action: [{service: light.turn_on, target: {entity_id: !input lamp}}]
"""
    use = "- {alias: A, use_blueprint: {path: me/x.yaml, input: {sensor: binary_sensor.hall_motion}}}\n"
    files = {"configuration.yaml": "automation: !include a.yaml", "a.yaml": use + use.replace("me/x", "me/missing")}
    found = read_folder(write({**files, "blueprints/automation/me/x.yaml": blueprint}))
    home = read_home(found)
    assert [tuple(rule) for rule in home.rules] == [("binary_sensor.hall_motion", "state:on", "turn_on", "light.hall")]
    assert [each.reason for each in home.without_rule()] == ["its blueprint me/missing.yaml is not in the folder"]


def test_an_input_that_is_missing_is_named(write):
    blueprint = "blueprint: {input: {lamp: {}}}\naction: [{service: light.turn_on, entity_id: !input lamp}]\n"
    files = {"configuration.yaml": "automation: [{use_blueprint: {path: x.yaml}}]"}
    found = read_folder(write({**files, "blueprints/automation/x.yaml": blueprint}))
    assert found.automations[0].problem == "blueprint x.yaml: its input 'lamp' is missing"


def test_the_blueprints_that_come_with_home_assistant_need_no_file(write):
    inputs = "{motion_entity: binary_sensor.hall_motion, light_target: {entity_id: light.hall}}"
    use = f"automation: [{{use_blueprint: {{path: homeassistant/motion_light.yaml, input: {inputs}}}}}]"
    home = read_home(read_folder(write({"configuration.yaml": use})))
    assert [rule[1:3] for rule in home.rules] == [("state:on", "turn_on"), ("state:off", "turn_off")]


def test_registries_give_rooms_names_and_what_is_hidden(write):
    entities = [
        {"entity_id": "light.hall", "id": "e1", "device_id": "d1", "original_name": "Lamp", "has_entity_name": True,
         "capabilities": {"supported_color_modes": ["rgb", "brightness"]}, "supported_features": 4, "platform": "hue"},
        {"entity_id": "sensor.t", "original_device_class": "temperature", "unit_of_measurement": "K",
         "area_id": "attic", "platform": "hue"},
        {"entity_id": "sensor.signal", "entity_category": "diagnostic", "platform": "hue"},
        {"entity_id": "light.off", "disabled_by": "user", "platform": "hue"},
        {"entity_id": "automation.first", "platform": "automation", "unique_id": "one"},
    ]  # fmt: skip
    restore = [{"state": {"entity_id": "automation.first", "state": "off"}}]
    folder = write(
        {
            "configuration.yaml": "automation:\n  " + ONE,
            ".HA_VERSION": "2024.3.3\n",
            ".storage/core.area_registry": stored("areas", [{"id": "hall", "name": "Hall"}]),
            ".storage/core.device_registry": stored("devices", [{"id": "d1", "name": "Hue", "area_id": "hall"}]),
            ".storage/core.entity_registry": stored("entities", entities),
            ".storage/core.restore_state": json.dumps({"data": restore}),
        }
    )
    found = read_folder(folder)
    lamp = found.entities["light.hall"]
    assert (lamp.name, lamp.area, lamp.color_modes, lamp.features) == ("Hue Lamp", "hall", ("brightness", "rgb"), 4)
    assert found.version == "2024.3.3"
    assert found.automations[0].entity_id == "automation.first"
    assert not found.automations[0].enabled  # it was switched off when the server last stopped
    home = read_home(found)
    assert {device.id: (device.type, device.room) for device in home.devices} == {
        "binary_sensor.hall_motion": ("MotionSensor", ""),
        "light.hall": ("Light", "Hall"),
        "sensor.t": ("ClimateSensor", ""),  # its area is not in the registry
    }
    assert home.rules == ()
    assert len(home.rules_switched_off) == 1


def test_a_damaged_registry_is_named(write):
    folder = write({"configuration.yaml": "automation:\n  " + ONE, ".storage/core.entity_registry": "{"})
    assert [str(problem) for problem in read_folder(folder).problems] == [
        ".storage/core.entity_registry: not a readable JSON file; skipped"
    ]


@pytest.mark.parametrize(("stated", "enabled"), [("false", False), ("'off'", False), ("true", True), ("'on'", True)])
def test_initial_state_says_whether_an_automation_is_on(write, stated, enabled):
    one = ONE.replace("alias: One", f"alias: One, initial_state: {stated}")
    found = read_folder(write({"configuration.yaml": "automation:\n  " + one}))
    assert found.automations[0].enabled is enabled


def test_an_entity_whose_name_is_a_secret_has_none(write):
    lights = "light:\n  - {platform: mqtt, name: !secret nm}\n  - {platform: mqtt, name: !secret nm, object_id: hall}\n"
    helper = "input_boolean:\n  guests: {name: !env_var WHO}\n"
    found = read_folder(write({"configuration.yaml": lights + helper})).entities
    assert {id_: entity.name for id_, entity in found.items()} == {"input_boolean.guests": "", "light.hall": ""}


def test_secrets_are_in_nothing_that_is_read(write):
    folder = write(
        {
            "configuration.yaml": (
                "http: {password: !secret web}\nautomation:\n"
                "  - {trigger: {platform: mqtt, topic: !secret topic}, action: {service: notify.me}}\n"
            ),
            "secrets.yaml": "web: hunter2\ntopic: hunter3\n",
        }
    )
    found = read_folder(folder)
    assert "hunter" not in string.Template(f"{found!r} {found.automations} {read_home(found)}").template
    assert [rule.trigger_state for rule in read_home(found).rules] == ["mqtt"]


def test_characters_that_no_file_can_hold_are_replaced_where_they_are_read(write, tmp_path):
    # The parser of YAML refuses halves of surrogate pairs itself, and takes other control characters as escapes.
    folder = write(
        {
            "configuration.yaml": ('input_boolean: {x: {name: "Y\\e[31m"}}\nautomation: !include automations.yaml\n'),
            "automations.yaml": f'- trigger: {{platform: mqtt, topic: "a\\ab"}}\n  action: {LAMP}\n',
            ".storage/core.area_registry": stored("areas", [{"id": "k", "name": "K\ud800\N{HOUSE BUILDING}"}]),
            ".storage/core.device_registry": stored("devices", [{"id": "d\ud800", "name": "D\udfff"}]),
            ".storage/core.entity_registry": stored(
                "entities", [{"entity_id": "light.a", "name": "L\ud800\a", "area_id": "k"}]
            ),
        }
    )
    home = read_home(read_folder(folder))
    names = {device.id: (device.name, device.room) for device in home.devices}
    assert names["light.a"] == ("L\ufffd\ufffd", "K\ufffd\N{HOUSE BUILDING}")
    assert names["input_boolean.x"] == ("Y\ufffd[31m", "")
    assert [rule.trigger for rule in home.rules] == ["mqtt:a\ufffdb"]
    write_json(tmp_path / "home.json", home.to_json())
    assert "\ufffd" in (tmp_path / "home.json").read_text("utf-8")


@given(st.text() | st.text(st.characters(min_codepoint=0xD700, max_codepoint=0xE100)))
def test_what_is_printable_can_be_written_and_read_again(text):
    shown = printable(text)
    assert shown.encode().decode() == shown
    assert yaml.safe_load(f"# {' '.join(shown.split())}\na: 1") == {"a": 1}
    assert read_json(json.dumps({text: [text]})) == {shown: [shown]}
    assert printable(shown) == shown
