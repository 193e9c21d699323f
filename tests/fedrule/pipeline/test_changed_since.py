"""`load(since=...)`: what is given is read by the type of the column, or refused with the remedy."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest

from datasets.common.errors import DataError

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")

import sqlalchemy as sql

from fedrule.pipeline import DatabaseError, Pipeline, TableConfig
from tests.support.pipeline_tables import DEVICES, RULES, fill

pytest_plugins = ("tests.support.postgres_server",)

DAYS = ["2026-05-01", "2026-05-03", "2026-05-01", "2026-05-01", "2026-05-02"]  # of users 2, 1, 1, 2, 3


def changed(url: object, times: list[object], kind: object) -> Pipeline:
    """The three homes, whose devices were changed at these times and whose rules were at the first of them."""
    fill(url, "devices", DEVICES.assign(at=pd.Series(times, dtype=object)), at=kind)
    fill(url, "rules", RULES.assign(at=pd.Series(times[:1] * 3, dtype=object)), at=kind)
    return Pipeline(TableConfig(str(url), updated="at"), TableConfig(updated="at"))


@pytest.fixture(params=["file", "server"])
def url(request, tmp_path):
    """Each kind of database."""
    return tmp_path / "a.db" if request.param == "file" else request.getfixturevalue("postgres").url()


def test_a_column_of_times_takes_text_days_and_times(url):
    pipeline = changed(url, [datetime.fromisoformat(day) for day in DAYS], sql.TIMESTAMP())
    assert pipeline.load(since="2026-05-01").users.tolist() == [1, 3]
    assert pipeline.load(since="2026-05-01T12:30").users.tolist() == [1, 3]
    assert pipeline.load(since=date(2026, 5, 2)).users.tolist() == [1]
    assert pipeline.load(since=pd.Timestamp("2026-05-02 00:00:01")).users.tolist() == [1]
    assert pipeline.load(since="2026-05-03").n_homes == 0
    with pytest.raises(DataError, match=r"since='May': at of devices in .* holds times; write e\.g\. 2026-05-01"):
        pipeline.load(since="May")
    with pytest.raises(DataError, match="holds times without time zone"):
        pipeline.load(since=datetime(2026, 5, 1, tzinfo=UTC))


def test_a_column_of_days_takes_text_and_days(url):
    pipeline = changed(url, [date.fromisoformat(day) for day in DAYS], sql.Date())
    assert pipeline.load(since="2026-05-02").users.tolist() == [1]
    assert pipeline.load(since=date(2026, 5, 1)).users.tolist() == [1, 3]
    with pytest.raises(DataError, match="holds days; write"):
        pipeline.load(since="2026-05-02 12:00")


def test_a_column_of_numbers_takes_numbers_to_the_last_digit(url):
    times = [1_777_593_600_000_000_000 + more for more in (0, 2, 0, 0, 1)]  # floats there are 256 apart
    pipeline = changed(url, times, sql.BigInteger())
    for since in (times[0], str(times[0]), np.int64(times[0])):
        assert pipeline.load(since=since).users.tolist() == [1, 3]
    assert pipeline.load(since=1.5e18).users.tolist() == [1, 2, 3]
    with pytest.raises(DataError, match=r"since='2026-05-01': at of devices in .* holds numbers"):
        pipeline.load(since="2026-05-01")


def test_a_column_of_text_takes_text(url):
    pipeline = changed(url, DAYS, sql.Text())
    assert pipeline.load(since="2026-05-02").users.tolist() == [1]
    with pytest.raises(DataError, match="holds text; give a text"):
        pipeline.load(since=date(2026, 5, 2))


def test_times_with_zone_are_compared_as_instants(postgres):
    times = [datetime.fromisoformat(day).replace(tzinfo=UTC) for day in DAYS]
    pipeline = changed(postgres.url(), times, sql.TIMESTAMP(timezone=True))
    # 01:00 two hours east of Greenwich is 23:00 of the day before there.
    assert pipeline.load(since="2026-05-02T01:00+02:00").users.tolist() == [1, 3]
    assert pipeline.load(since="2026-05-02T02:00+02:00").users.tolist() == [1]
    with pytest.raises(DataError, match="holds times"):
        pipeline.load(since=20260501)


@pytest.mark.parametrize(
    ("times", "since"),
    [
        ([f"{day}T10:00:00Z" for day in DAYS], "2026-05-01 12:00"),
        ([f"{day} 10:00" for day in DAYS], "2026-05-01T12:00:00"),
        ([1_777_593_600, 1_777_766_400, 1_777_593_600, 1_777_593_600, 1_777_680_000], 1_777_600_000),
    ],
)
def test_times_of_sqlite_may_be_written_in_several_ways_or_be_numbers(tmp_path, times, since):
    """SQLAlchemy writes but one way; other programs write others into a column that is declared TIMESTAMP."""
    changed(tmp_path / "a.db", [datetime.fromisoformat(day) for day in DAYS], sql.TIMESTAMP())
    connection = sqlite3.connect(tmp_path / "a.db")
    with connection:
        for device, time in zip(DEVICES["device"], times, strict=True):
            connection.execute("update devices set at = ? where device = ?", (time, device))
        connection.execute("update rules set at = ?", (times[0],))
    connection.close()
    pipeline = Pipeline(TableConfig(str(tmp_path / "a.db"), updated="at"), TableConfig(updated="at"))
    assert pipeline.load(since=since).users.tolist() == [1, 3]


def test_what_the_database_refuses_before_the_first_row_is_no_broken_read(tmp_path):
    pipeline = changed(tmp_path / "a.db", [0] * 5, sql.BigInteger())
    with pytest.raises(DatabaseError, match=r"^devices: SQLite .*a\.db: .*too large") as caught:
        pipeline.load(since=2**70)
    assert "interrupted" not in str(caught.value)
