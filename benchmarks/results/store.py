"""A result is one file, named by the hash of its key: all that must be equal for two runs to be the same.

    <hash>.json           key, overrides, summary, history by round, seconds, memory, versions, commit, hash of the code
    <hash>.homes.parquet  a row per home with hidden rules
    <hash>.rules.parquet  a row per hidden rule
    <hash>.failed.json    the error of a run that failed; deleted when the run succeeds

Every file is written under a temporary name and moved, the JSON last, so a finished run is complete and two processes
may share a folder. Files that cannot be read are reported and left alone. The code is not part of the key: a run of
edited code replaces the old one, so that no list shows both.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from datasets.common.errors import DataError
from datasets.common.files import Json, moved_to, write_json


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
    curves: int = 0  # the model was measured every so many rounds; 0: never

    @property
    def hash(self) -> str:
        """16 hex digits: the name of the files."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        curves = f", curves every {self.curves}" if self.curves else ""
        where = f"{self.data} ({self.track}, {self.split['split']})"
        return f"{self.method} on {where}, {self.protocol}, seed {self.seed}{curves}"


@dataclass(frozen=True, slots=True)
class Overrides:
    """What was set to something else than the default of that time: what tables and figures call a run by."""

    parameters: dict[str, Json] = field(default_factory=dict)  # of the method
    data_options: dict[str, Json] = field(default_factory=dict)
    split_options: dict[str, Json] = field(default_factory=dict)


def as_json(value: object, where: str) -> Json:
    """A setting as JSON stores it: tuples become lists; paths, NaN and infinity become text."""
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

FORMAT = 3  # goes up when older files would be misread, or hold numbers of an evaluation that has changed since
TABLES = ("homes", "rules")


@dataclass(frozen=True, slots=True)
class Result:
    """One run: its key, its numbers and its cost. The tables stay on disk until they are needed."""

    key: Key
    overrides: Overrides = field(default_factory=Overrides)
    suite: str = ""  # that the run was part of when it was made; empty outside of a suite
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
    code: str = ""  # hash of all files of ours that its numbers depend on, see `baselines.registry.code_of`
    threads: int = 1
    written: str = ""
    digests: dict[str, str] = field(default_factory=dict)  # of the tables, to notice one that is truncated or damaged
    folder: Path | None = None  # where it was read from

    def homes(self) -> pd.DataFrame:
        """A row per home with hidden rules."""
        return self._table("homes")

    def rules(self) -> pd.DataFrame:
        """A row per hidden rule."""
        return self._table("rules")

    def _table(self, name: str) -> pd.DataFrame:
        if self.folder is None or self.status != "done":
            raise DataError(f"{self.key}: no table of {name} on disk; the run is {self.status}")
        path = _table_path(self.folder, self.key, name)
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: not a readable Parquet file ({error}); delete it and run it again") from error


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
        content = _content(path.read_text("utf-8"))
        values = {each.name: content[each.name] for each in fields(Result) if each.name != "folder"}
        values |= {"key": Key(**content["key"]), "overrides": Overrides(**content["overrides"])}
        values["summary"] = {name: _number(value) for name, value in values["summary"].items()}
        values["history"] = [{name: _number(value) for name, value in row.items()} for row in values["history"]]
        result = Result(**values, folder=path.parent)
        expected = f"{result.key.hash}.json" if result.status == "done" else f"{result.key.hash}.failed.json"
        if path.name != expected:
            raise ValueError(f"its key belongs to {expected}")
        for name, digest in result.digests.items():
            table = _table_path(path.parent, result.key, name)
            if not table.exists() or _digest(table) != digest:
                raise ValueError(f"{table.name} is missing, truncated or damaged")
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ValueError(f"no {error}" if isinstance(error, KeyError) else str(error)) from error
    return result


def _content(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is incomplete: {error}") from None
    if not isinstance(content, dict):
        raise ValueError("it is not a result")
    refuse_other_format(content["format"], FORMAT)
    return content


def refuse_other_format(found: object, ours: int) -> None:
    """A ValueError for a file of another version."""
    if found != ours:
        age = "a newer" if isinstance(found, int) and found > ours else "an older"
        raise ValueError(f"made by {age} version (format {found}, this version reads {ours}): run it again")


def _as_json(result: Result) -> Json:
    values = {each.name: getattr(result, each.name) for each in fields(Result) if each.name != "folder"}
    values |= {"key": asdict(result.key), "overrides": asdict(result.overrides)}
    values["summary"] = {name: _json_number(value) for name, value in result.summary.items()}
    values["history"] = [{name: _json_number(value) for name, value in row.items()} for row in result.history]
    return {"format": FORMAT, **values}


def _number(value: float | str | None) -> float:
    return math.nan if value is None else float(value)


def _json_number(value: float) -> float | str | None:
    """JSON has no NaN and no infinity."""
    value = float(value)
    return value if math.isfinite(value) else None if math.isnan(value) else str(value)
