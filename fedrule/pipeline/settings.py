"""Where the tables of a pipeline are and what their columns are called, by keywords or in a TOML file.

on_error = "skip"                # skip bad rows; the default is to raise an error

[devices]
url = "${DEVICES_URL}"           # an environment variable, so that the file contains no password
table = "inventory.devices"      # schema.table
columns = { user = "household_id", device = "serial", type = "model" }

[rules]                          # without url: in the same database
table = "rules"
columns = { user = "owner" }

[words]                          # may be left out
table = "device_words"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from datasets.common.errors import DataError, unknown
from datasets.common.options import options_of, read
from datasets.readers.tables import ROLES as TABLE_ROLES

NAMES = ("name", "room")  # what owners call their devices; read only where `columns` gives them
ROLES = TABLE_ROLES | {"devices": (*TABLE_ROLES["devices"], *NAMES)}
OPTIONAL_TABLES = ("words",)
IDS = ("user", "device", "trigger_device", "action_device")  # the columns that identify a row
WHOLE_NUMBERS = (*IDS, "word")  # integers where their column is declared so
PERSONAL = ("word", *NAMES)  # never shown


@dataclass(frozen=True, slots=True)
class TableConfig:
    """Where a table is and what its columns are called."""

    url: str = field(default="", repr=False)  # may contain a password
    table: str = ""  # schema.table, or table
    schema: str | None = None  # if given, `table` may contain dots; "" is the default schema
    columns: Mapping[str, str] = field(default_factory=dict)  # role -> column name, where they differ
    updated: str | None = None  # the column with the time of a row's last change, for `load(since=...)`

    def __post_init__(self) -> None:
        if not isinstance(self.url, str):  # the value is not shown: it may contain a password
            raise DataError(f"url must be a text, got {type(self.url).__name__}")
        for name, option in options_of(TableConfig).items():
            read(option.annotation, getattr(self, name), where=name)

    def roles(self, kind: str) -> dict[str, str]:
        """The column name of each role of this kind of table."""
        for role in self.columns:
            if role not in ROLES[kind]:
                raise unknown(f"column role of {kind}", role, ROLES[kind])
        return {role: self.columns.get(role, role) for role in ROLES[kind] if role not in NAMES or role in self.columns}

    def schema_and_table(self, kind: str) -> tuple[str | None, str]:
        table = self.table or kind
        if self.schema is not None:
            return self.schema or None, table
        schema, dot, name = table.partition(".")
        return (schema, name) if dot else (None, table)


def read_settings(path: Path, known: Iterable[str]) -> tuple[dict[str, TableConfig], dict[str, object]]:
    """The tables and the other settings of a TOML file; `known` are the names of the others."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read it ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: invalid TOML: {error}") from None
    for key in content:
        if key not in {*ROLES, *known}:
            raise unknown(f"setting of {path.name}", key, {*ROLES, *known})
    kinds = [kind for kind in ROLES if kind in content or kind not in OPTIONAL_TABLES]
    return {kind: _table(content.pop(kind, None), kind, path) for kind in kinds}, content


def _table(entry: object, kind: str, path: Path) -> TableConfig:
    if not isinstance(entry, dict):
        raise DataError(f"{path}: the section [{kind}] with url and table is missing")
    for key in entry:
        if key not in TableConfig.__slots__:
            raise unknown(f"key of [{kind}] in {path.name}", key, TableConfig.__slots__)
    try:
        return TableConfig(**entry)
    except DataError as error:
        raise DataError(f"{path.name} [{kind}]: {error}") from None
