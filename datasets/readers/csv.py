"""Tables as named text columns that know the line of every row: delimited text, Parquet, DataFrames and Arrow tables.

Text may be packed with gzip and have a byte order mark, CRLF, quoted fields (with delimiters, quotes and line breaks
inside), blank lines, spaces around names, and comma, semicolon, tab or bar as delimiter. A row with a wrong number of
fields is reported with its line. A file is refused if it is empty or has only a header, is binary or UTF-16, has lines
that end in CR alone, or a quote that is never closed.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TextIO, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from datasets.common.errors import DataError, unknown
from datasets.common.files import open_bytes
from datasets.homes import Array, Ids, Mask
from datasets.readers.bad_rows import BadRows

DELIMITERS = ",;\t|"
LINE_BREAK = r"[\r\n]"
BINARY = {  # by how the file begins
    b"PK\x03\x04": "the file is a zip archive or an Excel workbook; unpack it, or save the sheet as CSV",
    b"PAR1": "the file is Parquet; call it .parquet",
    b"\xff\xfe": "the file is UTF-16; save it in UTF-8",
    b"\xfe\xff": "the file is UTF-16; save it in UTF-8",
}
ABSENT = ["", "nan", "NaN", "NAN"]  # texts that mean a missing value
INTEGER = (
    r"^(0|-?[1-9][0-9]*)$"  # "007", "-0" and "7.0" are other texts than "7" and "0": as numbers they would collide
)
POWERS = 10 ** np.arange(1, 20, dtype=np.uint64)  # the first number of each length from two digits on

Source: TypeAlias = Path | str | pd.DataFrame | pa.Table


@dataclass(frozen=True, slots=True)
class Delimited:
    """A text file with its column names and its delimiter."""

    path: Path
    content: bytes
    names: list[str]
    delimiter: str
    header_line: int = 1  # empty lines may come before it
    quoted: bool = True  # whether there is any quote, without which no value can hold a line break

    def read(self, wanted: Sequence[str], bad_rows: BadRows) -> tuple[pa.Table, Array]:
        """The wanted columns as bytes and each row's record number, from 0 after the header."""
        rejected: list[tuple[int, int]] = []  # record number, fields
        blank: list[int] = []  # record numbers of lines that hold only spaces

        def reject(row: pa_csv.InvalidRow) -> str:
            number = row.number - 1 - self.header_line  # the reader counts from 1 and counts what it leaves out
            if row.text.strip():
                rejected.append((number, row.actual_columns))
            else:
                blank.append(number)
            return "skip"

        try:
            table = pa_csv.read_csv(
                pa.BufferReader(self.content),
                # One thread, or the reader does not know the number of a row that it rejects.
                pa_csv.ReadOptions(use_threads=False, column_names=self.names, skip_rows=self.header_line),
                pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=reject),
                # As bytes, so that text that is not UTF-8 can be reported.
                pa_csv.ConvertOptions(include_columns=list(wanted), column_types=dict.fromkeys(wanted, pa.binary())),
            )
        except pa.ArrowInvalid as error:
            raise DataError(f"{self.path}: cannot be read as a table ({error})") from error
        if table.num_rows == 0 and not rejected:
            raise DataError(f"{self.path}: it has a header but no rows; export it again with its contents")
        number = np.array([n for n, _ in rejected], dtype=np.int64)
        bad_rows.add(
            self.path.name,
            self.lines(number),
            f"the line does not have {len(self.names)} fields",
            "complete or delete it" + ("; the file may be cut off" if self.content[-1:] != b"\n" else ""),
            [f"it has {fields}" for _, fields in rejected],
        )
        left_out = np.array([*number.tolist(), *blank], dtype=np.int64)
        return table, np.setdiff1d(np.arange(table.num_rows + len(left_out)), left_out, assume_unique=True)

    def lines(self, records: Array) -> list[int]:
        """The line on which each record begins; slow, and needed for bad rows only."""
        wanted, begins, number = set(records.tolist()), {}, 0
        if not wanted:
            return []
        with _text(self.content) as file:
            for _ in range(self.header_line):
                next(file)
            reader = csv.reader(file, delimiter=self.delimiter)
            line = self.header_line + 1
            for row in reader:
                if row:
                    if number in wanted:
                        begins[number] = line
                    number += 1
                line = self.header_line + reader.line_num + 1
        return [begins[record] for record in records.tolist()]


def open_delimited(path: Path, wanted: Collection[str]) -> Delimited:
    """A text file with the delimiter that finds most of the wanted columns; refused if it cannot be read as a whole."""
    with open_bytes(path) as file:
        content = file.read()
    for magic, complaint in BINARY.items():
        if content.startswith(magic):
            raise DataError(f"{path}: {complaint}")
    if b"\0" in content[:4096]:
        raise DataError(f"{path}: the file is UTF-16 or not a text file; save it as CSV in UTF-8")
    lines = ((n, line) for n, line in enumerate(io.BytesIO(content), 1) if line.strip(b"\xef\xbb\xbf \t\r\n"))
    header_line, first = next(lines, (1, b""))
    if not first:
        raise DataError(f"{path}: the file is empty; a header with {', '.join(dict.fromkeys(wanted))} is expected")
    if b"\r" in first.strip(b"\r\n"):
        raise DataError(f"{path}: its lines end in CR alone, as on an old Mac; save it with line ends LF or CRLF")
    try:
        text = first.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} line {header_line}: the header is not UTF-8; save the file in UTF-8") from error
    with _long_fields():
        found = {d: [name.strip() for name in next(csv.reader([text], delimiter=d))] for d in DELIMITERS}
    best = max(DELIMITERS, key=lambda d: len(set(found[d]) & set(wanted)))
    quotes = content.count(b'"')
    if quotes % 2:
        _refuse_open_quote(path, content, best)
    return Delimited(path, content, found[best], best, header_line, quotes > 0)


@contextmanager
def _text(content: bytes) -> Iterator[TextIO]:
    with io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", errors="replace", newline="") as file, _long_fields():
        yield file


def write_delimited(path: Path, columns: Mapping[str, pa.Array]) -> None:
    """Write columns with commas and a plain header; fields are quoted only if some value needs it."""
    table = pa.table(dict(columns))
    for quoting in ("none", "needed"):
        try:
            with path.open("wb") as file:
                file.write(",".join(table.column_names).encode() + b"\n")
                pa_csv.write_csv(table, file, pa_csv.WriteOptions(include_header=False, quoting_style=quoting))
            return
        except pa.ArrowInvalid:  # a value holds a comma, a quote or a line break
            if quoting == "needed":
                raise
            _refuse_line_breaks(path, table)


def _refuse_line_breaks(path: Path, table: pa.Table) -> None:
    """Reading refuses them, as the trace of a quote that is missing."""
    for name in table.column_names:
        if pa.types.is_string(table[name].type) and pc.any(pc.match_substring_regex(table[name], LINE_BREAK)).as_py():
            path.unlink()
            raise DataError(
                f"{path}: a value of {name} holds a line break; rename it, or save one .parquet file instead"
            )


def _refuse_open_quote(path: Path, content: bytes, delimiter: str) -> None:
    """A quote that is never closed would turn the rest of the file into one field."""
    line = 1
    with _text(content) as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            for _ in reader:
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path} line {line}: a quote is opened and never closed; close it") from error


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let Python's reader take fields that are as long as those that pyarrow reads."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


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

    def keep(self, mask: Mask) -> Self:
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

    def refuse(self, bad: Mask, what: str, remedy: str, *, bad_rows: BadRows, show: str = "") -> Mask:
        """Report the bad rows, with their value in column `show`, and return the mask of the others."""
        rows = np.flatnonzero(bad)
        if len(rows):
            values = self.columns[show].take(pa.array(rows[:1000])).to_pylist() if show else []
            examples = [f"{self.names[show]} {value!r}" if value is not None else "" for value in values]
            unit = "row" if self.text is None else "line"
            bad_rows.add(self.file, self.lines(rows), what, remedy, examples, unit=unit)
        return ~bad


def read_table(
    source: Source, columns: Mapping[str, str], *, bad_rows: BadRows, optional: Sequence[str] = (), label: str = ""
) -> TextTable:
    """Read the columns named by `columns` (role -> name in the source); `optional` roles may be absent."""
    if isinstance(source, pd.DataFrame):
        frame = source.set_axis([str(name) for name in source.columns], axis=1)
        wanted = _matched(list(frame.columns), columns, optional, label)
        return _table(label, {role: _texts(frame[name], label) for role, name in wanted.items()}, wanted)
    if isinstance(source, pa.Table):
        wanted = _matched(source.schema.names, columns, optional, label)
        return _table(label, _arrow_texts(source, wanted, label), wanted)
    if not isinstance(source, str | os.PathLike):
        what = f"{label or 'table'}: {type(source).__name__} is not a table that can be read"
        raise DataError(f"{what}; give the path of a CSV, TSV or Parquet file, a DataFrame or a pyarrow Table")
    path = Path(source)
    bad_rows.reading(path.name)
    if path.is_dir():
        raise DataError(f"{path}: it is a folder; give the file in it")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.suffix == ".parquet":
        return _read_parquet(path, columns, optional)
    text = open_delimited(path, columns.values())
    wanted = _matched(text.names, columns, optional, path.name)
    before = len(bad_rows.found)
    table, record = text.read(list(dict.fromkeys(wanted.values())), bad_rows)
    raw = {role: table[name].combine_chunks() for role, name in wanted.items()}
    rows = table.num_rows + sum(len(fault.lines) for fault in bad_rows.found[before:])
    return _decoded(_on_one_line(TextTable(path.name, raw, record, wanted, rows, text), bad_rows), bad_rows)


def _read_parquet(path: Path, columns: Mapping[str, str], optional: Sequence[str]) -> TextTable:
    try:
        wanted = _matched(pq.read_schema(path).names, columns, optional, path.name)
        arrays = _arrow_texts(pq.read_table(path, columns=list(dict.fromkeys(wanted.values()))), wanted, path.name)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet table ({error})") from error
    return _table(path.name, arrays, wanted)


def _on_one_line(table: TextTable, bad_rows: BadRows) -> TextTable:
    """Without rows whose values contain a line break: two stray quotes turn the rows between them into one value."""
    if table.text is None or not table.text.quoted:
        return table
    broken: Mask = np.zeros(len(table), dtype=bool)
    for column in table.columns.values():
        broken |= pc.match_substring_regex(column, LINE_BREAK).to_numpy(zero_copy_only=False)
    what, remedy = "a value runs over several lines", "a quote is missing, or one too many: correct it"
    return table.keep(table.refuse(broken, what, remedy, bad_rows=bad_rows))


def _table(label: str, arrays: dict[str, pa.Array], names: Mapping[str, str]) -> TextTable:
    rows = len(next(iter(arrays.values())))
    if rows == 0:
        raise DataError(f"{label}: it has columns but no rows")
    return TextTable(label, {role: _trimmed(column) for role, column in arrays.items()}, np.arange(rows), names, rows)


def _decoded(table: TextTable, bad_rows: BadRows) -> TextTable:
    """The bytes as text; rows that are not UTF-8 are reported and left out."""
    try:
        text = {role: _trimmed(column.cast(pa.string())) for role, column in table.columns.items()}
    except pa.ArrowInvalid:
        rows = zip(*(column.to_pylist() for column in table.columns.values()), strict=True)
        bad = np.array([not all(_is_utf8(value) for value in row) for row in rows])
        good = table.refuse(bad, "the line is not UTF-8", "save the file in UTF-8", bad_rows=bad_rows)
        return _decoded(table.keep(good), bad_rows)
    return replace(table, columns=text)


def _matched(names: list[str], columns: Mapping[str, str], optional: Sequence[str], file: str) -> dict[str, str]:
    """The columns that exist, by role (one may have two); an error names the missing ones and those found instead."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{file}: the header names {', '.join(map(repr, twice))} twice; rename one")
    missing = [name for role, name in columns.items() if name not in names and role not in optional]
    if missing:
        remedy = "rename the columns or map them with columns= (--set columns.ROLE=NAME)"
        if len(names) == 1:
            remedy += "; with one column only, the delimiter may be none of comma, semicolon, tab and bar"
        missed = ", ".join(map(repr, dict.fromkeys(missing)))
        raise DataError(f"{file}: missing {missed}: {unknown('column', missing[0], names)}; {remedy}")
    return {role: name for role, name in columns.items() if name in names}


def _arrow_texts(table: pa.Table, wanted: Mapping[str, str], label: str) -> dict[str, pa.Array]:
    texts = {}
    for role, name in wanted.items():
        column = table[name].combine_chunks()
        floats = pa.types.is_floating(column.type)
        try:
            texts[role] = _texts(column.to_pandas().rename(name), label) if floats else column.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"{label}: {name!r} holds {column.type}, which is not text ({error})") from error
    return texts


def _texts(column: pd.Series, label: str) -> pa.Array:
    """A column as text; integers that pandas made floats because of missing values are written as integers.

    Floats too large for exact integers are refused: two ids may have become one.
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
    """Without surrounding spaces; an empty text, or NaN as pandas writes it, is null."""
    text = pc.utf8_trim_whitespace(column)
    if not pc.any(pc.less_equal(pc.binary_length(text), max(map(len, ABSENT)))).as_py():
        return text  # cheaper than comparing texts
    absent = pc.is_in(text, pa.array(ABSENT))
    return pc.if_else(absent, None, text) if pc.any(absent).as_py() else text


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def whole_numbers(
    table: TextTable, role: str, bad_rows: BadRows, *, called: str = "ids", shown: bool = True
) -> tuple[Array, Mask]:
    """A column of whole numbers, and which rows have one; the others are reported, unless `shown` is off without their
    values, and 0.
    """
    column, name = table[role], table.names[role]
    numbers = _as_numbers(column)
    if numbers is not None:
        return numbers, np.ones(len(table), dtype=bool)
    whole, fits = _is_whole(column)
    absent = as_mask(column.is_null())
    remedy, show = f"write {called} as whole numbers, without decimals", role if shown else ""
    good = refuse_missing(table, role, bad_rows)
    good &= table.refuse(~whole & ~absent, f"{name} is not a whole number", remedy, bad_rows=bad_rows, show=show)
    remedy = f"renumber the {called}, or use the `tables` data set, where {called} may be any text"
    good &= table.refuse(good & ~fits, f"{name} does not fit into 64 bits", remedy, bad_rows=bad_rows, show=show)
    return parse_numbers(pc.if_else(pa.array(good), column, "0"))[0], good


def ids_of_one_kind(columns: Sequence[pa.Array]) -> list[Ids]:
    """Columns of ids of the same things: all as whole numbers if every value is one, otherwise all as text."""
    numbers = [_as_numbers(column.drop_null()) for column in columns]
    if any(n is None for n in numbers):
        return [text_ids(column) for column in columns]
    filled = [_as_numbers(pc.fill_null(column, "0")) for column in columns]
    return [column for column in filled if column is not None]


def text_ids(column: pa.Array) -> Ids:
    """A text column as an array of shared strings; null becomes the empty text."""
    return np.asarray(categories(column), dtype=object)


def id_column(ids: Ids) -> pa.Array:
    """Ids as a column to write."""
    return pa.array(ids) if ids.dtype.kind == "i" else pa.array(ids.tolist(), pa.string())


def categories(column: pa.Array) -> pd.Categorical:
    """A text column of few distinct values, as numbers of these; null becomes the empty text."""
    coded = pc.fill_null(column, "").dictionary_encode()
    words = pd.Index(coded.dictionary.to_pylist(), dtype=object)
    return pd.Categorical.from_codes(coded.indices.to_numpy(), categories=words)


def parse_numbers(column: pa.Array) -> tuple[Array, Mask]:
    """A text column as whole numbers, and which texts are ones that fit into 64 bits; the others are 0."""
    _, fits = _is_whole(column)
    numbers = _as_numbers(pc.if_else(pa.array(fits), column, "0"))
    assert numbers is not None
    return numbers, fits


def refuse_missing(table: TextTable, role: str, bad_rows: BadRows) -> Mask:
    """Report rows without a value in this column."""
    name = table.names[role]
    absent = as_mask(table[role].is_null())
    return table.refuse(absent, f"{name} is missing", "fill it in or delete the line", bad_rows=bad_rows)


def _is_whole(column: pa.Array) -> tuple[Mask, Mask]:
    """Which texts are whole numbers, and which of those fit into 64 bits."""
    whole = as_mask(pc.match_substring_regex(column, INTEGER))
    fits = whole.copy()
    # Up to 18 digits always fit; the few others are checked one by one.
    long = np.flatnonzero(whole & as_mask(pc.greater(pc.utf8_length(column), 18)))
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


def as_mask(column: pa.Array) -> Mask:
    """A column of true and false as an array; null is false."""
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), dtype=bool)
