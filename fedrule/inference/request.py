"""One home as JSON: devices with ids and types, and the rules that it has, by device id. Validated here only.

{"devices": [{"id": 1, "type": "ContactSensor", "name": "Front door", "room": "Hall"}, {"id": "lamp", "type": "Light"}],
 "rules": [{"trigger": 1, "trigger_state": "Open", "action": "Power On", "action_device": "lamp"}]}
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from datasets.common.errors import DataError
from datasets.common.files import Json
from datasets.homes import Home
from datasets.words import words_of_names

Id: TypeAlias = int | str

INT64 = range(-(2**63), 2**63)  # as in the databases that ids come from


class BadHome(DataError):
    """An invalid home: a code for programs, the place in the home, and what to do."""

    def __init__(self, code: str, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.code, self.where, self.message = code, where, message


class BadJson(BadHome):
    """Text that is not valid JSON."""

    def __init__(self, message: str, *, code: str = "bad_json", where: str = "") -> None:
        super().__init__(code, where, message)


def parse_json(body: bytes) -> Json:
    """Strictly: Python's reader also accepts NaN, duplicate keys and half of a surrogate pair, refused here."""
    if not body:
        raise BadJson("empty; expected a JSON object")
    try:
        text = body.decode("utf-8-sig")  # some editors write a byte order mark
        content: Json = _DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:  # half of a pair is not a character and cannot be encoded again
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJson(f"byte {error.start} is not UTF-8") from None
    except UnicodeEncodeError:
        raise BadJson("a \\u escape is half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise BadJson(f"not JSON: {error.msg}", where=f"line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise BadJson("lists and objects are nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits
        raise error if isinstance(error, BadJson) else BadJson(str(error).partition(";")[0]) from None
    return content


def _object(pairs: list[tuple[str, Json]]) -> Json:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise BadJson(f"an object has the key {twice[:50]!r} twice", code="duplicate_key")
    return content


def _constant(name: str) -> Json:
    raise BadJson(f"{name} is not a JSON number")


def _float(digits: str) -> float:
    """5.0 is an integer too, as in JSON Schema."""
    number = float(digits)
    return int(number) if number.is_integer() else number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)


class HomeLimits(NamedTuple):
    """The largest home that is accepted."""

    devices: int = sys.maxsize
    rules: int = sys.maxsize
    text: int = sys.maxsize  # characters of an id, a word or a name


UNLIMITED = HomeLimits()


class RequestDevice(NamedTuple):
    """A device."""

    id: Id
    type: str
    name: str = ""
    room: str = ""

    @property
    def display_name(self) -> str:
        """Its name, or its id if it has none."""
        return self.name or str(self.id)

    @property
    def display_name_in_room(self) -> str:
        return f"{self.display_name} ({self.room})" if self.room else self.display_name


def display_names(devices: Sequence[RequestDevice]) -> list[str]:
    """What to call each device of a home: where two have the same name the room is added, or else the id."""
    names = [device.display_name for device in devices]
    shared = Counter(names)
    names = [d.display_name_in_room if shared[name] > 1 else name for d, name in zip(devices, names, strict=True)]
    shared = Counter(names)
    return [f"{d.display_name} ({d.id})" if shared[name] > 1 else name for d, name in zip(devices, names, strict=True)]


class RequestRule(NamedTuple):
    """A rule; devices by their ids."""

    trigger: Id
    trigger_state: str
    action: str
    action_device: Id


class HomeRequest(NamedTuple):
    """The devices and rules of a home."""

    devices: Sequence[RequestDevice]
    rules: Sequence[RequestRule] = ()
    user: Id | None = None
    words: Sequence[Sequence[int]] = ()  # of each device, where they are known and not taken from names and rooms

    @classmethod
    def from_json(
        cls, content: object, *, limits: HomeLimits = UNLIMITED, options: Collection[str] = ()
    ) -> HomeRequest:
        """From parsed JSON; a `BadHome` names the first place that is wrong, e.g. devices[2].type.

        `options` are fields beside those of the home, which are left to the caller.
        """
        home = _fields(content, "", required=("devices",), optional=("rules", "user", *options))
        text = limits.text
        devices = [
            RequestDevice(
                _id(device["id"], f"{where}.id", text),
                _text(device["type"], f"{where}.type", text),
                _text(device.get("name", ""), f"{where}.name", text, empty=True),
                _text(device.get("room", ""), f"{where}.room", text, empty=True),
            )
            for where, device in _rows(
                home, "devices", limits.devices, required=("id", "type"), optional=("name", "room")
            )
        ]
        rules = [
            RequestRule(
                _id(rule["trigger"], f"{where}.trigger", text),
                _text(rule["trigger_state"], f"{where}.trigger_state", text),
                _text(rule["action"], f"{where}.action", text),
                _id(rule["action_device"], f"{where}.action_device", text),
            )
            for where, rule in _rows(home, "rules", limits.rules, required=RequestRule._fields)
        ]
        user = home.get("user")
        return cls(devices, rules, None if user is None else _id(user, "user", text))

    @classmethod
    def from_home(cls, home: Home) -> HomeRequest:
        """One home of `Homes`."""
        devices = [RequestDevice(device.id, device.type) for device in home.devices]
        rules = [RequestRule(rule.trigger.id, *rule.relation, rule.action.id) for rule in home.rules]
        return cls(devices, rules, words=home.words)

    def device_words(self) -> Sequence[Sequence[int]]:
        """The words of each device: those that are known, or those that names and rooms share."""
        if self.words or not any(device.name or device.room for device in self.devices):
            return self.words or [()] * len(self.devices)
        names, rooms, types = ([getattr(device, part) for device in self.devices] for part in ("name", "room", "type"))
        return words_of_names(names, rooms=rooms, types=types)

    @classmethod
    def read(cls, path: Path | str) -> HomeRequest:
        """From a JSON file; - is the standard input."""
        try:
            return cls.from_json(parse_json(sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()))
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        except BadHome as error:
            raise BadHome(error.code, f"{path} {error.where}".strip(), error.message) from None


def _rows(
    home: Mapping[str, object], name: str, most: int, *, required: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[str, Mapping[str, object]]]:
    rows = home.get(name, [])
    if not isinstance(rows, list):
        raise BadHome("wrong_kind", name, "expected a list")
    if len(rows) > most:
        raise BadHome(f"too_many_{name}", name, f"at most {most:,} {name} per home, got {len(rows):,}")
    for at, row in enumerate(rows):
        where = f"{name}[{at}]"
        yield where, _fields(row, where, required=required, optional=optional)


def _fields(
    content: object, where: str, *, required: Sequence[str], optional: Sequence[str] = ()
) -> Mapping[str, object]:
    if not isinstance(content, dict):
        raise BadHome("wrong_kind", where, f"expected an object with {', '.join(required)}")
    for name in content:  # before what is missing: a misspelled field is both
        if name not in required and name not in optional:
            place = f"{where}.{name[:50]}".removeprefix(".")
            raise BadHome("unexpected", place, f"unknown field; known: {', '.join([*required, *optional])}")
    for name in required:
        if name not in content:
            raise BadHome("missing", f"{where}.{name}".removeprefix("."), f"{name} is missing")
    return content


def _id(value: object, where: str, most: int) -> Id:
    if type(value) is int and value in INT64:  # a bool is not an id
        return value
    if type(value) is str and value:
        return _text(value, where, most)
    raise BadHome("wrong_kind", where, "expected a non-empty string or a 64-bit integer")


def _text(value: object, where: str, most: int, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or empty):
        raise BadHome("wrong_kind", where, "expected a string" if empty else "expected a non-empty string")
    if len(value) > most:
        raise BadHome("too_long", where, f"at most {most} characters, got {len(value):,}")
    return value
