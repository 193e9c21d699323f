"""A database that is killed while it is read: the read goes on where it was, or ends with one clear error."""

from __future__ import annotations

import signal
import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import datasets

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")
pytest.importorskip("psycopg", reason="PostgreSQL needs the extra pipeline")

import psycopg
import sqlalchemy as sql

from fedrule.pipeline import DatabaseError, Pipeline, TableConfig
from fedrule.pipeline.database import Database
from tests.support.pipeline_tables import as_tables, fill

pytest_plugins = ("tests.support.postgres_server",)

ROWS = 100


@pytest.fixture(scope="module")
def url(postgres) -> str:
    """A database with 300 homes."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("create database killed")
    address = postgres.url(database="killed")
    devices, rules = as_tables(datasets.load("wyze-synthetic", homes=300))
    fill(address, "devices", devices)
    fill(address, "rules", rules)
    return address


@pytest.fixture(scope="module")
def whole(url) -> datasets.Homes:
    """What a read gives that nothing interrupts."""
    return pipeline(url).load()


class Interrupted:
    """Counts the parts that have come and does something at one of them."""

    def __init__(self, at: int, act) -> None:
        self.at, self.act, self.parts = at, act, 0

    def __call__(self, _: int) -> None:
        self.parts += 1
        if self.parts == self.at:
            self.act()


def cut_all(postgres, database: str = "killed") -> None:
    """End every connection but one's own."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        ended = connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [database]
        ).fetchall()
    assert ended, "no connection was there to be cut"


def restart(postgres) -> None:
    """Leave at once, as if killed, and come back."""
    postgres.stop(signal.SIGQUIT)
    postgres.start()


def pipeline(url: str, *, retries: int = 2, pause: float = 0.01) -> Pipeline:
    return Pipeline(TableConfig(url), TableConfig(), rows=ROWS, retries=retries, pause=pause)


@pytest.mark.parametrize("at", [1, 4, 9, 15])
@pytest.mark.parametrize("kill", [cut_all, restart])
def test_a_read_that_is_cut_loses_and_doubles_nothing(postgres, url, whole, caplog, at, kill):
    """300 homes are about 800 rules and 1,200 devices: parts 1 to 8 are rules, the others devices."""
    cut = pipeline(url)
    cut.progress = Interrupted(at, lambda: kill(postgres))
    homes = cut.load()
    assert cut.progress.parts > at
    assert homes.fingerprint == whole.fingerprint
    assert homes.provenance.counts == whole.provenance.counts
    (message,) = [message for message in caplog.messages if "interrupted after" in message]
    assert "retrying" in message
    assert postgres.password not in message


@pytest.mark.parametrize("at", [5, 9])
def test_parts_go_on_behind_the_last_whole_user(postgres, url, at):
    expected = [part.fingerprint for part in pipeline(url).batches(70)]
    cut = pipeline(url)
    cut.progress = Interrupted(at, lambda: cut_all(postgres))
    assert [part.fingerprint for part in cut.batches(70)] == expected


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_rows_without_user_are_named_once_wherever_the_read_is_cut(postgres, at):
    """7 rows without user are parts 1 to 3, and the last of these is not their last until others come."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("drop database if exists killed_early")
        connection.execute("create database killed_early")
    address = postgres.url(database="killed_early")
    devices, rules = as_tables(datasets.load("wyze-synthetic", homes=5))
    fill(address, "devices", devices)
    fill(
        address,
        "rules",
        pd.concat([rules, rules[:7].assign(user=None)]).astype({"user": object}),
        user=sql.BigInteger(),
    )
    options = {"rows": 3, "retries": 1, "pause": 0.01, "on_error": "skip"}
    expected = Pipeline(TableConfig(address), TableConfig(), **options).load()
    cut = Pipeline(TableConfig(address), TableConfig(), **options)
    cut.progress = Interrupted(at, lambda: cut_all(postgres, "killed_early"))
    homes = cut.load()
    assert homes.fingerprint == expected.fingerprint
    assert homes.provenance == expected.provenance
    assert homes.provenance.counts["rule rows skipped"] == 7


def test_a_read_of_some_users_is_asked_again(postgres, url):
    expected = pipeline(url).load(users=range(1, 200))
    cut = pipeline(url)
    cut.progress = Interrupted(2, lambda: cut_all(postgres))
    assert cut.load(users=range(1, 200)).fingerprint == expected.fingerprint


def test_every_cut_is_forgiven_as_long_as_rows_come_in_between(postgres, url, whole):
    """Each is followed by headway, so that one retry is enough for five."""
    cut = pipeline(url, retries=1)
    parts = []

    def come(rows: int) -> None:
        parts.append(rows)
        if len(parts) in (3, 6, 9, 12, 15):
            cut_all(postgres)

    cut.progress = come
    assert cut.load().fingerprint == whole.fingerprint
    assert len(parts) > 15


def test_a_server_that_comes_back_while_the_pipeline_waits_is_read_to_the_end(postgres, url, whole):
    cut, pauses = pipeline(url, retries=6, pause=0.2), []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:  # the first two retries find no server
            postgres.start()

    cut.retry = replace(cut.retry, sleep=sleep)
    cut.progress = Interrupted(9, lambda: postgres.stop(signal.SIGQUIT))
    assert cut.load().fingerprint == whole.fingerprint
    assert pauses == [0.2, 0.4, 0.8]


def test_a_server_that_stays_away_is_one_error_that_names_the_table_and_the_rows(postgres, url):
    cut = pipeline(url, retries=1)
    cut.progress = Interrupted(3, lambda: postgres.stop(signal.SIGQUIT))
    try:
        with pytest.raises(DatabaseError) as caught:
            cut.load()
    finally:
        postgres.start()
    # Of 3 parts of 100 rows the last user's rows are held back, since more of them may come.
    begin, _, rest = str(caught.value).partition(" rows: PostgreSQL 127.0.0.1:")
    assert begin.startswith("rules: the read was interrupted after 2")
    assert 200 < int(begin.split()[-1]) < 300
    assert rest.endswith("; gave up after 2 attempts")
    assert postgres.password not in str(caught.value)


@pytest.mark.parametrize("as_text", [False, True])
def test_a_file_whose_read_is_interrupted_is_read_on_behind_the_last_whole_user(tmp_path, monkeypatch, caplog, as_text):
    """SQLite itself breaks the statement off, after so many steps of its machine."""
    tables = [
        table.astype(str) if as_text else table for table in as_tables(datasets.load("wyze-synthetic", homes=100))
    ]
    for kind, table in zip(("devices", "rules"), tables, strict=True):
        fill(tmp_path / "homes.db", kind, table)
    opened, steps, cuts = Database._open_file, [0], []

    def step() -> bool:
        steps[0] += 1
        return steps[0] in cuts

    def open_and_count(database: Database) -> sqlite3.Connection:
        connection = opened(database)
        connection.set_progress_handler(step, 1)
        return connection

    monkeypatch.setattr(Database, "_open_file", open_and_count)
    read = pipeline(str(tmp_path / "homes.db"))
    assert (read.devices.kind, read.rules.kind) == ("devices", "rules")  # looked up, so that steps are of reading
    steps[0] = 0
    expected = read.load()
    every = [int(part * steps[0]) for part in np.linspace(0.05, 0.99, 12)]
    for cut in every:
        steps[0], cuts[:] = 0, [cut]
        assert read.load().fingerprint == expected.fingerprint
    begins = [message.partition(" rows: ")[0].split() for message in caplog.messages if "interrupted" in message]
    assert len(begins) == len(every)
    assert {words[0] for words in begins if int(words[-1]) > 0} == {"rules:", "devices:"}  # cut after rows had come
