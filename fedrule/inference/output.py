"""Recommendations in words, and the lists of many homes as one table: Parquet, CSV or JSON lines."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.common.files import Json, atomic_file
from datasets.homes import Array, Homes, Relation
from fedrule.inference.request import Id
from fedrule.inference.sentences import sentence

# pandas and pyarrow are imported where they are used: they take longer to load than one home to answer.
if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq


class Support(NamedTuple):
    """The evidence for a rule: how many training homes have it between devices of these types."""

    homes_with_rule: int
    homes_with_both: int  # homes that own devices of both types
    trigger_type: str
    action_type: str

    @property
    def text(self) -> str:
        rule, both = f"{self.homes_with_rule:,}", f"{self.homes_with_both:,}"
        if self.homes_with_both < self.homes_with_rule:  # a federation of a method that counts no types
            return f"homes that it learned from and that have this rule: {rule}"
        if not self.homes_with_both:  # of a private model that counts nothing
            return "how many homes have this rule is not known"
        own = _a(self.trigger_type)
        if self.action_type != self.trigger_type:
            own += f" and {_a(self.action_type)}"
        return f"{rule} of the {both} homes with {own} that it learned from have this rule"


def _a(word: str) -> str:
    return f"an {word}" if word[:1].lower() in "aeiou" else f"a {word}"


class Recommendation(NamedTuple):
    """One entry of the list."""

    rank: int  # from 1
    trigger: Id
    trigger_state: str
    action: str
    action_device: Id
    probability: float  # of being a rule rather than a random non-rule, at even odds
    text: str  # e.g. "When *Front door* opens, turn on *Hall light*"
    why: Support

    def as_json(self) -> dict[str, Json]:
        """As printed by --json and sent by the HTTP service."""
        with_rule, with_both, *_ = self.why
        why: Json = {"homes_with_rule": with_rule, "homes_with_both": with_both, "text": self.why.text}
        return {**self._asdict(), "why": why}


class Recommendations(NamedTuple):
    """The list of one home, best first, and what was ignored of the home."""

    rules: tuple[Recommendation, ...]
    ignored: tuple[str, ...] = ()  # one sentence per device or rule

    def as_json(self) -> dict[str, Json]:
        """As printed by --json and sent by the HTTP service."""
        return {"recommendations": [rule.as_json() for rule in self.rules], "ignored": list(self.ignored)}


class Lists(Protocol):
    """The lists of many homes, as they are written to a file."""

    @property
    def n_homes(self) -> int: ...

    @property
    def n_lists(self) -> int:
        """Homes with at least one recommendation."""

    @property
    def ignored_devices(self) -> int:
        """Devices of types unknown to the model."""

    @property
    def ignored_rules(self) -> int:
        """Rules of relations unknown to the model, or between such devices."""

    def __len__(self) -> int:
        """How many recommendations."""

    def frame(self) -> pd.DataFrame:
        """In words, a column for each part of a recommendation."""


@dataclass(frozen=True, slots=True, eq=False)
class RankedLists:
    """The lists of many homes, home after home, best first; homes and devices by their numbers in `homes`."""

    homes: Homes
    relations: tuple[Relation, ...]  # the model's
    home: Array  # [n]
    rank: Array  # [n]  from 1 in each home
    trigger: Array  # [n]
    action: Array  # [n]
    relation: Array  # [n]
    probability: npt.NDArray[np.float64]  # [n]
    support: tuple[Array, Array]  # [n] each: homes with the typed rule, and homes that own both types
    ignored_devices: int = 0  # of types unknown to the model
    ignored_rules: int = 0  # of relations unknown to the model, or between such devices

    def __len__(self) -> int:
        return len(self.home)

    @property
    def n_homes(self) -> int:
        return self.homes.n_homes

    @property
    def n_lists(self) -> int:
        """Homes with at least one recommendation."""
        return len(np.unique(self.home))

    def frame(self) -> pd.DataFrame:
        """In words, a column for each part of a recommendation."""
        import pandas as pd

        homes = self.homes
        trigger, action = (homes.device_ids[device].tolist() for device in (self.trigger, self.action))
        relations = [self.relations[number] for number in self.relation.tolist()]
        types = [homes.types[number] for number in homes.device_type[self.trigger].tolist()]
        rows = zip(trigger, types, relations, action, strict=True)
        text = [sentence(str(t), state, act, str(a), trigger_type=kind) for t, kind, (state, act), a in rows]
        # Given explicitly, so that a table without rows has the same columns.
        user, device = ("int64" if ids.dtype.kind == "i" else "str" for ids in (homes.users, homes.device_ids))
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
                "homes_with_rule": self.support[0],
                "homes_with_both": self.support[1],
            }
        )

    def write(self, path: Path | str) -> None:
        """Write them as `write_all` does."""
        write_all([self], path)


def write_all(parts: Iterable[Lists], path: Path | str) -> tuple[int, int]:
    """Write all parts to one file, completely or not at all; return the numbers of homes and of rows."""
    path = Path(path)
    check_suffix(path)
    homes = rows = 0
    part = None
    with atomic_file(path) as temporary, closing(_WRITERS[path.suffix](temporary)) as writer:
        for part in parts:
            writer.add(part.frame())
            homes, rows = homes + part.n_homes, rows + len(part)
        if part is None:
            raise DataError(f"{path}: there are no homes to recommend anything to")
    return homes, rows


def check_suffix(path: Path) -> None:
    """Raise unless the suffix names a supported format; called before the work is done."""
    if path.suffix not in _WRITERS:
        raise DataError(f"{path}: name a file that ends with {', '.join(_WRITERS)}")


class _Writer(Protocol):
    def __init__(self, path: Path) -> None: ...

    def add(self, frame: pd.DataFrame) -> None: ...

    def close(self) -> None: ...


class _Csv:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")

    def add(self, frame: pd.DataFrame) -> None:
        frame.to_csv(self._file, index=False, header=self._file.tell() == 0)

    def close(self) -> None:
        self._file.close()


class _JsonLines(_Csv):
    def add(self, frame: pd.DataFrame) -> None:
        if len(frame):  # pandas writes an empty line for no rows
            frame.to_json(self._file, orient="records", lines=True, force_ascii=False, double_precision=15)


class _Parquet:
    """A column has one type: ids that are numbers in some parts and text in others are written as text."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None

    def add(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa

        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        if self._writer is None:
            self._open(table.schema)
        assert self._writer is not None
        pairs = zip(self._writer.schema, table.schema, strict=True)
        schema = pa.schema([new if pa.types.is_integer(old.type) else old for old, new in pairs])
        if schema != self._writer.schema:
            self._rewrite(schema)
        self._writer.write_table(table.cast(schema))

    def _open(self, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(self._path, schema, compression="zstd")

    def _rewrite(self, schema: pa.Schema) -> None:
        """Write what is there once more, with the integer ids as text."""
        import pyarrow.parquet as pq

        self.close()
        written = self._path.rename(self._path.with_name(f"{self._path.name}.tmp"))
        try:
            self._open(schema)
            assert self._writer is not None
            with pq.ParquetFile(written) as file:
                for group in range(file.num_row_groups):
                    self._writer.write_table(file.read_row_group(group).cast(schema))
        finally:
            written.unlink()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


_WRITERS: dict[str, type[_Writer]] = {".parquet": _Parquet, ".csv": _Csv, ".jsonl": _JsonLines}
