"""Rows that were changed later: a time, a number or a text, as the column of changes holds it."""

from __future__ import annotations

from datetime import date, datetime, time
from numbers import Real
from typing import Any

import sqlalchemy as sql

from datasets.common.errors import DataError


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
