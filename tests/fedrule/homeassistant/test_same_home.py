"""Read live and from its folder, an installation is the same home: recorded, and on a real server in `tox -e hass`."""

from __future__ import annotations

import pytest

from fedrule.homeassistant import Entity, Installation, InstalledHome, read_folder, read_home, read_live
from tests.support.home_assistant import DEMO_HOME, furnish, hass_command, reader_token, running_home_assistant
from tests.support.websocket_server import TOKEN, RecordedServer, serving


def only_in_memory(live: Installation, offline: Installation) -> set[str]:
    """Entities that no file of the folder knows, as they have no unique id: many of the `demo` integration."""
    return {id_ for id_, entity in live.entities.items() if not entity.registry_id and id_ not in offline.entities}


def devices(home: InstalledHome, without: set[str]) -> set[tuple[str, str, str, str]]:
    return {(each.id, each.type, each.name, each.room) for each in home.devices if each.id not in without}


def assert_same(live: Installation, offline: Installation) -> None:
    one, other = read_home(live), read_home(offline)
    assert one.request().rules == other.request().rules
    assert {*one.rules_switched_off} == {*other.rules_switched_off}
    assert live.version == offline.version
    assert live.areas == offline.areas
    assert {(each.key, each.enabled) for each in live.automations} == {
        (each.key, each.enabled) for each in offline.automations
    }
    unknown = only_in_memory(live, offline)
    assert devices(one, unknown) == devices(other, unknown)
    types = {device.id: device.type for device in one.devices}
    assert {d.id: d.type for d in other.devices if d.id in unknown}.items() <= types.items()  # those that rules use
    for id_ in set(live.entities) - unknown:
        assert capabilities(live.entities[id_]) == capabilities(offline.entities[id_]), id_


def capabilities(entity: Entity) -> tuple[object, ...]:
    """A disabled entity has no state, so a running server does not say what it is; only the registry keeps features."""
    place = (entity.area, entity.hidden, entity.disabled, entity.category)
    able = (entity.device_class, entity.unit, entity.color_modes, entity.features if entity.registry_id else 0)
    return place if entity.disabled else (*place, *able)


def test_the_recorded_answers_and_the_recorded_folder_are_the_same_home():
    with serving(RecordedServer()) as server:
        live = read_live(server.address, TOKEN)
    offline = read_folder(DEMO_HOME)
    assert_same(live, offline)
    assert len(live.entities) - len(only_in_memory(live, offline)) == 90  # of 128: 38 have no unique id
    assert len(read_home(live).rules) == 22


def test_rooms_names_and_hidden_entities_of_the_recorded_home():
    home = read_home(read_folder(DEMO_HOME))
    by_id = {device.id: device for device in home.devices}
    assert by_id["light.kitchen_lights"].room == "Kitchen"
    assert by_id["binary_sensor.movement_backyard"].room == "Back garden"
    assert by_id["light.bed_light"].name == "Reading lamp"  # given by its owner
    assert by_id["input_boolean.guest_mode"].name == "Guests are here"  # by customize
    assert "light.office_rgbw_lights" not in by_id  # hidden
    assert "sensor.carbon_dioxide" not in by_id  # disabled
    assert by_id["group.family"].type == "Person"
    assert by_id["group.upstairs_lights"].type == "Light"
    assert by_id["binary_sensor.somebody_downstairs"].type == "MotionSensor"


@pytest.mark.hass
@pytest.mark.skipif(hass_command() is None, reason="Home Assistant is not installed; tox -e hass does")
def test_a_real_server_and_its_folder_are_the_same_home(tmp_path):
    with running_home_assistant(tmp_path) as server:
        furnish(server)
        live = read_live(server.address, server.token)
        reader = read_live(server.address, reader_token(server))  # a user who may only look sees the same
    offline = read_folder(tmp_path)  # the server writes its registries when it stops
    assert_same(live, offline)
    assert_same(reader, offline)
    assert len(live.automations) == 12
    assert live.problems == offline.problems == ()
    # What was recorded is what this server says.
    with serving(RecordedServer()) as recorded:
        assert {*read_home(read_live(recorded.address, TOKEN)).rules} == {*read_home(live).rules}
