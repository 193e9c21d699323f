"""A part of a table checked for what a database allows and homes do not, before its rows are joined with others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.homes import Mask
from datasets.readers.bad_rows import Problems
from datasets.readers.text_table import read_table
from fedrule.pipeline.decode import unreadable
from fedrule.pipeline.keyed import IDS, KeyedTable
from fedrule.pipeline.source import Source

WHOLE = r"^(0|-?[1-9][0-9]*)$"


def sound(part: pa.Table, source: Source, problems: Problems, *, before: int) -> KeyedTable:
    """The rows whose values can be read and whose user is known; `before` is the number of rows ahead of them.

    A user with blanks around it is refused: in another row, or in the other table, it would be another user. In a
    column that is declared INTEGER only whole numbers are good; SQLite keeps any text there.
    """
    table = _trimmed(part, source, problems, before)
    good: Mask = np.ones(len(table), dtype=bool)

    def refuse(role: str, bad: Mask, what: str, remedy: str) -> None:
        nonlocal good
        good &= table.refuse(good & bad, f"{table.names[role]} {what}", remedy, problems=problems, show=role)

    for role in table.columns:
        refuse(role, unreadable(table[role]), "is no text in UTF-8", "correct it")
    refuse("user", _mask(table["user"].is_null()), "is missing", "fill it in or delete the row")
    written = part["user"].combine_chunks()
    blanks = good & _mask(pc.not_equal(written, table["user"]))
    as_written = replace(table, columns={**table.columns, "user": written})
    what, remedy = f"{table.names['user']} has blanks around it", "trim it in the database"
    good &= as_written.refuse(blanks, what, remedy, problems=problems)
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


def _trimmed(part: pa.Table, source: Source, problems: Problems, before: int) -> KeyedTable:
    """As every other table is read: without surrounding blanks, nothing as null."""
    if not part.num_rows:
        return empty(source)
    text = read_table(part, {role: role for role in source.names}, problems=problems, label=source.label)
    return KeyedTable(source.label, text.columns, before + text.record, dict(source.names), part.num_rows)


def _no_number(column: pa.Array) -> Mask:
    try:
        column.cast(pa.int64())
    except pa.ArrowInvalid:
        return ~_mask(pc.fill_null(pc.match_substring_regex(column, WHOLE), True))
    return np.zeros(len(column), dtype=bool)


def _mask(column: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), dtype=bool)
