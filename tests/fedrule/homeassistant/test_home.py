"""The home of an installation: devices, rooms, rules, and the JSON that `fedrule recommend` reads."""

from __future__ import annotations

import json
import subprocess
import sys

from fedrule.homeassistant import Entity, Installation, read_home
from fedrule.homeassistant.installation import Area, Automation
from fedrule.inference.request import HomeRequest

MOTION = {"platform": "state", "entity_id": "binary_sensor.hall_motion", "to": "on"}
LAMP = {"service": "light.turn_on", "entity_id": "light.hall"}
AUTOMATION = Automation({"trigger": MOTION, "action": LAMP}, "here", id="1")


def installation(*entities: Entity, automations: tuple[Automation, ...] = ()) -> Installation:
    known = {entity.entity_id: entity for entity in entities}
    return Installation("test", entities=known, areas={"hall": Area("hall", "Hall")}, automations=automations)


def test_entities_that_are_not_for_people_are_devices_only_where_a_rule_uses_them():
    battery = Entity("sensor.phone_battery", category="diagnostic")
    low = Automation(
        {"trigger": {"platform": "numeric_state", "entity_id": "sensor.phone_battery", "below": 9}, "action": LAMP}, "x"
    )
    others = (Entity("light.hidden", hidden=True), Entity("light.off", disabled=True), Entity("update.core"))
    assert [d.id for d in read_home(installation(battery, *others, Entity("light.hall"))).devices] == ["light.hall"]
    home = read_home(installation(battery, *others, Entity("light.hall"), automations=(low,)))
    assert [(d.id, d.type) for d in home.devices] == [
        ("light.hall", "Light"),
        ("sensor.phone_battery", "BatterySensor"),
    ]


def test_without_unused_devices_only_those_of_rules_are_left():
    home = read_home(installation(Entity("light.other"), automations=(AUTOMATION,)), unused=False)
    assert [device.id for device in home.devices] == ["binary_sensor.hall_motion", "light.hall"]


def test_a_rule_of_two_automations_is_one_rule_of_the_first():
    home = read_home(installation(automations=(AUTOMATION, Automation(AUTOMATION.config, "there", id="2"))))
    assert [number for number, _ in home.grouped_rules()] == [0]
    assert len(home.rules) == 1


def test_rules_that_are_switched_off_are_known_but_not_in_the_home():
    home = read_home(installation(automations=(Automation(AUTOMATION.config, "x", enabled=False),)))
    assert home.rules == ()
    assert len(home.rules_switched_off) == 1
    assert len(list(home.grouped_rules(switched_off=True))) == 1


def test_the_json_is_what_recommend_reads():
    home = read_home(installation(Entity("light.hall", name="Lamp", area="hall"), automations=(AUTOMATION,)))
    content = json.loads(json.dumps(home.to_json()))
    assert content == {
        "devices": [
            {"id": "binary_sensor.hall_motion", "type": "MotionSensor", "name": "hall motion"},
            {"id": "light.hall", "type": "Light", "name": "Lamp", "room": "Hall"},
        ],
        "rules": [
            {
                "trigger": "binary_sensor.hall_motion",
                "trigger_state": "state:on",
                "action": "turn_on",
                "action_device": "light.hall",
            }
        ],
    }
    assert HomeRequest.from_json(content) == home.request()


def test_without_rooms_devices_share_the_words_of_their_names():
    entities = (Entity("light.a", name="Attic lamp"), Entity("binary_sensor.b", name="Attic motion"))
    more = tuple(Entity(f"switch.s{n}") for n in range(4))
    words = dict(zip("abcdef", read_home(installation(*entities, *more)).request().device_words(), strict=True))
    assert words["a"] == words["b"] == (0,)


def test_coverage_names_each_reason():
    nothing = Automation({"trigger": MOTION, "action": {"delay": 1}}, "x")
    said = read_home(installation(automations=(AUTOMATION, nothing, nothing))).coverage()
    assert said.splitlines() == [
        "3 automations, 1 give rules; 1 rules between 2 devices",
        "  2 without a rule: it does nothing to a device",
    ]


def test_a_device_trigger_says_the_type_of_a_sensor_that_nothing_else_says():
    trigger = {"platform": "device", "domain": "binary_sensor", "type": "motion", "device_id": "d"}
    one = Automation({"trigger": {**trigger, "entity_id": "binary_sensor.lumi_1"}, "action": LAMP}, "x")
    home = read_home(installation(automations=(one,)))
    assert {device.id: device.type for device in home.devices}["binary_sensor.lumi_1"] == "MotionSensor"


def test_a_group_that_comes_home_is_of_people():
    one = Automation({"trigger": {"platform": "state", "entity_id": "group.us", "to": "home"}, "action": LAMP}, "x")
    home = read_home(installation(automations=(one,)))
    assert {device.id: device.type for device in home.devices}["group.us"] == "Person"


def test_a_home_without_automations_has_its_devices():
    home = read_home(installation(Entity("light.hall")))
    assert (len(home.devices), home.rules, home.outcomes) == (1, (), ())


def test_reading_a_home_loads_neither_torch_nor_pandas():
    code = (
        "import sys; from fedrule.homeassistant import read_folder, read_home, read_live; "
        "print([m for m in ('torch', 'pandas', 'pyarrow', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_package_is_one_line_that_names_the_extra():
    code = (
        "import sys; sys.modules['yaml'] = None\n"
        "from datasets.common.errors import DataError\n"
        "import fedrule.homeassistant\n"
        "try:\n    fedrule.homeassistant.read_folder\nexcept DataError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("reading a Home Assistant needs the extra hass: pip install")
