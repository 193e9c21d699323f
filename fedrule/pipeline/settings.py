"""What a pipeline is told: where the two tables are and what their columns are called, by keywords or in a TOML file.

on_error = "skip"                # of bad rows; the default, raise, stops with the first of them

[devices]
url = "${DEVICES_URL}"           # an environment variable, so that no password stands in the file
table = "inventory.devices"      # schema.table
columns = { user = "household_id", device = "serial", type = "model" }

[rules]                          # without url: in the same database
table = "rules"
columns = { user = "owner" }
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from datasets.common.errors import DataError, unknown
from datasets.common.options import read
from datasets.readers.tables import DEVICES, OPTIONAL, RULES

ROLES = {"devices": DEVICES, "rules": RULES}


@dataclass(frozen=True, slots=True)
class TableAt:
    """Where a table is and what its columns are called."""

    url: str = field(default="", repr=False)  # it may hold a password
    table: str = ""  # schema.table, or table
    schema: str | None = None  # where given, `table` may itself contain dots; "" is the default schema
    columns: Mapping[str, str] = field(default_factory=dict)  # role -> name; a role that is left out names its column
    updated: str | None = None  # the column with the time of a row's last change, for `load(since=...)`

    def __post_init__(self) -> None:
        for key in TEXTS:
            value = getattr(self, key)
            # The value is not repeated: a password may stand at the wrong key.
            if not isinstance(value, str | None if key in ("schema", "updated") else str):
                raise DataError(f"{key} of a table: it is {type(value).__name__}, expected a text")
        read(Mapping[str, str], self.columns, where="columns")

    def roles(self, kind: str) -> dict[str, str]:
        """The name of the column of each role of this kind of table."""
        for role in self.columns:
            if role not in ROLES[kind]:
                raise unknown(f"column role of {kind}", role, ROLES[kind])
        return {role: self.columns.get(role, role) for role in ROLES[kind]}

    def optional(self) -> set[str]:
        """Roles whose column may be missing; one that is named must be there."""
        return set(OPTIONAL) - set(self.columns)

    def parts(self, kind: str) -> tuple[str | None, str]:
        """Schema and table."""
        table = self.table or kind
        if self.schema is not None:
            return self.schema or None, table
        schema, dot, name = table.partition(".")
        return (schema, name) if dot else (None, table)


TEXTS = ("url", "table", "schema", "updated")


def read_settings(path: Path, known: Mapping[str, object]) -> tuple[TableAt, TableAt, dict[str, object]]:
    """The two tables and the other settings of a TOML file; `known` are the others that there are, with their types."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: it cannot be read ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: it is no TOML: {error}") from None
    for key in content:
        if key not in {*ROLES, *known}:
            raise unknown(f"setting of {path.name}", key, {*ROLES, *known})
    tables = [_table(content.get(kind), kind, path) for kind in ROLES]
    for key in known.keys() & content.keys():
        read(known[key], content[key], where=f"{path.name}: {key}")
    return tables[0], tables[1], {key: value for key, value in content.items() if key not in ROLES}


def _table(entry: object, kind: str, path: Path) -> TableAt:
    if not isinstance(entry, dict):
        raise DataError(f"{path}: the section [{kind}] with url and table is missing")
    keys = [each.name for each in dataclasses.fields(TableAt)]
    for key in entry:
        if key not in keys:
            raise unknown(f"key of [{kind}] in {path.name}", key, keys)
    try:
        return TableAt(**entry)
    except DataError as error:
        raise DataError(f"{path.name} [{kind}]: {error}") from None
