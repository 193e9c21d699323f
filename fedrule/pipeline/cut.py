"""Two streams sorted by user, cut at the same users: every part has so many users, with all their rows of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from datasets.common.errors import DataError
from fedrule.pipeline.keyed import KeyedTable
from fedrule.pipeline.sound import joined
from fedrule.pipeline.source import Source


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
