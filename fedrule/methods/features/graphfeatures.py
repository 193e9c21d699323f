"""Gradient boosting on plain graph features of a candidate: the strong, simple baseline for a graph neural network.

Trees (fedrule/methods/features/ranker.py) on what the home and all other homes already do that is similar to the
candidate (features: fedrule/evidence/features.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from baselines.method import check_range
from baselines.registry import register
from datasets.homes import Homes
from fedrule.evidence.evidence import Evidence
from fedrule.methods.features.ranker import Boosting, FeatureRanker, FoldedExamples


@register("graphfeatures")
@dataclass(frozen=True)
class GraphFeatures(FeatureRanker):
    """Gradient-boosted trees on counts of similar rules of this home, this device and all homes."""

    NAME: ClassVar[str] = "graphfeatures"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "hidden_rules": ("float", 0.1, 0.5),
        "candidates": ("int", 50, 500),
        "learning_rate": ("log", 0.01, 0.2),
        "max_iter": ("int", 50, 500),
        "max_leaf_nodes": ("int", 3, 16),
        "min_samples_leaf": ("int", 20, 400),
        "l2": ("log", 0.01, 100.0),
    }

    candidates: int = 300  # non-rules of each home with a target, among those that it could have
    max_iter: int = 120  # trees
    max_leaf_nodes: int = 6
    min_samples_leaf: int = 100
    l2: float = 1.0  # pull of a leaf's value towards zero

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "at least 0", "l2")
        check_range(self.NAME, self, "at least 1", "candidates", "max_iter")

    @property
    def examples(self) -> FoldedExamples:
        return FoldedExamples(self.hidden_rules, self.folds, self.draws, candidates=self.candidates)

    @property
    def learner(self) -> Boosting:
        return Boosting(self.learning_rate, self.max_iter, self.max_leaf_nodes, self.min_samples_leaf, self.l2)

    def count(self, homes: Homes) -> Evidence:
        return Evidence.of(homes)
