"""One home as a request tells it: devices with ids and types, and the rules that it has, by device id.

{"devices": [{"id": "door", "type": "ContactSensor", "name": "Front door"}, {"id": "lamp", "type": "Light"}],
 "rules": [{"trigger": "door", "trigger_state": "Open", "action": "Power On", "action_device": "lamp"}]}
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from datasets.common.errors import DataError
from datasets.view import Home
from fedrule.inference.json_text import BadJson, parsed

Id: TypeAlias = int | str


class BadHome(DataError):
    """A home that cannot be answered: a short code for programs, where in the home, and what to do."""

    def __init__(self, code: str, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.code, self.where, self.message = code, where, message


class Owned(NamedTuple):
    """A device."""

    id: Id
    type: str
    name: str = ""  # what people call it; its id where it has none

    @property
    def called(self) -> str:
        return self.name or str(self.id)


class Automated(NamedTuple):
    """A rule; devices by their ids."""

    trigger: Id
    trigger_state: str
    action: str
    action_device: Id


class AskedHome(NamedTuple):
    """What a home owns and what it has automated."""

    devices: Sequence[Owned]
    rules: Sequence[Automated] = ()

    @classmethod
    def of_json(cls, content: object) -> AskedHome:
        """From parsed JSON; what is wrong is named by its place, e.g. devices[2].type."""
        home = _table(content, "", required=("devices",), optional=("rules", "user"))
        devices = [
            Owned(
                _id(device["id"], f"{where}.id"),
                _word(device["type"], f"{where}.type"),
                _word(device.get("name", ""), f"{where}.name", empty=True),
            )
            for where, device in _rows(home, "devices", required=("id", "type"), optional=("name",))
        ]
        rules = [
            Automated(
                _id(rule["trigger"], f"{where}.trigger"),
                _word(rule["trigger_state"], f"{where}.trigger_state"),
                _word(rule["action"], f"{where}.action"),
                _id(rule["action_device"], f"{where}.action_device"),
            )
            for where, rule in _rows(home, "rules", required=Automated._fields)
        ]
        return cls(devices, rules)

    @classmethod
    def of_home(cls, home: Home) -> AskedHome:
        """A home of `Homes`, spelled out."""
        devices = [Owned(device.id, device.type) for device in home.devices]
        rules = [Automated(rule.trigger.id, *rule.relation, rule.action.id) for rule in home.rules]
        return cls(devices, rules)

    @classmethod
    def read(cls, path: Path | str) -> AskedHome:
        """From a JSON file; - is the standard input."""
        try:
            return cls.of_json(parsed(sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()))
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        except (BadHome, BadJson) as error:
            raise BadHome(error.code, f"{path} {error.where}".strip(), error.message) from None


def _rows(
    home: Mapping[str, object], name: str, *, required: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[str, Mapping[str, object]]]:
    rows = home.get(name, [])
    if not isinstance(rows, list):
        raise BadHome("wrong_kind", name, "give a list")
    for at, row in enumerate(rows):
        where = f"{name}[{at}]"
        yield where, _table(row, where, required=required, optional=optional)


def _table(
    content: object, where: str, *, required: Sequence[str], optional: Sequence[str] = ()
) -> Mapping[str, object]:
    if not isinstance(content, dict):
        raise BadHome("wrong_kind", where, f"give an object with {', '.join(required)}")
    if strange := [name for name in content if name not in {*required, *optional}]:  # a typo makes another one missing
        raise BadHome("unexpected", where, f"{strange[0]!r} is not known; known: {', '.join([*required, *optional])}")
    if missing := [name for name in required if name not in content]:
        raise BadHome("missing", where, f"{', '.join(missing)} is missing")
    return content


def _id(value: object, where: str) -> Id:
    if isinstance(value, str) and value:
        return value
    if type(value) is int and -(2**63) <= value < 2**63:  # True is no number
        return value
    raise BadHome("wrong_kind", where, f"{value!r} is no id; give text or a whole number of 64 bits")


def _word(value: object, where: str, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or empty):
        raise BadHome("wrong_kind", where, f"{value!r} is no word; give text")
    return value
