"""Small tables of devices and rules in databases, and homes spelled out so that two can be compared."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import strategies as st

from datasets import Homes

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")

import sqlalchemy as sql

from fedrule.pipeline import Pipeline, TableConfig

# Ann has a rule, Bob two; Cleo has devices only.
DEVICES = pd.DataFrame(
    {
        "user": [2, 1, 1, 2, 3],
        "device": [21, 11, 12, 22, 31],
        "type": ["Camera", "ContactSensor", "Light", "Light", "Plug"],
    }
)
RULES = pd.DataFrame(
    {
        "user": [2, 1, 2],
        "trigger_device": [21, 11, 22],
        "trigger_state": ["Motion", "Open", "On"],
        "action": ["Power On", "Power On", "Record"],
        "action_device": [22, 12, 21],
    }
)
WORDS = st.sampled_from(["On", "off", "Ünder", "a b", "%s", ":x", "'\""])
THREE_HOMES = {
    "1": ({"11": "ContactSensor", "12": "Light"}, {("11", "Open", "Power On", "12")}),
    "2": (
        {"21": "Camera", "22": "Light"},
        {("21", "Motion", "Power On", "22"), ("22", "On", "Record", "21")},
    ),
    "3": ({"31": "Plug"}, set()),
}


def fill(url: str | Path, table: str, frame: pd.DataFrame, *, schema: str | None = None, **types: object) -> None:
    """Make a table of a frame: numbers become INTEGER, everything else TEXT unless `types` says otherwise."""
    address = f"sqlite:///{url}" if isinstance(url, Path) else url.replace("postgresql://", "postgresql+psycopg://")
    columns = [
        sql.Column(name, types.get(name, sql.BigInteger() if column.dtype.kind == "i" else sql.Text()))
        for name, column in frame.items()
    ]
    new = sql.Table(table, sql.MetaData(), *columns, schema=schema)
    engine = sql.create_engine(address, poolclass=sql.NullPool)
    rows = [dict(zip(frame.columns, row, strict=True)) for row in frame.astype(object).values.tolist()]
    with engine.begin() as connection:
        new.drop(connection, checkfirst=True)
        new.create(connection)
        if rows:
            connection.execute(new.insert(), rows)


def three_homes(path: Path, **settings: object) -> Pipeline:
    """A pipeline over the three homes in one SQLite file."""
    fill(path, "devices", DEVICES)
    fill(path, "rules", RULES)
    return Pipeline(TableConfig(str(path)), TableConfig(), **settings)


def spelled(homes: Homes) -> dict[str, tuple[dict[str, str], set[tuple[str, ...]]]]:
    """Each user's devices with their types, and rules by the words; no order is left."""
    found = {str(user): ({}, set()) for user in homes.users}
    users = list(found)
    for home, device, type_ in zip(homes.device_home, homes.device_ids, homes.device_type, strict=True):
        found[users[home]][0][str(device)] = homes.types[type_]
    rules = homes.rules
    for home, trigger, action, relation in zip(rules.home, rules.trigger, rules.action, rules.relation, strict=True):
        state, act = homes.relations[relation]
        found[users[home]][1].add((str(homes.device_ids[trigger]), state, act, str(homes.device_ids[action])))
    return found


def as_tables(homes: Homes) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Homes as the two tables that they could have come from."""
    rules = homes.rules
    devices = pd.DataFrame(
        {
            "user": homes.users[homes.device_home],
            "device": homes.device_ids,
            "type": [homes.types[type_] for type_ in homes.device_type],
        }
    )
    return devices, pd.DataFrame(
        {
            "user": homes.users[rules.home],
            "trigger_device": homes.device_ids[rules.trigger],
            "trigger_state": [homes.relations[relation][0] for relation in rules.relation],
            "action": [homes.relations[relation][1] for relation in rules.relation],
            "action_device": homes.device_ids[rules.action],
        }
    )


@st.composite
def tables(draw: st.DrawFn) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Devices and rules with all that is good or bad: repeated, contradicting, absent, of another home, in groups."""
    as_text = draw(st.booleans())

    def ids(most: int) -> st.SearchStrategy[object]:
        numbers = st.integers(0, most)
        return st.builds(lambda n: "aBüZ_é9%:ß"[n] + "x", numbers) if as_text else numbers

    user, device = ids(2), ids(draw(st.sampled_from([1, 3, 9])))
    type_ = st.sampled_from(["Light", "Light", "Plug", None])
    rule = st.tuples(user, device, WORDS, WORDS, device, type_, type_, st.integers(0, 3))
    devices = draw(st.lists(st.tuples(user, device, type_), min_size=1, max_size=12))
    rules = draw(st.lists(rule, min_size=1, max_size=12))
    kind = object if as_text else "int64"
    device_table = pd.DataFrame(devices, columns=DEVICES.columns).astype({"user": kind, "device": kind})
    rule_table = pd.DataFrame(rules, columns=[*RULES.columns, "trigger_type", "action_type", "group"])
    # Databases have no order of rows: what comes first is what is least.
    return tuple(table.sort_values(list(table.columns), na_position="first") for table in (device_table, rule_table))
