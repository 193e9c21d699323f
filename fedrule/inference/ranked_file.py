"""Lists of many homes in one file, part after part: Parquet, CSV or lines of JSON, by the ending of its name."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from datasets.common.errors import DataError
from datasets.common.files import moved_to
from fedrule.inference.ranked import Ranked


def write_all(parts: Iterable[Ranked], path: Path | str) -> tuple[int, int]:
    """Write one part after the other into one file, and give how many homes and rows there were."""
    path = Path(path)
    refuse_other_endings(path)
    written = homes = rows = 0
    with moved_to(path) as temporary, closing(_WRITERS[path.suffix](temporary)) as writer:
        for part in parts:
            writer.add(part.frame())
            written, homes, rows = written + 1, homes + part.homes.n_homes, rows + len(part)
        if not written:
            raise DataError(f"{path}: there are no homes to recommend anything to")
    return homes, rows


def refuse_other_endings(path: Path) -> None:
    """An error where no table can be written under this name; said before the work is done."""
    if path.suffix not in _WRITERS:
        raise DataError(f"{path}: name a file that ends with {', '.join(_WRITERS)}")


class _Text:
    """Lines, part after part."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")

    def close(self) -> None:
        self._file.close()


class _Csv(_Text):
    def add(self, frame: pd.DataFrame) -> None:
        frame.to_csv(self._file, index=False, header=self._file.tell() == 0)


class _JsonLines(_Text):
    def add(self, frame: pd.DataFrame) -> None:
        if len(frame):  # of no lines pandas makes an empty one
            frame.to_json(self._file, orient="records", lines=True, force_ascii=False, double_precision=15)


class _Parquet:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None

    def add(self, frame: pd.DataFrame) -> None:
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="zstd")
        self._writer.write_table(table.cast(self._writer.schema))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


_WRITERS: dict[str, type[_Csv] | type[_JsonLines] | type[_Parquet]] = {
    ".parquet": _Parquet,
    ".csv": _Csv,
    ".jsonl": _JsonLines,
}
