"""The lists of many homes as one table: a row for each recommendation, home after home, best first."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from datasets.errors import DataError
from datasets.homes import Array, Homes, Ids
from datasets.view import Relation
from datasets.whole_files import moved_to
from fedrule.inference.wording import sentence


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Homes and devices by their numbers in `homes`, relations by those in `relations`, the model's."""

    homes: Homes
    relations: tuple[Relation, ...]
    home: Array  # [n]
    rank: Array  # [n]  from 1 in each home
    trigger: Array  # [n]
    action: Array  # [n]
    relation: Array  # [n]
    probability: npt.NDArray[np.float64]  # [n]
    ignored_devices: int = 0  # of types that the model never saw
    ignored_rules: int = 0  # of relations that it never saw, or of such devices

    def __len__(self) -> int:
        return len(self.home)

    def frame(self) -> pd.DataFrame:
        """In words: user, rank, trigger, trigger_state, action, action_device, probability, text."""
        homes = self.homes
        trigger, action = (homes.device_ids[device].tolist() for device in (self.trigger, self.action))
        relations = [self.relations[number] for number in self.relation.tolist()]
        text = [
            sentence(str(t), state, act, str(a)) for t, (state, act), a in zip(trigger, relations, action, strict=True)
        ]
        user, device = (_kind(ids) for ids in (homes.users, homes.device_ids))
        return pd.DataFrame(
            {
                "user": pd.Series(homes.users[self.home].tolist(), dtype=user),
                "rank": self.rank,
                "trigger": pd.Series(trigger, dtype=device),
                "trigger_state": pd.Series([relation.trigger for relation in relations], dtype="str"),
                "action": pd.Series([relation.action for relation in relations], dtype="str"),
                "action_device": pd.Series(action, dtype=device),
                "probability": self.probability,
                "text": pd.Series(text, dtype="str"),
            }
        )

    def write(self, path: Path | str) -> None:
        """As Parquet, CSV or lines of JSON, by the ending of the name; as a whole or not at all."""
        write_all([self], path)


def _kind(ids: Ids) -> str:
    """Of a column; a table without a line has it too, so that others fit behind it."""
    return "int64" if ids.dtype.kind == "i" else "str"


def write_all(parts: Iterable[Ranked], path: Path | str) -> tuple[int, int]:
    """Write one part after the other into one file, and give how many homes and rows there were."""
    path = Path(path)
    refuse_other_endings(path)
    homes = rows = 0
    with moved_to(path) as temporary, closing(_WRITERS[path.suffix](temporary)) as writer:
        for part in parts:
            writer.add(part.frame())
            homes, rows = homes + part.homes.n_homes, rows + len(part)
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
