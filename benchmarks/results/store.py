"""A result is one file, named by the hash of its key: all that must be equal for two runs to be the same.

    <hash>.json           key, overrides, summary, warnings, history by round, seconds, memory, versions, commit, code
    <hash>.homes.parquet  a row per home with hidden rules
    <hash>.rules.parquet  a row per hidden rule
    <hash>.failed.json    the error of a run that failed; deleted when the run succeeds

All files are written under temporary names and then moved, the JSON last, so a finished run is complete and two
processes may share a folder. Files that cannot be read are reported and left alone. The code is not part of the key: a
run of edited code replaces the old one, so that no list shows both.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import IO, Literal

import pandas as pd
import pyarrow.parquet

from benchmarks.results.records import hash_of, read_record, write_record
from datasets.common.errors import DataError, error_line
from datasets.common.files import atomic_file
from datasets.common.training_warnings import TrainingWarning

log = logging.getLogger(__name__)

FORMAT = 4  # goes up when older files would be misread, or hold numbers of an evaluation that has changed since
NOT_CONVERTED = "older results do not say what was tied, which of it was hidden rules, or whether training went wrong"
MOST_UNUSED = 0.15  # of the devices: with fewer, a device without a known rule hints at a hidden one
TABLES = ("homes", "rules")


@dataclass(frozen=True, slots=True)
class Key:
    """All that decides the numbers of a run."""

    method: str
    parameters: dict[str, object]  # all of them, defaults included
    data: str
    data_options: dict[str, object]  # with defaults, without what only changes the fingerprint
    fingerprint: str  # of the homes as the method sees them, merged in the track `types`
    track: str
    split: dict[str, object]
    protocol: str
    seed: int
    curves: int = 0  # the model was measured every so many rounds; 0: never

    @property
    def hash(self) -> str:
        """16 hex digits: the name of the files."""
        return hash_of({each.name: getattr(self, each.name) for each in fields(self)})

    @property
    def fit(self) -> str:
        """Its text without the protocol: one fit may be evaluated by several."""
        curves = f", curves every {self.curves}" if self.curves else ""
        return f"{self.method} on {self.data} ({self.track}, {self.split['split']}), seed {self.seed}{curves}"

    def __str__(self) -> str:
        before, _, after = self.fit.rpartition(", seed ")
        return f"{before}, {self.protocol}, seed {after}"


@dataclass(frozen=True, slots=True)
class Overrides:
    """What differed from the defaults when the run was made: tables and figures label it by these."""

    parameters: dict[str, object] = field(default_factory=dict)  # of the method
    data_options: dict[str, object] = field(default_factory=dict)
    split_options: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """One run: its key, its numbers and its cost. The tables stay on disk until they are needed."""

    key: Key
    warnings: tuple[TrainingWarning, ...] = field(kw_only=True)  # what went wrong in training; a file must say
    overrides: Overrides = field(default_factory=Overrides)
    suite: str = ""  # that the run was part of when it was made; empty outside of a suite
    status: Literal["done", "failed"] = "done"
    error: str = ""
    summary: dict[str, float] = field(default_factory=dict)  # metric -> value; NaN where there was nothing to measure
    calibrated: bool = False  # probabilities were fitted on validation data, since the scores are not log-odds
    history: list[dict[str, float]] = field(default_factory=list)  # by round: what the method measured, and curves
    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)  # megabytes of the run's own process
    counts: dict[str, int] = field(default_factory=dict)  # homes, devices, rules of the data
    versions: dict[str, str] = field(default_factory=dict)
    commit: str = ""
    code: str = ""  # hash of all files of ours that its numbers depend on, see `benchmarks.runs.experiment`
    reproduced: str = ""  # commit that gave the same numbers, see `benchmarks.runs.reproduce`
    threads: int = 1
    written: str = ""
    digests: dict[str, str] = field(default_factory=dict)  # of the tables, to notice one that is truncated or damaged
    folder: Path | None = None  # where it was read from; null in the file

    @property
    def failure(self) -> str:
        """What went wrong, in one line."""
        return error_line(self.error)

    @property
    def suffix(self) -> str:
        """What the names of its headline metrics end with, see `headline_suffix`."""
        return headline_suffix(self.counts) if self.key.protocol == "ranking" else ""

    def homes(self, *columns: str) -> pd.DataFrame:
        """A row per home with hidden rules; only these columns, if any are named."""
        return self._table("homes", columns)

    def home_columns(self) -> list[str]:
        """The columns of `homes`."""
        return list(self._file("homes").schema_arrow.names)

    def rules(self) -> pd.DataFrame:
        """A row per hidden rule."""
        return self._table("rules")

    def _table(self, name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
        table: pd.DataFrame = self._file(name).read(list(columns) or None).to_pandas()
        return table

    def _file(self, name: str) -> pyarrow.parquet.ParquetFile:
        if self.folder is None or self.status != "done":
            raise DataError(f"{self.key}: no table of {name} on disk; the run is {self.status}")
        path = _table_path(self.folder, self.key, name)
        try:
            return pyarrow.parquet.ParquetFile(path)
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: not a readable Parquet file ({error}); delete it and run it again") from error


def headline_suffix(counts: Mapping[str, int]) -> str:
    """The list of `benchmarks.evaluation.ranking` that the headline is of, by the counts of the data.

    ", closed" where nearly all devices are used by a rule, so that one without a known rule is probably in a hidden
    one; else "", all valid candidates.
    """
    unused = counts.get("devices without rules")
    return "" if unused is None or unused >= MOST_UNUSED * counts["devices"] else ", closed"


def results_folder(given: Path | str | None = None) -> Path:
    """Where results are stored: as given, else $FEDRULE_RESULTS, else `results`."""
    folder = Path(given or os.environ.get("FEDRULE_RESULTS") or "results")
    if folder.is_file():
        raise DataError(f"{folder} is a file, not a folder; results need a folder")
    return folder


@dataclass(frozen=True, slots=True)
class Runs:
    """Every run of a folder, in an order that depends on the keys only."""

    finished: tuple[Result, ...]
    failed: tuple[Result, ...]  # and have not succeeded since
    unreadable: tuple[tuple[str, str], ...]  # file and why it is not used


def load_runs(folder: Path | str | None = None) -> Runs:
    """The runs of a folder; none where there is no such folder."""
    found, unreadable = [], []
    for path in sorted(results_folder(folder).glob("*.json")):
        try:
            found.append(_read(path))
        except ValueError as error:
            unreadable.append((path.name, str(error)))
    finished = tuple(result for result in found if result.status == "done")
    done = {(result.key.hash, result.code) for result in finished}
    failed = tuple(r for r in found if r.status == "failed" and (r.key.hash, r.code) not in done)
    return Runs(finished, failed, tuple(unreadable))


def load_results(folder: Path | str | None = None) -> list[Result]:
    """Every finished run of a folder; unreadable files are logged."""
    return list(_load_logged(folder).finished)


def load_failures(folder: Path | str | None = None) -> list[Result]:
    """The runs that failed and have not succeeded since, with their errors."""
    return list(_load_logged(folder).failed)


def _load_logged(folder: Path | str | None) -> Runs:
    runs = load_runs(folder)
    for name, reason in runs.unreadable:
        _warn(results_folder(folder) / name, reason)
    return runs


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of results, which several processes may use at once."""

    folder: Path

    def find(self, key: Key, code: str | None = None) -> Result | None:
        """The finished run of this key, by any code or by this one; None if there is none that can be read."""
        path = self.folder / f"{key.hash}.json"
        found = _read_logged(path) if path.exists() else None
        return found if found is None or code in (None, found.code) else None

    def finished(self, key: Key, code: str) -> Result | None:
        """The finished run of this key by this code; a run by other code is logged, since it will be made again."""
        found = self.find(key)
        if found is not None and found.code != code:
            log.warning("%s: made by other code, run again", key)
            return None
        return found

    def save(self, result: Result, homes: pd.DataFrame, rules: pd.DataFrame | None = None) -> Result:
        """Store a finished run. Published runs have no table of rules."""
        tables = {name: table for name, table in zip(TABLES, (homes, rules), strict=True) if table is not None}
        return self._save(result, {name: table.to_parquet for name, table in tables.items()})

    def fail(self, result: Result) -> Result:
        """Store the error of a run in a file of its own: a finished run of the same key stays finished."""
        result = replace(result, status="failed", folder=None)
        with self._named_errors(result.key):
            write_record(self._failure(result.key), result, FORMAT)
        return replace(result, folder=self.folder)

    def accept(self, result: Result, code: str, *, commit: str) -> None:
        """Count a finished run of other code as made by this code, whose numbers at this commit are the same."""
        accepted = replace(result, code=code, reproduced=commit, folder=None)
        write_record(self.folder / f"{result.key.hash}.json", accepted, FORMAT)

    def adopt(self, result: Result) -> Result:
        """Store a result of another folder, finished or failed; its tables are copied byte for byte."""
        if result.status == "failed":
            return self.fail(result)
        if result.folder is None:
            raise DataError(f"{result.key}: it is in no folder from which its tables could be copied")
        sources = {name: _table_path(result.folder, result.key, name) for name in result.digests}
        return self._save(result, {name: partial(shutil.copyfile, source) for name, source in sources.items()})

    def _save(self, result: Result, tables: Mapping[str, Callable[[Path], object]]) -> Result:
        """Write all files of a finished run, then move them into place, the JSON last."""
        path = self.folder / f"{result.key.hash}.json"
        with self._named_errors(result.key), ExitStack() as files:
            if path.exists() and _read_logged(path) is None:
                _set_aside(path)
            record = files.enter_context(atomic_file(path))  # the first to enter is the last to leave
            digests = {}
            for name, write in tables.items():
                temporary = files.enter_context(atomic_file(_table_path(self.folder, result.key, name)))
                write(temporary)
                digests[name] = _digest(temporary)
            result = replace(result, status="done", error="", digests=digests, folder=None)
            write_record(record, result, FORMAT)
        self._failure(result.key).unlink(missing_ok=True)
        return replace(result, folder=self.folder)

    @contextmanager
    def _named_errors(self, key: Key) -> Iterator[None]:
        """An error of the disk says what could not be stored and what to do."""
        try:
            yield
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise DataError(
                f"{self.folder}: {why}, so the result of {key} is not stored; what was stored before is complete. "
                "Make room, or name another folder by --results, and give the same command again"
            ) from error

    def outcome(self, key: Key, code: str | None = None) -> Result:
        """The finished run of this key by this code, or else its failure; else the code was edited meanwhile."""
        failure = self._failure(key)
        result = self.find(key, code) or (_read_logged(failure) if failure.exists() else None) or self.find(key)
        if result is None:
            raise DataError(f"{self.folder}: there is neither a result nor a failure of {key}")
        return result

    @contextmanager
    def claim(self, key: Key) -> Iterator[bool]:
        """Whether no other process is at this run, by any protocol. Never waits; ends with the process that holds it.

        Where the file system cannot lock, everyone may run: work is then done twice, but nothing is lost.
        """
        try:
            lock = self._locked(self.folder / f"{replace(key, protocol='').hash}.lock")
        except BlockingIOError:
            yield False
            return
        except (ImportError, OSError):
            yield True
            return
        with lock:
            try:
                yield True
            finally:
                Path(lock.name).unlink(missing_ok=True)

    def _locked(self, path: Path) -> IO[str]:
        """A lock file that is ours and still in its place: another process deletes it when it has ended its run."""
        import fcntl  # not on Windows

        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = path.open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_open_file(path, lock):
                    return lock
            except BaseException:
                lock.close()
                raise
            lock.close()

    def _failure(self, key: Key) -> Path:
        return self.folder / f"{key.hash}.failed.json"


def _read(path: Path) -> Result:
    """A result file; a ValueError that says why where it cannot be used."""
    result = replace(read_record(path, Result, FORMAT, why=NOT_CONVERTED), folder=path.parent)
    name = result.key.hash
    expected = f"{name}.json" if result.status == "done" else f"{name}.failed.json"
    if path.name != expected:
        raise ValueError(f"its key belongs to {expected}")
    for kind, digest in result.digests.items():
        table = path.with_name(f"{name}.{kind}.parquet")
        if not table.exists() or _digest(table) != digest:
            raise ValueError(f"{table.name} is missing, truncated or damaged")
    return result


def _read_logged(path: Path) -> Result | None:
    """A result file; None, with the reason in the log, where it cannot be used."""
    try:
        return _read(path)
    except ValueError as error:
        _warn(path, str(error))
        return None


def _warn(path: Path, reason: str) -> None:
    log.warning("%s is not used: %s", path, reason)


def _is_open_file(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _table_path(folder: Path, key: Key, name: str) -> Path:
    return folder / f"{key.hash}.{name}.parquet"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _set_aside(path: Path) -> None:
    """Rename an unreadable file, since its name is needed now."""
    number = 1
    while (aside := path.with_name(f"{path.name}.unreadable-{number}")).exists():
        number += 1
    path.rename(aside)
    log.warning("%s could not be read and is now %s", path, aside.name)
