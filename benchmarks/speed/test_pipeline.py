"""Homes from SQLite and PostgreSQL, up to the size of the public data, against a plain loop with the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from benchmarks.conftest import Peak
from benchmarks.references.data import POSTGRESQL, connect, load_row_by_row
from benchmarks.speed.measure import Measured, note_growth, note_ratio, seconds
from benchmarks.speed.postgres_server import MISSING, Server, programs, running
from datasets.common.errors import install_hint
from datasets.homes import Homes

if TYPE_CHECKING:
    from fedrule.pipeline import Pipeline

Result = TypeVar("Result")
ROUNDS = 3  # of each by turns, after one to warm up; the fastest counts
# Homes; growth is measured from the first, and the last is the size of the public data.
SIZES = {"smoke": (500, 5_000), "default": (5_000, 50_000), "paper": (5_000, 50_000, 272_664)}
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


@dataclass(slots=True)
class Filled:
    """A database of each kind for each size, filled on first use; one server has them all."""

    folder: Path
    open: ExitStack
    homes: dict[int, Homes] = field(default_factory=dict)
    urls: dict[tuple[str, int], str] = field(default_factory=dict)
    server: Server | None = None

    def url(self, kind: str, size: int) -> str:
        """Both tables in one database, rows in random order and without any index."""
        if size not in self.homes:  # at full size 1,354,098 devices and 852,072 rules
            self.homes[size] = datasets.load("wyze-synthetic", preset="public", homes=size)
        if (kind, size) not in self.urls:
            url = str(self.folder / f"{size}.db") if kind == "sqlite" else self._new_database(f"homes_{size}")
            fill(url, self.homes[size])
            self.urls[kind, size] = url
        return self.urls[kind, size]

    def _new_database(self, name: str) -> str:
        self.server = self.server or self.open.enter_context(running())
        with connect(self.server.url()) as database:
            database.autocommit = True
            database.execute(f"create database {name}")
        return self.server.url(database=name)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    pytest.importorskip("sqlalchemy", reason=f"needs {install_hint('pipeline')}")
    with ExitStack() as stack:
        yield Filled(tmp_path_factory.mktemp("pipeline"), stack)


@dataclass(frozen=True, slots=True)
class Case:
    """Reads of one kind of database at one size, and where their measurements go."""

    kind: str
    size: int
    url: str
    homes: Homes
    pipeline: Pipeline
    first: int  # the size from which growth is measured
    known: dict[str, Measured]
    loops: list[float] = field(default_factory=list)  # seconds of the reference, the first to warm up

    def measure(self, benchmark: BenchmarkFixture, work: Callable[[], Result]) -> Result:
        """Time the work and the reference by turns, so that other work on the machine slows down both."""
        result: Result = benchmark.pedantic(work, setup=self._time_reference, rounds=ROUNDS, warmup_rounds=1)
        return result

    def _time_reference(self) -> None:
        self.loops.append(seconds(lambda: load_row_by_row(self.url)))

    def note(self, benchmark: BenchmarkFixture, peak: Peak, work: str) -> None:
        """Record the ratio to the reference, the memory of both, and how time and memory grow with the homes.

        Times are per row of the whole database, also where a part of it is read: the reference reads everything.
        """
        if benchmark.stats is None:  # --benchmark-disable: nothing was measured
            return
        rows = self.homes.n_devices + self.homes.n_rules
        held = peak(PIPELINE.format(url=self.url) + work)
        slow = {f"{what} of the reference": mb for what, mb in peak(REFERENCE.format(url=self.url)).items()}
        note_ratio(benchmark, rows, min(self.loops[1:]) / rows, homes=self.size, **held, **slow)
        known = self.known[f"{benchmark.name.partition('[')[0]} {self.kind}"]
        known[self.size] = {"seconds": benchmark.stats["min"], **held}
        note_growth(benchmark, known, self.first, self.size)


@pytest.fixture(params=["sqlite", "postgresql"])
def case(request: pytest.FixtureRequest, filled: Filled, measured: dict[str, Measured], scale: str, size: int) -> Case:
    if request.param == "postgresql":
        pytest.importorskip("psycopg", reason=f"needs {install_hint('pipeline')}")
        if programs() is None:
            pytest.skip(MISSING)
    from fedrule.pipeline import Pipeline, TableConfig  # an extra

    url = filled.url(request.param, size)
    pipeline = Pipeline(TableConfig(url), TableConfig())
    return Case(request.param, size, url, filled.homes[size], pipeline, SIZES[scale][0], measured)


def test_load_from_a_database(benchmark: BenchmarkFixture, peak: Peak, case: Case) -> None:
    """All homes at once."""
    homes = case.measure(benchmark, case.pipeline.load)
    assert homes.fingerprint == load_row_by_row(case.url).fingerprint
    case.note(benchmark, peak, "pipeline.load()")


def test_load_in_batches(benchmark: BenchmarkFixture, peak: Peak, case: Case) -> None:
    """Homes of 10,000 users at a time: memory does not grow with the database."""

    def parts() -> int:
        return sum(part.n_devices + part.n_rules for part in case.pipeline.batches(PART))

    assert case.measure(benchmark, parts) == case.homes.n_devices + case.homes.n_rules
    case.note(benchmark, peak, f"for _ in pipeline.batches({PART}): pass")


def test_load_some_users(benchmark: BenchmarkFixture, peak: Peak, case: Case) -> None:
    """A tenth of the users."""
    users = case.homes.users[::EVERY].tolist()
    some = case.measure(benchmark, lambda: case.pipeline.load(users=users))
    assert some.n_homes == len(users)
    case.note(benchmark, peak, f"pipeline.load(users=range(1, {case.size}, {EVERY}))")


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
