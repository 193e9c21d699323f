"""The lists of some homes as bytes for another machine, and those of many machines as one.

They travel as compressed columns of Arrow with their sentences: making these takes as long as the search for a small
network, and one machine would make all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from fedrule.inference.output import Lists

if TYPE_CHECKING:
    import pandas as pd

KEY = b"fedrule.lists"
COUNTS = ("n_homes", "n_lists", "ignored_devices", "ignored_rules")


@dataclass(frozen=True, slots=True, eq=False)
class ArrowLists:
    """The lists of consecutive homes as streams of Arrow; equal to those that were made here."""

    streams: tuple[bytes, ...]
    rows: int
    n_homes: int
    n_lists: int
    ignored_devices: int
    ignored_rules: int

    @classmethod
    def of(cls, lists: Lists) -> Self:
        """The lists as one stream."""
        table = pa.Table.from_pandas(lists.frame(), preserve_index=False)
        counts = {name: getattr(lists, name) for name in COUNTS}
        sink = pa.BufferOutputStream()
        metadata = {**(table.schema.metadata or {}), KEY: json.dumps(counts | {"rows": len(lists)}).encode()}
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, table.schema.with_metadata(metadata), options=options) as writer:
            writer.write_table(table)
        return cls((sink.getvalue().to_pybytes(),), len(lists), **counts)

    @classmethod
    def read(cls, stream: bytes) -> Self:
        """The stream of another machine."""
        with pa.ipc.open_stream(stream) as reader:
            counts: Mapping[str, Any] = json.loads(reader.schema.metadata[KEY])
        return cls((stream,), **counts)

    @classmethod
    def concatenate(cls, parts: Sequence[ArrowLists]) -> ArrowLists:
        """One part after the other; at least one."""
        counts = {name: sum(getattr(part, name) for part in parts) for name in ("rows", *COUNTS)}
        return ArrowLists(tuple(stream for part in parts for stream in part.streams), **counts)

    def __len__(self) -> int:
        return self.rows

    def frame(self) -> pd.DataFrame:
        """In words, as that of `RankedLists`."""
        tables = []
        for stream in self.streams:
            with pa.ipc.open_stream(stream) as reader:
                tables.append(reader.read_all())
        # As one chunk, as those of a list made here: pages of a Parquet file end where chunks do.
        found: pd.DataFrame = pa.concat_tables(tables).combine_chunks().to_pandas()
        return found
