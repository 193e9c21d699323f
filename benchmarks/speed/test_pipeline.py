"""Homes from SQLite and PostgreSQL, up to the size of the public data, against a plain loop with the same result."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeAlias

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from benchmarks.conftest import Peak
from benchmarks.speed.measure import note_ratio, seconds
from benchmarks.speed.postgres_server import MISSING, programs, running
from datasets.homes import Array, Homes, Ids, Relation, Rules

ROUNDS = 2  # of each; the fastest counts
SIZES = {"smoke": 5_000, "default": 50_000, "paper": 272_664}  # homes; the last is the size of the public data
PART = 10_000  # users at a time
EVERY = 10  # with users=, every tenth user
POSTGRESQL = "postgresql://"
TABLES = {
    "devices": {"user": "bigint", "device": "bigint", "type": "text"},
    "rules": {
        "user": "bigint",
        "trigger_device": "bigint",
        "trigger_state": "text",
        "action": "text",
        "action_device": "bigint",
    },
}
PIPELINE = """
from fedrule.pipeline import Pipeline, TableConfig
pipeline = Pipeline(TableConfig({url!r}), TableConfig())
"""
REFERENCE = "from benchmarks.speed.test_pipeline import row_by_row\nhomes = row_by_row({url!r})"


Row: TypeAlias = tuple[Any, ...]  # of a driver


@pytest.fixture(scope="module")
def homes(scale: str) -> Homes:
    """The content of the databases; at full size 1,354,098 devices and 852,072 rules."""
    return datasets.load("wyze-synthetic", preset="public", homes=SIZES[scale])


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, homes: Homes) -> Iterator[str]:
    """Both tables in one database, rows in random order and without any index."""
    pytest.importorskip("sqlalchemy", reason='needs the extra pipeline: pip install "fedrule[pipeline]"')
    if request.param == "sqlite":
        path = str(tmp_path_factory.mktemp("pipeline") / "homes.db")
        fill(path, homes)
        yield path
        return
    pytest.importorskip("psycopg", reason='needs the extra pipeline: pip install "fedrule[pipeline]"')
    if programs() is None:
        pytest.skip(MISSING)
    with running() as server:
        fill(server.url(), homes)
        yield server.url()


def test_load_from_a_database(benchmark: BenchmarkFixture, peak: Peak, url: str) -> None:
    """All homes at once."""
    from fedrule.pipeline import Pipeline, TableConfig

    pipeline = Pipeline(TableConfig(url), TableConfig())
    homes: Homes = benchmark.pedantic(pipeline.load, rounds=ROUNDS)
    assert homes.fingerprint == row_by_row(url).fingerprint
    note(benchmark, peak, url, homes.n_devices + homes.n_rules, "pipeline.load()")


def test_load_in_batches(benchmark: BenchmarkFixture, peak: Peak, url: str) -> None:
    """Homes of 10,000 users at a time: memory does not grow with the database."""
    from fedrule.pipeline import Pipeline, TableConfig

    pipeline = Pipeline(TableConfig(url), TableConfig())

    def parts() -> int:
        return sum(part.n_devices + part.n_rules for part in pipeline.batches(PART))

    rows: int = benchmark.pedantic(parts, rounds=ROUNDS)
    note(benchmark, peak, url, rows, f"for _ in pipeline.batches({PART}): pass")


def test_load_some_users(benchmark: BenchmarkFixture, peak: Peak, url: str, homes: Homes) -> None:
    """A tenth of the users; the reference reads everything, so times are per row of the whole database."""
    from fedrule.pipeline import Pipeline, TableConfig

    pipeline = Pipeline(TableConfig(url), TableConfig())
    users = homes.users[::EVERY].tolist()
    some: Homes = benchmark.pedantic(lambda: pipeline.load(users=users), rounds=ROUNDS)
    assert some.n_homes == len(users)
    rows = homes.n_devices + homes.n_rules
    note(benchmark, peak, url, rows, f"pipeline.load(users=range(1, {homes.n_homes}, {EVERY}))")


def note(benchmark: BenchmarkFixture, peak: Peak, url: str, rows: int, work: str) -> None:
    """Record the ratio to the reference, and the memory of both."""
    reference = seconds(lambda: row_by_row(url), repeats=ROUNDS) / rows
    memory = peak(PIPELINE.format(url=url) + work)
    slow = peak(REFERENCE.format(url=url))
    memory |= {f"{what} of the reference": megabytes for what, megabytes in slow.items()}
    note_ratio(benchmark, rows, reference, **memory)


def row_by_row(url: str) -> Homes:
    """The same homes with dictionaries: all rows of both tables in memory, one loop iteration per row.

    A rule with a device that its user does not own is a KeyError; nothing else is checked.
    """
    devices: dict[int, dict[int, str]] = {}
    for user, device, type_ in fetched(url, "devices"):
        devices.setdefault(user, {})[device] = type_
    rules: dict[int, set[tuple[int, str, str, int]]] = {}
    for user, *rule in fetched(url, "rules"):
        rules.setdefault(user, set()).add(tuple(rule))
    users = sorted(devices)
    types = {word: n for n, word in enumerate(sorted({word for own in devices.values() for word in own.values()}))}
    pairs = sorted({Relation(state, action) for own in rules.values() for _, state, action, _ in own})
    relations: dict[tuple[str, str], int] = {pair: n for n, pair in enumerate(pairs)}
    owned: list[tuple[int, int, int]] = []
    written: list[tuple[int, int, int, int]] = []
    for home, user in enumerate(users):
        place = {device: len(owned) + n for n, device in enumerate(sorted(devices[user]))}
        owned += [(home, types[devices[user][device]], device) for device in place]
        said = rules.get(user, ())
        written += sorted((home, place[one], place[other], relations[on, do]) for one, on, do, other in said)
    device_home, device_type, ids = np.array(owned, dtype=np.int64).reshape(-1, 3).T
    columns = np.array(written, dtype=np.int64).reshape(-1, 4).T
    all_users = np.array(users, dtype=np.int64)
    return Homes("pipeline", tuple(types), tuple(pairs), all_users, device_home, device_type, ids, Rules(*columns))


def fetched(url: str, table: str) -> Sequence[Row]:
    """All rows, by the driver only."""
    names = ", ".join(f'"{name}"' for name in TABLES[table])
    query = f"select {names} from {table}"
    if url.startswith(POSTGRESQL):
        import psycopg

        with psycopg.connect(url) as server:
            return server.execute(query.encode()).fetchall()
    with closing(sqlite3.connect(url)) as file:
        return file.execute(query).fetchall()


def fill(url: str, homes: Homes) -> None:
    """Write homes as two tables, rows in random order and without any index."""
    rules, rng = homes.rules, np.random.default_rng(0)
    states, actions = zip(*homes.relations, strict=True)
    one, other = rng.permutation(homes.n_devices), rng.permutation(homes.n_rules)
    columns: dict[str, list[Iterator[object]]] = {
        "devices": [
            each(homes.users, homes.device_home[one]),
            each(homes.device_ids, one),
            each(homes.types, homes.device_type[one]),
        ],
        "rules": [
            each(homes.users, rules.home[other]),
            each(homes.device_ids, rules.trigger[other]),
            each(states, rules.relation[other]),
            each(actions, rules.relation[other]),
            each(homes.device_ids, rules.action[other]),
        ],
    }
    write: Callable[[str, str, Iterator[tuple[object, ...]]], None]
    write = to_server if url.startswith(POSTGRESQL) else to_file
    for table, values in columns.items():
        write(url, table, zip(*values, strict=True))


def to_file(path: str, table: str, rows: Iterator[tuple[object, ...]]) -> None:
    """A new table of an SQLite file."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"create table {table} ({declared(table)})")
        file.executemany(f"insert into {table} values ({', '.join('?' for _ in TABLES[table])})", rows)


def to_server(url: str, table: str, rows: Iterator[tuple[object, ...]]) -> None:
    """A new table of a PostgreSQL database."""
    import psycopg

    with psycopg.connect(url) as server, server.cursor() as cursor:
        cursor.execute(f"create table {table} ({declared(table)})".encode())
        with cursor.copy(f"copy {table} from stdin".encode()) as copy:
            for row in rows:
                copy.write_row(row)
        cursor.execute(f"analyze {table}".encode())


def declared(table: str) -> str:
    """The columns with their types."""
    return ", ".join(f'"{name}" {kind}' for name, kind in TABLES[table].items())


def each(values: Ids | Sequence[str], number: Array) -> Iterator[object]:
    """The value at each of these positions, as a Python object."""
    words = values.tolist() if isinstance(values, np.ndarray) else values
    return (words[place] for place in number.tolist())
