"""Gradient boosting on plain graph features of a candidate: the strong, simple baseline for a graph neural network.

Trees (fedrule/methods/features/ranker.py) on what the home and all other homes already do that is similar to the
candidate (features: fedrule/evidence/features.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from baselines.method import Fitted, OnRound, check_range, ignore
from baselines.registry import register
from datasets.homes import Homes
from fedrule.evidence.evidence import Evidence
from fedrule.evidence.features import NAMES
from fedrule.methods.features.ranker import Boosting, FeatureModel, FoldedExamples, fit_trees


@register("graphfeatures")
@dataclass(frozen=True)
class GraphFeatures:
    """Gradient-boosted trees on counts of similar rules of this home, this device and all homes."""

    hidden_rules: float = 0.3  # probability that an automation is hidden from the features and a target
    folds: int = 5  # parts of the homes; the counts that one part learns from are those of the others
    draws: int = 4  # times that other automations are hidden and other non-rules drawn; fewer for more than 5,000 homes
    candidates: int = 300  # non-rules of each home with a target, among those that it could have
    learning_rate: float = 0.05  # weight of each tree
    max_iter: int = 120  # trees
    max_leaf_nodes: int = 6  # of a tree
    min_samples_leaf: int = 100  # candidates in a leaf
    l2: float = 1.0  # pull of a leaf's value towards zero

    log_odds: ClassVar[bool] = False
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "hidden_rules": ("float", 0.1, 0.5),
        "candidates": ("int", 50, 500),
        "learning_rate": ("log", 0.01, 0.2),
        "max_iter": ("int", 50, 500),
        "max_leaf_nodes": ("int", 3, 16),
        "min_samples_leaf": ("int", 20, 400),
        "l2": ("log", 0.01, 100.0),
    }

    def __post_init__(self) -> None:
        check_range("graphfeatures", self, "in (0, 1)", "hidden_rules")
        check_range("graphfeatures", self, "above 0", "learning_rate")
        check_range("graphfeatures", self, "at least 0", "l2")
        check_range("graphfeatures", self, "at least 1", "draws", "candidates", "max_iter", "min_samples_leaf")
        check_range("graphfeatures", self, "at least 2", "folds", "max_leaf_nodes")

    @property
    def examples(self) -> FoldedExamples:
        return FoldedExamples(self.hidden_rules, self.folds, self.draws, candidates=self.candidates)

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """All randomness comes from `rng`; with one thread the same numbers come out bit for bit."""
        features, positive = self.examples.draw(train, rng, count=Evidence.of, n_features=len(NAMES))
        ranker = Boosting(self.learning_rate, self.max_iter, self.max_leaf_nodes, self.min_samples_leaf, self.l2)
        trees = fit_trees("graphfeatures", train, ranker, features, positive, rng)
        fitted = FeatureModel("graphfeatures", train, Evidence.of(train), trees)
        on_round(1, 1, fitted, {})
        return fitted
