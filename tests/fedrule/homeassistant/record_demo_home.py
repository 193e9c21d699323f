"""Record a real server's answers and registries for the demo home.

    HASS=/path/to/hass python -m tests.fedrule.homeassistant.record_demo_home

Writes answers.json (what the WebSocket says) and demo_home/.storage (what the server keeps), without what the reader
does not look at: times, contexts, ids of users and of the configuration; and valid_parts.json, the triggers and actions
that the writer makes for this home and the server validates.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fedrule.homeassistant import Installation, read_home
from fedrule.homeassistant.readers import live, registries
from tests.support.home_assistant import DEMO_HOME, RunningServer, furnish, running_home_assistant
from tests.support.home_assistant_proof import Talk, problems_of, shape, written_rules

ANSWERS = DEMO_HOME.with_name("answers.json")
VALID = DEMO_HOME.with_name("valid_parts.json")
STORED = {"core.area_registry": "areas", "core.device_registry": "devices", "core.entity_registry": "entities"}
SEEN = (
    "friendly_name",
    "device_class",
    "unit_of_measurement",
    "supported_features",
    "supported_color_modes",
    "options",
    "entity_id",
    "id",
    *sorted(registries.CAPABILITIES),
)
SAID = {"name", "description", "example"}  # for people who fill in a form
LEFT_OUT = {"context", "config_entry_id", "config_entries", "created_at", "modified_at", "icon", "translation_key"}


class Recorder(live.Session):
    """Keeps every answer beside its question."""

    def __init__(self, connection: live.Connection, address: str) -> None:
        super().__init__(connection, address)
        self.kept: list[list[object]] = []

    def ask_all(self, questions):  # type: ignore[no-untyped-def]
        answers = super().ask_all(questions)
        for (kind, fields), answer in zip(questions, answers, strict=True):
            self.kept.append([kind, dict(fields), _small(kind, answer)])
        return answers


def _small(kind: str, answer: object) -> object:
    if kind == "get_states":
        assert isinstance(answer, list)
        return [
            {
                "entity_id": state["entity_id"],
                # The reader looks at the states of automations only, to see which are on.
                "state": state["state"] if state["entity_id"].startswith("automation.") else "",
                "attributes": {key: state["attributes"][key] for key in SEEN if key in state["attributes"]},
            }
            for state in answer
        ]
    if kind == "get_services":
        assert isinstance(answer, dict)
        return _without_text(answer)
    if kind == "get_config":
        assert isinstance(answer, dict)
        return {key: answer[key] for key in ("version", "state")}
    return _without(answer)


def _without_text(value: object) -> object:
    if isinstance(value, Mapping):
        kept = {k: v for k, v in value.items() if k != "selector" and (k not in SAID or isinstance(v, Mapping))}
        return {k: _without_text(v) for k, v in kept.items()}
    return value


def _valid_parts(server: RunningServer, installation: Installation) -> dict[str, list[str]]:
    """The distinct triggers and actions that are written for this home; the server must find all of them valid."""
    found: dict[str, set[str]] = {"trigger": set(), "action": set()}
    talk = Talk(server)
    for rule, written in written_rules(read_home(installation)).items():
        wrong = problems_of(talk, installation, written)
        assert not wrong, (rule, wrong)
        for key, parts in found.items():
            parts.add(shape(written.config[key]))
    talk.close()
    return {key: sorted(parts) for key, parts in found.items()}


def _without(value: object) -> object:
    """Without what is empty or not looked at."""
    if isinstance(value, Mapping):
        return {k: _without(v) for k, v in value.items() if k not in LEFT_OUT and v not in (None, [], {})}
    return [_without(each) for each in value] if isinstance(value, list) else value


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with running_home_assistant(folder) as server:
            furnish(server)
            with live.connected(live.locate(server.address)) as connection:
                session = Recorder(connection, "http://127.0.0.1:8123")
                session.sign_in(server.token)
                installation = live.read_session(session)
            valid = _valid_parts(server, installation)
        lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in session.kept)
        ANSWERS.write_text(f"[\n{lines}\n]\n", "utf-8")
        VALID.write_text(json.dumps(valid, ensure_ascii=False, indent=0) + "\n", "utf-8")
        storage = DEMO_HOME / ".storage"
        shutil.rmtree(storage, ignore_errors=True)
        storage.mkdir()
        for name, key in STORED.items():
            records = [_without(each) for each in json.loads((folder / ".storage" / name).read_text())["data"][key]]
            lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in records)
            (storage / name).write_text(f'{{"data": {{"{key}": [\n{lines}\n]}}}}\n', "utf-8")
        (DEMO_HOME / ".HA_VERSION").write_text(session.version + "\n")


if __name__ == "__main__":
    main()
