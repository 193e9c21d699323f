"""A table as the database has it: its columns looked up once, and the statements that read it.

Names go through SQLAlchemy's quoting and values are bound, so that neither can become a part of a statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from numbers import Real
from typing import Any, TypeAlias

import sqlalchemy as sql
from sqlalchemy.types import TypeEngine

from datasets.common.errors import DataError, unknown
from fedrule.pipeline.database import Database
from fedrule.pipeline.rows import IDS
from fedrule.pipeline.settings import TableAt

# --- Rows that were changed later: a time, a number or a text, as the column of changes holds it.


def later(column: sql.ColumnElement[Any], since: object, *, where: str, sqlite: bool) -> sql.ColumnElement[bool]:
    """Whether the column is greater than `since`; a text is read by the column's type. `where` names the column.

    SQLite has no type for times: they are texts, or numbers if a number is given. Of texts either way of writing is
    understood, with a blank or with a T between day and hour.
    """
    kind = column.type
    if isinstance(kind, sql.Date | sql.DateTime):
        if sqlite and isinstance(since, Real):
            return column > _number(since, where)
        given = _day(since, where) if isinstance(kind, sql.Date) else _time(since, where)
        if isinstance(given, datetime) and given.tzinfo is not None and not getattr(kind, "timezone", False):
            raise DataError(f"since={since!r}: {where} holds times without zone; give it without one")
        return (sql.func.replace(column, "T", " ") if sqlite else column) > sql.literal(given, kind)
    if isinstance(kind, sql.Integer | sql.Numeric):
        return column > _number(since, where)
    if isinstance(kind, sql.String) and not isinstance(since, str):
        raise DataError(f"since={since!r}: {where} holds text; give a text, written as it is there")
    return column > sql.literal(since, kind)


def _time(since: object, where: str) -> datetime:
    if isinstance(since, date) and not isinstance(since, datetime):
        return datetime.combine(since, time())
    try:
        # By its text also where it is a time already: those of pandas are no plain ones.
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


def _number(since: object, where: str) -> sql.ColumnElement[Any]:
    """Whole ones are bound as such: as floats, long ones would lose their last digits."""
    text = str(since)
    try:
        return sql.literal(int(text), sql.BigInteger())
    except ValueError:
        pass
    try:
        return sql.literal(float(text), sql.Double())
    except ValueError:
        raise _wrong(since, where, "numbers", "1777593600") from None


def _text(since: object) -> str:
    """Not of a number: 20260501 is no day."""
    return since if isinstance(since, str) else ""


def _wrong(since: object, where: str, what: str, example: str) -> DataError:
    return DataError(f"since={since!r}: {where} holds {what}; write e.g. {example}")


Expression: TypeAlias = sql.ColumnElement[Any]
Statement: TypeAlias = sql.Select[Any]  # SQLAlchemy's own name for columns of kinds that are not known here

BYTEWISE = {"sqlite": "BINARY", "postgresql": "C"}  # the collations under which both sort text alike


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A table of devices or of rules that is there, with all columns that it must have."""

    kind: str  # devices or rules
    database: Database
    table: sql.TableClause
    names: Mapping[str, str]  # role -> the column's name; user comes first
    types: Mapping[str, TypeEngine[Any]]  # column's name -> its type
    updated: str | None

    @property
    def label(self) -> str:
        """The table as messages call it."""
        return self.kind if self.table.name == self.kind else f"{self.kind} ({self.table.fullname})"

    @property
    def place(self) -> str:
        """The table and its database."""
        return f"{self.label} in {self.database.place}"

    def is_whole(self, role: str) -> bool:
        """Whether the column is declared to hold whole numbers."""
        return isinstance(self.types[self.names[role]], sql.Integer)

    def rows(self, *, whole_users: bool, after: object = None, users: Sequence[object] | None = None) -> Statement:
        """All columns of rows by user, and by whatever else is in a row: those after a user, or of these users."""
        key = self._user(whole_users)
        others = [self._shown(role).label(role) for role in self.names if role != "user"]
        chosen = sql.select(key.label("user"), *others).select_from(self.table).where(key.is_not(None))
        in_order = key if whole_users else self._bytewise(key)
        if users is not None:
            chosen = chosen.where(self._is_one_of(users, key, in_order, _bound_type(whole_users)))
        if after is not None:
            # SQLite's text is read as bytes, see `Database.rows`.
            bound = sql.literal(after, sql.LargeBinary() if isinstance(after, bytes) else _bound_type(whole_users))
            chosen = chosen.where(in_order > (sql.cast(bound, sql.Text) if isinstance(after, bytes) else bound))
        return chosen.order_by(in_order, *self._ties())

    def rows_of_nobody(self) -> Statement:
        """The rows whose user is NULL; they are bad, and have no place in an order."""
        columns = [self._shown(role).label(role) for role in self.names]
        return sql.select(*columns).where(self._column("user").is_(None)).order_by(*self._ties())

    def distinct(self, *roles: str) -> Statement:
        """What occurs in these columns, upper and lower case apart even where a column ignores it."""
        columns = [(role, self._shown(role), self.is_whole(role)) for role in roles]
        apart = [(column if whole else self._bytewise(column)).label(role) for role, column, whole in columns]
        return sql.select(*apart).select_from(self.table).distinct()

    def changed(self, since: object) -> Statement:
        """The users of rows that were changed later."""
        if self.updated is None:
            raise DataError(f"{self.place}: since= needs a column with times; name it by updated= in [{self.kind}]")
        where = f"{self.updated} of {self.place}"
        changed = later(self.table.c[self.updated], since, where=where, sqlite=not self.database.is_postgresql)
        return sql.select(self._shown("user")).where(changed).distinct()

    def count(self) -> Statement:
        """How many rows there are."""
        return sql.select(sql.func.count()).select_from(self.table)

    def count_users(self, *, whole_users: bool) -> Statement:
        """How many different users there are."""
        key = self._user(whole_users)
        return sql.select(sql.func.count((key if whole_users else self._bytewise(key)).distinct()))

    def _column(self, role: str) -> Expression:
        return self.table.c[self.names[role]]

    def _shown(self, role: str) -> Expression:
        """The column as it is if it holds whole numbers or text, otherwise as the database writes it."""
        column = self._column(role)
        plain = isinstance(column.type, sql.Integer | sql.String) and not isinstance(column.type, sql.CHAR | sql.Enum)
        return column if plain else sql.cast(column, sql.Text)

    def _user(self, whole: bool) -> Expression:
        """The user as both tables write it: as text where only one of them holds whole numbers."""
        return self._shown("user") if whole or not self.is_whole("user") else sql.cast(self._column("user"), sql.Text)

    def _is_one_of(
        self, users: Sequence[object], key: Expression, in_order: Expression, kind: TypeEngine[Any]
    ) -> sql.ColumnElement[bool]:
        if self.database.is_postgresql:
            # Equality is of bytes in every collation; to name one would keep an index from being used.
            return key == sql.any_(sql.bindparam("users", list(users), sql.ARRAY(kind)))
        return in_order.in_(sql.bindparam("users", users, kind, expanding=True))

    def _ties(self) -> list[Expression]:
        """Beyond the user rows are sorted by all they have, which says which of two that contradict comes first."""
        others = [(self._shown(role), self.is_whole(role)) for role in self.names if role != "user"]
        return [(column if whole else self._bytewise(column)).nulls_first() for column, whole in others]

    def _bytewise(self, column: Expression) -> Expression:
        return sql.collate(column, BYTEWISE[self.database.kind])


def find(kind: str, at: TableAt, database: Database) -> Source:
    """Look a table up; one that is not there, or lacks a column, is an error that lists what is there."""
    schema, name = at.parts(kind)
    roles = at.roles(kind)
    with database.connected() as connection:
        seen = sql.inspect(connection)
        if schema is not None and schema not in seen.get_schema_names():
            raise DataError(f"{database.place}: {unknown('schema', schema, seen.get_schema_names())}")
        if not seen.has_table(name, schema):  # or a view, or a table of another server that is seen through this one
            there = {*seen.get_table_names(schema), *seen.get_view_names(schema)}
            where = f" of schema {schema!r}" if schema else ""
            raise DataError(f"{database.place}: {unknown(f'table{where}', name, there)}; name it by table= in [{kind}]")
        types: dict[str, TypeEngine[Any]] = {each["name"]: each["type"] for each in seen.get_columns(name, schema)}
    wanted = {role: column for role, column in roles.items() if column in types or role not in at.optional()}
    place = f"{kind} ({name}) in {database.place}"
    for role, column in [*wanted.items(), *([("updated", at.updated)] if at.updated is not None else [])]:
        if column not in types:
            remedy = f'say what it is called, e.g. columns = {{ {role} = "NAME" }} in [{kind}]'
            raise DataError(f"{place}: {unknown(f'column for {role}', column, types)}; {remedy}")
        if role in IDS and isinstance(types[column], sql.Float):
            raise DataError(f"{place}: {column!r} holds {types[column]}; ids are whole numbers or text")
    used = {*wanted.values(), *([at.updated] if at.updated is not None else [])}
    columns = [sql.column(_exact(column), types[column]) for column in sorted(used)]
    table = sql.table(_exact(name), *columns, schema=None if schema is None else _exact(schema))
    return Source(kind, database, table, wanted, types, at.updated)


def _exact(name: str) -> sql.quoted_name:
    """A name as it stands in the database, always quoted: capitals and quotes mean themselves."""
    return sql.quoted_name(name, quote=True)


def _bound_type(whole: bool) -> TypeEngine[Any]:
    """Wider than any column: an id that does not fit into its type is not there, which is no error."""
    return sql.BigInteger() if whole else sql.Text()
