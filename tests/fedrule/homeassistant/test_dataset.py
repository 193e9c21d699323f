"""A folder of configurations as a data set: homes with groups and words, and without names."""

from __future__ import annotations

import numpy as np
import pytest

import datasets
from datasets.common.errors import DataError
from fedrule.homeassistant import read_folder, read_home

AUTOMATIONS = """
- trigger: {platform: state, entity_id: binary_sensor.attic_motion, to: "on"}
  action:
    - {service: light.turn_on, entity_id: light.attic_lamp}
    - {service: notify.phone}
- trigger: {platform: sun, event: sunset}
  action: {service: switch.turn_on, entity_id: switch.porch}
- initial_state: false
  trigger: {platform: sun, event: sunrise}
  action: {service: switch.turn_off, entity_id: switch.porch}
"""


@pytest.fixture
def folder(write):
    few = "- {trigger: {platform: sun, event: sunset}, action: {service: light.turn_on, entity_id: light.a}}\n"
    files = {"one/automations.yaml": AUTOMATIONS, "two/automations.yaml": AUTOMATIONS, "few/automations.yaml": few}
    return write({**files, "empty/README.md": "", ".git/config": ""})


def test_each_configuration_is_a_home_with_its_automations_as_groups(folder):
    homes = datasets.load("home-assistant-configs", path=folder)
    # Two homes of four rules: 2 + 1 + 1 for the three automations.
    assert (homes.n_homes, homes.n_rules) == (2, 8)
    assert homes.rules.group.tolist() == [0, 0, 1, 2, 3, 3, 4, 5]
    assert {str(relation) for relation in homes.relations} == {
        "state:on -> turn_on",
        "state:on -> notify",
        "sun:sunset -> turn_on",
        "sun:sunrise -> turn_off",
    }
    assert homes.provenance.counts["automations"] == 7
    assert homes.provenance.counts["homes left out"] == 1
    assert len(homes.provenance.notes) == 1  # the empty folder


def test_the_home_of_the_data_set_is_that_of_the_reader(folder):
    homes = datasets.load("home-assistant-configs", path=folder)
    read = read_home(read_folder(folder / "one"))
    types = {device.id: device.type for device in read.devices}
    expected = [
        (types[r.trigger], r.trigger_state, r.action, types[r.action_device])
        for _, r in read.grouped_rules(switched_off=True)
    ]
    found = [(rule.trigger.type, *rule.relation, rule.action.type) for rule in homes.home(0).rules]
    assert found == expected


def test_devices_that_share_a_word_are_known_and_names_are_not(folder, tmp_path):
    homes = datasets.load("home-assistant-configs", path=folder)
    home = homes.home(0)
    words = {device.type: own for device, own in zip(home.devices, home.words, strict=True)}
    assert words["MotionSensor"] == words["Light"] != ()  # the attic
    saved = tmp_path / "saved.parquet"
    homes.save(saved)
    assert b"attic" not in saved.read_bytes()
    assert datasets.load("saved", path=saved).fingerprint == homes.fingerprint


def test_options_leave_out_what_is_switched_off_and_cut_large_homes(folder):
    assert datasets.load("home-assistant-configs", path=folder, switched_off=False).n_rules == 6
    assert datasets.load("home-assistant-configs", path=folder, max_rules=3).n_rules == 6
    assert datasets.load("home-assistant-configs", path=folder, min_rules=1).n_homes == 3
    assert np.all(np.diff(datasets.load("home-assistant-configs", path=folder).device_home) >= 0)


def test_a_folder_without_configurations_is_an_error(tmp_path):
    with pytest.raises(DataError, match="expected one folder for each"):
        datasets.load("home-assistant-configs", path=tmp_path)


def test_configurations_with_too_few_rules_are_an_error(folder):
    with pytest.raises(DataError, match="no configuration has 99 or more rules"):
        datasets.load("home-assistant-configs", path=folder, min_rules=99)
