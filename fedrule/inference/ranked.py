"""The lists of many homes as one table: a row for each recommendation, home after home, best first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from datasets.errors import DataError
from datasets.homes import Array, Homes
from datasets.view import Relation
from datasets.whole_files import moved_to
from fedrule.inference.wording import sentence

SUFFIXES = (".parquet", ".csv", ".jsonl")


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
        return pd.DataFrame(
            {
                "user": homes.users[self.home].tolist(),
                "rank": self.rank,
                "trigger": trigger,
                "trigger_state": [relation.trigger for relation in relations],
                "action": [relation.action for relation in relations],
                "action_device": action,
                "probability": self.probability,
                "text": text,
            }
        )

    def write(self, path: Path | str) -> None:
        """As Parquet, CSV or lines of JSON, by the ending of the name; as a whole or not at all."""
        path = Path(path)
        refuse_other_endings(path)
        frame = self.frame()
        with moved_to(path) as temporary:
            if path.suffix == ".parquet":
                frame.to_parquet(temporary, index=False)
            elif path.suffix == ".csv":
                frame.to_csv(temporary, index=False)
            else:
                frame.to_json(temporary, orient="records", lines=True, force_ascii=False)


def refuse_other_endings(path: Path) -> None:
    """An error where no table can be written under this name; said before the work is done."""
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: name a file that ends with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
