"""A node reads its homes from a file of homes, databases or one HOME.json, in the federation's vocabulary."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="rounds need the extra graph")

from datasets import Homes
from datasets.common.errors import DataError
from fedrule.flower.node import NodeOptions
from fedrule.flower.node_homes import read_homes
from fedrule.flower.vocabulary import Vocabulary
from tests.support.two_homes import two_homes

HOME = {
    "devices": [
        {"id": 1, "type": "Door", "room": "Hall"},
        {"id": 2, "type": "Lamp", "room": "Hall"},
        {"id": 3, "type": "Oven"},
        {"id": 4, "type": "Lamp"},
    ],
    "rules": [
        {"trigger": 1, "trigger_state": "Open", "action": "On", "action_device": 2},
        {"trigger": 1, "trigger_state": "Open", "action": "Bake", "action_device": 3},
    ],
}
VOCABULARY = Vocabulary(("Lamp", "Door", "Oven"), (("Shut", "Off"), ("Open", "Bake"), ("Open", "On")))  # type: ignore[arg-type]


def written(folder: Path, content: object) -> Path:
    path = folder / "home.json"
    path.write_text(json.dumps(content))
    return path


def wider(homes: Homes) -> Vocabulary:
    """The names of some homes, backwards, and one more of each."""
    return Vocabulary(("Fridge", *homes.types[::-1]), (("Cold", "Warm"), *homes.relations[::-1]))  # type: ignore[arg-type]


def test_a_home_of_json_is_one_client(tmp_path: Path) -> None:
    homes = read_homes(written(tmp_path, HOME), VOCABULARY)
    assert (homes.n_homes, homes.n_devices, homes.n_rules) == (1, 4, 2)
    assert homes.device_type.tolist() == [1, 0, 2, 0]
    assert homes.rules.relation.tolist() == [2, 1]
    assert homes.share_word(np.array([0, 0]), np.array([1, 2])).tolist() == [True, False]  # the hall


def test_homes_of_a_file_get_the_numbers_of_the_federation(tmp_path: Path) -> None:
    homes = two_homes()
    homes.save(tmp_path / "homes.parquet")
    found = read_homes(tmp_path / "homes.parquet", wider(homes))
    assert found.types[0] == "Fridge"
    assert [str(home) for home in found] == [str(home) for home in homes]


def test_homes_of_a_database_are_read_by_their_description(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")
    with sqlite3.connect(tmp_path / "home.db") as database:
        database.execute("create table device (user text, id text, type text)")
        database.executemany("insert into device values (?, ?, ?)", [("ann", "d", "Door"), ("ann", "l", "Lamp")])
        database.execute("create table rule (user text, trigger text, state text, act text, action text)")
        database.execute("insert into rule values ('ann', 'd', 'Open', 'On', 'l')")
    (tmp_path / "homes.toml").write_text(
        f"""[devices]
url = "sqlite:///{tmp_path / "home.db"}"
table = "device"
columns = {{user = "user", device = "id"}}
[rules]
url = "sqlite:///{tmp_path / "home.db"}"
table = "rule"
columns = {{trigger_device = "trigger", trigger_state = "state", action = "act", action_device = "action"}}
"""
    )
    try:
        homes = read_homes(tmp_path / "homes.toml", VOCABULARY)
    except DataError as error:
        pytest.fail(str(error))
    assert homes.types == VOCABULARY.types
    assert homes.device_type.tolist() == [1, 0]
    assert homes.rules.relation.tolist() == [2]


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_names_that_the_federation_does_not_know_are_refused_with_the_remedy(tmp_path: Path, kind: str) -> None:
    fewer = Vocabulary(("Lamp", "Door"), VOCABULARY.relations)
    source = written(tmp_path, HOME)
    if kind == "parquet":
        homes = read_homes(source, VOCABULARY)
        source = tmp_path / "homes.parquet"
        homes.save(source)
    with pytest.raises(DataError, match=r"Oven.*set unknown_names=\"ignore\" in the node-config to leave such devices"):
        read_homes(source, fewer)
    left = read_homes(source, fewer, if_unknown="ignore")
    # The oven goes, and with it the rule that bakes.
    assert (left.n_devices, left.n_rules) == (3, 1)
    assert left.rules.relation.tolist() == [2]


def test_unknown_relations_are_left_out_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    homes = read_homes(written(tmp_path, HOME), VOCABULARY)
    homes.save(tmp_path / "homes.parquet")
    fewer = Vocabulary(VOCABULARY.types, VOCABULARY.relations[:2])
    left = read_homes(tmp_path / "homes.parquet", fewer, if_unknown="ignore")
    assert (left.n_devices, left.n_rules) == (4, 1)
    assert "left out 0 devices and 1 rules that the federation does not know" in caplog.text


def test_a_missing_or_strange_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file; homes= in the node-config names the homes of this node"):
        read_homes(tmp_path / "homes.parquet", VOCABULARY)
    (tmp_path / "homes.txt").write_text("")
    with pytest.raises(DataError, match=r"reads homes from a \.parquet, \.toml or \.json file"):
        read_homes(tmp_path / "homes.txt", VOCABULARY)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"state": "s"}, 'homes="PATH" is missing'),
        ({"homes": "h", "state": 3}, 'state="PATH" is missing'),
        ({"homes": "h", "state": "s", "first": -1}, "first must be a whole number from 0 on, got -1"),
        ({"homes": "h", "state": "s", "first": "1"}, "first must be a whole number"),
        ({"homes": "h", "state": "s", "unknown_names": "drop"}, 'unknown_names must be "refuse" or "ignore"'),
        ({"homes": "h", "state": "s", "require_secure": 1}, "require_secure must be true or false, got 1"),
        ({"homes": "h", "state": "s", "max_epsilon": 0}, "max_epsilon must be a number above 0, got 0"),
        ({"homes": "h", "state": "s", "max_epsilon": True}, "max_epsilon must be a number above 0, got True"),
        ({"homes": "h", "state": "s", "max_epsilom": 4.0}, "max_epsilom.*max_epsilon"),
    ],
)
def test_a_wrong_node_config_is_refused(config: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        NodeOptions.of(config)


def test_a_vocabulary_comes_back_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    VOCABULARY.write(path)
    assert Vocabulary.read(path) == VOCABULARY
    assert Vocabulary.read(path).fingerprint == VOCABULARY.fingerprint
    for content, words in (
        ("{", "not a vocabulary"),
        ('{"types": ["a"]}', "not a vocabulary"),
        ('{"types": ["a", "a"], "relations": []}', "comes twice"),
        ('{"types": [1], "relations": []}', "types must be texts"),
    ):
        path.write_text(content)
        with pytest.raises(DataError, match=words):
            Vocabulary.read(path)
    with pytest.raises(DataError, match="`deploy init` writes one"):
        Vocabulary.read(tmp_path / "other.json")


AUTOMATIONS = """
- alias: Hall
  triggers: [{trigger: state, entity_id: binary_sensor.hall_motion, to: "on"}]
  actions: [{action: light.turn_on, target: {entity_id: light.hall}}]
- alias: Night
  triggers: [{trigger: time, at: "23:00"}]
  actions: [{action: light.turn_off, target: {entity_id: light.hall}}]
"""


def test_the_configuration_folder_of_a_home_assistant_is_one_home(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="a Home Assistant is read with the extra hass")
    (tmp_path / "configuration.yaml").write_text("automation: !include automations.yaml\n")
    (tmp_path / "automations.yaml").write_text(AUTOMATIONS)
    # The federation knows lights, motion sensors, and one of the two rules; the clock is left out.
    vocabulary = Vocabulary(("Light", "MotionSensor"), (("state:on", "turn_on"),))  # type: ignore[arg-type]
    homes = read_homes(tmp_path, vocabulary, if_unknown="ignore")
    assert (homes.n_homes, homes.n_devices, homes.n_rules) == (1, 2, 1)
    trigger, relation, action = (int(column[0]) for column in homes.typed())
    assert (homes.types[trigger], homes.relations[relation], homes.types[action]) == (
        "MotionSensor",
        ("state:on", "turn_on"),
        "Light",
    )
    with pytest.raises(DataError, match="in the node-config to leave such devices and rules out"):
        read_homes(tmp_path, vocabulary)


def test_a_folder_that_is_no_home_assistant_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="a Home Assistant is read with the extra hass")
    with pytest.raises(DataError, match=r"it has no configuration.yaml and no automations.yaml; give the folder of a"):
        read_homes(tmp_path, VOCABULARY)
