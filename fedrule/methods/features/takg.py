"""TaKG: trees that rank a home's candidates by a knowledge graph of triggers and actions, repeats and conflicts.

Wu, Shen, Chen (2020), "Learning to recommend trigger-action rules for end-user development: a knowledge graph based
approach", ICSR. Entity types, triggers (a type and its state), actions (a type and what is done to it) and the rules
between them are a knowledge graph; a ranking model learns from features of that graph, and of what the user already
has: who has a rule wants it again elsewhere (repeat consumption), and what contradicts a rule is not wanted (conflict).

The features of a candidate <trigger device i, state s -> act a, action device j>:

- knowledge graph: how many homes, of those that own the types, have the rule, or one that agrees in some of types,
  state and act;
- co-occurrence: how many homes have the rule together with one of this home's (fedrule/evidence/rule_paths.py);
- similarity: with K [triggers, actions] the homes that have a rule from a trigger to an action, two triggers are as
  similar as the cosine of their rows, two actions as that of their columns. The largest similarity of the candidate's
  trigger to those that the home uses, that it uses for the same action, that act on j in the same way; of its action
  likewise;
- repeat: rules of the home that agree with the candidate in devices, types, state or act;
- conflict: rules of the home by which the same trigger in the same state, or any trigger, does the opposite to j;
- complement: rules by which the opposite state of i does the opposite to j, which often come in pairs, or the same.

Opposites are found by words (fedrule/evidence/label_words.py): on and off, open and close, lock and unlock.

Inspired by the paper's description, not a reimplementation: its code and data were not published, and features and
ranking model here are our own choice. The graph has what the rules of the training homes say and nothing else. The
ranking is pointwise, by gradient boosting, trained on hidden rules of homes of other folds
(fedrule/methods/features/ranker.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from baselines.method import check_range
from baselines.registry import register
from datasets.homes import Array, Homes, Rules, runs
from datasets.valid import ValidRules
from fedrule.evidence import counts
from fedrule.evidence.counts import Column, ColumnReader, Columns, HomeFrequencies, Pattern, PatternCounts, homes_with
from fedrule.evidence.features import Features
from fedrule.evidence.label_words import opposite_labels
from fedrule.evidence.rule_paths import COLLABORATIVE, RulePaths, path_names
from fedrule.methods.features.ranker import Boosting, FeatureRanker, FoldedExamples

Similarity: TypeAlias = npt.NDArray[np.float32]

TRIGGER_HALF, ACTION_HALF = "trigger half", "action half"  # columns: the trigger's type and state, the action's and act
CELLS = 1 << 21  # similarities in a table: 8 MB

# Columns in which a rule of the home agrees with the candidate; trigger and action are devices.
REPEAT: tuple[Pattern, ...] = (
    ("home",),
    ("home", "relation"),
    ("home", "state"),
    ("home", "act"),
    ("home", "trigger_type", "state"),
    ("home", "action_type", "act"),
    ("home", "trigger_type", "action_type"),
    ("home", "trigger_type", "action_type", "relation"),
    ("trigger",),
    ("trigger", "state"),
    ("trigger", "act"),
    ("trigger", "relation"),
    ("trigger", "action_type"),
    ("trigger", "action_type", "relation"),
    ("action",),
    ("action", "state"),
    ("action", "act"),
    ("action", "relation"),
    ("action", "trigger_type"),
    ("action", "trigger_type", "relation"),
    ("trigger", "action"),
    ("trigger", "action", "state"),
    ("trigger", "action", "act"),
)
# The same for rules whose act, state or both are the opposite of the candidate's.
OPPOSITE: dict[tuple[str, ...], tuple[Pattern, ...]] = {
    ("act",): (
        ("trigger", "action", "state", "act"),
        ("trigger", "state", "act"),
        ("action", "state", "act"),
        ("action", "act"),
    ),
    ("state",): (("trigger", "action", "state", "act"), ("trigger", "state"), ("action", "state", "act")),
    ("state", "act"): (
        ("trigger", "action", "state", "act"),
        ("home", "trigger_type", "action_type", "state", "act"),
    ),
}
# The largest similarity of a half of the candidate to that half of those rules of the home that agree in some columns.
SIMILAR: tuple[tuple[str, Pattern], ...] = (
    (TRIGGER_HALF, ("home",)),
    (TRIGGER_HALF, ("home", ACTION_HALF)),
    (TRIGGER_HALF, ("action", "act")),
    (TRIGGER_HALF, ("trigger",)),
    (ACTION_HALF, ("home",)),
    (ACTION_HALF, ("home", TRIGGER_HALF)),
    (ACTION_HALF, ("trigger", "state")),
    (ACTION_HALF, ("action",)),
)
NAMES = (
    *counts.NAMES,
    *(f"largest similarity of the {half}, same {', '.join(pattern)}" for half, pattern in SIMILAR),
    *(f"rules, same {', '.join(pattern)}" for pattern in REPEAT),
    *(
        f"rules, opposite {' and '.join(opposed)}, else same {', '.join(pattern)}"
        for opposed, patterns in OPPOSITE.items()
        for pattern in patterns
    ),
    "the state has an opposite",
    "the act has an opposite",
    "rules from the action to the trigger",
    "acts on itself",
    *path_names([COLLABORATIVE]),
)


@register("takg")
@dataclass(frozen=True)
class TaKG(FeatureRanker):
    """Trees on a knowledge graph of triggers and actions, repeats and conflicts (inspired by Wu et al. 2020)."""

    NAME: ClassVar[str] = "takg"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "hidden_rules": ("float", 0.1, 0.5),
        "non_rules": ("int", 1, 100),
        "learning_rate": ("log", 0.01, 0.2),
        "trees": ("int", 50, 500),
        "max_leaf_nodes": ("int", 3, 16),
        "min_samples_leaf": ("int", 5, 400),
        "l2": ("log", 0.01, 100.0),
    }

    non_rules: int = 20  # for each hidden rule, among those that the home could have
    trees: int = 120  # how many
    l2: float = 1.0  # pull of a leaf's value towards zero

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "at least 0", "l2")
        check_range(self.NAME, self, "at least 1", "non_rules", "trees")

    @property
    def examples(self) -> FoldedExamples:
        return FoldedExamples(self.hidden_rules, self.folds, self.draws, per_rule=self.non_rules)

    @property
    def learner(self) -> Boosting:
        return Boosting(self.learning_rate, self.trees, self.max_leaf_nodes, self.min_samples_leaf, self.l2)

    def count(self, homes: Homes) -> KnowledgeGraph:
        return KnowledgeGraph.of(homes)


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """The triggers, or the actions, of the valid rules, numbered from 0 on, and how similar they are."""

    key: Array  # [n_halves]  sorted; type * n_labels + state or act
    similarity: Similarity  # [n_halves, n_halves]

    def number(self, key: Array) -> Array:
        """Of each key, -1 for one that no valid rule has."""
        if not len(self.key):
            return np.full(len(key), -1)
        place = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        return np.where(self.key[place] == key, place, -1)


@dataclass(frozen=True, slots=True, eq=False)
class KnowledgeGraph:
    """What the counted homes say about entity types, triggers, actions and the rules between them."""

    valid: ValidRules
    reader: ColumnReader
    home_frequencies: npt.NDArray[np.float32]  # [n_valid, n_names of counts]
    trigger_half: Halves
    action_half: Halves
    opposite_state: tuple[Array, Array]  # ordered pairs
    opposite_act: tuple[Array, Array]
    together: RulePaths

    @classmethod
    def of(cls, homes: Homes) -> KnowledgeGraph:
        valid, reader = ValidRules.of(homes), ColumnReader.of(homes.types, homes.relations)
        frequencies = HomeFrequencies.of(homes).table(reader, valid.cell, less=0)[:, 0].T
        trigger_type, action_type, relation = valid.typed()
        typed = reader.typed(trigger_type, relation, action_type)
        trigger, action = (
            np.unique(half_key(typed, side), return_inverse=True) for side in (TRIGGER_HALF, ACTION_HALF)
        )
        own_trigger, own_relation, own_action = homes.typed()
        number = valid.number(own_trigger, own_action, own_relation)
        with_rule = homes_with(number, len(valid), homes.rules.home, homes.n_homes).astype(np.float64)
        known = csr_array((with_rule, (trigger[1], action[1])), shape=(len(trigger[0]), len(action[0])))
        return cls(
            valid,
            reader,
            np.ascontiguousarray(frequencies),
            Halves(trigger[0], cosine(known)),
            Halves(action[0], cosine(csr_array(known.T))),
            opposite_labels(tuple(reader.states)),
            opposite_labels(tuple(reader.acts)),
            RulePaths.of(homes, [COLLABORATIVE]),
        )

    def features(self, homes: Homes, candidates: Rules) -> Features:
        """[n_candidates, n_features], named as in NAMES; nothing depends on which other homes are given."""
        rules, query = self._columns(homes, homes.rules), self._columns(homes, candidates)
        trigger_type, relation, action_type = homes.typed(candidates)
        item = self.valid.number(trigger_type, action_type, relation)
        found = [*self.home_frequencies[item].T]
        found += [self._most_similar(half, pattern, rules, query) for half, pattern in SIMILAR]
        found += pattern_counts(rules, query, REPEAT)
        opposites = {"state": self.opposite_state, "act": self.opposite_act}
        for opposed, patterns in OPPOSITE.items():
            others = rules
            for name in opposed:
                others = with_opposite(others, name, opposites[name])
            found += pattern_counts(others, query, patterns)
        found += [np.isin(query["state"].values, self.opposite_state[0])]
        found += [np.isin(query["act"].values, self.opposite_act[0])]
        back = {"trigger": query["action"], "action": query["trigger"]}
        found += pattern_counts(rules, back, (("trigger", "action"),))
        found += [candidates.trigger == candidates.action]
        features = np.empty((len(candidates), len(NAMES)), dtype=np.float32)
        for at, column in enumerate(found):
            features[:, at] = column
        features[:, len(found) :] = self.together.features(homes, candidates, item)
        return features

    def _columns(self, homes: Homes, rules: Rules) -> Columns:
        """All columns that a pattern may name; a half that no valid rule has is the last number."""
        columns = dict(self.reader.columns(homes, rules))
        columns["trigger"] = Column(rules.trigger, homes.n_devices)
        columns["action"] = Column(rules.action, homes.n_devices)
        for half, numbers in ((TRIGGER_HALF, self.trigger_half), (ACTION_HALF, self.action_half)):
            number = numbers.number(half_key(columns, half))
            columns[half] = Column(np.where(number < 0, len(numbers.key), number), len(numbers.key) + 1)
        return columns

    def _most_similar(self, half: str, pattern: Pattern, rules: Columns, query: Columns) -> Similarity:
        halves = self.trigger_half if half == TRIGGER_HALF else self.action_half
        return most_similar(halves.similarity, half, pattern, rules, query)


def half_key(columns: Columns, half: str) -> Array:
    """One number per rule, equal where types and states of the triggers, or types and acts of the actions, are."""
    kind, label = ("trigger_type", "state") if half == TRIGGER_HALF else ("action_type", "act")
    return columns[kind].values * columns[label].size + columns[label].values


def cosine(rows: csr_array) -> Similarity:
    """[n_rows, n_rows]: of each pair of rows, none of which is empty."""
    length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64))
    unit = csr_array(diags_array(1 / length) @ rows)
    return np.asarray((unit @ unit.T).toarray(), dtype=np.float32)


def pattern_counts(rules: Columns, query: Columns, patterns: Sequence[Pattern]) -> list[Array]:
    """For each pattern [n_queries]: how many rules agree with each row of `query` in its columns."""
    found = PatternCounts.of(rules, patterns)
    number = found.find(query)
    return [found.count(pattern)[number[pattern]] for pattern in patterns]


def with_opposite(rules: Columns, name: str, opposites: tuple[Array, Array]) -> Columns:
    """The rules with their state, or act, replaced by each of its opposites; a rule without one is left out."""
    first, second = opposites
    column = rules[name]
    start = np.searchsorted(first, np.arange(column.size + 1))
    which = np.repeat(np.arange(len(column.values)), np.diff(start)[column.values])
    others = {other: Column(each.values[which], each.size) for other, each in rules.items()}
    return others | {name: Column(second[runs(start, column.values)], column.size)}


def most_similar(similarity: Similarity, half: str, pattern: Pattern, rules: Columns, query: Columns) -> Similarity:
    """[n_queries]: the largest similarity to the halves of the rules that agree in the pattern; 0 where none does.

    A half that is not in `similarity` has the number behind the last and is similar to nothing.
    """
    found = PatternCounts.of(rules, [(*pattern, half)])
    level = found.levels[(*pattern, half)]
    group, own = np.divmod(level.key, level.size)  # by group: which halves its rules have
    known = own < len(similarity)
    group, own = group[known], own[known]
    number, wanted = found.only([pattern]).find(query)[pattern], query[half].values
    largest = np.zeros(len(wanted), dtype=np.float32)
    if not len(own):
        return largest
    begin = np.flatnonzero(np.diff(group, prepend=-1))  # where the run of each group begins
    groups = group[begin]
    row = np.searchsorted(groups, number)
    has = (np.append(groups, -1)[row] == number) & (wanted < len(similarity))
    order = np.flatnonzero(has)[np.argsort(row[has], kind="stable")]
    # Some groups at a time, each a row of the largest similarities to all halves.
    at_once = max(CELLS // len(similarity), 1)
    first = 0
    while first < len(groups):
        last = max(int(np.searchsorted(begin, begin[first] + at_once, side="right")) - 1, first + 1)
        end = begin[last] if last < len(groups) else len(own)
        table = np.maximum.reduceat(similarity[own[begin[first] : end]], begin[first:last] - begin[first], axis=0)
        here = order[slice(*np.searchsorted(row[order], [first, last]))]
        largest[here] = table[row[here] - first, wanted[here]]
        first = last
    return largest
