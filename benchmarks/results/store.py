"""A result is one file whose name is the hash of its key (`benchmarks.results.store`).

    <hash>.json           key, summary, history by round, seconds, memory, versions, commit, hash of the method's code
    <hash>.homes.parquet  a row per home with hidden rules
    <hash>.rules.parquet  a row per hidden rule
    <hash>.failed.json    the error of a run that failed; it goes away when the run succeeds

Every file is written under another name and moved, the JSON last, so a finished run is complete and two processes may
share a folder. A file that cannot be read is named and left alone. The code is not part of the key: a run of edited
code takes the place of the old one, so that no list shows both.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa

from datasets.common.errors import DataError
from datasets.common.files import Json, moved_to, write_json

# --- The key of a result says what must be equal for two runs to be the same; its hash names the result's files.


@dataclass(frozen=True, slots=True)
class Key:
    """All that decides the numbers of a run."""

    method: str
    parameters: dict[str, Json]  # all of them, defaults included
    data: str
    data_options: dict[str, Json]  # all of them, defaults included
    fingerprint: str  # of the homes as the method sees them, merged in the track `types`
    track: str
    split: dict[str, Json]
    protocol: str
    seed: int
    curves: int = 0  # every how many rounds the model was measured; 0 is never

    @property
    def hash(self) -> str:
        """16 hex digits: the name of the files."""
        values = asdict(self)
        if not self.curves:
            del values["curves"]  # results from before there were curves keep their names
        text = json.dumps(values, sort_keys=True, ensure_ascii=False, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        curves = f", curves every {self.curves}" if self.curves else ""
        where = f"{self.data} ({self.track}, {self.split['split']})"
        return f"{self.method} on {where}, {self.protocol}, seed {self.seed}{curves}"


def as_json(value: object, where: str) -> Json:
    """A setting as JSON keeps it: tuples become lists, paths text, numbers that JSON lacks text."""
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
    raise DataError(f"{where}: {type(value).__name__} cannot be part of a result's key; use numbers, text or lists")


log = logging.getLogger(__name__)

FORMAT = 2  # goes up when older files would be misread, or hold numbers of an evaluation that has changed since
TABLES = ("homes", "rules")
LATER = ("code", "digests")  # files of before lack them and can be read all the same
OTHERWISE = ("key", "folder", *LATER)


@dataclass(frozen=True, slots=True)
class Result:
    """One run: what it was, what came out and what it took. The tables stay on disk until asked for."""

    key: Key
    status: str = "done"  # or "failed"
    error: str = ""
    summary: dict[str, float] = field(default_factory=dict)  # metric -> value; NaN where there was nothing to measure
    calibrated: bool = False  # probabilities were fitted on validation data, since the scores are not log-odds
    history: list[dict[str, float]] = field(default_factory=list)  # by round: what the method measured, and curves
    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)  # megabytes of the run's own process
    counts: dict[str, int] = field(default_factory=dict)  # homes, devices, rules of the data
    versions: dict[str, str] = field(default_factory=dict)
    commit: str = ""
    code: str = ""  # of the files the method is written in, see `circumstances.code_of`
    threads: int = 1
    written: str = ""
    digests: dict[str, str] = field(default_factory=dict)  # of the tables, to notice one that is cut off or damaged
    folder: Path | None = None  # where it was read from

    def homes(self) -> pd.DataFrame:
        """A row per home with hidden rules."""
        return self._table("homes")

    def rules(self) -> pd.DataFrame:
        """A row per hidden rule."""
        return self._table("rules")

    def _table(self, name: str) -> pd.DataFrame:
        if self.folder is None or self.status != "done":
            raise DataError(f"{self.key}: its {name} are not on disk; the run is {self.status}")
        path = _table_path(self.folder, self.key, name)
        try:
            return pd.read_parquet(path)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{path}: not a readable Parquet file ({error}); delete it and run again") from error


def results_folder(given: Path | str | None = None) -> Path:
    """Where results are kept: as given, else $FEDRULE_RESULTS, else `results`."""
    folder = Path(given or os.environ.get("FEDRULE_RESULTS") or "results")
    if folder.is_file():
        raise DataError(f"{folder} is a file, not a folder; results are kept in a folder")
    return folder


@dataclass(frozen=True, slots=True)
class Runs:
    """Every run of a folder, in an order that depends on the keys only."""

    finished: tuple[Result, ...]
    failed: tuple[Result, ...]  # and have not succeeded since
    unreadable: tuple[tuple[str, str], ...]  # file and why it is not used


def load_runs(folder: Path | str | None = None) -> Runs:
    """What a folder holds; nothing where there is no such folder."""
    read, unreadable = [], []
    for path in sorted(results_folder(folder).glob("*.json")):
        try:
            read.append(_parsed(path))
        except ValueError as error:
            unreadable.append((path.name, str(error)))
    finished = tuple(result for result in read if result.status == "done")
    there = {(result.key.hash, result.code) for result in finished}
    failed = tuple(r for r in read if r.status == "failed" and (r.key.hash, r.code) not in there)
    return Runs(finished, failed, tuple(unreadable))


def load_results(folder: Path | str | None = None) -> list[Result]:
    """Every finished run of a folder; unreadable files are named in the log."""
    return list(_named(folder).finished)


def load_failures(folder: Path | str | None = None) -> list[Result]:
    """The runs that failed and have not succeeded since, with their errors."""
    return list(_named(folder).failed)


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of results, which several processes may use at once."""

    folder: Path

    def find(self, key: Key, code: str | None = None) -> Result | None:
        """The finished run of this key, by any code or by this one; None if there is none that can be read."""
        path = self.folder / f"{key.hash}.json"
        found = _read(path) if path.exists() else None
        return found if found is None or code in (None, found.code) else None

    def finished(self, key: Key, code: str) -> Result | None:
        """The finished run of this key by this code; a run by other code is named, since it will be made again."""
        found = self.find(key)
        if found is not None and found.code != code:
            log.warning("%s: made by other code, run again", key)
            return None
        return found

    def save(self, result: Result, homes: pd.DataFrame, rules: pd.DataFrame) -> Result:
        """Keep a finished run; its tables first, so that the JSON says they are there."""
        path = self.folder / f"{result.key.hash}.json"
        if path.exists() and _read(path) is None:
            _set_aside(path)
        digests = {}
        for name, table in zip(TABLES, (homes, rules), strict=True):
            place = _table_path(self.folder, result.key, name)
            with moved_to(place) as temporary:
                table.to_parquet(temporary)
                digests[name] = _digest(temporary)
        result = replace(result, status="done", error="", digests=digests, folder=self.folder)
        write_json(path, _as_json(result))
        self._failure(result.key).unlink(missing_ok=True)
        return result

    def fail(self, result: Result) -> Result:
        """Keep the error of a run beside whatever is there: a finished run of the same key stays finished."""
        result = replace(result, status="failed", folder=self.folder)
        write_json(self._failure(result.key), _as_json(result))
        return result

    def outcome(self, key: Key, code: str | None = None) -> Result:
        """The finished run of this key by this code, or else its failure; else the file was edited meanwhile."""
        failure = self._failure(key)
        result = self.find(key, code) or (_read(failure) if failure.exists() else None) or self.find(key)
        if result is None:
            raise DataError(f"{self.folder}: there is neither a result nor a failure of {key}")
        return result

    @contextmanager
    def claim(self, key: Key) -> Iterator[bool]:
        """Whether nobody else is at this run, by any protocol. It never waits, and ends with the process that holds it.

        Where the file system cannot lock, everyone may run: work is then done twice, but nothing is lost.
        """
        try:
            import fcntl  # not on Windows

            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / f"{replace(key, protocol='').hash}.lock").open("w")
        except (ImportError, OSError):
            yield True
            return
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            except OSError:
                yield True
                return
            try:
                yield True
            finally:
                Path(lock.name).unlink(missing_ok=True)

    def _failure(self, key: Key) -> Path:
        return self.folder / f"{key.hash}.failed.json"


def _table_path(folder: Path, key: Key, name: str) -> Path:
    return folder / f"{key.hash}.{name}.parquet"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _set_aside(path: Path) -> None:
    """Keep an unreadable file under another name, since its own is needed now."""
    number = 1
    while (aside := path.with_name(f"{path.name}.unreadable-{number}")).exists():
        number += 1
    path.rename(aside)
    log.warning("%s could not be read and is now %s", path, aside.name)


def _named(folder: Path | str | None) -> Runs:
    runs = load_runs(folder)
    for name, reason in runs.unreadable:
        _warn(results_folder(folder) / name, reason)
    return runs


def _read(path: Path) -> Result | None:
    """A result file; None, and a line in the log that says why, where it cannot be used."""
    try:
        return _parsed(path)
    except ValueError as error:
        _warn(path, str(error))
        return None


def _warn(path: Path, reason: str) -> None:
    log.warning("%s is not used: %s", path, reason)


def _parsed(path: Path) -> Result:
    """A result file; a ValueError that says why it cannot be used."""
    try:
        content = _whole(path.read_text("utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"it has format {content['format']}, this version reads {FORMAT}")
        values = {each.name: content[each.name] for each in fields(Result) if each.name not in OTHERWISE}
        values |= {name: content[name] for name in LATER if name in content}
        values["summary"] = {name: _number(value) for name, value in values["summary"].items()}
        values["history"] = [{name: _number(value) for name, value in row.items()} for row in values["history"]]
        result = Result(key=Key(**content["key"]), folder=path.parent, **values)
        expected = f"{result.key.hash}.json" if result.status == "done" else f"{result.key.hash}.failed.json"
        if path.name != expected:
            raise ValueError(f"its key belongs to {expected}")
        for name, digest in result.digests.items():
            table = _table_path(path.parent, result.key, name)
            if not table.exists() or _digest(table) != digest:
                raise ValueError(f"{table.name} is missing, cut off or damaged")
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ValueError(f"no {error}" if isinstance(error, KeyError) else str(error)) from error
    return result


def _whole(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not whole: {error}") from None
    if not isinstance(content, dict):
        raise ValueError("it is no result, but other JSON")
    return content


def _as_json(result: Result) -> Json:
    values = {each.name: getattr(result, each.name) for each in fields(Result) if each.name != "folder"}
    values["key"] = asdict(result.key)
    values["summary"] = {name: _json_number(value) for name, value in result.summary.items()}
    values["history"] = [{name: _json_number(value) for name, value in row.items()} for row in result.history]
    return {"format": FORMAT, **values}


def _number(value: float | str | None) -> float:
    return math.nan if value is None else float(value)


def _json_number(value: float) -> float | str | None:
    """JSON has no NaN and no infinity."""
    value = float(value)
    return value if math.isfinite(value) else None if math.isnan(value) else str(value)


# --- Records beside the runs: a dataclass of plain values is one JSON file, and comes back equal or with a reason why not.
#
# A file is named by the hash of what it is about. One that is damaged or has an older format is named and left alone.

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Owned:
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

    trigger: Owned
    trigger_state: str
    action: str
    action_device: Owned


def name_of(about: Mapping[str, object]) -> str:
    """The name of the file of what this describes."""
    text = json.dumps(as_json(about, "record"), sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def write_record(path: Path, record: Any, format: int) -> None:
    """Keep a record; equal records are equal bytes."""
    write_json(path, {"format": format, **_plain(asdict(record))})


def read_record(path: Path, kind: type[R], format: int) -> R:
    """The record of a file; a ValueError that says why where it cannot be used."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"it cannot be read: {error}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError("it is no record: it has no format")
    if content.pop("format") != format:
        raise ValueError(f"it has another format than {format}, which this version reads; prepare the suite again")
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
