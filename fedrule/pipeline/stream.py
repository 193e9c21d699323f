"""Tables read as streams, whole users at a time; a read that is broken off goes on behind the last whole user."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from fedrule.pipeline.decode import Row, decode
from fedrule.pipeline.errors import DatabaseError
from fedrule.pipeline.source import Source, Statement

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
