"""Records beside the runs: a dataclass of plain values is one JSON file, named by the hash of what it is about."""

from __future__ import annotations

import hashlib
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.results.store import as_json, refuse_other_format
from datasets.common.files import Json, write_json

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class OwnedDevice:
    """A device of a home."""

    id: int | str
    type: str


@dataclass(frozen=True, slots=True)
class TypedRule:
    """A rule in words, between entity types: what a user-item model calls an item."""

    trigger_type: str
    trigger_state: str
    action: str
    action_type: str

    def __str__(self) -> str:
        return f"({self.trigger_type}, {self.trigger_state}, {self.action}, {self.action_type})"


@dataclass(frozen=True, slots=True)
class HomeRule:
    """A rule in words, between devices of a home."""

    trigger: OwnedDevice
    trigger_state: str
    action: str
    action_device: OwnedDevice


def file_name(about: Mapping[str, object]) -> str:
    """The name of the file of the record about this."""
    text = json.dumps(as_json(about, "record"), sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def write_record(path: Path, record: Any, format: int) -> None:
    """Write a record; equal records are equal bytes."""
    write_json(path, {"format": format, **_plain(asdict(record))})


def read_record(path: Path, kind: type[R], format: int) -> R:
    """The record of a file; a ValueError that says why where it cannot be used."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"it cannot be read: {error}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError("it has no format")
    refuse_other_format(content.pop("format"), format)
    record: R = _restored(content, kind, kind.__name__)
    return record


def read_records(folder: Path, kind: type[R], format: int) -> tuple[list[R], list[tuple[str, str]]]:
    """The records of a folder in the order of their names; file and reason of each that cannot be used."""
    found: list[R] = []
    problems: list[tuple[str, str]] = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(read_record(path, kind, format))
        except ValueError as error:
            problems.append((f"{folder.name}/{path.name}", str(error)))
    return found, problems


def _plain(value: Any) -> Any:
    """Tuples as lists and keys as text, which is how JSON has them."""
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def _restored(value: Json, kind: Any, place: str) -> Any:
    """A JSON value as the declared type holds it."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        names = [each.name for each in fields(kind)]
        if missing := [name for name in names if name not in value]:
            raise ValueError(f"{place} has no {', '.join(missing)}")
        return typing.cast(Any, kind)(
            **{name: _restored(value[name], hints[name], f"{place}.{name}") for name in names}
        )
    if origin is tuple and isinstance(value, list):
        return tuple(_restored(entry, of[0], f"{place}[{place_of}]") for place_of, entry in enumerate(value))
    if origin is dict and isinstance(value, dict):
        if of[0] is int and not all(name.lstrip("-").isdecimal() for name in value):
            raise ValueError(f"{place} has a key that is no whole number")
        return {of[0](name): _restored(entry, of[1], f"{place}.{name}") for name, entry in value.items()}
    if kind is object:  # settings, which are whatever JSON holds
        return value
    allowed = of if origin in (types.UnionType, typing.Union) else (kind,)
    for option in allowed:
        if is_dataclass(option) and isinstance(value, dict):
            return _restored(value, option, place)
    if float in allowed and type(value) is int:
        return float(value)
    if type(value) not in allowed:
        expected = " or ".join(getattr(option, "__name__", str(option)) for option in allowed)
        raise ValueError(f"{place} is {type(value).__name__}, expected {expected}")
    return value
