"""A table of a database: its columns, and the statements that read it.

Names are quoted by SQLAlchemy and values are bound, so that neither can become part of a statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from numbers import Real
from typing import Any, TypeAlias

import sqlalchemy as sql
from sqlalchemy.types import TypeEngine

from datasets.common.errors import DataError, unknown
from datasets.readers.tables import OPTIONAL
from fedrule.pipeline.database import Database
from fedrule.pipeline.settings import WHOLE_NUMBERS, TableConfig

Expression: TypeAlias = sql.ColumnElement[Any]
Statement: TypeAlias = sql.Select[Any]  # with columns of unknown types

BYTEWISE = {"sqlite": "BINARY", "postgresql": "C"}  # collations under which both sort text alike


def changed_since(column: Expression, since: object, *, where: str, sqlite: bool) -> sql.ColumnElement[bool]:
    """Whether the column is later than `since`, which is read by the column's type; `where` names the column.

    In SQLite, times are texts with a blank or a T between day and hour, or numbers if a number is given.
    """
    kind = column.type
    if isinstance(kind, sql.Date | sql.DateTime):
        if sqlite and isinstance(since, Real):
            return column > _number(since, where)
        given = _day(since, where) if isinstance(kind, sql.Date) else _time(since, where)
        if isinstance(given, datetime) and given.tzinfo is not None and not getattr(kind, "timezone", False):
            raise DataError(f"since={since!r}: {where} holds times without time zone; give one without")
        return (sql.func.replace(column, "T", " ") if sqlite else column) > sql.literal(given, kind)
    if isinstance(kind, sql.Integer | sql.Numeric):
        return column > _number(since, where)
    if isinstance(kind, sql.String) and not isinstance(since, str):
        raise DataError(f"since={since!r}: {where} holds text; give a text in the same format")
    return column > sql.literal(since, kind)


def _time(since: object, where: str) -> datetime:
    if isinstance(since, date) and not isinstance(since, datetime):
        return datetime.combine(since, time())
    try:
        # Also for times: those of pandas are a subclass that drivers do not know.
        return datetime.fromisoformat(since.isoformat() if isinstance(since, datetime) else _text(since))
    except ValueError:
        raise _wrong(since, where, "times", "2026-05-01 or 2026-05-01 12:30") from None


def _day(since: object, where: str) -> date:
    if isinstance(since, date) and not isinstance(since, datetime):
        return since
    try:
        return date.fromisoformat(_text(since))
    except ValueError:
        raise _wrong(since, where, "days", "2026-05-01") from None


def _number(since: object, where: str) -> Expression:
    """Integers are bound as such: as floats, long ones would lose their last digits."""
    with suppress(ValueError):
        return sql.literal(int(str(since)), sql.BigInteger())
    with suppress(ValueError):
        return sql.literal(float(str(since)), sql.Double())
    raise _wrong(since, where, "numbers", "1777593600")


def _text(since: object) -> str:
    """Not for numbers: 20260501 is not a day."""
    return since if isinstance(since, str) else ""


def _wrong(since: object, where: str, what: str, example: str) -> DataError:
    return DataError(f"since={since!r}: {where} holds {what}; write e.g. {example}")


@dataclass(frozen=True, slots=True, eq=False)
class SourceTable:
    """An existing table of devices, rules or words with all required columns."""

    kind: str  # devices, rules or words
    database: Database
    table: sql.TableClause
    names: Mapping[str, str]  # role -> column name; user comes first
    types: Mapping[str, TypeEngine[Any]]  # column name -> type
    updated: str | None

    @property
    def label(self) -> str:
        """The table in messages."""
        return self.kind if self.table.name == self.kind else f"{self.kind} ({self.table.fullname})"

    @property
    def place(self) -> str:
        """The table and its database in messages."""
        return f"{self.label} in {self.database.place}"

    def is_integer(self, role: str) -> bool:
        """Whether the column is declared as integer."""
        return isinstance(self.types[self.names[role]], sql.Integer)

    def rows(self, *, integer_users: bool, after: object = None, users: Sequence[object] | None = None) -> Statement:
        """All rows, those after a user, or those of some users; sorted by user, then by all other columns."""
        key = self._user(integer_users)
        others = [self._shown(role).label(role) for role in self.names if role != "user"]
        chosen = sql.select(key.label("user"), *others).select_from(self.table).where(key.is_not(None))
        sorted_key = key if integer_users else self._bytewise(key)
        # Wider than any column: an id that does not fit the column is not found, which is not an error.
        kind: TypeEngine[Any] = sql.BigInteger() if integer_users else sql.Text()
        if users is not None and self.database.is_postgresql:
            # Equality compares bytes in every collation; naming one would prevent the use of an index.
            chosen = chosen.where(key == sql.any_(sql.bindparam("users", list(users), sql.ARRAY(kind))))
        elif users is not None:
            chosen = chosen.where(sorted_key.in_(sql.bindparam("users", users, kind, expanding=True)))
        if after is not None:
            # SQLite's text is read as bytes, see `Database.rows`.
            bound = sql.literal(after, sql.LargeBinary() if isinstance(after, bytes) else kind)
            chosen = chosen.where(sorted_key > (sql.cast(bound, sql.Text) if isinstance(after, bytes) else bound))
        return chosen.order_by(sorted_key, *self._ties())

    def rows_without_user(self) -> Statement:
        """The rows whose user is NULL; they are bad and cannot be sorted by user."""
        columns = [self._shown(role).label(role) for role in self.names]
        return sql.select(*columns).where(self._column("user").is_(None)).order_by(*self._ties())

    def distinct(self, *roles: str) -> Statement:
        """The distinct values of these columns, case-sensitive even if a column is not."""
        columns = [self._comparable(role).label(role) for role in roles]
        return sql.select(*columns).select_from(self.table).distinct()

    def changed(self, since: object) -> Statement:
        """The users with a row that changed later."""
        if self.updated is None:
            remedy = f"give its name as updated= in [{self.kind}]"
            raise DataError(f"{self.place}: since= needs a column with times; {remedy}")
        where = f"{self.updated} of {self.place}"
        changed = changed_since(self.table.c[self.updated], since, where=where, sqlite=not self.database.is_postgresql)
        return sql.select(self._shown("user")).where(changed).distinct()

    def count(self) -> Statement:
        """The number of rows."""
        return sql.select(sql.func.count()).select_from(self.table)

    def count_users(self, *, integer_users: bool) -> Statement:
        """The number of distinct users."""
        key = self._user(integer_users)
        return sql.select(sql.func.count((key if integer_users else self._bytewise(key)).distinct()))

    def _column(self, role: str) -> Expression:
        return self.table.c[self.names[role]]

    def _shown(self, role: str) -> Expression:
        """Integers and text as they are, other types as the database writes them."""
        column = self._column(role)
        plain = isinstance(column.type, sql.Integer | sql.String) and not isinstance(column.type, sql.CHAR | sql.Enum)
        return column if plain else sql.cast(column, sql.Text)

    def _user(self, integer: bool) -> Expression:
        """The user as both tables write it: as text if only one of them holds integers."""
        shown = self._shown("user")
        return shown if integer or not self.is_integer("user") else sql.cast(shown, sql.Text)

    def _ties(self) -> list[Expression]:
        """The order of one user's rows: by all columns, so that it is always the same."""
        return [self._comparable(role).nulls_first() for role in self.names if role != "user"]

    def _comparable(self, role: str) -> Expression:
        column = self._shown(role)
        return column if self.is_integer(role) else self._bytewise(column)

    def _bytewise(self, column: Expression) -> Expression:
        return sql.collate(column, BYTEWISE[self.database.kind])


def find_table(kind: str, config: TableConfig, database: Database) -> SourceTable:
    """Look up a table; a missing table or column is an error that lists those that exist."""
    schema, name = config.schema_and_table(kind)
    roles = config.roles(kind)
    with database.connected() as connection:
        seen = sql.inspect(connection)
        if schema is not None and schema not in seen.get_schema_names():
            raise DataError(f"{database.place}: {unknown('schema', schema, seen.get_schema_names())}")
        if not seen.has_table(name, schema):  # or a view, or a foreign table
            there = {*seen.get_table_names(schema), *seen.get_view_names(schema)}
            missing = unknown(f"table of schema {schema!r}" if schema else "table", name, there)
            raise DataError(f"{database.place}: {missing}; give its name as table= in [{kind}]")
        types: dict[str, TypeEngine[Any]] = {each["name"]: each["type"] for each in seen.get_columns(name, schema)}
    optional = {*OPTIONAL} - {*config.columns}  # a column that is named must exist
    wanted = {role: column for role, column in roles.items() if column in types or role not in optional}
    place = f"{kind} ({name}) in {database.place}"
    used = wanted if config.updated is None else {**wanted, "updated": config.updated}
    for role, column in used.items():
        if column not in types:
            remedy = f'give its name, e.g. columns = {{ {role} = "NAME" }} in [{kind}]'
            raise DataError(f"{place}: {unknown(f'column for {role}', column, types)}; {remedy}")
        if role in WHOLE_NUMBERS and isinstance(types[column], sql.Float):
            what = "words" if role == "word" else "ids"
            raise DataError(f"{place}: {column!r} holds {types[column]}; {what} must be integers or text")
    columns = [sql.column(_quoted(column), types[column]) for column in sorted({*used.values()})]
    table = sql.table(_quoted(name), *columns, schema=None if schema is None else _quoted(schema))
    return SourceTable(kind, database, table, wanted, types, config.updated)


def _quoted(name: str) -> sql.quoted_name:
    """A name exactly as in the database, always quoted."""
    return sql.quoted_name(name, quote=True)
