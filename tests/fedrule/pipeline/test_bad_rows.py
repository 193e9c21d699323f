"""Bad rows of a database are named by their user and devices, or left out and listed."""

from __future__ import annotations

import sqlite3

import pandas as pd
import pytest

from datasets.common.errors import DataError

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")

from fedrule.pipeline import Pipeline, TableConfig
from tests.support.pipeline_tables import DEVICES, RULES, THREE_HOMES, fill, spelled, three_homes


def spoil(path, *statements):
    """Run statements on a file."""
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


BAD_RULE = "insert into rules values (1, 11, 'Open', 'Power On', 31)"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            BAD_RULE,
            "rules row with user '1', trigger_device '11', action_device '31': action_device belongs to another user "
            "in devices; a rule joins devices of one home: correct the id",
        ),
        (
            "insert into rules values (1, 77, 'Open', 'Power On', 11)",
            "rules row with user '1', trigger_device '77', action_device '11': trigger_device is not among its user's "
            "devices in devices; add the device there, or load with the option add_devices=true",
        ),
        (
            "insert into devices values (1, 11, 'Plug')",
            "devices row with user '1', device '11': the device is listed before with another type; "
            "keep one of the lines",
        ),
        (
            "insert into devices values (null, 99, 'Plug')",
            "devices row with user None, device '99': user is missing; fill it in or delete the row",
        ),
        (
            "insert into devices values (1, 99, ' ')",
            "devices row with user '1', device '99': type is missing; fill it in or delete the line",
        ),
        (
            "insert into devices values ('ann', 99, 'Plug')",
            "devices row with user 'ann', device '99': user is not an integer, as its column's type says; correct it",
        ),
        (
            "insert into devices values (1, 9.5, 'Plug')",
            "devices row with user '1', device '9.5': device is not an integer, as its column's type says; correct it",
        ),
        (
            "insert into devices values (1, 99, cast(x'50ff' as text))",
            r"devices row with user '1', device '99', type b'P\xff': type is not UTF-8; correct it",
        ),
    ],
)
@pytest.mark.parametrize("rows", [1, 1000])
def test_a_bad_row_is_named_or_left_out(tmp_path, statement, message, rows):
    path = tmp_path / "homes.db"
    three_homes(path)
    spoil(path, statement)
    at = TableConfig(str(path)), TableConfig()
    with pytest.raises(DataError) as caught:
        Pipeline(*at, rows=rows).load()
    assert str(caught.value) == message
    skipping = Pipeline(*at, on_error="skip", rows=rows)
    homes = skipping.load()
    assert spelled(homes) == THREE_HOMES
    assert "1 row skipped because" in homes.provenance.skipped[0]
    parts = list(skipping.batches(1))
    assert {user: home for part in parts for user, home in spelled(part).items()} == THREE_HOMES
    with pytest.raises(DataError):
        list(Pipeline(*at, rows=rows).batches(1))


def test_many_bad_rows_are_counted_and_the_first_are_shown(tmp_path):
    path = tmp_path / "homes.db"
    three_homes(path)
    spoil(path, *[BAD_RULE] * 12)
    with pytest.raises(DataError) as caught:
        Pipeline(TableConfig(str(path)), TableConfig()).load()
    # 12 rows are bad and 10 are shown.
    assert len(str(caught.value).splitlines()) == 10 + 1
    assert str(caught.value).endswith("... and 2 more; on_error=skip leaves bad lines out and lists them")


def test_a_user_with_blanks_around_it_is_refused_since_it_would_be_another_one(tmp_path):
    devices = pd.DataFrame({"user": ["ann", " ann", ""], "device": ["a", "b", "c"], "type": ["Light"] * 3})
    fill(tmp_path / "a.db", "devices", devices)
    fill(tmp_path / "a.db", "rules", RULES[:0].astype(object))
    at = TableConfig(str(tmp_path / "a.db")), TableConfig()
    with pytest.raises(
        DataError,
        match=r"user None, device 'c': user is missing(.|\n)*user ' ann', device 'b': user has blanks around it; trim",
    ):
        Pipeline(*at).load()
    assert spelled(Pipeline(*at, on_error="skip").load()) == {"ann": ({"a": "Light"}, set())}


def test_rules_that_name_types_add_the_devices_that_only_they_have(tmp_path):
    fill(tmp_path / "a.db", "devices", DEVICES)
    cloud = RULES.assign(trigger_type=None, action_type="Cloud", action_device=[5, 5, 5])
    fill(tmp_path / "a.db", "rules", cloud)
    homes = Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig(), add_devices=True).load()
    assert spelled(homes)["1"] == (
        {"11": "ContactSensor", "12": "Light", "5": "Cloud"},
        {("11", "Open", "Power On", "5")},
    )
    parts = list(Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig(), add_devices=True).batches(1))
    assert {part.types for part in parts} == {homes.types}


def test_groups_of_rules_are_kept(tmp_path):
    fill(tmp_path / "a.db", "devices", DEVICES)
    fill(tmp_path / "a.db", "rules", RULES.assign(automation=[4, 5, 4]))
    homes = Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig(columns={"group": "automation"})).load()
    assert homes.rules.group.tolist() == [5, 4, 4]


def test_a_table_of_devices_without_rows_is_an_error_and_one_of_rules_is_not(tmp_path):
    fill(tmp_path / "a.db", "devices", DEVICES[:0])
    fill(tmp_path / "a.db", "rules", RULES)
    with pytest.raises(DataError, match=r"devices in SQLite .*: the table has no rows"):
        Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig()).load()
    fill(tmp_path / "a.db", "devices", DEVICES)
    fill(tmp_path / "a.db", "rules", RULES[:0])
    homes = Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig()).load()
    assert (homes.n_homes, homes.n_devices, homes.n_rules) == (3, 5, 0)


def test_a_file_that_stays_locked_is_given_up_after_the_retries(tmp_path, caplog):
    pipeline = three_homes(tmp_path / "homes.db", retries=1, pause=0)
    assert pipeline.devices.kind == "devices"
    assert pipeline.rules.kind == "rules"
    writer = sqlite3.connect(tmp_path / "homes.db", isolation_level=None)
    writer.execute("begin exclusive")
    try:
        with pytest.raises(
            DataError, match=r"rules: the read was interrupted after 0 rows: .*locked; gave up after 2 attempts"
        ):
            pipeline.load()
    finally:
        writer.close()
    assert sum("retrying" in message for message in caplog.messages) == 1
    assert spelled(pipeline.load()) == THREE_HOMES
