"""Homes as a database of two tables, and the file that describes it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from datasets import Homes


def write_database(homes: Homes, folder: Path) -> Path:
    """Write an SQLite file with integer ids; the .toml file for `--all`."""
    with closing(sqlite3.connect(folder / "homes.db")) as database, database:
        database.execute("create table devices (user integer, device integer, type text)")
        rows = zip(homes.users[homes.device_home].tolist(), homes.device_ids.tolist(), homes.device_type, strict=True)
        database.executemany("insert into devices values (?, ?, ?)", [(u, d, homes.types[t]) for u, d, t in rows])
        database.execute(
            "create table rules (user integer, trigger_device integer, trigger_state text, action text, "
            "action_device integer)"
        )
        for one in homes:
            found = [(one.user, rule.trigger.id, *rule.relation, rule.action.id) for rule in one.rules]
            database.executemany("insert into rules values (?, ?, ?, ?, ?)", found)
    described = folder / "homes.toml"
    described.write_text('[devices]\nurl = "homes.db"\ntable = "devices"\n[rules]\nurl = "homes.db"\ntable = "rules"\n')
    return described
