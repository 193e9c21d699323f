"""What a pipeline is told wrongly is said with the remedy, and without the password."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from datasets.common.errors import DataError

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")

import sqlalchemy as sql

from fedrule.pipeline import Pipeline, TableConfig
from tests.support.pipeline_tables import DEVICES, RULES, fill, three_homes

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "pipeline.md"
BOTH = '[devices]\nurl = "homes.db"\n[rules]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("on_eror = 'skip'\n" + BOTH, "unknown setting of p.toml 'on_eror'; did you mean 'on_error'"),
        ("[device]\n[rules]\n", "unknown setting of p.toml 'device'; did you mean 'devices'"),
        ("[devices]\nurl = 'homes.db'\n", r"section \[rules\] with url and table is missing"),
        ("devices = 3\n[rules]\n", r"section \[devices\]"),
        (BOTH + "tabel = 'x'", r"unknown key of \[rules\] in p.toml 'tabel'; did you mean 'table'"),
        (BOTH + "columns = { trigger_devise = 'x' }", "unknown column role of rules 'trigger_devise'; did you mean"),
        (BOTH + "columns = { user = 3 }", r"p.toml \[rules\]: columns: user=3: expected str"),
        (BOTH + "table = 3", r"p.toml \[rules\]: table=3: expected str"),
        ("retries = 'many'\n" + BOTH, "p.toml retries='many': expected int"),
        ("retries = -1\n" + BOTH, r"p.toml retries=-1: expected int \(a whole number\) of at least 0"),
        ("rows = 0\n" + BOTH, r"p.toml rows=0: expected int \(a whole number\) above 0"),
        ("on_error = 'ignore'\n" + BOTH, "unknown value of p.toml on_error 'ignore'.* Known: raise, skip"),
        ("[devices]\n[rules]\n", "devices: url is missing"),
        ("[devices", "invalid TOML"),
        ("[devices]\nurl = '${NO_SUCH_URL}'\n[rules]\n", "environment variable NO_SUCH_URL is not set"),
    ],
)
def test_a_wrong_setting_is_named_with_its_remedy(tmp_path, text, message):
    three_homes(tmp_path / "homes.db")
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(DataError, match=message):
        Pipeline.from_file(tmp_path / "p.toml").load()


@pytest.mark.parametrize("name", ["none.toml", "homes.db"])
def test_what_is_no_pipeline_is_refused(tmp_path, name):
    with pytest.raises(DataError, match=r"no such file|give a \.toml file"):
        Pipeline.from_file(tmp_path / name)


def test_a_missing_table_or_column_is_named_beside_those_that_are_there(tmp_path):
    fill(tmp_path / "a.db", "gadgets", DEVICES.rename(columns={"type": "model"}))
    fill(tmp_path / "a.db", "rules", RULES)
    url = str(tmp_path / "a.db")
    with pytest.raises(DataError, match=r"unknown table 'gadget'; did you mean 'gadgets'\? Known: gadgets, rules"):
        Pipeline(TableConfig(url, table="gadget"), TableConfig()).load()
    with pytest.raises(DataError, match="unknown schema 'mian'; did you mean 'main'"):
        Pipeline(TableConfig(url, table="mian.gadgets"), TableConfig()).load()
    with pytest.raises(DataError, match=r"unknown column for type 'type'.* Known: device, model, user; give its name"):
        Pipeline(TableConfig(url, table="gadgets"), TableConfig()).load()
    columns = {"type": "model"}
    with pytest.raises(DataError, match="unknown column for group 'team'"):
        Pipeline(TableConfig(url, table="gadgets", columns=columns), TableConfig(columns={"group": "team"})).load()
    with pytest.raises(DataError, match="unknown column for updated 'at'"):
        Pipeline(TableConfig(url, table="gadgets", columns=columns, updated="at"), TableConfig()).load()


def test_a_view_is_as_good_as_a_table(tmp_path):
    three_homes(tmp_path / "homes.db")
    engine = sql.create_engine(f"sqlite:///{tmp_path / 'homes.db'}", poolclass=sql.NullPool)
    with engine.begin() as connection:
        connection.execute(sql.text("create view some as select * from devices where user < 3"))
    homes = Pipeline(TableConfig(str(tmp_path / "homes.db"), table="some"), TableConfig()).load()
    assert homes.users.tolist() == [1, 2]


def test_a_file_that_is_missing_is_not_made(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        Pipeline(TableConfig(str(tmp_path / "none.db")), TableConfig()).load()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path):
    (tmp_path / "a.db").write_text("user,device,type\n" * 100)
    with pytest.raises(DataError, match="file is not a database"):
        Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig()).load()


def test_ids_that_are_fractions_are_refused(tmp_path):
    fill(tmp_path / "a.db", "devices", DEVICES, device=sql.Float())
    fill(tmp_path / "a.db", "rules", RULES)
    with pytest.raises(DataError, match="'device' holds FLOAT; ids must be integers or text"):
        Pipeline(TableConfig(str(tmp_path / "a.db")), TableConfig()).load()


def test_the_example_of_the_documentation_is_understood(tmp_path, monkeypatch):
    (example,) = re.findall(r"^```toml\n(.*?)^```", DOCUMENTATION.read_text(), flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "homes.toml").write_text(example)
    monkeypatch.setenv("DEVICES_URL", "postgresql://reader:s3cr3t@db1/inventory")
    pipeline = Pipeline.from_file(tmp_path / "homes.toml")
    places = f"devices in PostgreSQL db1/inventory, rules in SQLite {tmp_path / 'rules.db'}"
    assert repr(pipeline) == f"<Pipeline 'homes': {places}>"
