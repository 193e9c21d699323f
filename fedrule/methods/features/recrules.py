"""RecRules: trees that rank a home's candidates by the paths that lead to them in a graph of homes, rules and classes.

Corno, De Russis, Monge Roffarello (2019), "RecRules: recommending IF-THEN rules for end-user development", ACM
Transactions on Intelligent Systems and Technology 10(5). A user u and a rule r are joined by paths: through other users
who have a rule of u and r (collaborative), and through what rules have in common (content): technology and purpose
of trigger and action, which the paper takes from an ontology. Paths of one kind j are counted, and the counts #path(j)
are the features by which rules are ranked.

The kinds of paths, and how they are counted, are in fedrule/evidence/rule_paths.py. Beside each count stands the
probability that a random walk along the path from the home ends in the rule.

Inspired by the paper, not a reimplementation. These data have no ontology: classes are entity types, states, acts,
their combinations, and the words that their names share. Which paths there are is our own choice, and so are those
through what a home owns, the random walks, and the number of homes with a rule (a feature for homes without rules). In
place of a learning-to-rank library the ranking is pointwise, by scikit-learn's gradient boosting or random forest, with
68 non-rules for each rule (theirs has 5), as chosen by tuning. So that a rule's own edges are not in its features, part
of each home's rules is hidden and paths lead through homes of other folds only (fedrule/methods/features/ranker.py).
Devices of one type share scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from baselines.items import homes_with_both
from baselines.method import check_range
from baselines.registry import register
from datasets.common.errors import DataError
from datasets.homes import Homes, Rules
from datasets.valid import ValidRules
from fedrule.evidence.features import Features
from fedrule.evidence.rule_paths import PATHS, Path, RulePaths
from fedrule.methods.features.ranker import Boosting, FeatureRanker, FoldedExamples, Forest

LENGTHS = (3, 5)  # of paths, in edges
OTHERS = ("homes with the rule", "share of homes with both types", "rules of the home")  # features besides paths


@register("recrules")
@dataclass(frozen=True)
class RecRules(FeatureRanker):
    """Trees on counts of paths through rules, homes and classes of rules (inspired by Corno et al. 2019)."""

    NAME: ClassVar[str] = "recrules"
    TYPED: ClassVar[bool] = True
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "length": ("choice", *LENGTHS),
        "ranker": ("choice", "boosting", "forest"),
        "hidden_rules": ("float", 0.1, 0.5),
        "non_rules": ("int", 1, 100),
        "trees": ("int", 50, 500),
        "min_samples_leaf": ("int", 5, 400),
        "learning_rate": ("log", 0.01, 0.2),
        "max_leaf_nodes": ("int", 3, 16),
    }

    length: int = 5  # of the longest paths, in edges: 3 or 5
    ranker: Literal["boosting", "forest"] = "boosting"  # which trees
    hidden_rules: float = 0.37
    non_rules: int = 68  # for each hidden rule, among those that the home could have
    trees: int = 144  # of either ranker
    min_samples_leaf: int = 56
    learning_rate: float = 0.026

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "at least 1", "non_rules", "trees")
        if self.length not in LENGTHS:
            raise DataError(f"recrules: length must be 3 or 5, got {self.length}")

    @property
    def examples(self) -> FoldedExamples:
        return FoldedExamples(self.hidden_rules, self.folds, self.draws, per_rule=self.non_rules)

    def count(self, homes: Homes) -> RuleGraph:
        return RuleGraph.of(homes, paths_up_to(self.length))

    @property
    def learner(self) -> Boosting | Forest:
        if self.ranker == "forest":
            return Forest(self.trees, self.min_samples_leaf)
        return Boosting(self.learning_rate, self.trees, self.max_leaf_nodes, self.min_samples_leaf, l2=1.0)


def paths_up_to(length: int) -> tuple[Path, ...]:
    """Those with at most so many edges."""
    return tuple(path for path in PATHS if len(path) - 1 <= length)


@dataclass(frozen=True, slots=True, eq=False)
class RuleGraph:
    """The graph of the counted homes."""

    paths: RulePaths
    popularity: npt.NDArray[np.float64]  # [n_rules]  homes with the rule
    able: npt.NDArray[np.float64]  # [n_rules]  share of homes with both of its types

    @classmethod
    def of(cls, homes: Homes, paths: Sequence[Path]) -> RuleGraph:
        graph = RulePaths.of(homes, paths)
        valid = graph.items.valid
        with_rule = np.asarray(graph.items.matrix(homes).sum(axis=0), dtype=np.float64)
        able = homes_with_both(homes)[valid.cell // max(valid.n_relations, 1)] / max(homes.n_homes, 1)
        return cls(graph, with_rule, able)

    @property
    def valid(self) -> ValidRules:
        return self.paths.items.valid

    def features(self, homes: Homes, candidates: Rules) -> Features:
        """[n_candidates, 2 n_paths + 3]: the paths, then OTHERS."""
        trigger_type, relation, action_type = homes.typed(candidates)
        item = self.valid.number(trigger_type, action_type, relation)
        n_rules = np.diff(homes.rule_start)[candidates.home]
        others = np.stack([self.popularity[item], self.able[item], n_rules], axis=1).astype(np.float32)
        return np.concatenate([self.paths.features(homes, candidates, item), others], axis=1)
