"""Submissions to the Wyze Rule Recommendation challenge: user_id, rule and rank, the best 50 rules of each user."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from datasets.delimited import write_delimited
from datasets.errors import DataError
from datasets.homes import Array, Homes, Mask, Rules
from datasets.ids import whole_numbers
from datasets.problems import Problems
from datasets.text_table import TextTable, read_table
from datasets.wyze import RULE_PARTS
from datasets.wyze_files import rule_columns, source_codes, spelled

LONGEST = 50
COLUMNS = {"user": "user_id", "rule": "rule", "rank": "rank"}


class Submission(NamedTuple):
    """Recommended rules and the rank of each in its home, from 1."""

    rules: Rules
    rank: Array


def write_submission(homes: Homes, submission: Submission, path: Path | str) -> None:
    """Write recommendations for homes that were read from the Wyze layout; more than 50 for a home is an error."""
    rules, rank = submission
    if len(rank) and (rank.min() < 1 or rank.max() > LONGEST):
        raise DataError(f"a submission ranks from 1 to {LONGEST}; found {rank.min()} to {rank.max()}")
    order = np.lexsort((rank, rules.home))
    sorted_rules = rules.take(order)
    columns = rule_columns(homes, sorted_rules.trigger, sorted_rules.relation, sorted_rules.action)
    values = [homes.users[sorted_rules.home], spelled(columns), rank[order]]
    write_delimited(Path(path), {name: pa.array(value) for name, value in zip(COLUMNS.values(), values, strict=True)})


def read_submission(homes: Homes, path: Path | str, *, on_error: str = "raise") -> Submission:
    """Read one back; every line must name a user of `homes`, its own devices, and a rank that it has once."""
    problems = Problems(on_error)
    table = read_table(path, COLUMNS, problems=problems)
    user, ok = whole_numbers(table, "user", problems)
    rank, ranked = whole_numbers(table, "rank", problems)
    ok &= ranked
    ok &= table.refuse(
        ranked & ((rank < 1) | (rank > LONGEST)),
        f"rank is not in 1..{LONGEST}",
        f"give the best {LONGEST}",
        problems=problems,
        show="rank",
    )
    parts, whole = _parts(table, problems)
    home = pd.Index(homes.users).get_indexer(pd.Index(user))
    ok &= whole & table.refuse(
        ok & (home < 0), "the user is not in the data", "leave it out", problems=problems, show="user"
    )
    trigger, action = (_device(homes, home, parts[name]) for name in ("trigger_device", "action_device"))
    known = (trigger >= 0) & (action >= 0)
    what, remedy = "the rule names a device that its user does not have", "use the user's own device ids"
    ok &= table.refuse(ok & ~known, what, remedy, problems=problems, show="rule")
    relation = _relation(homes, parts)
    what, remedy = "the rule's state and action never occur together in the data", "use known pairs"
    ok &= table.refuse(ok & (relation < 0), what, remedy, problems=problems, show="rule")
    repeated = np.zeros(len(table), dtype=bool)
    repeated[ok] = pd.DataFrame({"home": home[ok], "rank": rank[ok]}).duplicated().to_numpy()
    ok &= table.refuse(repeated, "the user has this rank twice", "rank from 1 on", problems=problems, show="rank")
    problems.settle()
    rules = Rules(home[ok], trigger[ok], action[ok], relation[ok])
    order = np.lexsort((rank[ok], rules.home))
    return Submission(rules.take(order), rank[ok][order])


def _parts(table: TextTable, problems: Problems) -> tuple[dict[str, Array], Mask]:
    """The four numbers of each rule; lines that do not have four come back as -1 and False."""
    column = pc.fill_null(table["rule"], "")
    good = np.asarray(pc.match_substring_regex(column, r"^\d{1,18}(_\d{1,18}){3}$").to_numpy(zero_copy_only=False))
    what, remedy = "rule is not four whole numbers joined by _", "write device_state_action_device"
    table.refuse(~good, what, remedy, problems=problems, show="rule")
    split = pc.split_pattern(pc.if_else(pa.array(good), column, "0_0_0_0"), "_").flatten()
    numbers = np.where(good[:, None], split.cast(pa.int64()).to_numpy().reshape(-1, len(RULE_PARTS)), -1)
    return dict(zip(RULE_PARTS, numbers.T, strict=True)), good


def _device(homes: Homes, home: Array, ids: Array) -> Array:
    """The position of each home's device with this id, -1 where it has none."""
    owned = pd.MultiIndex.from_arrays([homes.device_home, homes.device_ids])
    return owned.get_indexer(pd.MultiIndex.from_arrays([home, ids])).astype(np.int64)


def _relation(homes: Homes, parts: dict[str, Array]) -> Array:
    """The relation that the source writes with these two numbers, -1 where there is none."""
    codes = source_codes(homes)
    pairs = [(codes["trigger_state"][r.trigger], codes["action"][r.action]) for r in homes.relations]
    wanted = pd.MultiIndex.from_arrays([parts["trigger_state_id"], parts["action_id"]])
    return pd.MultiIndex.from_tuples(pairs).get_indexer(wanted).astype(np.int64)
