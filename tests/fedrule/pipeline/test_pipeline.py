"""Homes from SQLite files: the same as from tables, all at once, by user or part by part."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from datasets.common.errors import DataError

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")

import sqlalchemy as sql

from fedrule.pipeline import Pipeline, TableConfig
from tests.support.pipeline_tables import DEVICES, RULES, THREE_HOMES, fill, spelled, three_homes


def test_one_database_gives_every_home_those_without_rules_included(tmp_path):
    homes = three_homes(tmp_path / "homes.db").load()
    assert spelled(homes) == THREE_HOMES
    assert homes.users.tolist() == [1, 2, 3]
    assert homes.types == ("Camera", "ContactSensor", "Light", "Plug")
    assert homes.provenance.counts == {"device rows": 5, "rule rows": 3}


def test_two_databases_are_joined(tmp_path):
    fill(tmp_path / "a.db", "devices", DEVICES)
    fill(tmp_path / "b.sqlite", "rules", RULES)
    pipeline = Pipeline(TableConfig("a.db"), TableConfig("sqlite:///b.sqlite"), folder=tmp_path)
    assert spelled(pipeline.load()) == THREE_HOMES


def test_the_order_of_rows_in_the_database_changes_nothing(tmp_path):
    fill(tmp_path / "a.db", "devices", DEVICES[::-1])
    fill(tmp_path / "a.db", "rules", RULES[::-1])
    turned = Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig()).load()
    assert turned.fingerprint == three_homes(tmp_path / "b.db").load().fingerprint


def test_a_toml_file_maps_columns_and_takes_the_address_from_the_environment(tmp_path, monkeypatch):
    fill(tmp_path / "own.db", "gadgets", DEVICES.set_axis(["household", "serial", "model"], axis=1))
    fill(tmp_path / "own.db", "rules", RULES.rename(columns={"user": "owner"}))
    monkeypatch.setenv("OWN_URL", "sqlite:///own.db")
    (tmp_path / "own.toml").write_text(
        'retries = 0\n[devices]\nurl = "${OWN_URL}"\ntable = "main.gadgets"\n'
        'columns = { user = "household", device = "serial", type = "model" }\n[rules]\ncolumns.user = "owner"\n'
    )
    homes = Pipeline.from_file(tmp_path / "own.toml").load()
    assert spelled(homes) == THREE_HOMES
    assert homes.name == "own"


def test_only_the_homes_that_are_asked_for_are_read(tmp_path, caplog):
    pipeline = three_homes(tmp_path / "homes.db")
    wanted = pipeline.load(users=[3, "1", np.int64(3), 99, 10**30])
    assert spelled(wanted) == {user: THREE_HOMES[user] for user in ("1", "3")}
    # Of 1, 3, 99 and the number that no column holds two are found; the last is not even asked for.
    assert caplog.messages == ["1 of 3 users have neither devices nor valid rules"]
    assert pipeline.load(users=[]).n_homes == 0


def test_more_users_than_one_statement_takes_are_read_each_once(tmp_path):
    many = np.arange(25_000)
    fill(tmp_path / "a.db", "devices", pd.DataFrame({"user": many, "device": many, "type": "Light"}))
    fill(tmp_path / "a.db", "rules", RULES[:0])
    homes = Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig()).load(users=many[::-1])
    assert homes.users.tolist() == many.tolist()
    assert homes.n_rules == 0


def test_users_that_are_no_ids_are_refused(tmp_path):
    pipeline = three_homes(tmp_path / "homes.db")
    with pytest.raises(DataError, match="'x' is not an integer"):
        pipeline.load(users=["x"])
    with pytest.raises(DataError, match="one text"):
        pipeline.load(users="12")
    with pytest.raises(DataError, match="not both"):
        pipeline.load(users=[1], since=3)


def test_parts_have_so_many_users_and_one_vocabulary(tmp_path):
    pipeline = three_homes(tmp_path / "homes.db", rows=1)
    parts = list(pipeline.batches(2))
    assert [part.users.tolist() for part in parts] == [[1, 2], [3]]
    assert [part.provenance.counts["device rows"] for part in parts] == [4, 1]
    whole = pipeline.load()
    assert {(part.types, part.relations) for part in parts} == {(whole.types, whole.relations)}
    with pytest.raises(DataError, match="size=0: expected int"):
        next(pipeline.batches(0))


def test_whole_numbers_in_text_columns_stay_text_in_every_read(tmp_path):
    """Were it decided by the values, 10 and 9 read without "x" would be numbers, and sorted as such."""
    devices = pd.DataFrame({"user": ["9", "10", "x"], "device": ["9", "10", "x"], "type": ["Light"] * 3})
    fill(tmp_path / "a.db", "devices", pd.concat([devices, devices.assign(device="100")]))
    fill(tmp_path / "a.db", "rules", RULES[:0].astype(object))
    pipeline = Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig())
    assert pipeline.load(users=[9, "10"]).users.tolist() == ["10", "9"]
    (part,) = pipeline.batches(5)
    assert part.users.tolist() == ["10", "9", "x"]
    assert part.device_ids.tolist() == ["10", "100", "100", "9", "100", "x"]


def test_numbers_in_one_table_and_text_in_the_other_are_the_same_users(tmp_path):
    fill(tmp_path / "a.db", "devices", DEVICES)
    fill(tmp_path / "a.db", "rules", RULES.astype(str))
    pipeline = Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig(), rows=1)
    assert spelled(pipeline.load()) == THREE_HOMES
    assert {user: home for part in pipeline.batches(1) for user, home in spelled(part).items()} == THREE_HOMES
    assert pipeline.load(users=["1", 3]).users.tolist() == ["1", "3"]


def test_upper_and_lower_case_are_two_users_even_where_the_column_ignores_case(tmp_path):
    devices = pd.DataFrame({"user": ["b", "A", "a", "B"], "device": ["1", "2", "3", "4"], "type": ["Light"] * 4})
    fill(tmp_path / "a.db", "devices", devices, user=sql.Text(collation="NOCASE"))
    fill(tmp_path / "a.db", "rules", RULES[:0].astype(object))
    pipeline = Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig(), rows=1)
    assert [part.users.tolist() for part in pipeline.batches(1)] == [["A"], ["B"], ["a"], ["b"]]
    assert pipeline.load(users=["a"]).users.tolist() == ["a"]


def test_upper_and_lower_case_are_two_types_even_where_the_column_ignores_case(tmp_path):
    devices = DEVICES.assign(type=["Light", "light", "Plug", "plug", "PLUG"])
    fill(tmp_path / "a.db", "devices", devices, type=sql.Text(collation="NOCASE"))
    fill(tmp_path / "a.db", "rules", RULES)
    pipeline = Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig())
    assert pipeline.vocabulary().types == pipeline.load().types == ("Light", "PLUG", "Plug", "light", "plug")


def test_users_are_counted_without_being_read(tmp_path):
    assert three_homes(tmp_path / "homes.db").n_users() == 3
    devices = pd.DataFrame({"user": ["b", "A", "a", None], "device": ["1", "2", "3", "4"], "type": ["Light"] * 4})
    fill(tmp_path / "a.db", "devices", devices, user=sql.Text(collation="NOCASE"))
    fill(tmp_path / "b.db", "rules", RULES.assign(user=["c", "b", "C"]).astype(str))
    at = TableConfig(str(tmp_path / "a.db")), TableConfig(str(tmp_path / "b.db"))
    assert Pipeline(*at).n_users() == 3  # b, A and a own devices; NULL is nobody
    assert Pipeline(*at, add_devices=True).n_users() == 5  # c and C too, who may be given some


def test_since_gives_the_homes_with_a_later_change_in_either_table(tmp_path):
    fill(tmp_path / "a.db", "devices", DEVICES.assign(at=[1, 5, 1, 1, 1]))
    fill(tmp_path / "a.db", "rules", RULES.assign(at=[7, 1, 1]))
    pipeline = Pipeline(TableConfig(str(tmp_path / "a.db"), updated="at"), TableConfig(updated="at"))
    assert pipeline.load(since=4).users.tolist() == [1, 2]
    assert pipeline.load(since=5).users.tolist() == [2]
    assert pipeline.load(since=7).n_homes == 0
    with pytest.raises(DataError, match="give its name as updated="):
        three_homes(tmp_path / "b.db").load(since=1)


def test_names_that_look_like_statements_are_names(tmp_path):
    name = 'user"; drop table precious; --'
    fill(tmp_path / "a.db", name, DEVICES.rename(columns={"user": name, "type": "%(x)s :y"}))
    fill(tmp_path / "a.db", "precious", RULES)
    columns = {"user": name, "type": "%(x)s :y"}
    devices = TableConfig(str(tmp_path / "a.db"), table=name, schema="", columns=columns)
    pipeline = Pipeline(devices, TableConfig(table="precious"))
    assert spelled(pipeline.load()) == THREE_HOMES
    assert pipeline.load(users=[1, 2]).n_homes == 2


def test_values_that_look_like_statements_are_values(tmp_path):
    bad = "1'; drop table devices; --"
    fill(tmp_path / "a.db", "devices", DEVICES.astype(str).replace({"user": {"1": bad}}))
    fill(tmp_path / "a.db", "rules", RULES.astype(str).replace({"user": {"1": bad}}))
    pipeline = Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig(), rows=1)
    assert spelled(pipeline.load(users=[bad])) == {bad: THREE_HOMES["1"]}
    assert pipeline.load().n_homes == 3


def test_nothing_can_be_written(tmp_path):
    pipeline = three_homes(tmp_path / "homes.db")
    with pytest.raises(DataError, match="readonly"), pipeline.databases["rules"].connected() as connection:
        connection.execute(sql.text("delete from rules"))
