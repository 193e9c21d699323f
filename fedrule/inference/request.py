"""One home as a request tells it: devices with ids and types, and the rules that it has, by device id.

{"devices": [{"id": "door", "type": "ContactSensor", "name": "Front door"}, {"id": "lamp", "type": "Light"}],
 "rules": [{"trigger": "door", "trigger_state": "Open", "action": "Power On", "action_device": "lamp"}]}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from datasets.common.errors import DataError
from datasets.common.files import Json
from datasets.homes import Home

# --- JSON as strangers send it: what is no JSON, or JSON that readers disagree on, is refused with its place.
#
# Python's reader takes NaN, keeps the last of two equal keys and half of a surrogate pair; none of these is meant by
# anybody, and each would be an odd error further in.


class BadJson(DataError):
    """Text that is not read: a short code for programs, the place where it is known, and what is wrong."""

    def __init__(self, message: str, *, code: str = "bad_json", where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.code, self.where, self.message = code, where, message


def parsed(body: bytes) -> Json:
    """The content of a body or a file."""
    if not body:
        raise BadJson("there is nothing in it; give a JSON object")
    try:
        text = body.decode("utf-8-sig")  # some editors put a mark before the first letter
        content: Json = _DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:  # half of a pair is no character and cannot be written back
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJson(f"byte {error.start} is not UTF-8") from None
    except UnicodeEncodeError:
        raise BadJson("a \\u escape is half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise BadJson(f"no JSON: {error.msg}", where=f"line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise BadJson("lists and objects are nested too deeply") from None
    except BadJson:
        raise
    except ValueError as error:  # a number with thousands of digits
        raise BadJson(str(error).partition(";")[0]) from None
    return content


def _object(pairs: list[tuple[str, Json]]) -> Json:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise BadJson(f"an object has the key {name[:50]!r} twice", code="duplicate_key")
            seen.add(name)
    return made


def _no_number(name: str) -> Json:
    raise BadJson(f"{name} is no number in JSON")


def _number(digits: str) -> float:
    """5.0 is a whole number too, as JSON Schema has it."""
    number = float(digits)
    return int(number) if number.is_integer() else number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number, parse_float=_number)


Id: TypeAlias = int | str


class BadHome(DataError):
    """A home that cannot be answered: a short code for programs, where in the home, and what to do."""

    def __init__(self, code: str, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.code, self.where, self.message = code, where, message


class RequestDevice(NamedTuple):
    """A device."""

    id: Id
    type: str
    name: str = ""  # what people call it; its id where it has none

    @property
    def display_name(self) -> str:
        return self.name or str(self.id)


class RequestRule(NamedTuple):
    """A rule; devices by their ids."""

    trigger: Id
    trigger_state: str
    action: str
    action_device: Id


class HomeRequest(NamedTuple):
    """What a home owns and what it has automated."""

    devices: Sequence[RequestDevice]
    rules: Sequence[RequestRule] = ()

    @classmethod
    def from_json(cls, content: object) -> HomeRequest:
        """From parsed JSON; what is wrong is named by its place, e.g. devices[2].type."""
        home = _table(content, "", required=("devices",), optional=("rules", "user"))
        devices = [
            RequestDevice(
                _id(device["id"], f"{where}.id"),
                _word(device["type"], f"{where}.type"),
                _word(device.get("name", ""), f"{where}.name", empty=True),
            )
            for where, device in _rows(home, "devices", required=("id", "type"), optional=("name",))
        ]
        rules = [
            RequestRule(
                _id(rule["trigger"], f"{where}.trigger"),
                _word(rule["trigger_state"], f"{where}.trigger_state"),
                _word(rule["action"], f"{where}.action"),
                _id(rule["action_device"], f"{where}.action_device"),
            )
            for where, rule in _rows(home, "rules", required=RequestRule._fields)
        ]
        return cls(devices, rules)

    @classmethod
    def from_home(cls, home: Home) -> HomeRequest:
        """A home of `Homes`, spelled out."""
        devices = [RequestDevice(device.id, device.type) for device in home.devices]
        rules = [RequestRule(rule.trigger.id, *rule.relation, rule.action.id) for rule in home.rules]
        return cls(devices, rules)

    @classmethod
    def read(cls, path: Path | str) -> HomeRequest:
        """From a JSON file; - is the standard input."""
        try:
            return cls.from_json(parsed(sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()))
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
