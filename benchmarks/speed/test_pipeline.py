"""Homes from SQLite and PostgreSQL, up to the size of the public data, against a plain loop with the same result."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from benchmarks.conftest import Peak
from benchmarks.speed.measure import note_ratio, seconds
from benchmarks.speed.postgres_server import MISSING, programs, running
from datasets.common.errors import install_hint
from datasets.homes import Homes, Relation, Rules

if TYPE_CHECKING:
    from fedrule.pipeline import Pipeline

ROUNDS = 2  # of each; the fastest counts
SIZES = {"smoke": 5_000, "default": 50_000, "paper": 272_664}  # homes; the last is the size of the public data
PART = 10_000  # users at a time
EVERY = 10  # with users=, every tenth user
POSTGRESQL = "postgresql://"
TABLES = {
    "devices": '"user" bigint, device bigint, type text',
    "rules": '"user" bigint, trigger_device bigint, trigger_state text, action text, action_device bigint',
}
PIPELINE = """
from fedrule.pipeline import Pipeline, TableConfig
pipeline = Pipeline(TableConfig({url!r}), TableConfig())
"""
REFERENCE = "from benchmarks.speed.test_pipeline import row_by_row\nhomes = row_by_row({url!r})"


@pytest.fixture(scope="module")
def homes(scale: str) -> Homes:
    """The content of the databases; at full size 1,354,098 devices and 852,072 rules."""
    return datasets.load("wyze-synthetic", preset="public", homes=SIZES[scale])


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, homes: Homes) -> Iterator[str]:
    """Both tables in one database, rows in random order and without any index."""
    pytest.importorskip("sqlalchemy", reason=f"needs {install_hint('pipeline')}")
    if request.param == "sqlite":
        path = str(tmp_path_factory.mktemp("pipeline") / "homes.db")
        fill(path, homes)
        yield path
        return
    pytest.importorskip("psycopg", reason=f"needs {install_hint('pipeline')}")
    if programs() is None:
        pytest.skip(MISSING)
    with running() as server:
        fill(server.url(), homes)
        yield server.url()


@pytest.fixture
def pipeline(url: str) -> Pipeline:
    from fedrule.pipeline import Pipeline, TableConfig  # an extra

    return Pipeline(TableConfig(url), TableConfig())


def test_load_from_a_database(benchmark: BenchmarkFixture, peak: Peak, url: str, pipeline: Pipeline) -> None:
    """All homes at once."""
    homes: Homes = benchmark.pedantic(pipeline.load, rounds=ROUNDS)
    assert homes.fingerprint == row_by_row(url).fingerprint
    note(benchmark, peak, url, homes.n_devices + homes.n_rules, "pipeline.load()")


def test_load_in_batches(benchmark: BenchmarkFixture, peak: Peak, url: str, pipeline: Pipeline) -> None:
    """Homes of 10,000 users at a time: memory does not grow with the database."""

    def parts() -> int:
        return sum(part.n_devices + part.n_rules for part in pipeline.batches(PART))

    rows: int = benchmark.pedantic(parts, rounds=ROUNDS)
    note(benchmark, peak, url, rows, f"for _ in pipeline.batches({PART}): pass")


def test_load_some_users(benchmark: BenchmarkFixture, peak: Peak, url: str, homes: Homes, pipeline: Pipeline) -> None:
    """A tenth of the users; the reference reads everything, so times are per row of the whole database."""
    users = homes.users[::EVERY].tolist()
    some: Homes = benchmark.pedantic(lambda: pipeline.load(users=users), rounds=ROUNDS)
    assert some.n_homes == len(users)
    rows = homes.n_devices + homes.n_rules
    note(benchmark, peak, url, rows, f"pipeline.load(users=range(1, {homes.n_homes}, {EVERY}))")


def note(benchmark: BenchmarkFixture, peak: Peak, url: str, rows: int, work: str) -> None:
    """Record the ratio to the reference, and the memory of both."""
    reference = seconds(lambda: row_by_row(url), repeats=ROUNDS) / rows
    slow = {f"{what} of the reference": megabytes for what, megabytes in peak(REFERENCE.format(url=url)).items()}
    note_ratio(benchmark, rows, reference, **peak(PIPELINE.format(url=url) + work), **slow)


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


def connect(url: str) -> AbstractContextManager[Any]:
    """A connection of the driver."""
    if not url.startswith(POSTGRESQL):
        return closing(sqlite3.connect(url))
    import psycopg  # an extra

    return closing(psycopg.connect(url))


def fetched(url: str, table: str) -> Sequence[tuple[Any, ...]]:
    """All rows, by the driver only."""
    with connect(url) as database:
        return list(database.execute(f"select * from {table}"))


def fill(url: str, homes: Homes) -> None:
    """Write homes as two tables, rows in random order and without any index."""
    rng, users, ids, types = np.random.default_rng(0), homes.users, homes.device_ids, np.array(homes.types)
    one, rules = rng.permutation(homes.n_devices), homes.rules.take(rng.permutation(homes.n_rules))
    states, actions = np.array(homes.relations)[rules.relation].T
    columns = {
        "devices": [users[homes.device_home[one]], ids[one], types[homes.device_type[one]]],
        "rules": [users[rules.home], ids[rules.trigger], states, actions, ids[rules.action]],
    }
    with connect(url) as database:
        for table, values in columns.items():
            rows = zip(*(column.tolist() for column in values), strict=True)
            database.execute(f"create table {table} ({TABLES[table]})")
            if url.startswith(POSTGRESQL):
                with database.cursor() as cursor, cursor.copy(f"copy {table} from stdin") as copy:
                    for row in rows:
                        copy.write_row(row)
                database.execute(f"analyze {table}")
            else:
                database.executemany(f"insert into {table} values ({', '.join('?' * len(values))})", rows)
        database.commit()
