"""`python -m fedrule hass`: a configuration folder from command to list, the files that it writes, and bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

import datasets
from fedrule.__main__ import main
from fedrule.homeassistant import read_folder, read_home
from tests.support.evidence_models import evidence_model
from tests.support.small_model import saved_model

MOTION = "  trigger: {{platform: state, entity_id: binary_sensor.{room}_motion, to: '{state}'}}\n"
LIGHT = "  action: {{service: light.turn_{state}, target: {{entity_id: light.{room}_lamp}}}}\n"
LOCK = "  action: {{service: lock.lock, target: {{entity_id: lock.{room}_door}}}}\n"
TOLD = "  action: {{service: notify.notify, data: {{message: hello}}}}\n"


def configuration(folder: Path, automations: str, *, version: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "configuration.yaml").write_text("automation: !include automations.yaml\n")
    (folder / "automations.yaml").write_text(automations)
    if version:
        (folder / ".HA_VERSION").write_text(version)
    return folder


def automation(room: str, state: str, action: str) -> str:
    name = f"{room} {state} {action.split()[2]}".replace("{", "").replace("}", "")
    return f"- alias: '{name}'\n" + (MOTION + action).format(room=room, state=state)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of six made-up configurations, read as one's own home is; its weights are drawn."""
    folder = tmp_path_factory.mktemp("homes")
    for number in range(6):
        rules = automation("hall", "on", LIGHT) + automation("hall", "off", LIGHT)
        rules += automation("hall", "off", LOCK) + automation("hall", "on", TOLD)
        configuration(folder / "configurations" / str(number), rules)
    homes = datasets.load("home-assistant-configs", path=folder / "configurations")
    evidence_model(homes).save(folder / "model.safetensors")
    return folder / "model.safetensors"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Somebody's home: two rooms, and a lock that an automation uses in another way."""
    return configuration(
        tmp_path / "config",
        automation("kitchen", "on", LIGHT) + automation("bath", "on", LIGHT) + automation("kitchen", "on", LOCK),
    )


def run(*arguments: object) -> int:
    return main(["hass", *map(str, arguments)])


def test_a_folder_gives_sentences_reasons_and_automations(home, model, capsys):
    assert run(home, "--model", model) == 0
    shown = capsys.readouterr().out
    assert "When kitchen motion no longer detects motion, turn off kitchen lamp" in shown
    # All six homes have it, and no home owns the two types without it.
    assert "6 of the 6 homes with a motion sensor and a light have it." in shown
    assert re.search(r"You have: When (\w+) motion detects motion, turn on \1 lamp\.", shown)
    assert "probability" not in shown


def test_the_file_is_what_was_shown_and_the_home_lacks_it(home, model, tmp_path, capsys):
    assert run(home, "--model", model, "--out", tmp_path / "new.yaml", "--json") == 0
    found = json.loads(capsys.readouterr().out)["recommendations"]
    written = yaml.safe_load((tmp_path / "new.yaml").read_text())
    assert [each["automation"] for each in found] == written
    has = set(read_home(read_folder(home)).rules)
    pasted = (home / "automations.yaml").read_text() + (tmp_path / "new.yaml").read_text()
    later = set(read_home(read_folder(configuration(tmp_path / "later", pasted))).rules)
    keys = ("trigger", "trigger_state", "action", "action_device")
    assert {tuple(each[key] for key in keys) for each in found} == later - has
    assert len(later - has) == len(found) > 0


def test_our_own_file_is_written_again(home, model, tmp_path):
    path = tmp_path / "new.yaml"
    for k in (1, 2):
        assert run(home, "--model", model, "--out", path, "-k", k) == 0
    assert len(yaml.safe_load(path.read_text())) == 2


def test_what_was_not_read_is_in_the_json(tmp_path, model, capsys):
    folder = configuration(tmp_path / "config", "- alias: [\n")
    assert run(folder, "--model", model, "--json") == 0
    assert "automations.yaml" in json.loads(capsys.readouterr().out)["not_read"][0]


def test_a_lock_comes_with_a_warning(home, model, capsys):
    run(home, "--model", model)
    assert "WARNING: " in capsys.readouterr().out.split("lock kitchen door")[1].partition("\n  2.")[0]


@pytest.mark.parametrize(("version", "key"), [("2024.3.3", "trigger"), ("2025.4.4", "triggers")])
def test_the_style_is_that_of_the_version(tmp_path, model, version, key, capsys):
    folder = configuration(tmp_path / "config", automation("hall", "on", LIGHT), version=version)
    assert run(folder, "--model", model, "--json") == 0
    assert key in json.loads(capsys.readouterr().out)["recommendations"][0]["automation"]


def test_what_is_dismissed_does_not_come_again(home, model, tmp_path, capsys):
    run(home, "--model", model, "--json")
    first, *others = (each["automation"]["id"] for each in json.loads(capsys.readouterr().out)["recommendations"])
    (tmp_path / "no.txt").write_text(f"# not for me\n{first}  # really\n\n")
    run(home, "--model", model, "--json", "--without", tmp_path / "no.txt")
    again = [each["automation"]["id"] for each in json.loads(capsys.readouterr().out)["recommendations"]]
    assert first not in again
    assert set(others) <= set(again)


def test_one_area_only(home, model, capsys):
    assert run(home, "--model", model, "--area", "Bath", "--json") == 0
    found = json.loads(capsys.readouterr().out)["recommendations"]
    assert found
    assert all("bath" in each["trigger"] + each["action_device"] for each in found)


def test_an_export_is_a_home_for_recommend_and_needs_no_model(home, model, tmp_path, capsys):
    assert run(home, "--export", tmp_path / "home.json") == 0
    shown = capsys.readouterr()
    assert "3 automations, 3 give rules" in shown.out
    assert "names of your devices" in shown.err
    assert main(["recommend", str(model), str(tmp_path / "home.json"), "--ignore-unknown"]) == 0


def test_the_page_is_written(home, model, tmp_path, capsys):
    assert run(home, "--model", model, "--html", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count("fedrule_") >= 2
    assert "open it in a browser" in capsys.readouterr().err


def test_a_home_without_automations_gets_recommendations_from_its_devices(tmp_path, model, capsys):
    folder = configuration(tmp_path / "config", "[]\n")
    storage = folder / ".storage"
    storage.mkdir()
    entities = [
        {"entity_id": "light.hall", "name": "Hall lamp"},
        {"entity_id": "binary_sensor.hall", "name": "Hall motion", "original_device_class": "motion"},
    ]
    (storage / "core.entity_registry").write_text(json.dumps({"data": {"entities": entities}}))
    assert run(folder, "--model", model) == 0
    shown = capsys.readouterr().out
    assert "0 automations" in shown
    assert "When Hall motion detects motion, turn on Hall lamp" in shown


def test_a_home_without_devices_gets_a_sentence(tmp_path, model, capsys):
    assert run(configuration(tmp_path / "config", "[]\n"), "--model", model) == 0
    assert "No recommendations for this home: it has no device" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("http://127.0.0.1:1",), "needs --token-file FILE: make a long-lived access token"),
        (("HOME", "--token-file", "TOKEN"), "--token-file is for a running server"),
        (("HOME", "--install", "--model", "MODEL"), "--install saves automations on a running server"),
        (("HOME", "--out", "x.yaml"), "recommendations need --model MODEL"),
        (("HOME", "--model", "nowhere.safetensors"), "nowhere.safetensors: there is no such model"),
        (("nowhere",), "nowhere: there is no such folder; for a running server give an address"),
        (("http://127.0.0.1:1", "--token-file", "nowhere"), "nowhere: the token cannot be read (No such file"),
        (("http://127.0.0.1:1", "--token-file", "TOKEN"), "127.0.0.1:1"),
        (("HOME", "--model", "MODEL", "--area", "Attic"), "--area Attic: no device is there"),
        (("HOME", "--model", "MODEL", "--without", "nowhere"), "nowhere: cannot be read"),
        (("HOME", "--model", "TOKEN"), "not a fedrule model"),
        (("HOME", "--model", "WYZE"), "a model of toy, which has other words than Home Assistant"),
        (("HOME", "--model", "MODEL", "--out", "HOME"), "is a folder; name a file in it"),
        (("HOME", "--model", "MODEL", "--html", "nowhere/page.html"), "nowhere/page.html: there is no folder nowhere"),
        (("HOME", "--export", "nowhere/home.json"), "nowhere/home.json: there is no folder nowhere"),
        (("HOME", "--model", "MODEL", "--out", "AUTOMATIONS"), "this file is there and is not one of ours"),
        (("HOME", "--ca-file", "TOKEN"), "are for an address that begins with https://"),
        (("http://127.0.0.1:1", "--token-file", "TOKEN", "--no-certificate-check"), "begins with https://"),
    ],
)
def test_bad_input_is_one_clear_sentence(home, model, tmp_path, arguments, message, capsys):
    token = tmp_path / "token"
    token.write_text("eyJ.secret.token\n")
    saved_model(tmp_path / "wyze.safetensors")
    places = {"HOME": home, "MODEL": model, "TOKEN": token, "WYZE": tmp_path / "wyze.safetensors"}
    places["AUTOMATIONS"] = home / "automations.yaml"
    assert run(*(places.get(word, word) for word in arguments)) == 1
    told = capsys.readouterr().err
    assert message in told
    assert "secret" not in told
    assert "Traceback" not in told


def test_nothing_is_written_when_the_home_cannot_be_read(tmp_path, model):
    assert run(tmp_path / "config", "--model", model, "--out", tmp_path / "out.yaml") == 1
    assert not (tmp_path / "out.yaml").exists()
