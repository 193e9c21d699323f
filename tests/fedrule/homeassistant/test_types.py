"""Entity types: device class first, unit second, words third."""

from __future__ import annotations

import pytest

from fedrule.homeassistant.installation import Entity, Installation
from fedrule.homeassistant.translation.types import Typing, table, type_of_domain
from fedrule.homeassistant.translation.vocabulary import vocabulary


def type_of(entity: Entity, *others: Entity) -> str:
    known = {each.entity_id: each for each in (entity, *others)}
    return Typing(Installation("test", entities=known)).of(entity.entity_id)


@pytest.mark.parametrize(
    ("entity_id", "type_"),
    [
        ("light.a", "Light"),
        ("climate.a", "Thermostat"),
        ("device_tracker.a", "Person"),
        ("alarm_control_panel.a", "Alarm"),
        ("button.a", "PressButton"),
        ("input_boolean.a", "InputBoolean"),
        ("sun.sun", "Sun"),
        ("never_heard_of.a", "Other"),
        ("adaptive_lighting.a", "AdaptiveLighting"),
    ],
)
def test_most_domains_say_the_type(entity_id, type_):
    assert type_of(Entity(entity_id)) == type_


def test_the_device_class_says_more_than_unit_and_words():
    assert type_of(Entity("binary_sensor.front_door", device_class="motion")) == "MotionSensor"
    assert type_of(Entity("sensor.kitchen_temperature", device_class="power", unit="\u00b0C")) == "PowerSensor"
    assert type_of(Entity("sensor.motion_distance", device_class="distance")) == "Sensor"


def test_the_unit_says_more_than_words():
    assert type_of(Entity("sensor.door", unit="\u00b0C")) == "ClimateSensor"
    assert type_of(Entity("sensor.door", unit="%")) == "ContactSensor"  # a percentage says nothing


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("binary_sensor.hall_motion", "MotionSensor"),
        ("binary_sensor.bewegungsmelder_flur", "MotionSensor"),
        ("binary_sensor.mouvement_salon", "MotionSensor"),
        ("binary_sensor.badkamer_beweging", "MotionSensor"),
        ("binary_sensor.porta_ingresso", "ContactSensor"),
        ("binary_sensor.haustuerkontakt", "ContactSensor"),
        ("binary_sensor.front_door_motion", "MotionSensor"),
        ("binary_sensor.outdoor", "BinarySensor"),  # ends like a door
        ("sensor.indoor_index", "Sensor"),
        ("sensor.aggregate_index", "Sensor"),  # ends like a gate
        ("binary_sensor.frontdoor", "ContactSensor"),
        ("sensor.current_version", "Sensor"),
        ("binary_sensor.vattenlacka_kok", "LeakSensor"),
        ("binary_sensor.rauchmelder", "SmokeSensor"),
        ("binary_sensor.doorbell", "Doorbell"),
        ("sensor.motion_sensor_battery", "BatterySensor"),
        ("sensor.wohnzimmertemperatur", "ClimateSensor"),
        ("sensor.helligkeit_garten", "LightSensor"),
        ("sensor.garden_light_level", "LightSensor"),  # two words that are one elsewhere
        ("binary_sensor.side_door_bell", "Doorbell"),
        ("sensor.cellar_dew_point", "ClimateSensor"),
        ("sensor.out_door_index", "ContactSensor"),  # but no ending across two words
        ("sensor.lu_xenon", "Sensor"),
        ("sensor.washer_power", "PowerSensor"),
        ("sensor.remote_action", "Button"),
        ("sensor.0x00124b_action", "Button"),  # what Zigbee2MQTT calls the presses of a remote control
        ("sensor.last_transaction", "Sensor"),
        ("event.porch_camera_motion", "MotionSensor"),
        ("event.porch_doorbell", "Doorbell"),
        ("event.porch_door", "Button"),
        ("sensor.something", "Sensor"),
        ("binary_sensor.something", "BinarySensor"),
    ],
)
def test_words_of_several_languages_say_the_type_of_a_sensor(name, type_):
    assert type_of(Entity(name)) == type_


def test_the_name_is_read_as_well_as_the_entity_id():
    assert (
        type_of(Entity("binary_sensor.lumi_1", name="\u0414\u0432\u0438\u0436\u0435\u043d\u0438\u0435"))
        == "MotionSensor"
    )
    assert type_of(Entity("binary_sensor.hall_motion", name="Eingang")) == "MotionSensor"


def test_a_group_is_a_device_of_the_type_that_most_members_have():
    members = ("light.a", "light.b", "switch.c")
    assert type_of(Entity("group.all", members=members)) == "Light"
    assert type_of(Entity("group.mixed", members=("light.a", "switch.b"))) == "Group"
    assert type_of(Entity("group.top", members=("group.all",)), Entity("group.all", members=members)) == "Light"
    assert type_of(Entity("group.family")) == "Person"
    assert type_of(Entity("group.things")) == "Group"


def test_groups_that_contain_each_other_have_a_type():
    assert type_of(Entity("group.a", members=("group.b",)), Entity("group.b", members=("group.a",))) == "Group"


def test_every_type_of_the_tables_is_in_the_vocabulary():
    known = table()
    said = {*known.domains.values(), *known.mixed.values(), *known.units.values(), *(w.type for w in known.words)}
    said |= {type_ for of_domain in known.device_class.values() for type_ in of_domain.values()}
    said |= {*vocabulary().purposes.values(), *vocabulary().trigger_kinds.values()}
    assert said <= known.types


def test_every_action_and_state_of_the_tables_is_in_the_vocabulary():
    known = vocabulary()
    assert {*known.services.values(), *known.light, *known.fields.values()} <= known.actions
    states = {*known.device_triggers.values(), *known.device_triggers_of.values()}
    plain = {state.removeprefix("state:") for state in states if state.startswith("state:")}
    assert plain <= known.states | {"changed", "other"}
    events = {state.removeprefix("event:") for state in states if state.startswith("event:")}
    assert events <= known.events


def test_a_domain_in_camel_case_is_a_type_only_if_the_data_has_it():
    assert type_of_domain("wake_on_lan") == "WakeOnLan"
    assert type_of_domain("brand_new_thing") == "Other"


def test_groups_that_hold_each_other_are_typed_at_once():
    groups = [Entity(f"group.g{n}", members=tuple(f"group.g{m}" for m in range(50))) for n in range(50)]
    typing = Typing(Installation("x", entities={each.entity_id: each for each in groups}))
    assert typing.of("group.g0") == "Group"
