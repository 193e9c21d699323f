"""The Wyze Rule Recommendation challenge on its own files: a submission made by a method, and its score.

The files hold three groups of homes: those of `train_*.csv` have all of their rules, those of `test_*.csv` (the public
leaderboard) and of `test_*_private.csv` (the private one, by the organisers' words on the challenge's page) lack one. A
method is fitted on the first and recommends to the others, of which it knows the rules that are left. A submission has
the best 50 rules of each test home, `user_id,rule,rank`, and may have both groups in one file.

The score is the mean over hidden rules of 1 / rank, 0 for a rule that is not among the 50. The hidden rules are not in
these files: who has them, or hid rules of other homes, scores with a file that has the columns `user_id` and `rule`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from baselines.method import Fitted, Scores
from baselines.scoring import CHUNK, Values, pairs_at_once
from benchmarks.evaluation.metrics import mean, reciprocal_rank
from benchmarks.evaluation.ranking import KEPT_CHUNKS, Block, Candidates
from benchmarks.runs.experiment import Experiment
from benchmarks.runs.run import fit
from datasets.candidates import has_self_rules
from datasets.common.errors import DataError, unknown
from datasets.homes import Array, Homes, Mask, Rules
from datasets.readers.bad_rows import BadRows
from datasets.readers.csv import read_table, refuse_missing, whole_numbers, write_delimited
from datasets.readers.wyze import FILES
from datasets.registry import load
from datasets.submission import COLUMNS, LONGEST_LIST, Submission, ambiguous_relations, rule_parts, submission_columns
from datasets.valid import ValidRules
from datasets.vocabulary import align

DATA = "wyze"
TRAIN, *TEST_PARTS = FILES
HIDDEN_COLUMNS = {"user": "user_id", "rule": "rule"}


class ChallengeHomes(NamedTuple):
    """The homes to fit on and those to recommend to, with the same types and relations."""

    train: Homes
    test: tuple[Homes, ...]  # by part


class Written(NamedTuple):
    """What a submission was made from and has."""

    train: int  # homes
    test: int  # homes
    listed: int  # of the test homes, those with at least one recommendation
    lines: int


class Score(NamedTuple):
    """How well a submission finds the hidden rules."""

    mrr: float  # MRR@50
    hits: dict[int, float]  # hit rate by N
    hidden: int  # rules
    users: int  # with hidden rules
    silent: int  # of these, how many have no line in the submission
    uncounted: int  # users of the submission without hidden rules


def read_homes(path: Path | str | None, *, parts: Sequence[str], options: Mapping[str, object]) -> ChallengeHomes:
    """All homes under one vocabulary, so that a model of the training homes can score the others.

    `options` are those of the data set and choose training homes and relations; test homes are read as they are. A user
    who is in two parts is an error: rules that are known in one may be hidden in the other.
    """
    for part in parts:
        if part not in TEST_PARTS:
            raise unknown("test part", part, TEST_PARTS)
    if not parts or len(set(parts)) < len(parts):
        raise DataError(f"name one or more of the test parts {', '.join(TEST_PARTS)}, each once")
    if options.get("part", TRAIN) != TRAIN:
        raise DataError(f"part={options['part']}: a method is fitted on the part {TRAIN}; leave it out")
    how = {name: value for name, value in options.items() if name in ("words", "on_error")}
    train = load(DATA, path=path, **options)
    test = {part: load(DATA, path=path, part=part, **how) for part in parts}
    for (one, some), (other, others) in combinations({TRAIN: train, **test}.items(), 2):
        shared = np.intersect1d(some.users, others.users)
        if len(shared):
            more = f" and {len(shared) - 1:,} more users" if len(shared) > 1 else ""
            raise DataError(f"user {shared[0]}{more}: in both {one} and {other}; every user belongs to one part")
    widest = train
    for homes in test.values():  # what training homes have comes first, whichever parts there are
        widest = align(homes, like=widest)
    train = align(train, like=widest)
    return ChallengeHomes(train, tuple(align(homes, like=train) for homes in test.values()))


def submit(
    experiment: Experiment, path: Path | str | None, out: Path, *, parts: Sequence[str], valid: bool = True
) -> Written:
    """Fit a method on the training homes and write its submission for the test homes of these parts, one file."""
    if out.suffix != ".csv":
        raise DataError(f"{out}: a submission is written as CSV; give a name that ends in .csv")
    if not out.parent.is_dir():
        raise DataError(f"{out}: the folder {out.parent} does not exist; make it first")
    homes = read_homes(path, parts=parts, options=experiment.source.options)
    fitted, _ = fit(experiment, homes.train)
    triples = ValidRules.of(homes.train)
    columns = []
    for test in homes.test:
        writable = ~ambiguous_relations(test)
        ranked = best_rules(fitted, test, homes.train, valid=triples if valid else None, relations=writable)
        columns.append(submission_columns(test, ranked))
    joined = {name: pa.concat_arrays([each[name] for each in columns]) for name in COLUMNS.values()}
    write_delimited(out, joined)
    users = joined[COLUMNS["user"]]
    return Written(homes.train.n_homes, sum(test.n_homes for test in homes.test), len(users.unique()), len(users))


def best_rules(
    fitted: Fitted,
    homes: Homes,
    train: Homes,
    *,
    valid: ValidRules | None,
    relations: Mask | None = None,
    longest: int = LONGEST_LIST,
    chunk: int = CHUNK,
) -> Submission:
    """The best candidates of each home, ranked from 1.

    Candidates are those of protocol `ranking`: every ordered pair of the home's devices with every relation, without
    the rules that it has; with `valid` only triples that training homes have, with `relations` only these. A device may
    act on itself only if one does so in a known rule. Candidates without a score are not listed, and ties are in the
    order of pairs and relations. A home with fewer candidates has a shorter list.
    """
    self_pairs = has_self_rules(train.rules, homes.rules)
    triples = ValidRules.of(train) if valid is None else valid
    candidates = Candidates.of(fitted, homes, valid=triples, self_pairs=self_pairs)
    pairs, limit = candidates.pairs, pairs_at_once(homes, chunk)
    found = [_Best.none()]
    for first, end in pairs.runs(limit):
        cuts = [*range(pairs.start[first], pairs.start[end], KEPT_CHUNKS * limit), int(pairs.start[end])]
        for begin, behind in pairwise(cuts):
            if begin == behind:  # homes without a pair
                continue
            block = candidates.block(first, end, begin, behind)
            scores, is_valid = block.rows(0, len(block.scores))
            listed = ~np.isnan(scores) & (np.True_ if valid is None else is_valid)
            listed &= np.True_ if relations is None else relations
            found.append(_Best.of(block, _best_of_rows(scores, listed, longest), first, begin).first(longest))
    best = _Best.joined(found).first(longest)  # once more: a large home is scored in pieces
    home, trigger, action = pairs.devices(best.pair)
    return Submission(Rules(home, trigger, action, best.relation), best.rank)


def _best_of_rows(scores: Scores, listed: Mask, n: int) -> Mask:
    """The listed cells with fewer than n listed ones above them in their row: no other is among a home's best n."""
    if n >= scores.shape[1]:
        return listed
    shown = np.where(listed, scores, -np.inf)
    least = np.partition(shown, -n, axis=1)[:, -n]
    return np.asarray(listed & (shown >= least[:, None]))


@dataclass(frozen=True, slots=True)
class _Best:
    """Candidates sorted by home, the best first."""

    home: Array
    pair: Array
    relation: Array
    score: Values

    @classmethod
    def none(cls) -> _Best:
        nothing = np.zeros(0, dtype=np.int64)
        return cls(nothing, nothing, nothing, np.zeros(0))

    @classmethod
    def of(cls, block: Block, listed: Mask, first: int, begin: int) -> _Best:
        """The listed candidates of a block whose first home is `first` and whose first pair is `begin`."""
        row, relation = np.nonzero(listed)
        home = first + np.repeat(np.arange(len(block.pairs)), block.pairs)[row]
        return cls._sorted(home, begin + row, relation, block.scores[row, relation].astype(np.float64))

    @classmethod
    def joined(cls, parts: Sequence[_Best]) -> _Best:
        columns = ("home", "pair", "relation", "score")
        return cls._sorted(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))

    @classmethod
    def _sorted(cls, home: Array, pair: Array, relation: Array, score: Values) -> _Best:
        order = np.lexsort((relation, pair, -score, home))
        return cls(home[order], pair[order], relation[order], score[order])

    @property
    def rank(self) -> Array:
        """Of each in its home, from 1."""
        return np.arange(len(self.home)) - np.searchsorted(self.home, self.home) + 1

    def first(self, n: int) -> _Best:
        """The best n of each home."""
        kept = self.rank <= n
        return _Best(self.home[kept], self.pair[kept], self.relation[kept], self.score[kept])


def score_submission(path: Path | str, hidden: Path | str) -> Score:
    """Score a submission by the hidden rules in a file with the columns user_id and rule; others are not read.

    Rules are compared as they are written. A user without hidden rules does not count, so that a submission for both
    leaderboards may be scored by the hidden rules of one.
    """
    lists, answers = _read(path, COLUMNS), _read(hidden, HIDDEN_COLUMNS)
    if answers.empty:
        raise DataError(f"{hidden}: it has no hidden rule to score by")
    if (answers.duplicated()).any():
        twice = answers[answers.duplicated()].iloc[0]
        raise DataError(f"{hidden}: user {twice['user']} has the rule {twice['rule']} twice; keep one of the lines")
    found = answers.merge(lists, on=["user", "rule"], how="left")
    rank = found["rank"].fillna(0).to_numpy().astype(np.int64)
    above, tied = np.maximum(rank - 1, 0), (rank > 0).astype(np.int64)
    users = answers["user"].unique()
    return Score(
        mean(reciprocal_rank(above, tied, LONGEST_LIST)),
        {n: float(np.mean((rank > 0) & (rank <= n))) for n in (1, 10, LONGEST_LIST)},
        len(answers),
        len(users),
        int(np.count_nonzero(~np.isin(users, lists["user"]))),
        int(np.count_nonzero(~np.isin(lists["user"].unique(), users))),
    )


def _read(path: Path | str, columns: dict[str, str]) -> pd.DataFrame:
    """The columns of a CSV file by role; a missing one, and ranks that are wrong or given twice, are errors."""
    bad_rows = BadRows("raise")
    table = read_table(path, columns, bad_rows=bad_rows)
    user, _ = whole_numbers(table, "user", bad_rows)
    refuse_missing(table, "rule", bad_rows)
    rule_parts(table, bad_rows)
    found = pd.DataFrame({"user": user, "rule": table["rule"].to_pandas()})
    if "rank" in columns:
        rank, ok = whole_numbers(table, "rank", bad_rows, called="ranks")
        found["rank"] = rank
        off = ok & ((rank < 1) | (rank > LONGEST_LIST))
        table.refuse(
            off, f"rank is not in 1..{LONGEST_LIST}", f"give the best {LONGEST_LIST}", bad_rows=bad_rows, show="rank"
        )
        for role, what in (("rank", "the user has this rank twice"), ("rule", "the user has this rule twice")):
            twice = found.duplicated(["user", role]).to_numpy()
            table.refuse(twice, what, "keep one of the lines", bad_rows=bad_rows, show=role)
    bad_rows.report()
    return found
