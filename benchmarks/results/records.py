"""A record is a dataclass of plain values stored as one JSON file; the same records give the same bytes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from datasets.common.errors import DataError
from datasets.common.files import Json, write_json
from datasets.common.options import read

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class OwnedDevice:
    """A device of a home."""

    id: int | str
    type: str


@dataclass(frozen=True, slots=True)
class TypedRule:
    """A rule between entity types: what a user-item model calls an item."""

    trigger_type: str
    trigger_state: str
    action: str
    action_type: str

    def __str__(self) -> str:
        return f"({self.trigger_type}, {self.trigger_state}, {self.action}, {self.action_type})"


@dataclass(frozen=True, slots=True)
class HomeRule:
    """A rule between devices of a home."""

    trigger: OwnedDevice
    trigger_state: str
    action: str
    action_device: OwnedDevice


def as_json(value: object, where: str) -> Json:
    """A value as JSON stores it: tuples become lists; paths, NaN and infinity become text."""
    if isinstance(value, Mapping):
        return {str(name): as_json(entry, f"{where}.{name}") for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry, where) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    raise DataError(f"{where}: {type(value).__name__} cannot be stored in a result; use numbers, text or lists")


def hash_of(about: Mapping[str, object]) -> str:
    """16 hex digits that name the file of the record about this."""
    text = json.dumps(as_json(about, "record"), sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_record(path: Path, record: DataclassInstance, format: int) -> None:
    """Store a record, marked with its format."""
    content: Any = as_json(asdict(record), type(record).__name__)
    write_json(path, {"format": format, **content})


def read_record(path: Path, kind: type[R], format: int) -> R:
    """The record of a file; a ValueError that says why where it cannot be used."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"it cannot be read: {error}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError("it has no format")
    found = content.pop("format")
    if found != format:
        age = "a newer" if isinstance(found, int) and found > format else "an older"
        raise ValueError(f"made by {age} version (format {found}, this version reads {format}): run it again")
    record: R = read(kind, content, where=kind.__name__)
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
