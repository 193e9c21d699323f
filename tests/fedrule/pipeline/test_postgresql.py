"""Homes from a real PostgreSQL server: the same as from SQLite, and never a word of the password."""

from __future__ import annotations

import uuid

import pandas as pd
import pytest

import datasets
from datasets.common.errors import DataError

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")
pytest.importorskip("psycopg", reason="PostgreSQL needs the extra pipeline")

import psycopg
import sqlalchemy as sql

from fedrule.pipeline import Pipeline, TableConfig
from tests.support.pipeline_tables import DEVICES, RULES, THREE_HOMES, as_tables, fill, spelled, three_homes

pytest_plugins = ("tests.support.postgres_server",)


def test_homes_are_those_of_sqlite_bit_for_bit(postgres, tmp_path):
    devices, rules = as_tables(datasets.load("wyze-synthetic", homes=200))
    for url in (postgres.url(), tmp_path / "homes.db"):
        fill(url, "devices", devices.sample(frac=1, random_state=1))
        fill(url, "rules", rules.sample(frac=1, random_state=2))
    urls = postgres.url(), str(tmp_path / "homes.db")
    there, here = (Pipeline(TableConfig(url), TableConfig(), rows=90) for url in urls)
    assert there.load().fingerprint == here.load().fingerprint
    some = here.load().users[::3]
    assert there.load(users=some).fingerprint == here.load(users=some).fingerprint
    parts = [[part.fingerprint for part in pipeline.batches(70)] for pipeline in (there, here)]
    assert parts[0] == parts[1]
    assert len(parts[0]) == 3  # 200 homes are 70, 70 and 60


def test_rows_come_a_few_at_a_time(postgres):
    fill(postgres.url(), "devices", DEVICES)
    fill(postgres.url(), "rules", RULES)
    pipeline, came = Pipeline(TableConfig(postgres.url()), TableConfig(), rows=2), []
    pipeline.progress = came.append
    assert spelled(pipeline.load()) == THREE_HOMES
    # 3 rules are 2 and 1, 5 devices are 2, 2 and 1.
    assert came == [2, 1, 2, 2, 1]


def test_a_table_may_be_in_a_schema_and_have_any_name(postgres):
    name = 'user"; drop table "In.Ventory"."rules"; --%(x)s'
    with psycopg.connect(postgres.url()) as connection:
        connection.execute('create schema if not exists "In.Ventory"')
    fill(postgres.url(), name, DEVICES.rename(columns={"user": name}), schema="In.Ventory")
    fill(postgres.url(), "rules", RULES, schema="In.Ventory")
    at = TableConfig(postgres.url(), table=name, schema="In.Ventory", columns={"user": name})
    pipeline = Pipeline(at, TableConfig(schema="In.Ventory"))
    assert spelled(pipeline.load()) == THREE_HOMES
    assert spelled(pipeline.load(users=[3])) == {"3": THREE_HOMES["3"]}
    with pytest.raises(DataError, match=r"unknown table of schema 'In\.Ventory' 'rule'; did you mean 'rules'"):
        Pipeline(at, TableConfig(schema="In.Ventory", table="rule")).load()


def test_users_are_merged_with_another_database_that_sorts_text_in_another_way(postgres, tmp_path):
    """By the dictionary it is _a, a, B, é; by bytes it is B, _a, a, é."""
    users = ["a", "B", "é", "_a"]
    fill(
        postgres.url(),
        "devices",
        pd.DataFrame({"user": users, "device": users, "type": "Light"}),
        user=sql.Text(collation="en-x-icu"),
    )
    rules = pd.DataFrame({"user": users, "trigger_device": users, "trigger_state": "On", "action": "Off"})
    fill(tmp_path / "rules.db", "rules", rules.assign(action_device=users))
    pipeline = Pipeline(TableConfig(postgres.url()), TableConfig("rules.db"), folder=tmp_path, rows=1)
    parts = list(pipeline.batches(1))
    assert [part.users.tolist() for part in parts] == [["B"], ["_a"], ["a"], ["é"]]
    assert [part.n_rules for part in parts] == [1, 1, 1, 1]
    assert pipeline.load(users=["é", "b"]).users.tolist() == ["é"]


def test_ids_of_any_type_are_read_as_the_database_writes_them(postgres):
    users = [uuid.UUID(int=n) for n in (2, 1)]
    devices = pd.DataFrame({"user": users, "device": ["x", "y"], "type": ["Light", "Plug"]})
    kinds = sql.Enum("Light", "Plug", name="kinds")
    fill(postgres.url(), "devices", devices, user=sql.Uuid(), device=sql.CHAR(5), type=kinds)
    rules = pd.DataFrame({"user": [str(users[0])], "trigger_device": "x", "trigger_state": True, "action": 7})
    types = {"trigger_state": sql.Boolean(), "action": sql.SmallInteger()}
    fill(postgres.url(), "rules", rules.assign(action_device="x"), **types)
    pipeline = Pipeline(TableConfig(postgres.url()), TableConfig(), rows=1)
    expected = {str(users[1]): ({"y": "Plug"}, set()), str(users[0]): ({"x": "Light"}, {("x", "true", "7", "x")})}
    assert spelled(pipeline.load()) == expected
    assert spelled(pipeline.load(users=users)) == expected
    assert [part.users.tolist() for part in pipeline.batches(1)] == [[str(users[1])], [str(users[0])]]


def test_an_id_that_does_not_fit_into_the_column_is_nobody(postgres):
    fill(postgres.url(), "devices", DEVICES, user=sql.SmallInteger())
    fill(postgres.url(), "rules", RULES, user=sql.Integer())
    pipeline = Pipeline(TableConfig(postgres.url()), TableConfig())
    assert pipeline.load(users=[1, 2**40, -(2**63), 2**70]).users.tolist() == [1]


def test_a_materialized_view_is_as_good_as_a_table(postgres):
    fill(postgres.url(), "devices", DEVICES)
    fill(postgres.url(), "rules", RULES)
    with psycopg.connect(postgres.url()) as connection:
        connection.execute("create materialized view seen as select * from devices")
    try:
        assert spelled(Pipeline(TableConfig(postgres.url(), table="seen"), TableConfig()).load()) == THREE_HOMES
    finally:
        with psycopg.connect(postgres.url()) as connection:
            connection.execute("drop materialized view seen")


def test_nothing_can_be_written(postgres):
    fill(postgres.url(), "devices", DEVICES)
    pipeline = Pipeline(TableConfig(postgres.url()), TableConfig())
    with pytest.raises(DataError, match="read-only"), pipeline.databases["rules"].connected() as connection:
        connection.execute(sql.text("delete from devices"))


def test_a_table_is_read_in_one_view_that_cannot_write(postgres):
    database = Pipeline(TableConfig(postgres.url()), TableConfig()).databases["rules"]
    settings = [sql.func.current_setting(f"transaction_{what}") for what in ("isolation", "read_only")]
    assert list(database.rows(sql.select(*settings), size=1)) == [[("repeatable read", "on")]]


def test_the_three_homes_are_the_same_in_both(postgres, tmp_path):
    fill(postgres.url(), "devices", DEVICES)
    fill(postgres.url(), "rules", RULES)
    there = Pipeline(TableConfig(postgres.url()), TableConfig()).load()
    assert there.fingerprint == three_homes(tmp_path / "homes.db").load().fingerprint
