"""Homes from an SQLite file, up to the size of the public data, against fetching all rows and filling dictionaries."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from benchmarks.conftest import Peak
from benchmarks.measure import note_ratio, seconds
from datasets.homes import Array, Homes, Ids

ROUNDS = 2  # of either, the fastest counts
SIZES = {"smoke": 5_000, "default": 50_000, "paper": 272_664}  # homes; the last are those of the public data
PART = 10_000  # users at a time
TABLES = {
    "devices": "user integer, device integer, type text",
    "rules": "user integer, trigger_device integer, trigger_state text, action text, action_device integer",
}
PIPELINE = "from fedrule.pipeline import Pipeline, TableAt\npipeline = Pipeline(TableAt({path!r}), TableAt())\n"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, scale: str) -> Path:
    """Both tables in one file; at the full size these are 1,354,098 devices and 852,072 rules."""
    pytest.importorskip("sqlalchemy", reason='needs the extra pipeline: pip install "fedrule[pipeline]"')
    path = tmp_path_factory.mktemp("pipeline") / "homes.db"
    fill(path, datasets.load("wyze-synthetic", preset="public", homes=SIZES[scale]))
    return path


def test_load_from_a_database(benchmark: BenchmarkFixture, peak: Peak, database: Path) -> None:
    """All homes at once, checked and joined; the reference checks nothing."""
    from fedrule.pipeline import Pipeline, TableAt

    pipeline = Pipeline(TableAt(str(database)), TableAt())
    homes: Homes = benchmark.pedantic(pipeline.load, rounds=ROUNDS)
    note(benchmark, peak, database, homes.n_devices + homes.n_rules, "pipeline.load()")


def test_load_part_by_part(benchmark: BenchmarkFixture, peak: Peak, database: Path) -> None:
    """Homes of 10,000 users at a time: the memory does not grow with the database."""
    from fedrule.pipeline import Pipeline, TableAt

    pipeline = Pipeline(TableAt(str(database)), TableAt())

    def parts() -> int:
        return sum(part.n_devices + part.n_rules for part in pipeline.batches(PART))

    rows: int = benchmark.pedantic(parts, rounds=ROUNDS)
    note(benchmark, peak, database, rows, f"for _ in pipeline.batches({PART}): pass")


def note(benchmark: BenchmarkFixture, peak: Peak, database: Path, rows: int, work: str) -> None:
    """Write down the ratio to the reference, and the memory of both."""
    reference = seconds(lambda: row_by_row(database), repeats=ROUNDS) / rows
    memory = peak(PIPELINE.format(path=str(database)) + work)
    slow = peak(f"from benchmarks.test_pipeline_speed import row_by_row\nhomes = row_by_row({str(database)!r})")
    memory |= {f"{what} of the reference": megabytes for what, megabytes in slow.items()}
    note_ratio(benchmark, rows, reference, **memory)


def row_by_row(path: Path | str) -> dict[int, tuple[dict[int, str], set[tuple[int, int, int]]]]:
    """The same homes as dictionaries: every row of both tables in memory, one step of a loop for each."""
    homes: dict[int, tuple[dict[int, str], set[tuple[int, int, int]]]] = {}
    relations: dict[tuple[str, str], int] = {}
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    for row in connection.execute("select * from devices").fetchall():
        homes.setdefault(row["user"], ({}, set()))[0][row["device"]] = row["type"]
    for row in connection.execute("select * from rules").fetchall():
        relation = relations.setdefault((row["trigger_state"], row["action"]), len(relations))
        rule = (row["trigger_device"], row["action_device"], relation)
        homes.setdefault(row["user"], ({}, set()))[1].add(rule)
    connection.close()
    return homes


def fill(path: Path, homes: Homes) -> None:
    """Write homes as two tables without any index."""
    rules, states = homes.rules, [pair.trigger for pair in homes.relations]
    actions = [pair.action for pair in homes.relations]
    columns: dict[str, list[Iterator[object]]] = {
        "devices": [
            each(homes.users, homes.device_home),
            iter(homes.device_ids.tolist()),
            each(homes.types, homes.device_type),
        ],
        "rules": [
            each(homes.users, rules.home),
            each(homes.device_ids, rules.trigger),
            each(states, rules.relation),
            each(actions, rules.relation),
            each(homes.device_ids, rules.action),
        ],
    }
    connection = sqlite3.connect(path)
    with connection:
        for table, declared in TABLES.items():
            connection.execute(f"create table {table} ({declared})")
            marks = ", ".join("?" for _ in columns[table])
            connection.executemany(f"insert into {table} values ({marks})", zip(*columns[table], strict=True))
    connection.close()


def each(values: Ids | Sequence[str], number: Array) -> Iterator[object]:
    """The value at each of these places, as Python's own."""
    words = values.tolist() if isinstance(values, np.ndarray) else values
    return (words[place] for place in number.tolist())
