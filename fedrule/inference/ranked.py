"""The lists of many homes as one table: a row for each recommendation, home after home, best first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from datasets.homes import Array, Homes, Ids
from datasets.view import Relation
from fedrule.inference.wording import sentence

if TYPE_CHECKING:
    import pandas as pd


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
        from fedrule.inference.ranked_file import write_all

        write_all([self], path)


def _kind(ids: Ids) -> str:
    """Of a column; a table without a line has it too, so that others fit behind it."""
    return "int64" if ids.dtype.kind == "i" else "str"
