"""Paths between homes and typed rules, in a graph of homes, their rules and types, and classes of rules.

With X [homes, rules] saying which home has which typed rule, C [rules, classes] which rule is in which class and
O [homes, types] which home owns which entity type, the numbers of paths from all homes to all rules are cells of

    X X^T X          home - rule - home - rule     homes that share a rule with this one have it,
    O O^T X          home - type - home - rule     homes that share an entity type with this one have it,
    X C C^T          home - rule - class - rule    the home has a rule of the same class,
    X C C^T X^T X    ... - rule - home - rule      homes with a rule of the same class have it.

The probability that a random walk along a path from the home ends in the rule is the same product with every matrix
divided by the sums of its rows. Only the first step is of the home in question, so that the product of all others is
computed once, and homes that were not counted have paths too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from baselines.items import Items
from datasets.homes import Array, Homes, Rules
from datasets.private_counts import owned_types
from datasets.valid import ValidRules
from fedrule.evidence.counts import ColumnReader
from fedrule.evidence.features import Features
from fedrule.evidence.label_words import shared_words

Path: TypeAlias = tuple[str, ...]  # kinds of nodes, from the home to the rule
Edges: TypeAlias = Mapping[tuple[str, str], csr_array]  # by the kinds of nodes that they join

SINGLE = {  # classes by the columns in which their rules agree
    "trigger type": ("trigger_type",),
    "action type": ("action_type",),
    "types": ("trigger_type", "action_type"),
    "state": ("state",),
    "act": ("act",),
    "relation": ("relation",),
    "trigger": ("trigger_type", "state"),
    "action": ("action_type", "act"),
}
WORDS = {
    "trigger type word": "trigger_type",
    "action type word": "action_type",
    "state word": "state",
    "act word": "act",
}
CLASSES = (*SINGLE, *WORDS)
COLLABORATIVE: Path = ("home", "rule", "home", "rule")
PATHS: tuple[Path, ...] = (
    COLLABORATIVE,
    ("home", "type", "home", "rule"),
    *(("home", "rule", kind, "rule") for kind in CLASSES),
    *(("home", "rule", kind, "rule", "home", "rule") for kind in CLASSES),
)
CELLS = 1 << 20  # homes x rules whose paths are counted at a time: 4 MB
DENSE = 1 << 23  # up to so many cells the paths to the rules are in a table of 32 MB; beyond, they are sparse


def path_names(paths: Sequence[Path]) -> tuple[str, ...]:
    """The names of the features of `RulePaths`."""
    said = tuple(" - ".join(path) for path in paths)
    return (*said, *(f"random walk {name}" for name in said))


@dataclass(frozen=True, slots=True, eq=False)
class RulePaths:
    """Paths through the counted homes, to the rules that these have."""

    items: Items
    counted: tuple[PathTable, ...]
    walked: tuple[PathTable, ...]  # the same paths as random walks

    @classmethod
    def of(cls, homes: Homes, paths: Sequence[Path]) -> RulePaths:
        items = Items.of(homes)
        edges = graph_edges(homes, items)
        walks = {step: rows_to_one(edge) for step, edge in edges.items()}
        counted, walked = (tuple(PathTable.of(path, some) for path in paths) for some in (edges, walks))
        return cls(items, counted, walked)

    def features(self, homes: Homes, candidates: Rules, item: Array) -> Features:
        """[n_candidates, 2 n_paths] of candidates sorted by home, whose typed rules are `item`: numbers, then walks.

        Nothing depends on which other homes are given.
        """
        rules, types = self.items.matrix(homes).astype(np.float32), owned_types(homes).astype(np.float32)
        n_paths = len(self.counted)
        features = np.empty((len(candidates), 2 * n_paths), dtype=np.float32)
        which = np.unique(candidates.home)
        step = max(CELLS // max(len(self.items), 1), 1)
        for first in range(0, len(which), step):
            some = which[first : first + step]
            here = slice(*np.searchsorted(candidates.home, [some[0], some[-1] + 1]))
            cell = np.searchsorted(some, candidates.home[here]), item[here]
            own, owned = rules[some], types[some]
            for at, path in enumerate(self.counted):
                features[here, at] = path.cells(own, owned)[cell]
            own, owned = rows_to_one(own), rows_to_one(owned)
            for at, path in enumerate(self.walked):
                features[here, n_paths + at] = path.cells(own, owned)[cell]
        return features


@dataclass(frozen=True, slots=True, eq=False)
class PathTable:
    """A path from a home's rules or types on: to the classes of its rules, if it has any, then to all rules."""

    from_types: bool  # whether the home's first step is to a type that it owns
    classes: csr_array | None  # [n_rules, n_classes]
    to_rules: csr_array | npt.NDArray[np.float32]  # [n_rules or n_types or n_classes, n_rules]

    @classmethod
    def of(cls, path: Path, edges: Edges) -> PathTable:
        """The product of all steps but the first, and but for one to classes, of which the rules of a home have few."""
        first, *steps = [edges[step] for step in pairwise(path[1:])]
        classes = first if path[2] in CLASSES else None
        to_rules = first if classes is None else steps.pop(0)
        for step in steps:
            to_rules = to_rules @ step
        small = to_rules.shape[0] * to_rules.shape[1] <= DENSE
        return cls(path[1] == "type", classes, to_rules.toarray() if small else csr_array(to_rules))

    def cells(self, rules: csr_array, types: csr_array) -> npt.NDArray[np.float32]:
        """[n_homes, n_rules] for homes with these first steps."""
        begin = types if self.from_types else rules
        found = (begin if self.classes is None else begin @ self.classes) @ self.to_rules
        return np.asarray(found if isinstance(found, np.ndarray) else found.toarray())


def graph_edges(homes: Homes, items: Items) -> dict[tuple[str, str], csr_array]:
    """The edges of the graph in both directions, as matrices of zeros and ones."""
    owns = owned_types(homes).astype(np.float32)
    edges = {("home", "rule"): items.matrix(homes).astype(np.float32), ("home", "type"): owns}
    edges |= {("rule", kind): edge for kind, edge in class_edges(homes, items.valid).items()}
    return edges | {(end, begin): csr_array(edge.T) for (begin, end), edge in edges.items()}


def class_edges(homes: Homes, valid: ValidRules) -> dict[str, csr_array]:
    """For each kind of class [n_rules, n_classes]: 1 where the rule is in the class."""
    trigger_type, action_type, relation = valid.typed()
    reader = ColumnReader.of(homes.types, homes.relations)
    columns = reader.typed(trigger_type, relation, action_type)
    found = {}
    for kind, agreed in SINGLE.items():
        key = np.zeros(len(valid), dtype=np.int64)
        for name in agreed:
            key = key * columns[name].size + columns[name].values
        classes, number = np.unique(key, return_inverse=True)
        found[kind] = csr_array(
            (np.ones(len(key), dtype=np.float32), (np.arange(len(key)), number)), shape=(len(key), len(classes))
        )
    labels = {"trigger_type": homes.types, "action_type": homes.types, "state": reader.states, "act": reader.acts}
    for kind, name in WORDS.items():
        label, word = shared_words(labels[name])
        has = csr_array(
            (np.ones(len(word), dtype=np.float32), (label, word)),
            shape=(len(labels[name]), int(word.max(initial=-1)) + 1),
        )
        found[kind] = has[columns[name].values]
    return found


def rows_to_one(edges: csr_array) -> csr_array:
    """Each row divided by its sum: the probabilities of one step of a random walk; an empty row stays empty."""
    total = np.maximum(np.asarray(edges.sum(axis=1)), 1)
    return csr_array(diags_array((1 / total).astype(np.float32)) @ edges)
