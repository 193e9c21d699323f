"""Published results: a folder of results as one small file, for the repository, and back.

    python -m benchmarks publish --results results --out benchmarks/published/results.parquet
    python -m reports.build --no-run --results published    # all that shows results takes the file by this name
    python -m benchmarks restore --results results          # its runs are finished there: a suite makes the others only

The file is a Parquet table with a row per run and home, and in its metadata the JSON of all runs, studies, data set
summaries, examples, audits and speeds. It holds numbers about methods, never data: homes of real data are numbered anew
in the order of a hash (who has the data can tell which is which, and `restore` does), their summaries lose the example
home and what fewer than MIN_HOMES homes have, and examples are of synthetic homes only.

To be small it rounds what is not a whole number. It keeps HOME_METRICS of homes, of runs with MANY_HOMES only the first
two; in summaries the list of the headline, and of the other lists and of slices what tables show; losses and seconds of
about ROUNDS rounds; and no tables of single hidden rules.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import lzma
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.results.audits import AUDITS
from benchmarks.results.compare import COUNTS
from benchmarks.results.records import EXAMPLES, STUDIES, SUMMARIES, as_json
from benchmarks.results.speeds import SPEED
from benchmarks.results.store import FORMAT, Result, Store, load_runs, results_folder
from datasets.common.errors import DataError
from datasets.common.files import Json, atomic_file, write_json
from datasets.common.options import read
from datasets.homes import Array

FILE = Path(__file__).parents[1] / "published" / "results.parquet"
NAME = "published"  # of the published results where a folder of results is asked for
CONTENT = b"fedrule"  # the entry of the metadata
COMPLETE = "complete"  # a file of an unpacked folder, written last
PUBLISHED_FORMAT = 3  # goes up when an older file would be misread
COMPRESSION = {"compression": "brotli", "compression_level": 11}  # a fifth smaller than zstd's best
RECORDS = (STUDIES, SUMMARIES, EXAMPLES, AUDITS, SPEED)  # folders of JSON files beside the runs
EVERY, MEASURED = "every home", "measured homes"  # that homes of real data are numbered among
MIN_HOMES = 5  # types and relations of real data that fewer homes have are left out
DIGITS = 4  # of numbers in summaries and histories
EARLIER_DIGITS = (5,)  # of restored ones, from earlier files
HOME_DIGITS = 3  # of numbers of single homes, of those
HOME_STEP = 1e-4  # of these: shares and reciprocal ranks, which are averaged over homes
ROUNDS = 25
EVERY_ROUND = ("round", "clients", "sent_bytes", "received_bytes", "statistics_bytes", "encrypted_bytes")
LISTS = (", all", ", closed")  # suffixes of the metrics of `benchmarks.evaluation.ranking`, besides none
HIT_RATE, RAW = "hr@", " raw"
CUTOFFS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50)  # of hit rates
ALL_LISTS = ("mrr", "hr@10", "ndcg@10", "mrr@50")  # metrics of which a summary keeps all lists
SLICE_METRICS = ("mrr", "hr@10")
HOME_METRICS = {
    "ranking": ("n_hidden{list}", "mrr{list}", "hr@10{list}", "ndcg@10{list}"),  # of the list of the headline
    "paper": ("n_hidden", "auc", "auc_feasible", "loss", "mr", "mr_rt"),
}
UNBOUNDED = ("n_hidden", "loss", "mr", "mr_rt")  # of these; the others are from 0 to 1
CHALLENGE_METRIC = "mrr@50{list}"  # is kept as well where one automation is hidden, as in the Wyze challenge
MANY_HOMES = 2_000  # of a run
NO_HOMES = pd.DataFrame({"run": pd.Series(dtype="int32"), "user": pd.Series(dtype=str), "panel": pd.Series(dtype=str)})
OF_SPEED = ("name", "fullname", "group", "params", "extra_info", "stats")  # what is kept of each benchmark
OF_STATS = ("min", "median", "rounds")
UsersOf: TypeAlias = Callable[[Result], Array | None]  # of all homes of a run's data; None where it is not here


def shown_results(given: Path | str | None = None) -> Path:
    """The folder of results to show: as `results_folder` says, or published ones by their name or their file."""
    if given is not None and str(given) == NAME:
        return published_folder()
    if given is not None and (file := Path(given)).suffix == FILE.suffix:
        return published_folder(file)
    return results_folder(given)


def unknown_users(run: Result) -> Array | None:
    """The data is not here."""
    del run
    return None


class Publication(NamedTuple):
    """What `publish` has written, and what it has not."""

    runs: int
    records: int
    failed: int
    unreadable: tuple[tuple[str, str], ...]  # file and why it is not used


def publish(
    folder: Path, file: Path, *, is_real: Callable[[str], bool], users_of: UsersOf = unknown_users
) -> Publication:
    """Write the finished runs and the records of a folder to a file.

    Homes of real data that is not here are numbered among those that were measured, and can't be told by `restore`.
    """
    there = load_runs(folder)
    runs, records = sorted(there.finished, key=_beside), dict(_records(folder, is_real))
    if not (runs or records):
        raise DataError(f"{folder} has no finished run or record to publish")
    numbers, numbered = _home_numbers([run for run in runs if is_real(run.key.data)], users_of)
    tables = [_home_table(run, at, numbers.get(run.key.fingerprint)) for at, run in enumerate(runs)]
    # Rows of the same home stand together, so that what they have in common takes no room.
    table = pd.concat([NO_HOMES, *tables], ignore_index=True).sort_values(["panel", "user", "run"], kind="stable")
    entries = [_run(run) for run in runs]
    summaries = _columns([entry.pop("summary") for entry in entries])
    content = Content(PUBLISHED_FORMAT, numbered, entries, summaries, records)
    packed = lzma.compress(json.dumps(content._asdict(), ensure_ascii=False, allow_nan=False).encode())
    arrow = pa.Table.from_pandas(table.drop(columns="panel"), preserve_index=False).replace_schema_metadata(None)
    with (
        atomic_file(file) as temporary,
        pq.ParquetWriter(
            temporary, arrow.schema, store_schema=False, **COMPRESSION
        ) as writer,  # it repeats the metadata
    ):
        writer.write_table(arrow)
        writer.add_key_value_metadata({CONTENT: packed})
    return Publication(len(runs), len(records), len(there.failed), there.unreadable)


def unpack(file: Path, folder: Path) -> None:
    """Write the results of a published file to a new folder, as runs and other commands write them."""
    content, homes = _read(file)
    store = Store(folder)
    for run, table in zip(content.results(file), homes, strict=True):
        store.save(run, table)
    for name, record in content.records.items():
        write_json(folder / name, record)


class Restored(NamedTuple):
    """What came of the runs of a published file."""

    added: int
    there: int  # before
    unmatched: int  # on real data whose homes cannot be told, since publishing was without it
    records: int  # studies, summaries and the like that were added


def restore(file: Path, folder: Path, *, users_of: UsersOf = unknown_users) -> Restored:
    """Write the runs and records of a published file that a folder lacks; the data's own users where it is here."""
    content, homes = _read(file)
    store, added, there, unmatched = Store(folder), 0, 0, 0
    for run, table in zip(content.results(file), homes, strict=True):
        if store.find(run.key) is not None:
            there += 1
            continue
        numbered = content.numbered.get(run.key.fingerprint)
        if (users := users_of(run)) is not None:
            if numbered == MEASURED:
                unmatched += 1
                continue
            named = enumerate(sorted(users, key=_order)) if numbered else zip(users, users, strict=True)
            table["user"] = table["user"].map({str(name): user for name, user in named})
        store.save(run, table)
        added += 1
    missing = {name: record for name, record in content.records.items() if not (folder / name).exists()}
    for name, record in missing.items():
        write_json(folder / name, record)
    return Restored(added, there, unmatched, len(missing))


class Content(NamedTuple):
    """What the metadata of a published file has, as JSON."""

    format: int
    numbered: dict[str, str]  # fingerprint of real data -> EVERY or MEASURED
    runs: list[dict[str, Any]]  # without their summaries; histories as `_columns`
    summaries: dict[str, list[Json]]  # of all runs, as `_columns`
    records: dict[str, Json]  # by the name of the file

    def results(self, file: Path) -> Iterator[Result]:
        """The runs of this file."""
        for at, (entry, summary) in enumerate(zip(self.runs, _rows(self.summaries), strict=True)):
            history = _rows(entry["history"])
            yield read(Result, entry | {"summary": summary, "history": history}, where=f"{file}, run {at}")


def _read(file: Path) -> tuple[Content, list[pd.DataFrame]]:
    """The content of a published file, and the table of homes of each run."""
    try:
        table = pq.read_table(file)
        content = json.loads(lzma.decompress(table.schema.metadata[CONTENT]))
        found = content["format"]
    except OSError as error:
        raise DataError(f"{file}: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, lzma.LZMAError):
        raise DataError(f"{file}: not a file of published results; `python -m benchmarks publish` writes one") from None
    if found != PUBLISHED_FORMAT:
        raise DataError(f"{file}: published by another version (format {found}, this one reads {PUBLISHED_FORMAT})")
    homes = dict(iter(table.to_pandas().groupby("run")))
    own = [homes[at].drop(columns="run").dropna(axis="columns", how="all") for at in range(len(content["runs"]))]
    return Content(**content), [each.sort_values("user", ignore_index=True) for each in own]


def published_folder(file: Path = FILE) -> Path:
    """The published results as a folder, made once for each content of the file."""
    if not file.is_file():
        raise DataError(f"{file}: nothing is published; `python -m benchmarks publish` writes it")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"fedrule-published-{getpass.getuser()}-{digest}-{FORMAT}"
    if not (folder / COMPLETE).exists():
        shutil.rmtree(folder, ignore_errors=True)  # cut off, or cleaned in part
        unpack(file, folder)
        (folder / COMPLETE).touch()
    return folder


def _home_numbers(runs: Sequence[Result], users_of: UsersOf) -> tuple[dict[str, dict[object, int]], dict[str, str]]:
    """By fingerprint: the number of each home, in the order of a hash, and among which homes it is."""
    users: dict[str, set[object]] = {}
    among: dict[str, str] = {}
    for run in runs:
        data = run.key.fingerprint
        if data not in users:
            every = users_of(run)
            users[data], among[data] = (set(), MEASURED) if every is None else (set(every.tolist()), EVERY)
        if among[data] == MEASURED:
            users[data].update(run.homes("user")["user"])
    numbers = {data: {user: at for at, user in enumerate(sorted(found, key=_order))} for data, found in users.items()}
    return numbers, among


def _order(user: object) -> str:
    return hashlib.sha256(f"home {user}".encode()).hexdigest()


def _home_table(run: Result, at: int, numbers: Mapping[object, int] | None) -> pd.DataFrame:
    """The numbers of a run's homes; `panel` is the same for runs with the same homes and hidden rules."""
    there = run.home_columns()
    metrics = HOME_METRICS.get(run.key.protocol, ())
    metrics = metrics[:2] if len(run.homes("user")) >= MANY_HOMES else metrics
    metrics += () if run.key.split["split"] == "holdout" else (CHALLENGE_METRIC,)
    wanted = dict.fromkeys(name.format(list=run.suffix) for name in metrics)
    table = run.homes("user", *(name for name in wanted if name in there))
    users = table.pop("user")
    table = table.apply(_rounded_of_homes)
    panel = json.dumps([run.key.fingerprint, run.key.split, run.key.protocol], sort_keys=True)
    user = users.map(str) if numbers is None else users.map(lambda each: str(numbers[each]))
    return table.assign(user=user, run=np.int32(at), panel=panel)


def _rounded_of_homes(column: pd.Series) -> Array:
    values = column.to_numpy(np.float64)
    is_bounded = str(column.name).partition(",")[0] not in UNBOUNDED
    found = np.round(values / HOME_STEP) * HOME_STEP if is_bounded else significant(values, HOME_DIGITS)
    return found.astype(np.float32)


def significant(values: Array, digits: int) -> Array:
    """Rounded to so many significant digits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(values))))
        found = np.round(values * scale) / scale
    return np.where(np.isfinite(found), found, values)


def _run(run: Result) -> dict[str, Any]:
    """The JSON of a run with the part of its summary and history that is published."""
    summary = {name: rounded(value) for name, value in run.summary.items() if _is_published(name, run.suffix)}
    every = max(len(run.history) // ROUNDS, 1)
    history = [
        {
            name: rounded(value)
            for name, value in row.items()
            if at % every == 0 or at + 1 == len(run.history) or _kept(name)
        }
        for at, row in enumerate(run.history)
    ]
    kept = replace(run, folder=None, digests={}, summary=summary, history=history)
    entry = {name: as_json(value, name) for name, value in asdict(kept).items()}
    return entry | {"history": as_json(_columns(kept.history), "history")}


def _beside(run: Result) -> str:
    """The order in which runs with similar numbers stand together, so that they take less room."""
    key = run.key
    return json.dumps([key.data, key.data_options, key.track, key.split, key.protocol, key.method], sort_keys=True)


def _columns(rows: Sequence[Mapping[str, Json]]) -> dict[str, list[Json]]:
    """Column by column, which takes a third less room than row by row; None where a row has no such entry."""
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}


def _rows(columns: Mapping[str, Sequence[Json]]) -> list[dict[str, Json]]:
    """The rows that columns were made of."""
    found = zip(*columns.values(), strict=True)
    return [{name: value for name, value in zip(columns, row, strict=True) if value is not None} for row in found]


def _is_published(metric: str, suffix: str) -> bool:
    """Whether a summary keeps a metric: those of the headline's list, a few of the others, and of slices."""
    part, _, name = metric.rpartition(": ")
    base = name.partition(",")[0]
    if base.startswith(HIT_RATE) and (cutoff := base.removeprefix(HIT_RATE)).isdigit() and int(cutoff) not in CUTOFFS:
        return False
    if part:
        return name in COUNTS or (base in SLICE_METRICS and not name.endswith(RAW))
    others = [each for each in LISTS if each in name]
    if suffix in name if suffix else not others:
        return True
    return (base in ALL_LISTS and not name.endswith(RAW)) or not (others or name.startswith(HIT_RATE))


def _kept(name: str) -> bool:
    """Whether the history has it of every round: bytes, which are added up, and what curves measure, which is rare."""
    return name in EVERY_ROUND or name.startswith(("train_", "validation_", "test_"))


def rounded(value: float, digits: int = DIGITS) -> float:
    """As summaries and histories are published: whole numbers, such as counts and bytes, as they are."""
    return value if float(value).is_integer() else float(f"{value:.{digits}g}")


def _records(folder: Path, is_real: Callable[[str], bool]) -> Iterator[tuple[str, Json]]:
    """Name and content of each record, without what says more of real data than counts."""
    for place in RECORDS:
        for path in sorted((folder / place).rglob("*.json")):
            record = json.loads(path.read_text("utf-8"))
            real = place in (EXAMPLES, SUMMARIES) and is_real(str(record["data"]))
            if place == EXAMPLES and real:
                continue
            if place == SUMMARIES and real:
                record |= {
                    name: [e for e in record[name] if e["homes"] >= MIN_HOMES] for name in ("types", "relations")
                }
                record["example"] = None
            if place == STUDIES:  # errors have paths of the machine
                record["trials"] = [trial for trial in record["trials"] if not trial["error"]]
            if place == SPEED:
                record["benchmarks"] = [_speed(each) for each in record.get("benchmarks", [])]
            yield path.relative_to(folder).as_posix(), record


def _speed(entry: dict[str, dict[str, Json]]) -> Json:
    """A benchmark without its single timings."""
    kept: dict[str, Json] = {name: entry[name] for name in OF_SPEED if name in entry}
    return kept | {"stats": {name: entry["stats"][name] for name in OF_STATS}}
