"""On a real Home Assistant: every automation that is written is valid, and those that are tried fire and act.

`tox -e hass` runs it, with `-- -s` it shows the counts; tests/support/home_assistant_proof.py says how they are found.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing

import pytest

import datasets
import fedrule
from datasets.common.errors import DataError
from fedrule.__main__ import main
from fedrule.homeassistant import read_home, read_live
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.automation import AutomationWriter, WrittenAutomation
from fedrule.homeassistant.writing.install import install
from tests.support.home_assistant import furnish, hass_command, reader_token, running_home_assistant
from tests.support.home_assistant_proof import Talk, problems_of, prove_demo_home
from tests.support.real_data import needs_real

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


@needs_real("home-assistant-2")
def test_every_line_of_the_list_is_valid_and_can_be_installed_by_the_command(tmp_path, capsys):
    pytest.importorskip("torch", reason="the extra graph is not installed")
    model = tmp_path / "model.safetensors"
    options = {"rounds": 2, "least_steps": 1}  # the order does not matter here
    homes = datasets.load("home-assistant")
    fedrule.train(homes, "graphrank", options=options, patience=0, min_homes=3).save(model)
    token = tmp_path / "token"
    with running_home_assistant(tmp_path / "config") as server:
        furnish(server)
        token.write_text(server.token)
        command = ["hass", server.address, "--token-file", str(token), "--model", str(model), "-k", "40"]
        assert main([*command, "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)["recommendations"]
        lines = [each["automation"] for line in shown for each in (line, *line["similar"])]
        assert len(shown) == 40
        installation = read_live(server.address, server.token)
        with closing(Talk(server)) as talk:
            wrong = [problem for each in lines for problem in problems_of(talk, installation, WrittenAutomation(each))]
        assert not wrong
        assert main([*command, "--install"]) == 0
        assert capsys.readouterr().err.count(": installed") == 40
        after = read_home(read_live(server.address, server.token))
    new = [each for each in after.installation.automations if each.id.startswith("fedrule_")]
    assert len(new) == 40
    assert not any(each.enabled for each in new)


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
    assert new.config == written.config
    assert rule in after.rules_switched_off
