"""Plain graph features of a candidate: what its home and all homes already do that is similar.

Counts, as logarithms, of rules of the home that agree with the candidate in a pattern, of homes with a rule of the
pattern against homes that could have one, of devices, and of paths through the home's rules from its trigger to its
action; how well the candidate goes with the home's other rules (EASE); and whether it acts on itself. In training, all
counts over homes leave out the candidate's own home.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from baselines.ease import OWNERSHIP, Cooccurrence
from datasets.homes import Array, Homes, Rules
from datasets.valid import ValidRules
from fedrule.evidence import counts
from fedrule.evidence.counts import OF_HOME, REVERSED, ColumnReader, HomeFrequencies, Pattern, PatternCounts

PATH_NAMES = (
    "by one device",
    "acted on by one device",
    "act on one device",
    "by three rules",
    "by three rules, in the mean",
)
MEAN_SCALE = 5.0  # the means are small; scaled, log1p still spreads them

EASE_SCALE = 5.0  # brings the scores, mostly below 0.3, to the size of the other features
AT_ONCE = 1 << 13  # candidates at a time: few enough for a cache

NAMES = (
    *(f"rules of the home, same {', '.join(pattern)}" for pattern in OF_HOME),
    *(f"reversed, same {', '.join(pattern)}" for pattern in REVERSED),
    *counts.NAMES,
    "devices",
    "devices of the trigger's type",
    "devices of the action's type",
    "acts on itself",
    "goes with the home's rules",
    *(f"paths {words}" for words in PATH_NAMES),
)
N_PATHS = len(PATH_NAMES)

Counts = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]


def path_features(homes: Homes, candidates: Rules) -> npt.NDArray[np.float32]:
    """[n_candidates, 5]: logarithms of the numbers of paths through a home's rules that lead where a candidate leads.

    With A the matrix [n_devices, n_devices] of who acts on whom, for a candidate i -> j:

        A A        i acts on something that acts on j,
        A^T A      something acts on both,
        A A^T      both act on something,
        A A^T A    i acts on what others act on who also act on j: what a recommender does with users and items, with
                   the home's triggers as users and its actions as items; once counted, and once with every step a mean.
    """
    n = homes.n_devices
    acts = csr_array((np.ones(homes.n_rules), (homes.rules.trigger, homes.rules.action)), shape=(n, n))
    acts.sum_duplicates()
    acts.data[:] = 1.0
    back = acts.T.tocsr()
    both_act = acts @ back
    to_actions, to_triggers = _mean(acts), _mean(back)
    steps = (
        (acts @ acts, 1.0),
        (back @ acts, 1.0),
        (both_act, 1.0),
        (both_act @ acts, 1.0),
        (to_actions @ to_triggers @ acts, MEAN_SCALE),
    )
    table = np.empty((len(candidates), len(PATH_NAMES)), dtype=np.float32)
    for at, (paths, scale) in enumerate(steps):
        table[:, at] = np.log1p(scale * _cells(paths, candidates))
    return table


def _mean(matrix: csr_array) -> csr_array:
    """Every row divided by its sum; a row of zeros stays."""
    return csr_array(diags_array(1 / np.maximum(np.asarray(matrix.sum(axis=1)), 1)) @ matrix)


def _cells(matrix: csr_array, candidates: Rules) -> Counts:
    """The cell [trigger, action] of each candidate; scipy's own indexing takes longer than this search."""
    matrix.sort_indices()
    n = matrix.shape[0]
    number = np.append(np.repeat(np.arange(n), np.diff(matrix.indptr)) * n + matrix.indices, n * n)
    wanted = candidates.trigger * n + candidates.action
    place = np.searchsorted(number, wanted)
    return np.where(number[place] == wanted, np.append(matrix.data, 0.0)[place], 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What was counted over all training homes."""

    frequencies: HomeFrequencies
    together: Cooccurrence

    @classmethod
    def of(cls, train: Homes) -> Evidence:
        return cls(HomeFrequencies.of(train), Cooccurrence.of(train))

    @property
    def valid(self) -> ValidRules:
        """The typed rules that the training homes have."""
        return self.together.items.valid

    def features(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Features:
        """[n_candidates, n_features] of candidates sorted by home, given the rules that the homes have.

        `leave_out` is given for homes of the training data: the same homes with all their training rules, whose
        contribution to the counts is left out.
        """
        item, typed, cell = _typed_rules(self.valid, homes, candidates)
        score = self.together.scores(homes, candidates.home, item, leave_out=leave_out)
        able = np.append(self.together.able**OWNERSHIP, 1.0)
        tables = _Tables.of(self.frequencies, homes, cell, leave_out)
        table = np.empty((len(candidates), len(NAMES)), dtype=np.float32)
        table[:, -1 - N_PATHS] = EASE_SCALE * score / able[item]
        table[:, -N_PATHS:] = path_features(homes, candidates)
        for first in range(0, len(candidates), AT_ONCE):
            some = slice(first, first + AT_ONCE)
            columns = (candidates.home, candidates.trigger, candidates.action, candidates.relation)
            tables.fill(table[some, : -1 - N_PATHS], Rules(*(column[some] for column in columns)), typed[some])
        return table


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """What features are looked up in, computed once for all candidates of some homes."""

    reader: ColumnReader
    rules: PatternCounts  # of the homes, by OF_HOME
    log_count: Mapping[Pattern, Features]  # by the number of the combination
    own: PatternCounts | None  # of what each home has added to the frequencies
    frequencies: Features  # [n_names, 2, n_typed_rules]
    log_devices: Features  # [n_homes]
    log_same_type: Features  # [n_devices]  how many of its type its home has

    @classmethod
    def of(cls, counted: HomeFrequencies, homes: Homes, cell: Array, leave_out: Homes | None) -> _Tables:
        reader = ColumnReader.of(homes)
        rules = PatternCounts.of(reader.columns(homes.rules), OF_HOME)
        log_count = {pattern: np.log1p(rules.count(pattern)).astype(np.float32) for pattern in OF_HOME}
        own = None
        if leave_out is not None:
            own = PatternCounts.of(reader.columns(leave_out.rules), (("home", *pattern) for pattern in counts.PATTERNS))
        log_devices = np.log(np.maximum(np.diff(homes.device_start), 1)).astype(np.float32)
        typed_home = homes.device_home * len(homes.types) + homes.device_type
        _, place, of_type = np.unique(typed_home, return_inverse=True, return_counts=True)
        log_same_type = np.log(of_type).astype(np.float32)[place]
        frequencies = counted.table(reader, cell, less=0 if own is None else 1)
        return cls(reader, rules, log_count, own, frequencies, log_devices, log_same_type)

    def fill(self, table: Features, candidates: Rules, typed: Array) -> None:
        """The features of some candidates, all but EASE's and the paths."""
        rows = self.reader.columns(candidates)
        forth, back = self.rules.find(rows), self.rules.only(REVERSED).find(self.reader.reversed(candidates))
        column = iter(table.T)
        for pattern in OF_HOME:
            next(column)[:] = self.log_count[pattern][forth[pattern]]
        for pattern in REVERSED:
            next(column)[:] = self.log_count[pattern][back[pattern]]
        has = {} if self.own is None else self.own.find(rows)
        for pattern, frequency in zip(counts.OF_NAMES, self.frequencies, strict=True):
            which = has[("home", *pattern)] > 0 if has else 0
            next(column)[:] = frequency.reshape(-1)[typed + which * frequency.shape[1]]
        next(column)[:] = self.log_devices[candidates.home]
        next(column)[:] = self.log_same_type[candidates.trigger]
        next(column)[:] = self.log_same_type[candidates.action]
        next(column)[:] = candidates.trigger == candidates.action


def _typed_rules(valid: ValidRules, homes: Homes, candidates: Rules) -> tuple[Array, Array, Array]:
    """The item of each candidate, -1 without one; its number among all typed rules of candidates; and their cells."""
    trigger_type, relation, action_type = homes.typed(candidates)
    item = valid.number(trigger_type, action_type, relation)
    unseen = np.flatnonzero(item < 0)
    if not len(unseen):
        return item, item, valid.cell
    cell = (trigger_type[unseen] * valid.n_types + action_type[unseen]) * valid.n_relations + relation[unseen]
    more, number = np.unique(cell, return_inverse=True)
    typed = item.copy()
    typed[unseen] = len(valid) + number
    return item, typed, np.concatenate([valid.cell, more])
