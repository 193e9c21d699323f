"""Text columns as ids and names: whole numbers where they are, the text itself where it is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.homes import Array, Ids, Mask
from datasets.problems import Problems
from datasets.text_table import TextTable

WHOLE = r"^-?(0|[1-9][0-9]*)$"  # "007" and "7.0" are other texts than "7": read as numbers they would collide


def whole_numbers(table: TextTable, role: str, problems: Problems) -> tuple[Array, Mask]:
    """A column of whole numbers; rows with anything else are reported and come back as 0 and False."""
    column, name = table[role], table.names[role]
    numbers = _as_numbers(column)
    if numbers is not None:
        return numbers, np.ones(len(table), dtype=bool)
    whole = _mask(pc.match_substring_regex(column, WHOLE))
    absent = _mask(column.is_null())
    remedy = "write ids as whole numbers, without decimals"
    good = refuse_missing(table, role, problems)
    good &= table.refuse(~whole & ~absent, f"{name} is not a whole number", remedy, problems=problems, show=role)
    # Nineteen digits can be too many for 64 bits; the rest is decided one by one, there are few.
    long = np.flatnonzero(good & _mask(pc.greater(pc.utf8_length(column), 18)))
    beyond = np.zeros(len(table), dtype=bool)
    values = column.take(pa.array(long)).to_pylist()
    beyond[long] = [not -(2**63) <= int(value) < 2**63 for value in values]
    remedy = "renumber the ids, or use the `tables` data set, where ids may be any text"
    good &= table.refuse(beyond, f"{name} does not fit into 64 bits", remedy, problems=problems, show=role)
    numbers = _as_numbers(pc.if_else(pa.array(good), column, "0"))
    assert numbers is not None
    return numbers, good


def ids_of_one_kind(columns: Sequence[pa.Array]) -> list[Ids]:
    """Columns that name the same things, all as whole numbers if every value is one, otherwise all as text."""
    numbers = [_as_numbers(column.drop_null()) for column in columns]
    if any(n is None for n in numbers):
        return [texts(column) for column in columns]
    filled = [_as_numbers(pc.fill_null(column, "0")) for column in columns]
    return [column for column in filled if column is not None]


def texts(column: pa.Array) -> Ids:
    """A text column as an array of shared strings; null becomes the empty text."""
    coded = pc.fill_null(column, "").dictionary_encode()
    words: Ids = np.array(
        [*coded.dictionary.to_pylist(), None], dtype=object
    )  # the None keeps numpy from guessing a width
    return np.asarray(words[coded.indices.to_numpy()])


def refuse_missing(table: TextTable, role: str, problems: Problems) -> Mask:
    """Report rows without a value in this column."""
    name = table.names[role]
    absent = _mask(table[role].is_null())
    return table.refuse(absent, f"{name} is missing", "fill it in or delete the line", problems=problems)


def _as_numbers(column: pa.Array) -> Array | None:
    """The column as int64 if every value is a whole number written plainly."""
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    plain = pc.all(pc.equal(numbers.cast(pa.string()), column)).as_py() if len(column) else True
    if numbers.null_count or not plain:
        return None
    return np.asarray(numbers.to_numpy(), dtype=np.int64)


def _mask(column: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), dtype=bool)
