"""What is recommended: a rule between two devices of the home, in words, with its probability and why it is valid."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from datasets.common.errors import DataError
from datasets.common.files import Json, moved_to
from datasets.homes import Array, Homes, Ids, Relation
from fedrule.inference.request import Id
from fedrule.inference.sentences import sentence

if TYPE_CHECKING:
    import pandas as pd


class Support(NamedTuple):
    """Why a rule is valid: homes that were trained on have carried it out with devices of these types."""

    homes_with_rule: int
    homes_with_both: int  # own devices of both types, so that they could
    trigger_type: str
    action_type: str

    @property
    def text(self) -> str:
        rule, both = f"{self.homes_with_rule:,}", f"{self.homes_with_both:,}"
        own = _a(self.trigger_type)
        if self.action_type != self.trigger_type:
            own += f" and {_a(self.action_type)}"
        return f"{rule} of the {both} homes with {own} that it learned from have this rule"


def _a(word: str) -> str:
    return f"an {word}" if word[:1].lower() in "aeiou" else f"a {word}"


class Recommendation(NamedTuple):
    """One line of the list."""

    rank: int  # from 1
    trigger: Id
    trigger_state: str
    action: str
    action_device: Id
    probability: float  # that it is a rule and not a random non-rule, where there is one of each
    text: str  # e.g. "When *Front door* opens, turn on *Hall light*"
    why: Support

    def as_json(self) -> dict[str, Json]:
        """As the command line and the HTTP service give it."""
        why: Json = {
            "homes_with_rule": self.why.homes_with_rule,
            "homes_with_both": self.why.homes_with_both,
            "text": self.why.text,
        }
        return {**self._asdict(), "why": why}


class Recommendations(NamedTuple):
    """The list of one home, best first, and what of the home could not be used."""

    rules: tuple[Recommendation, ...]
    ignored: tuple[str, ...] = ()  # one sentence for each device and rule that was left out

    def as_json(self) -> dict[str, Json]:
        """As the command line and the HTTP service give it."""
        return {"recommendations": [rule.as_json() for rule in self.rules], "ignored": list(self.ignored)}


# --- The lists of many homes as one table: a row for each recommendation, home after home, best first.


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
    support: tuple[Array, Array]  # [n] each: homes with the typed rule, and those that own both types
    ignored_devices: int = 0  # of types that the model never saw
    ignored_rules: int = 0  # of relations that it never saw, or of such devices

    def __len__(self) -> int:
        return len(self.home)

    def frame(self) -> pd.DataFrame:
        """In words, a column for each part of a recommendation."""
        import pandas as pd  # takes longer to load than a home takes to be answered

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
                "homes_with_rule": self.support[0],
                "homes_with_both": self.support[1],
            }
        )

    def write(self, path: Path | str) -> None:
        """As Parquet, CSV or lines of JSON, by the ending of the name; as a whole or not at all."""
        write_all([self], path)


def _kind(ids: Ids) -> str:
    """Of a column; a table without a line has it too, so that others fit behind it."""
    return "int64" if ids.dtype.kind == "i" else "str"


# --- Lists of many homes in one file, part after part: Parquet, CSV or lines of JSON, by the ending of its name.


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
