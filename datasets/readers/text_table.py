"""Tables as named text columns, from a delimited file, a Parquet file or a DataFrame; each row knows its line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datasets.readers.delimited import LINE_BREAK, Delimited, open_delimited
from datasets.common.errors import DataError, unknown
from datasets.homes import Array, Mask
from datasets.readers.bad_rows import Problems

ABSENT = ["", "nan", "NaN", "NAN"]
LONGEST_ABSENT = max(map(len, ABSENT))

Source: TypeAlias = Path | str | pd.DataFrame | pa.Table


@dataclass(frozen=True, slots=True, eq=False)
class TextTable:
    """Text columns by the name of their role; a missing value is null."""

    file: str  # as it is called in messages
    columns: Mapping[str, pa.Array]
    record: Array  # [n_rows]  the row's number in the source, from 0; refused rows leave gaps
    names: Mapping[str, str]  # role -> the column's name in the source
    rows: int  # of the source, those included that were refused on reading
    text: Delimited | None = None  # counts lines; None where a row is its own line

    def __len__(self) -> int:
        return len(self.record)

    def __getitem__(self, role: str) -> pa.Array:
        return self.columns[role]

    def __contains__(self, role: str) -> bool:
        return role in self.columns

    def keep(self, mask: Mask) -> TextTable:
        """Only these rows."""
        if mask.all():
            return self
        columns = {role: column.filter(pa.array(mask)) for role, column in self.columns.items()}
        return replace(self, columns=columns, record=self.record[mask])

    def lines(self, rows: Array) -> list[int]:
        """The line on which each of these rows begins, counted as an editor does."""
        if self.text is None:
            return [record + 1 for record in self.record[rows].tolist()]
        return self.text.lines(self.record[rows])

    def refuse(self, bad: Mask, what: str, remedy: str, *, problems: Problems, show: str = "") -> Mask:
        """Report the bad rows, with their value in column `show`, and give back the mask of the others."""
        rows = np.flatnonzero(bad)
        if len(rows):
            values = self.columns[show].take(pa.array(rows[:1000])).to_pylist() if show else []
            examples = [f"{self.names[show]} {value!r}" if value is not None else "" for value in values]
            unit = "row" if self.text is None else "line"
            problems.add(self.file, self.lines(rows), what, remedy, examples, unit=unit)
        return ~bad


def read_table(
    source: Source, columns: Mapping[str, str], *, problems: Problems, optional: Sequence[str] = (), label: str = ""
) -> TextTable:
    """Read the columns named by `columns` (role -> name in the source); `optional` roles may be absent."""
    if isinstance(source, pd.DataFrame):
        frame = source.set_axis([str(name) for name in source.columns], axis=1)
        wanted = _matched(list(frame.columns), columns, optional, label)
        return _whole(label, {role: _texts(frame[name], label) for role, name in wanted.items()}, wanted)
    if isinstance(source, pa.Table):
        wanted = _matched(source.schema.names, columns, optional, label)
        return _whole(label, _arrow_texts(source, wanted, label), wanted)
    if not isinstance(source, str | os.PathLike):
        what = f"{label or 'table'}: {type(source).__name__} is not a table that can be read"
        raise DataError(f"{what}; give the path of a CSV, TSV or Parquet file, a DataFrame or a pyarrow Table")
    path = Path(source)
    problems.reading(path.name)
    if path.is_dir():
        raise DataError(f"{path}: it is a folder; give the file in it")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.suffix == ".parquet":
        return _read_parquet(path, columns, optional)
    text = open_delimited(path, columns.values())
    wanted = _matched(text.names, columns, optional, path.name)
    before = len(problems.found)
    table, record = text.read(_each_once(wanted), problems)
    raw = {role: table[name].combine_chunks() for role, name in wanted.items()}
    rows = table.num_rows + sum(len(problem.lines) for problem in problems.found[before:])
    return _decoded(_on_one_line(TextTable(path.name, raw, record, wanted, rows, text), problems), problems)


def _read_parquet(path: Path, columns: Mapping[str, str], optional: Sequence[str]) -> TextTable:
    try:
        wanted = _matched(pq.read_schema(path).names, columns, optional, path.name)
        arrays = _arrow_texts(pq.read_table(path, columns=_each_once(wanted)), wanted, path.name)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet table ({error})") from error
    return _whole(path.name, arrays, wanted)


def _on_one_line(table: TextTable, problems: Problems) -> TextTable:
    """Without rows whose values hold a line break: between two stray quotes whole rows become one value."""
    if table.text is None or not table.text.quoted:
        return table
    broken: Mask = np.zeros(len(table), dtype=bool)
    for column in table.columns.values():
        broken |= pc.match_substring_regex(column, LINE_BREAK).to_numpy(zero_copy_only=False)
    what, remedy = "a value runs over several lines", "a quote is missing, or one too many: correct it"
    return table.keep(table.refuse(broken, what, remedy, problems=problems))


def _whole(label: str, arrays: dict[str, pa.Array], names: Mapping[str, str]) -> TextTable:
    rows = len(next(iter(arrays.values())))
    if rows == 0:
        raise DataError(f"{label}: it has columns but no rows")
    return TextTable(label, {role: _trimmed(column) for role, column in arrays.items()}, np.arange(rows), names, rows)


def _decoded(table: TextTable, problems: Problems) -> TextTable:
    """The bytes as text; rows that are not UTF-8 are reported and left out."""
    try:
        text = {role: _trimmed(column.cast(pa.string())) for role, column in table.columns.items()}
    except pa.ArrowInvalid:
        rows = zip(*(column.to_pylist() for column in table.columns.values()), strict=True)
        bad = np.array([not all(_is_utf8(value) for value in row) for row in rows])
        good = table.refuse(bad, "the line is not UTF-8", "save the file in UTF-8", problems=problems)
        return _decoded(table.keep(good), problems)
    return replace(table, columns=text)


def _matched(names: list[str], columns: Mapping[str, str], optional: Sequence[str], file: str) -> dict[str, str]:
    """The columns that are there, by role; an error names the missing ones and what was found instead."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{file}: the header names {', '.join(map(repr, twice))} twice; rename one")
    missing = [name for role, name in columns.items() if name not in names and role not in optional]
    if missing:
        remedy = "rename the columns or say what they are called by columns= (--set columns.ROLE=NAME)"
        if len(names) == 1:
            remedy += "; with one column only, the delimiter may be none of comma, semicolon, tab and bar"
        missed = ", ".join(map(repr, dict.fromkeys(missing)))
        raise DataError(f"{file}: missing {missed}: {unknown('column', missing[0], names)}; {remedy}")
    return {role: name for role, name in columns.items() if name in names}


def _each_once(wanted: Mapping[str, str]) -> list[str]:
    """The columns to read: one column may have two roles."""
    return list(dict.fromkeys(wanted.values()))


def _arrow_texts(table: pa.Table, wanted: Mapping[str, str], label: str) -> dict[str, pa.Array]:
    texts = {}
    for role, name in wanted.items():
        column = table[name].combine_chunks()
        floats = pa.types.is_floating(column.type)
        try:
            texts[role] = _texts(column.to_pandas().rename(name), label) if floats else column.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"{label}: {name!r} holds {column.type}, which is no text ({error})") from error
    return texts


def _texts(column: pd.Series, label: str) -> pa.Array:
    """A column as text; whole numbers that pandas made floats because of gaps stay whole.

    Floats that are too large to hold every whole number are refused: two ids may have become one.
    """
    present = column.notna()
    if pd.api.types.is_float_dtype(column) and bool((column[present] % 1 == 0).all()):
        values = column[present].to_numpy()
        exact = 2 ** (np.finfo(values.dtype).nmant + 1)
        if np.any(np.abs(values) >= exact):
            raise DataError(
                f"{label}: {column.name!r} holds whole numbers from {exact:,} on as {values.dtype}, which cannot tell "
                "them all apart; read the column as text or Int64"
            )
        column = column.astype("Int64")
    texts = [str(value) if there else None for value, there in zip(column, present, strict=True)]
    return pa.array(texts, pa.string())


def _trimmed(column: pa.Array) -> pa.Array:
    """Without surrounding spaces; nothing, or the text NaN that pandas writes, is null."""
    text = pc.utf8_trim_whitespace(column)
    if not pc.any(pc.less_equal(pc.binary_length(text), LONGEST_ABSENT)).as_py():
        return text  # the lengths alone say so, at a fraction of the price
    absent = pc.is_in(text, pa.array(ABSENT))
    return pc.if_else(absent, None, text) if pc.any(absent).as_py() else text


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
