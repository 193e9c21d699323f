"""Reading tables as streams: retries, rows as text columns, checks of the rows, and batches of users from all tables.

A row of a database has no line number: a bad one is named by its user and devices.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.common.errors import DataError
from datasets.homes import Mask
from datasets.readers.bad_rows import BadRows, Fault
from datasets.readers.csv import INTEGER, TextTable, as_mask, read_table
from fedrule.pipeline.database import DatabaseError
from fedrule.pipeline.settings import IDS, PERSONAL, WHOLE_NUMBERS
from fedrule.pipeline.tables import SourceTable, Statement

Row: TypeAlias = Sequence[object]
UserIds: TypeAlias = list[int] | list[str]

log = logging.getLogger(__name__)

UNREADABLE = "\0"  # prefix of values that are not UTF-8; databases do not allow it in text
USERS = 10_000  # ids bound in one statement; both databases allow three times as many


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

    integer_users: bool  # all tables declare their users as integers
    rows: int
    retry: Retry
    progress: Callable[[int], None]

    def read(self, table: SourceTable, bad_rows: BadRows, users: UserIds | None = None) -> Iterator[DatabaseRows]:
        """The valid rows of all users, or of these; the others are added to `bad_rows`."""
        before = 0
        for part in self._read_all(table) if users is None else self._read_users(table, users):
            yield validate_rows(part, table, bad_rows, before=before)
            before += part.num_rows

    def load(self, table: SourceTable, bad_rows: BadRows, users: UserIds | None) -> DatabaseRows:
        """All that `read` gives, in one."""
        return concatenate(list(self.read(table, bad_rows, users)), table)

    def _read_all(self, table: SourceTable) -> Iterator[pa.Table]:
        """All rows, those without user first, then by user; no user is split between two parts.

        After an interruption the read resumes behind the last complete user.
        """
        count, failures, after = 0, 0, None
        while True:
            held: list[Row] = []  # rows of a user, or without one, with possibly more to come
            statements = [table.rows(integer_users=self.integer_users, after=after)]
            if not count:
                statements.insert(0, table.rows_without_user())
            try:
                for rows in self._parts(table, *statements):
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

    def _read_users(self, table: SourceTable, users: UserIds) -> Iterator[pa.Table]:
        for begin in range(0, len(users), USERS):
            statement = table.rows(integer_users=self.integer_users, users=users[begin : begin + USERS])
            yield decode(self.fetch(table, statement), list(table.names))

    def words(self, table: SourceTable, *roles: str) -> list[tuple[str, ...]]:
        """The distinct values of these columns, without missing or unreadable ones, trimmed as for homes."""
        found = decode(self.fetch(table, table.distinct(*roles)), roles)
        if not found.num_rows:
            return []
        text = read_table(found, {role: role for role in roles}, bad_rows=BadRows(), label="vocabulary")
        rows = zip(*(text[role].to_pylist() for role in roles), strict=True)
        return [row for row in rows if None not in row and not any(word.startswith(UNREADABLE) for word in row)]

    def users(self, statements: Mapping[SourceTable, Statement]) -> list[str]:
        """The distinct users that these statements select, as text."""
        found = [row for table, statement in statements.items() for row in self.fetch(table, statement)]
        users: list[str] = decode(found, ["user"])["user"].drop_null().unique().cast(pa.string()).to_pylist()
        return users

    def number(self, table: SourceTable, statement: Statement) -> int:
        """The only value of a statement's result."""
        return int(str(self.fetch(table, statement)[0][0]))

    def fetch(self, table: SourceTable, statement: Statement) -> list[Row]:
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

    def _parts(self, table: SourceTable, *statements: Statement) -> Iterator[Sequence[Row]]:
        for rows in table.database.rows(*statements, size=self.rows):
            self.progress(len(rows))
            yield rows


def _complete_users(rows: Sequence[Row]) -> int:
    """The number of rows before those of the last user."""
    last = rows[-1][0]
    complete = len(rows) - 1
    while complete and rows[complete - 1][0] == last:
        complete -= 1
    return complete


def decode(rows: Sequence[Row], roles: Sequence[str]) -> pa.Table:
    """One column per role: int64 if it holds integers only, otherwise text; NULL is null."""
    # Not by zip(*rows), which is slower: it makes an iterator for each row.
    return pa.table({role: _column(list(map(itemgetter(place), rows))) for place, role in enumerate(roles)})


def _column(values: list[object]) -> pa.Array:
    # Most columns hold one type and are converted as a whole.
    kind = next((type(value) for value in values if value is not None), str)
    try:
        if kind is int:
            return pa.array(values, pa.int64())
        return pa.array(values, pa.binary() if kind is bytes else pa.string()).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([_text(value) for value in values], pa.string())


def _text(value: object) -> str | None:
    """One value as text: SQLite stores any value in any column."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"{UNREADABLE}{value!r}"
    return None if value is None else str(value)


class RowFault(Fault):
    """One kind of fault in one table; `examples` identifies each row that has it."""

    __slots__ = ()

    def skipped(self, shown: int | None = None) -> str:
        """The rows that were skipped, all or the first few."""
        rows = "; ".join(self.examples[:shown])
        rest = "" if shown is None or len(self.examples) <= shown else "; ..."
        plural = "s" if len(self.lines) != 1 else ""
        return f"{self.file}: {len(self.lines):,} row{plural} skipped because {self.what}: {rows}{rest}"

    def _sentence(self, place: int) -> str:
        return f"{self.file} row with {self.examples[place]}: {self.what}; {self.remedy}"


@dataclass(frozen=True, slots=True, eq=False)
class DatabaseRows(TextTable):
    """Text columns of a database table."""

    def refuse(self, bad: Mask, what: str, remedy: str, *, bad_rows: BadRows, show: str = "") -> Mask:
        """Report the bad rows and return the mask of the others."""
        rows = np.flatnonzero(bad)
        if len(rows):
            roles = dict.fromkeys(role for role in (*IDS, show) if role in self.columns and role not in PERSONAL)
            values = zip(*(self.columns[role].take(pa.array(rows)).to_pylist() for role in roles), strict=True)
            names = [self.names[role] for role in roles]
            examples = [
                ", ".join(f"{name} {_shown(value)}" for name, value in zip(names, row, strict=True)) for row in values
            ]
            bad_rows.reading(self.file)
            lines = [line + 1 for line in self.record[rows].tolist()]
            bad_rows.found.append(RowFault(self.file, lines, what, remedy, examples, "row"))
        return ~bad


def _shown(value: str | None) -> str:
    return value.removeprefix(UNREADABLE) if value is not None and value.startswith(UNREADABLE) else repr(value)


def validate_rows(part: pa.Table, table: SourceTable, bad_rows: BadRows, *, before: int) -> DatabaseRows:
    """The rows with readable values and a user; `before` is the number of rows ahead of them.

    Blanks around a user are refused: in another row, or in the other table, it would be another user. A column that is
    declared as integer must hold integers; SQLite stores any text there.
    """
    if not part.num_rows:
        return concatenate([], table)
    # Columns that came as integers need no checks and are written plainly.
    integers = {role for role in table.names if pa.types.is_integer(part.schema.field(role).type)}
    texts = [role for role in table.names if role not in integers]
    columns = {role: part[role].combine_chunks().cast(pa.string()) for role in integers}
    if texts:
        # Like every other table: trimmed, empty values as null.
        columns |= read_table(part, {role: role for role in texts}, bad_rows=bad_rows, label=table.label).columns
    record = np.arange(before, before + part.num_rows)
    rows = DatabaseRows(
        table.label, {role: columns[role] for role in table.names}, record, dict(table.names), part.num_rows
    )
    good: Mask = np.ones(len(rows), dtype=bool)

    def refuse(role: str, bad: Mask, what: str, remedy: str, shown: DatabaseRows = rows) -> None:
        nonlocal good
        good &= shown.refuse(good & bad, f"{rows.names[role]} {what}", remedy, bad_rows=bad_rows, show=role)

    for role in texts:
        refuse(role, as_mask(pc.starts_with(rows[role], UNREADABLE)), "is not UTF-8", "correct it")
    refuse("user", as_mask(rows["user"].is_null()), "is missing", "fill it in or delete the row")
    if "user" in texts:
        written = part["user"].combine_chunks()
        untrimmed = replace(rows, columns={**rows.columns, "user": written})
        blanks = as_mask(pc.not_equal(written, rows["user"]))
        refuse("user", blanks, "has blanks around it", "trim it in the database", untrimmed)
    for role in WHOLE_NUMBERS:
        if role in texts and table.is_integer(role):
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
        return ~as_mask(pc.fill_null(pc.match_substring_regex(column, INTEGER), True))
    return np.zeros(len(column), dtype=bool)


class UserStream:
    """A table read in parts that are sorted by user; it buffers the rows that are not taken yet."""

    def __init__(self, reader: Reader, table: SourceTable, bad_rows: BadRows) -> None:
        self._parts, self._table = reader.read(table, bad_rows), table
        self._kind = pa.int64() if reader.integer_users else pa.string()
        self._buffer: list[DatabaseRows] = []
        self._users = pa.array([], self._kind)  # the distinct ones of the buffer

    def users(self, size: int) -> pa.Array:
        """At least the first `size` users; all of them if fewer are left."""
        while len(self._users) < size and (part := next(self._parts, None)) is not None:
            keys = pa.concat_arrays([self._users, part["user"].cast(self._kind)])
            if pc.any(pc.greater(keys[:-1], keys[1:])).as_py():
                raise DataError(f"{self._table.place}: users are not sorted by their bytes; is its encoding UTF-8?")
            self._buffer.append(part)
            self._users = pc.unique(keys)
        return self._users

    def take(self, last: pa.Scalar) -> DatabaseRows:
        """The rows of all users up to this one."""
        rows = concatenate(self._buffer, self._table)
        taken = as_mask(pc.less_equal(rows["user"].cast(self._kind), last))
        rest = rows.keep(~taken)
        self._buffer = [replace(rest, rows=len(rest))]
        self._users = self._users.filter(pc.greater(self._users, last))
        # Rows refused on reading are counted with the first batch after them.
        return replace(rows.keep(taken), rows=rows.rows - len(rest))


def batch_by_user(streams: Sequence[UserStream], *, size: int) -> Iterator[list[DatabaseRows]]:
    """The rows of `size` users at a time, in the order of their ids."""
    while True:
        # With the first `size` users of each table, the first `size` of all together are known.
        users = pc.unique(pa.concat_arrays([stream.users(size) for stream in streams]))
        if not len(users):
            return
        users = users.take(pc.array_sort_indices(users))
        last = users[min(size, len(users)) - 1]
        yield [stream.take(last) for stream in streams]
