"""Homes from SQLite and PostgreSQL, up to the size of the public data, against a plain loop with the same result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from benchmarks.conftest import Peak
from benchmarks.references.data import POSTGRESQL, connect, load_row_by_row
from benchmarks.speed.measure import note_ratio, seconds
from benchmarks.speed.postgres_server import MISSING, programs, running
from datasets.common.errors import install_hint
from datasets.homes import Homes

if TYPE_CHECKING:
    from fedrule.pipeline import Pipeline

ROUNDS = 2  # of each; the fastest counts
SIZES = {"smoke": 5_000, "default": 50_000, "paper": 272_664}  # homes; the last is the size of the public data
PART = 10_000  # users at a time
EVERY = 10  # with users=, every tenth user
TABLES = {
    "devices": '"user" bigint, device bigint, type text',
    "rules": '"user" bigint, trigger_device bigint, trigger_state text, action text, action_device bigint',
}
PIPELINE = """
from fedrule.pipeline import Pipeline, TableConfig
pipeline = Pipeline(TableConfig({url!r}), TableConfig())
"""
REFERENCE = "from benchmarks.references.data import load_row_by_row\nhomes = load_row_by_row({url!r})"


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
    assert homes.fingerprint == load_row_by_row(url).fingerprint
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
    reference = seconds(lambda: load_row_by_row(url), repeats=ROUNDS) / rows
    slow = {f"{what} of the reference": megabytes for what, megabytes in peak(REFERENCE.format(url=url)).items()}
    note_ratio(benchmark, rows, reference, **peak(PIPELINE.format(url=url) + work), **slow)


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
