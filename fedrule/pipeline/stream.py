"""Tables read as streams, whole users at a time; a read that is broken off goes on behind the last whole user."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.common.errors import DataError
from datasets.homes import Mask
from datasets.readers.bad_rows import BadRows
from datasets.readers.csv import read_table
from fedrule.pipeline.database import DatabaseError
from fedrule.pipeline.rows import IDS, KeyedTable, Row, decode, unreadable
from fedrule.pipeline.tables import Source, Statement

log = logging.getLogger(__name__)

USERS = 10_000  # ids bound in one statement; both databases take three times as many


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a read that makes no headway is tried again, and after which pause; each is twice the last."""

    retries: int = 2
    pause: float = 0.5  # seconds

    def wait(self, failures: int, error: DatabaseError, label: str, came: int) -> None:
        """Sleep before the next try, or raise what went wrong if that was the last; so many rows had come."""
        # What is refused before the first row and will be again was no read that could have been broken off.
        broken = error.passing or came
        what = f"{label}: the read was broken off after {came:,} rows" if broken else label
        if not error.passing or failures > self.retries:
            tries = f"; gave up after {failures} tries" if failures > 1 else ""
            raise DatabaseError(f"{what}: {error}{tries}", passing=error.passing) from None
        seconds = self.pause * 2 ** (failures - 1)
        log.warning("%s: %s; trying again in %.1f s", what, error, seconds)
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads tables in parts of about `rows` rows; `progress` is told how many rows have come."""

    whole_users: bool  # both tables declare their users as whole numbers
    rows: int
    patience: Patience
    progress: Callable[[int], None] = lambda _: None

    def everything(self, source: Source) -> Iterator[pa.Table]:
        """All rows, those without user first, then by user; no user is divided between two parts."""
        nobody = self._all(source, source.rows_of_nobody())
        if nobody:
            yield decode(nobody, list(source.names))
        came, failures, after = len(nobody), 0, None
        while True:
            held: list[Row] = []  # rows of a user of whom more may come
            try:
                for rows in self._parts(source, source.rows(whole_users=self.whole_users, after=after)):
                    held += rows
                    whole = _whole_users(held)
                    if whole:
                        yield decode(held[:whole], list(source.names))
                        came, after, failures = came + whole, held[whole - 1][0], 0
                        held = held[whole:]
                if held:
                    yield decode(held, list(source.names))
                return
            except DatabaseError as error:
                failures += 1
                self.patience.wait(failures, error, source.label, came)

    def of_users(self, source: Source, users: Sequence[int] | Sequence[str]) -> Iterator[pa.Table]:
        """The rows of these users."""
        for begin in range(0, len(users), USERS):
            some = users[begin : begin + USERS]
            rows = self._all(source, source.rows(whole_users=self.whole_users, users=some))
            yield decode(rows, list(source.names))

    def distinct(self, source: Source, *roles: str) -> pa.Table:
        """What occurs in these columns; not many different values are expected."""
        return decode(self._all(source, source.distinct(*roles)), roles)

    def changed(self, source: Source, since: object) -> pa.Array:
        """The users with a row that was changed later."""
        return decode(self._all(source, source.changed(since)), ["user"])["user"].combine_chunks()

    def count(self, source: Source) -> int:
        """How many rows the table has."""
        (row,) = self._all(source, source.count())
        return int(str(row[0]))

    def count_users(self, source: Source) -> int:
        """How many users the table names."""
        (row,) = self._all(source, source.count_users(whole_users=self.whole_users))
        return int(str(row[0]))

    def _all(self, source: Source, statement: Statement) -> list[Row]:
        """Every row of a statement that gives few; broken off, it is asked again from its start."""
        failures = 0
        while True:
            rows: list[Row] = []
            try:
                for part in self._parts(source, statement):
                    rows += part
                return rows
            except DatabaseError as error:
                failures += 1
                self.patience.wait(failures, error, source.label, len(rows))

    def _parts(self, source: Source, statement: Statement) -> Iterator[Sequence[Row]]:
        for rows in source.database.rows(statement, self.rows):
            self.progress(len(rows))
            yield rows


def _whole_users(rows: Sequence[Row]) -> int:
    """How many rows come before those of the last user."""
    last = rows[-1][0]
    whole = len(rows) - 1
    while whole and rows[whole - 1][0] == last:
        whole -= 1
    return whole


# --- A part of a table checked for what a database allows and homes do not, before its rows are joined with others.

WHOLE = r"^(0|-?[1-9][0-9]*)$"


def sound(part: pa.Table, source: Source, bad_rows: BadRows, *, before: int) -> KeyedTable:
    """The rows whose values can be read and whose user is known; `before` is the number of rows ahead of them.

    A user with blanks around it is refused: in another row, or in the other table, it would be another user. In a
    column that is declared INTEGER only whole numbers are good; SQLite keeps any text there.
    """
    table = _trimmed(part, source, bad_rows, before)
    good: Mask = np.ones(len(table), dtype=bool)

    def refuse(role: str, bad: Mask, what: str, remedy: str) -> None:
        nonlocal good
        good &= table.refuse(good & bad, f"{table.names[role]} {what}", remedy, bad_rows=bad_rows, show=role)

    for role in table.columns:
        refuse(role, unreadable(table[role]), "is no text in UTF-8", "correct it")
    refuse("user", _mask(table["user"].is_null()), "is missing", "fill it in or delete the row")
    written = part["user"].combine_chunks()
    blanks = good & _mask(pc.not_equal(written, table["user"]))
    as_written = replace(table, columns={**table.columns, "user": written})
    what, remedy = f"{table.names['user']} has blanks around it", "trim it in the database"
    good &= as_written.refuse(blanks, what, remedy, bad_rows=bad_rows)
    for role in IDS:
        if role in table and source.is_whole(role):
            refuse(role, _no_number(table[role]), "is not a whole number, as its column's type says", "correct it")
    return table.keep(good)


def empty(source: Source) -> KeyedTable:
    """The table without any row."""
    columns = {role: pa.array([], pa.string()) for role in source.names}
    return KeyedTable(source.label, columns, np.arange(0), dict(source.names), 0)


def joined(parts: list[KeyedTable], source: Source) -> KeyedTable:
    """Parts of one table as one."""
    if not parts:
        return empty(source)
    columns = {role: pa.concat_arrays([part[role] for part in parts]) for role in source.names}
    record = np.concatenate([part.record for part in parts])
    return KeyedTable(source.label, columns, record, dict(source.names), sum(part.rows for part in parts))


def _trimmed(part: pa.Table, source: Source, bad_rows: BadRows, before: int) -> KeyedTable:
    """As every other table is read: without surrounding blanks, nothing as null."""
    if not part.num_rows:
        return empty(source)
    text = read_table(part, {role: role for role in source.names}, bad_rows=bad_rows, label=source.label)
    return KeyedTable(source.label, text.columns, before + text.record, dict(source.names), part.num_rows)


def _no_number(column: pa.Array) -> Mask:
    try:
        column.cast(pa.int64())
    except pa.ArrowInvalid:
        return ~_mask(pc.fill_null(pc.match_substring_regex(column, WHOLE), True))
    return np.zeros(len(column), dtype=bool)


def _mask(column: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), dtype=bool)


# --- Two streams sorted by user, cut at the same users: every part has so many users, with all their rows of both.


class Sorted:
    """A table that comes in parts sorted by user; those rows wait here that were not taken yet."""

    def __init__(self, parts: Iterator[KeyedTable], source: Source, *, whole_users: bool) -> None:
        self._parts, self._source, self._whole = parts, source, whole_users
        self._waiting = joined([], source)

    def users(self, size: int) -> pa.Array:
        """The first `size` users or more; all of them where fewer are left."""
        users = self._distinct()
        while len(users) < size and (part := next(self._parts, None)) is not None:
            self._waiting = joined([self._waiting, part], self._source)
            users = self._distinct()
        return users

    def take(self, last: pa.Scalar) -> KeyedTable:
        """The rows of all users up to this one."""
        taken = pc.less_equal(self._keys(), last).to_numpy(zero_copy_only=False)
        table, self._waiting = self._waiting.keep(taken), self._waiting.keep(~taken)
        # Rows that were refused on reading are counted with the first part that comes behind them.
        rows = table.rows - len(self._waiting) if len(self._waiting) else table.rows
        self._waiting = replace(self._waiting, rows=len(self._waiting))
        return replace(table, rows=rows)

    def _keys(self) -> pa.Array:
        users = self._waiting["user"]
        return users.cast(pa.int64()) if self._whole else users

    def _distinct(self) -> pa.Array:
        keys = self._keys()
        if len(keys) and pc.any(pc.greater(keys[:-1], keys[1:])).as_py():
            raise DataError(f"{self._source.place}: users do not come sorted by their bytes; is its encoding UTF-8?")
        return pc.unique(keys)


def in_parts(devices: Sorted, rules: Sorted, *, size: int) -> Iterator[tuple[KeyedTable, KeyedTable]]:
    """Devices and rules of `size` users at a time, in the order of their ids."""
    while True:
        # Of either table the first `size` users are here, so that the first `size` of both together are.
        # Rules are asked for first: a device that is added meanwhile is seen with its rule.
        both = pc.unique(pa.concat_arrays([rules.users(size), devices.users(size)]))
        if not len(both):
            return
        both = both.take(pc.array_sort_indices(both))
        last = both[min(size, len(both)) - 1]
        yield devices.take(last), rules.take(last)
