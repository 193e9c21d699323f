"""On a real Home Assistant: every automation that is written is valid, and those that are tried fire and act.

`tox -e hass` runs it, with `-- -s` it shows the counts; tests/support/home_assistant_proof.py says how they are found.
"""

from __future__ import annotations

import sys

import pytest

from datasets.common.errors import DataError
from fedrule.homeassistant import read_home, read_live
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.automation import AutomationWriter, WrittenAutomation
from fedrule.homeassistant.writing.install import install
from tests.support.home_assistant import furnish, hass_command, reader_token, running_home_assistant
from tests.support.home_assistant_proof import prove_demo_home

pytestmark = [
    pytest.mark.hass,
    pytest.mark.skipif(hass_command() is None, reason="Home Assistant is not installed; tox -e hass does"),
]


def test_written_automations_are_valid_and_do_what_they_name(tmp_path):
    proof = prove_demo_home(tmp_path, sample=190)
    sys.stdout.write(f"\n{proof.table()}\n")
    assert proof.written > 500
    assert proof.valid == proof.written, proof.failures
    assert proof.installed == proof.triggered >= 180
    assert proof.effects >= 0.95 * proof.triggered, proof.failures


def test_installing_needs_the_right_token_and_leaves_alone_what_is_there(tmp_path):
    with running_home_assistant(tmp_path) as server:
        furnish(server)
        home = read_home(read_live(server.address, server.token))
        rule = AutomationRule("binary_sensor.movement_backyard", "state:on", "turn_on", "switch.ac")
        written = AutomationWriter(home).write(rule, text="When *Movement* {{ 1 }} 🏠, *AC*: 'on'", why='"why": #1')
        assert isinstance(written, WrittenAutomation)
        with pytest.raises(DataError, match="refuses the access token"):
            install(server.address, "not-a-token", [written])
        with pytest.raises(DataError, match="use the token of an administrator"):
            install(server.address, reader_token(server), [written])
        assert [each.result for each in install(server.address, server.token, [written])] == ["installed"]
        assert [each.result for each in install(server.address, server.token, [written])] == ["already there"]
        after = read_home(read_live(server.address, server.token))
    new = next(each for each in after.installation.automations if each.id == written.id)
    assert not new.enabled
    assert {**new.config} == {**written.config, "initial_state": False}
    assert rule in after.rules_switched_off
