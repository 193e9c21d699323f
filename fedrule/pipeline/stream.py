"""Reading tables as streams: retries, checks of the rows, and batches of users from both tables."""

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
from fedrule.pipeline.rows import IDS, DatabaseRows, Row, decode, unreadable
from fedrule.pipeline.tables import SourceTable, Statement

log = logging.getLogger(__name__)

USERS = 10_000  # ids bound in one statement; both databases allow three times as many
INTEGER = r"^(0|-?[1-9][0-9]*)$"


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a read without progress is retried, and the pause before the first retry; it doubles each time."""

    retries: int = 2
    pause: float = 0.5  # seconds
    sleep: Callable[[float], None] = time.sleep

    def wait(self, failures: int, error: DatabaseError, label: str, rows: int) -> None:
        """Sleep before the next attempt, or raise the error after the last one; `rows` have been read so far."""
        # A permanent error before the first row did not interrupt a read.
        what = f"{label}: the read was interrupted after {rows:,} rows" if error.transient or rows else label
        if not error.transient or failures > self.retries:
            attempts = f"; gave up after {failures} attempts" if failures > 1 else ""
            raise DatabaseError(f"{what}: {error}{attempts}", transient=error.transient) from None
        seconds = self.pause * 2 ** (failures - 1)
        log.warning("%s: %s; retrying in %.1f s", what, error, seconds)
        self.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads tables in parts of about `rows` rows; `progress` gets the number of rows of each part."""

    integer_users: bool  # both tables declare their users as integers
    rows: int
    retry: Retry
    progress: Callable[[int], None] = lambda _: None

    def read_all(self, table: SourceTable) -> Iterator[pa.Table]:
        """All rows, those without user first, then by user; no user is split between two parts.

        After an interruption the read resumes behind the last complete user.
        """
        without_user = self._fetch(table, table.rows_without_user())
        if without_user:
            yield decode(without_user, list(table.names))
        count, failures, after = len(without_user), 0, None
        while True:
            held: list[Row] = []  # rows of a user with possibly more to come
            try:
                for rows in self._parts(table, table.rows(integer_users=self.integer_users, after=after)):
                    held += rows
                    complete = _complete_users(held)
                    if complete:
                        yield decode(held[:complete], list(table.names))
                        count, after, failures = count + complete, held[complete - 1][0], 0
                        held = held[complete:]
                if held:
                    yield decode(held, list(table.names))
                return
            except DatabaseError as error:
                failures += 1
                self.retry.wait(failures, error, table.label, count)

    def read_users(self, table: SourceTable, users: Sequence[int] | Sequence[str]) -> Iterator[pa.Table]:
        """The rows of these users."""
        for begin in range(0, len(users), USERS):
            statement = table.rows(integer_users=self.integer_users, users=users[begin : begin + USERS])
            yield decode(self._fetch(table, statement), list(table.names))

    def distinct(self, table: SourceTable, *roles: str) -> pa.Table:
        """The distinct values of these columns."""
        return decode(self._fetch(table, table.distinct(*roles)), roles)

    def changed(self, table: SourceTable, since: object) -> pa.Array:
        """The users with a row that changed later."""
        return decode(self._fetch(table, table.changed(since)), ["user"])["user"].combine_chunks()

    def count(self, table: SourceTable) -> int:
        """The number of rows of the table."""
        return int(str(self._fetch(table, table.count())[0][0]))

    def count_users(self, table: SourceTable) -> int:
        """The number of users in the table."""
        return int(str(self._fetch(table, table.count_users(integer_users=self.integer_users))[0][0]))

    def _fetch(self, table: SourceTable, statement: Statement) -> list[Row]:
        """All rows of a statement with a small result; a retry starts from the beginning."""
        failures = 0
        while True:
            rows: list[Row] = []
            try:
                for part in self._parts(table, statement):
                    rows += part
                return rows
            except DatabaseError as error:
                failures += 1
                self.retry.wait(failures, error, table.label, len(rows))

    def _parts(self, table: SourceTable, statement: Statement) -> Iterator[Sequence[Row]]:
        for rows in table.database.rows(statement, self.rows):
            self.progress(len(rows))
            yield rows


def _complete_users(rows: Sequence[Row]) -> int:
    """The number of rows before those of the last user."""
    last = rows[-1][0]
    complete = len(rows) - 1
    while complete and rows[complete - 1][0] == last:
        complete -= 1
    return complete


def validate_rows(part: pa.Table, table: SourceTable, bad_rows: BadRows, *, before: int) -> DatabaseRows:
    """The rows with readable values and a user; `before` is the number of rows ahead of them.

    Blanks around a user are refused: in another row, or in the other table, it would be another user. A column that is
    declared as integer must hold integers; SQLite stores any text there.
    """
    if not part.num_rows:
        return concatenate([], table)
    # Like every other table: trimmed, empty values as null.
    text = read_table(part, {role: role for role in table.names}, bad_rows=bad_rows, label=table.label)
    rows = DatabaseRows(table.label, text.columns, before + text.record, dict(table.names), part.num_rows)
    good: Mask = np.ones(len(rows), dtype=bool)

    def refuse(role: str, bad: Mask, what: str, remedy: str, shown: DatabaseRows = rows) -> None:
        nonlocal good
        good &= shown.refuse(good & bad, f"{rows.names[role]} {what}", remedy, bad_rows=bad_rows, show=role)

    for role in rows.columns:
        refuse(role, unreadable(rows[role]), "is not UTF-8", "correct it")
    refuse("user", _mask(rows["user"].is_null()), "is missing", "fill it in or delete the row")
    written = part["user"].combine_chunks()
    untrimmed = replace(rows, columns={**rows.columns, "user": written})
    blanks = _mask(pc.not_equal(written, rows["user"]))
    refuse("user", blanks, "has blanks around it", "trim it in the database", untrimmed)
    for role in IDS:
        if role in rows and table.is_integer(role):
            refuse(role, _not_integer(rows[role]), "is not an integer, as its column's type says", "correct it")
    return rows.keep(good)


def concatenate(parts: list[DatabaseRows], table: SourceTable) -> DatabaseRows:
    """Parts of one table as one."""
    empty = pa.array([], pa.string())
    columns = {role: pa.concat_arrays([empty, *(part[role] for part in parts)]) for role in table.names}
    record = np.concatenate([np.arange(0), *(part.record for part in parts)])
    return DatabaseRows(table.label, columns, record, dict(table.names), sum(part.rows for part in parts))


def _not_integer(column: pa.Array) -> Mask:
    try:
        column.cast(pa.int64())
    except pa.ArrowInvalid:
        return ~_mask(pc.fill_null(pc.match_substring_regex(column, INTEGER), True))
    return np.zeros(len(column), dtype=bool)


def _mask(column: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), dtype=bool)


class UserStream:
    """A table read in parts that are sorted by user; it buffers the rows that are not taken yet."""

    def __init__(self, parts: Iterator[DatabaseRows], table: SourceTable, *, integer_users: bool) -> None:
        self._parts, self._table, self._integer = parts, table, integer_users
        self._buffer = concatenate([], table)

    def users(self, size: int) -> pa.Array:
        """At least the first `size` users; all of them if fewer are left."""
        users = self._distinct()
        while len(users) < size and (part := next(self._parts, None)) is not None:
            self._buffer = concatenate([self._buffer, part], self._table)
            users = self._distinct()
        return users

    def take(self, last: pa.Scalar) -> DatabaseRows:
        """The rows of all users up to this one."""
        taken = pc.less_equal(self._keys(), last).to_numpy(zero_copy_only=False)
        rows, self._buffer = self._buffer.keep(taken), self._buffer.keep(~taken)
        # Rows refused on reading are counted with the first batch after them.
        count = rows.rows - len(self._buffer) if len(self._buffer) else rows.rows
        self._buffer = replace(self._buffer, rows=len(self._buffer))
        return replace(rows, rows=count)

    def _keys(self) -> pa.Array:
        users = self._buffer["user"]
        return users.cast(pa.int64()) if self._integer else users

    def _distinct(self) -> pa.Array:
        keys = self._keys()
        if len(keys) and pc.any(pc.greater(keys[:-1], keys[1:])).as_py():
            raise DataError(f"{self._table.place}: users are not sorted by their bytes; is its encoding UTF-8?")
        return pc.unique(keys)


def batch_by_user(devices: UserStream, rules: UserStream, *, size: int) -> Iterator[tuple[DatabaseRows, DatabaseRows]]:
    """Devices and rules of `size` users at a time, in the order of their ids."""
    while True:
        # With the first `size` users of either table, the first `size` of both together are known.
        # Rules are read first: a device that is added meanwhile is seen with its rule.
        both = pc.unique(pa.concat_arrays([rules.users(size), devices.users(size)]))
        if not len(both):
            return
        both = both.take(pc.array_sort_indices(both))
        last = both[min(size, len(both)) - 1]
        yield devices.take(last), rules.take(last)
