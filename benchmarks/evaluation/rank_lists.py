"""Rank lists of other tools: the best rules of each home as a table, evaluated like a model.

A table (.csv, .csv.gz, .parquet) with a row per recommended rule: user, trigger_device and action_device (ids as in the
data), trigger_state, action (the two parts of the relation) and rank, 1 for the best. A CSV with the columns user_id,
rule and rank is read as a submission to the Wyze challenge.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from baselines.method import Scores
from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Ids, Mask, Rules
from datasets.submission import COLUMNS as CHALLENGE
from datasets.submission import Submission, read_submission

COLUMNS = ("user", "trigger_device", "action_device", "trigger_state", "action", "rank")


def read_rank_lists(homes: Homes, path: Path | str) -> RankLists:
    """A model of these homes from a file; every row must name a user, two of its devices and a relation of the data."""
    path = Path(path)
    is_csv = _is_csv(path)
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False) if is_csv else pd.read_parquet(path)
    except ValueError as error:  # what pandas and pyarrow raise for other content
        raise DataError(f"{path}: not a readable table ({error})") from None
    if is_csv and set(CHALLENGE.values()) <= set(table.columns):
        return RankLists(homes, read_submission(homes, path))
    missing = [column for column in COLUMNS if column not in table]
    if missing:
        raise DataError(f"{path}: no column {', '.join(missing)}; rank lists have {', '.join(COLUMNS)}")
    home = pd.Index(homes.users).get_indexer(_ids(path, table["user"], homes.users))
    owned = pd.MultiIndex.from_arrays([homes.device_home, homes.device_ids])
    trigger, action = (
        owned.get_indexer(pd.MultiIndex.from_arrays([home, _ids(path, table[column], homes.device_ids)]))
        for column in ("trigger_device", "action_device")
    )
    pairs = pd.MultiIndex.from_tuples([tuple(relation) for relation in homes.relations])
    relation = pairs.get_indexer(pd.MultiIndex.from_arrays([table["trigger_state"], table["action"]]))
    rank = pd.to_numeric(table["rank"], errors="coerce").to_numpy(dtype=np.float64)
    _refuse(path, home < 0, "the user is not in the data; leave it out")
    _refuse(path, (trigger < 0) | (action < 0), "its user has no such device; use the device ids of the data")
    _refuse(path, relation < 0, "no rule has this trigger state with this action; use the relations of the data")
    _refuse(path, ~((rank >= 1) & (rank % 1 == 0)), "the rank must be an integer, 1 or more")
    rules = Rules(home, trigger, action, relation)
    twice = pd.Series(rules.keys(homes.n_devices, len(homes.relations))).duplicated().to_numpy()
    _refuse(path, twice, "its user has this rule twice; rank it once")
    return RankLists(homes, Submission(rules, rank.astype(np.int64)))


@dataclass(frozen=True, slots=True, eq=False)
class RankLists:
    """Rank lists as a model: the score of a rule is minus its rank, and NaN where it is not listed."""

    homes: Homes
    ranked: Submission

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """Homes are matched by user, devices by their position in the home; other homes have no scores."""
        mine = pd.Index(self.homes.users).get_indexer(pd.Index(homes.users))[homes.device_home[trigger]]
        shift = self.homes.device_start[mine] - homes.device_start[homes.device_home[trigger]]
        wanted = np.where(mine >= 0, (trigger + shift) * self.homes.n_devices + action + shift, -1)
        rules = self.ranked.rules
        listed = rules.trigger * self.homes.n_devices + rules.action
        order = np.argsort(listed, kind="stable")
        begin, behind = (np.searchsorted(listed[order], wanted, side=side) for side in ("left", "right"))
        length = behind - begin
        row = np.repeat(np.arange(len(wanted)), length)
        entry = order[np.repeat(begin - (np.cumsum(length) - length), length) + np.arange(length.sum())]
        scores = np.full((len(wanted), len(homes.relations)), np.nan, dtype=np.float32)
        scores[row, rules.relation[entry]] = -self.ranked.rank[entry]
        return scores


def _ids(path: Path, column: pd.Series, like: Ids) -> pd.Index:
    """Ids of a file as the data has them: whole numbers or text."""
    if like.dtype.kind != "i":
        return pd.Index(column.astype(str))
    numbers = pd.to_numeric(column, errors="coerce")
    _refuse(path, ~(numbers % 1 == 0).to_numpy(), f"{column.name} is not a whole number, as the ids of the data are")
    return pd.Index(numbers.astype(np.int64))


def _refuse(path: Path, wrong: Mask, why: str) -> None:
    if wrong.any():
        row, more = int(np.flatnonzero(wrong)[0]) + 1, int(np.count_nonzero(wrong)) - 1
        raise DataError(f"{path} row {row}{f' (and {more:,} more)' if more else ''}: {why}")


def _is_csv(path: Path) -> bool:
    if not path.name.endswith((".csv", ".csv.gz", ".parquet")):
        raise DataError(f"{path}: rank lists are .csv, .csv.gz or .parquet files; rename it")
    return path.suffix != ".parquet"
