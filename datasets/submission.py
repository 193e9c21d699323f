"""Submissions to the Wyze Rule Recommendation challenge: user_id, rule and rank, the best 50 rules of each user."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Mask, Rules
from datasets.readers.bad_rows import BadRows
from datasets.readers.csv import TextTable, parse_numbers, read_table, whole_numbers, write_delimited
from datasets.readers.wyze import RULE_PARTS, refuse_text_ids, rule_columns, rule_ids, source_codes

LONGEST_LIST = 50
COLUMNS = {"user": "user_id", "rule": "rule", "rank": "rank"}


class Submission(NamedTuple):
    """Recommended rules and the rank of each in its home, from 1."""

    rules: Rules
    rank: Array
    skipped: tuple[str, ...] = ()  # one sentence per kind of bad line that was left out in reading


def write_submission(homes: Homes, submission: Submission, path: Path | str) -> None:
    """Write recommendations for homes that were read from the Wyze layout."""
    write_delimited(Path(path), submission_columns(homes, submission))


def submission_columns(homes: Homes, submission: Submission) -> dict[str, pa.Array]:
    """The columns of a submission by name, sorted by home and rank.

    A rank beyond 50, a rank or a rule that a home has twice, and a relation whose numbers in the source stand for
    another one as well are errors.
    """
    refuse_text_ids(homes)
    rules, rank = submission.rules, submission.rank
    if len(rank) and (rank.min() < 1 or rank.max() > LONGEST_LIST):
        raise DataError(f"a submission ranks from 1 to {LONGEST_LIST}; found {rank.min()} to {rank.max()}")
    _refuse_users(homes, rules, _repeats(rules.home, rank), "has a rank twice")
    key = rules.keys(homes.n_devices, len(homes.relations))
    _refuse_users(homes, rules, _repeats(rules.home, key), "has a rule under two ranks")
    shared = ambiguous_relations(homes)[rules.relation]
    if shared.any():
        relation = homes.relations[rules.relation[shared][0]]
        raise DataError(f"{homes.name}: the numbers of {relation} are used for another relation as well; leave it out")
    order = np.lexsort((rank, rules.home))
    sorted_rules = rules.take(order)
    columns = rule_columns(homes, sorted_rules.trigger, sorted_rules.relation, sorted_rules.action)
    values = [homes.users[sorted_rules.home], rule_ids(columns), rank[order]]
    return {name: pa.array(value) for name, value in zip(COLUMNS.values(), values, strict=True)}


def read_submission(homes: Homes, path: Path | str, *, on_error: str = "raise") -> Submission:
    """Read one back; every line must name a user of `homes`, its own devices, and a rule and rank that it has once."""
    bad_rows = BadRows(on_error)
    table = read_table(path, COLUMNS, bad_rows=bad_rows)
    user, ok = whole_numbers(table, "user", bad_rows)
    rank, ranked = whole_numbers(table, "rank", bad_rows, called="ranks")
    ok &= ranked
    refuse = partial(table.refuse, bad_rows=bad_rows)
    off = ranked & ((rank < 1) | (rank > LONGEST_LIST))
    ok &= refuse(off, f"rank is not in 1..{LONGEST_LIST}", f"give the best {LONGEST_LIST}", show="rank")
    parts, complete = rule_parts(table, bad_rows)
    home = pd.Index(homes.users).get_indexer(pd.Index(user))
    ok &= complete & refuse(ok & (home < 0), "the user is not in the data", "leave it out", show="user")
    trigger, action = (_device(homes, home, parts[name]) for name in ("trigger_device", "action_device"))
    relation, ambiguous = _Numbers(homes).relation(parts["trigger_state_id"], parts["action_id"])
    for bad, what, remedy in (
        ((trigger < 0) | (action < 0), "the rule names a device that its user does not have", "use its own device ids"),
        (relation < 0, "the rule's state and action never occur together in the data", "use known pairs"),
        (ambiguous, "the rule's state and action are numbers of two relations in the data", "leave it out"),
    ):
        ok &= refuse(ok & bad, what, remedy, show="rule")
    ok &= refuse(_repeats(home, rank, ok), "the user has this rank twice", "rank from 1 on", show="rank")
    key = Rules(home, trigger, action, relation).keys(homes.n_devices, len(homes.relations))
    ok &= refuse(_repeats(home, key, ok), "the user has this rule twice", "rank it once", show="rule")
    skipped = bad_rows.report()
    rules = Rules(home[ok], trigger[ok], action[ok], relation[ok])
    order = np.lexsort((rank[ok], rules.home))
    return Submission(rules.take(order), rank[ok][order], skipped)


def ambiguous_relations(homes: Homes) -> Mask:
    """[n_relations]: whether the numbers of a relation in the source stand for another one as well."""
    return _Numbers(homes).shared


class _Numbers:
    """The pair of numbers by which the source writes each relation."""

    def __init__(self, homes: Homes) -> None:
        codes = source_codes(homes)
        columns = {
            "trigger_state": np.array([codes["trigger_state"][r.trigger] for r in homes.relations], dtype=np.int64),
            "action": np.array([codes["action"][r.action] for r in homes.relations], dtype=np.int64),
        }
        self.index = pd.MultiIndex.from_arrays(list(columns.values()))
        self.shared: Mask = self.index.duplicated(keep=False)  # [n_relations]  the numbers are not unique

    def relation(self, state: Array, action: Array) -> tuple[Array, Mask]:
        """The relation that is written so, -1 where there is none, and whether there are several."""
        first = np.flatnonzero(~self.index.duplicated())
        place = self.index[first].get_indexer(pd.MultiIndex.from_arrays([state, action]))
        found: Array = np.append(first, -1)[place]
        return found, np.append(self.shared, False)[found]


def rule_parts(table: TextTable, bad_rows: BadRows) -> tuple[dict[str, Array], Mask]:
    """The four numbers of each rule; lines that do not have four come back as False."""
    column = pc.fill_null(table["rule"], "")
    four = pc.match_substring_regex(column, r"^[^_]*(_[^_]*){3}$")
    split = pc.split_pattern(pc.if_else(four, column, "0_0_0_0"), "_").flatten()
    numbers, fit = (values.reshape(-1, len(RULE_PARTS)) for values in parse_numbers(split))
    good = fit.all(axis=1) & four.to_numpy(zero_copy_only=False)
    what, remedy = "rule is not four whole numbers joined by _", "write device_state_action_device"
    table.refuse(~good, what, remedy, bad_rows=bad_rows, show="rule")
    return dict(zip(RULE_PARTS, numbers.T, strict=True)), good


def _device(homes: Homes, home: Array, ids: Array) -> Array:
    """The position of each home's device with this id, -1 where it has none."""
    owned = pd.MultiIndex.from_arrays([homes.device_home, homes.device_ids])
    return owned.get_indexer(pd.MultiIndex.from_arrays([home, ids])).astype(np.int64)


def _repeats(home: Array, value: Array, among: Mask | None = None) -> Mask:
    """Where a home has a value that it had before; only rows in `among` count."""
    rows = np.arange(len(home)) if among is None else np.flatnonzero(among)
    again: Mask = np.zeros(len(home), dtype=bool)
    again[rows] = pd.DataFrame({"home": home[rows], "value": value[rows]}).duplicated().to_numpy()
    return again


def _refuse_users(homes: Homes, rules: Rules, bad: Mask, what: str) -> None:
    if bad.any():
        user = homes.users[rules.home[bad][0]]
        raise DataError(f"{homes.name}: user {user} {what}; give each rule and each rank once")
