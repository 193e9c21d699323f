"""Text columns as ids and names: whole numbers where they are, the text itself where it is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from datasets.homes import Array, Ids, Mask
from datasets.readers.bad_rows import Problems
from datasets.readers.text_table import TextTable

WHOLE = r"^(0|-?[1-9][0-9]*)$"  # "007", "-0" and "7.0" are other texts than "7" and "0": as numbers they would collide

POWERS = 10 ** np.arange(1, 20, dtype=np.uint64)  # the first number of each length from two digits on


def whole_numbers(table: TextTable, role: str, problems: Problems) -> tuple[Array, Mask]:
    """A column of whole numbers; rows with anything else are reported and come back as 0 and False."""
    column, name = table[role], table.names[role]
    numbers = _as_numbers(column)
    if numbers is not None:
        return numbers, np.ones(len(table), dtype=bool)
    whole, fits = _is_whole(column)
    absent = _mask(column.is_null())
    remedy = "write ids as whole numbers, without decimals"
    good = refuse_missing(table, role, problems)
    good &= table.refuse(~whole & ~absent, f"{name} is not a whole number", remedy, problems=problems, show=role)
    remedy = "renumber the ids, or use the `tables` data set, where ids may be any text"
    good &= table.refuse(good & ~fits, f"{name} does not fit into 64 bits", remedy, problems=problems, show=role)
    return plain_numbers(pc.if_else(pa.array(good), column, "0"))[0], good


def ids_of_one_kind(columns: Sequence[pa.Array]) -> list[Ids]:
    """Columns that name the same things, all as whole numbers if every value is one, otherwise all as text."""
    numbers = [_as_numbers(column.drop_null()) for column in columns]
    if any(n is None for n in numbers):
        return [texts(column) for column in columns]
    filled = [_as_numbers(pc.fill_null(column, "0")) for column in columns]
    return [column for column in filled if column is not None]


def texts(column: pa.Array) -> Ids:
    """A text column as an array of shared strings; null becomes the empty text."""
    return np.asarray(names(column), dtype=object)


def names(column: pa.Array) -> pd.Categorical:
    """A text column of few distinct values, as numbers of these; null becomes the empty text."""
    coded = pc.fill_null(column, "").dictionary_encode()
    words = pd.Index(coded.dictionary.to_pylist(), dtype=object)
    return pd.Categorical.from_codes(coded.indices.to_numpy(), categories=words)


def plain_numbers(column: pa.Array) -> tuple[Array, Mask]:
    """A text column as whole numbers, 0 and False where a text is none or does not fit into 64 bits."""
    _, fits = _is_whole(column)
    numbers = _as_numbers(pc.if_else(pa.array(fits), column, "0"))
    assert numbers is not None
    return numbers, fits


def refuse_missing(table: TextTable, role: str, problems: Problems) -> Mask:
    """Report rows without a value in this column."""
    name = table.names[role]
    absent = _mask(table[role].is_null())
    return table.refuse(absent, f"{name} is missing", "fill it in or delete the line", problems=problems)


def _is_whole(column: pa.Array) -> tuple[Mask, Mask]:
    """Which texts are whole numbers, and which of those fit into 64 bits."""
    whole = _mask(pc.match_substring_regex(column, WHOLE))
    fits = whole.copy()
    # Up to 18 digits surely fit; the others are decided one by one, there are few.
    long = np.flatnonzero(whole & _mask(pc.greater(pc.utf8_length(column), 18)))
    fits[long] = [-(2**63) <= int(value) < 2**63 for value in column.take(pa.array(long)).to_pylist()]
    return whole, fits


def _as_numbers(column: pa.Array) -> Array | None:
    """The column as int64 if every value is a whole number written plainly."""
    try:
        cast = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    if cast.null_count:
        return None
    numbers = np.asarray(cast.to_numpy(), dtype=np.int64)
    # A number written with anything more than its digits and its sign, such as "007", is longer than those.
    digits = np.searchsorted(POWERS, np.abs(numbers).view(np.uint64), side="right") + 1
    plain = pc.binary_length(column).to_numpy() == digits + (numbers < 0)
    return numbers if plain.all() else None


def _mask(column: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), dtype=bool)
