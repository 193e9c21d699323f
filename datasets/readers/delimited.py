"""Delimited text files as columns of bytes, with the line of every row that is refused.

Handled: a byte order mark, CRLF, quoted fields (with delimiters, quotes and line breaks inside), lines that are empty
or hold only spaces, spaces around names, comma, semicolon, tab or bar as delimiter. Refused with the line: a wrong
number of fields. Refused as a whole: an empty file, a header and nothing else, a packed or other binary file, UTF-16,
lines that end in CR alone, a quote that is never closed.
"""

from __future__ import annotations

import csv
import mmap
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from datasets.common.errors import DataError
from datasets.homes import Array
from datasets.readers.bad_rows import Problems

DELIMITERS = ",;\t|"
LINE_BREAK = r"[\r\n]"
BINARY = {  # by how the file begins
    b"\x1f\x8b": "the file is packed with gzip; unpack it",
    b"PK\x03\x04": "the file is a zip archive or an Excel workbook; unpack it, or save the sheet as CSV",
    b"PAR1": "the file is Parquet; call it .parquet",
    b"\xff\xfe": "the file is UTF-16; save it in UTF-8",
    b"\xfe\xff": "the file is UTF-16; save it in UTF-8",
}


@dataclass(frozen=True, slots=True)
class Delimited:
    """A file, its column names and its delimiter: the one that finds most of the wanted names."""

    path: Path
    names: list[str]
    delimiter: str
    header_line: int = 1  # empty lines may stand before it
    quoted: bool = True  # whether there is any quote, without which no value can hold a line break

    def read(self, wanted: Sequence[str], problems: Problems) -> tuple[pa.Table, Array]:
        """The wanted columns as bytes and each row's record number (from 0, the header not counted)."""
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
                self.path,
                # One thread: only then does the reader know the number of a row that it rejects.
                pa_csv.ReadOptions(use_threads=False, column_names=self.names, skip_rows=self.header_line),
                pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=reject),
                pa_csv.ConvertOptions(
                    include_columns=list(wanted),
                    column_types=dict.fromkeys(wanted, pa.binary()),  # bytes: what is not UTF-8 is ours to report
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            raise DataError(f"{self.path}: cannot be read as a table ({error})") from error
        if table.num_rows == 0 and not rejected:
            raise DataError(f"{self.path}: it has a header but no rows; export it again with its contents")
        number = np.array([n for n, _ in rejected], dtype=np.int64)
        problems.add(
            self.path.name,
            self.lines(number),
            f"the line does not have {len(self.names)} fields",
            "complete or delete it" + ("; the file may be cut off" if _ends_in_mid_line(self.path) else ""),
            [f"it has {fields}" for _, fields in rejected],
        )
        left_out = np.array([*number.tolist(), *blank], dtype=np.int64)
        return table, np.setdiff1d(np.arange(table.num_rows + len(left_out)), left_out, assume_unique=True)

    def lines(self, records: Array) -> list[int]:
        """The line on which each record begins; slow, and only needed where something is wrong."""
        wanted, begins, number = set(records.tolist()), {}, 0
        if not wanted:
            return []
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file, _fields_of_any_length():
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
    """Look at the header and at what would spoil the whole file."""
    with path.open("rb") as file:
        start = file.read(4096)
        file.seek(0)
        place = ((n, line) for n, line in enumerate(file, start=1) if line.strip(b"\xef\xbb\xbf \t\r\n"))
        header_line, first = next(place, (1, b""))
    for magic, complaint in BINARY.items():
        if start.startswith(magic):
            raise DataError(f"{path}: {complaint}")
    if b"\0" in start:
        raise DataError(f"{path}: the file is UTF-16 or no text at all; save it as CSV in UTF-8")
    if not first:
        raise DataError(f"{path}: the file is empty; a header with {', '.join(dict.fromkeys(wanted))} is expected")
    if b"\r" in first.strip(b"\r\n"):
        raise DataError(f"{path}: its lines end in CR alone, as on an old Mac; save it with line ends LF or CRLF")
    try:
        text = first.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} line {header_line}: the header is not UTF-8; save the file in UTF-8") from error
    with _fields_of_any_length():
        found = {d: [name.strip() for name in next(csv.reader([text], delimiter=d))] for d in DELIMITERS}
    best = max(DELIMITERS, key=lambda d: len(set(found[d]) & set(wanted)))
    quotes = _count(path, b'"')
    if quotes % 2:
        _refuse_open_quote(path, best)
    return Delimited(path, found[best], best, header_line, quotes > 0)


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


def _refuse_open_quote(path: Path, delimiter: str) -> None:
    """A quote that is never closed would swallow the rest of the file into one field."""
    line = 1
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file, _fields_of_any_length():
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            for _ in reader:
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path} line {line}: a quote is opened and never closed; close it") from error


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    """Python's reader gives up on a long field that pyarrow reads."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _count(path: Path, byte: bytes) -> int:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(byte) < 0:  # the usual case, and nothing is copied to see it
            return 0
        step = 1 << 24
        return sum(content[i : i + step].count(byte) for i in range(0, len(content), step))


def _ends_in_mid_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() != b"\n"
