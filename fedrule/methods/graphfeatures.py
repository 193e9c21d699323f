"""Gradient boosting on plain graph features of a candidate: the strong, simple baseline for a graph neural network.

Part of each home's automations is hidden, and the trees learn to tell these from rules that the home could have but
does not, by what the rest of the home and all other homes do (features: fedrule/evidence/features.py). The trees are
those of scikit-learn: Pedregosa et al. (2011), "Scikit-learn: machine learning in Python", JMLR.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier

from baselines.method import Fitted, OnRound, Scores, check_range, ignore
from baselines.registry import register
from datasets.homes import Array, Homes, Mask, Rules
from fedrule.evidence.evidence import Evidence
from fedrule.evidence.features import NAMES, Features
from fedrule.network.score import check_vocabulary, homes_of_pairs
from fedrule.training.examples import ExampleSampler

log = logging.getLogger(__name__)

AT_ONCE = 1 << 17  # candidates whose features are computed at a time: 40 MB
ROWS = 1 << 12  # candidates that the trees score at a time: 2.5 MB of features in float64


@register("graphfeatures")
@dataclass(frozen=True)
class GraphFeatures:
    """Gradient-boosted trees on counts of similar rules of this home, this device and all homes."""

    hidden_rules: float = 0.3  # probability that an automation is hidden from the features and a target
    folds: int = 5  # parts of the homes; the counts that one part learns from are those of the others
    draws: int = 4  # times that other automations are hidden and other non-rules drawn
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

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """All randomness comes from `rng`; with one thread the same numbers come out bit for bit."""
        features, positive = self._examples(train, rng)
        trees = None
        if positive.all() or not positive.any():
            log.warning("graphfeatures: %s has too few rules to learn from; all scores are 0", train.name)
        else:
            trees = HistGradientBoostingClassifier(
                learning_rate=self.learning_rate,
                max_iter=self.max_iter,
                max_leaf_nodes=self.max_leaf_nodes,
                min_samples_leaf=self.min_samples_leaf,
                l2_regularization=self.l2,
                early_stopping=False,  # it would validate on candidates of the same homes
                random_state=int(rng.integers(2**31)),
            ).fit(features, positive)
        fitted = FeatureModel(train, Evidence.of(train), trees)
        on_round(1, 1, fitted, {})
        return fitted

    def _examples(self, train: Homes, rng: np.random.Generator) -> tuple[Features, Mask]:
        """The features of candidates of all homes, and which of these are rules.

        What is counted over homes is counted over those of the other folds. To leave out only the home itself would
        give the answer away: of the candidates of one typed rule, those that are rules would see one home less.
        """
        features, positive = [np.zeros((0, len(NAMES)), dtype=np.float32)], [np.zeros(0, dtype=np.bool_)]
        fold = rng.permutation(train.n_homes) % self.folds
        for number in range(min(self.folds, train.n_homes)):
            evidence, part = Evidence.of(train.subset(fold != number)), train.subset(fold == number)
            sampler = ExampleSampler.of(
                part, evidence.valid, hidden=self.hidden_rules, non_rules="feasible", candidates=self.candidates
            )
            for _ in range(self.draws):
                drawn = sampler.draw(rng)
                trigger_type, relation, action_type = part.typed(drawn.candidates)
                valid = evidence.valid.contains(trigger_type, action_type, relation)  # as when it recommends
                features.append(evidence.features(drawn.context, drawn.candidates.take(valid)))
                positive.append(drawn.positive[valid])
        return np.concatenate(features), np.concatenate(positive)


def log_odds(trees: HistGradientBoostingClassifier, features: Features) -> npt.NDArray[np.float64]:
    """Of each row; some at a time, since every tree passes over all rows, which then stay in the processor's cache."""
    parts = [trees.decision_function(features[at : at + ROWS]) for at in range(0, len(features), ROWS)]
    return np.concatenate([np.zeros(0), *parts])


class FeatureModel:
    """Scores of valid rules by trees on their features; without trees all are 0."""

    def __init__(self, train: Homes, evidence: Evidence, trees: HistGradientBoostingClassifier | None) -> None:
        self.types, self.relations = train.types, train.relations
        self.evidence, self.trees = evidence, trees

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """Log-odds among the candidates of training; NaN for a (type, relation, type) that training never saw."""
        check_vocabulary("graphfeatures", homes, self.types, self.relations)
        valid = self.evidence.valid
        trigger_type, action_type = homes.device_type[trigger], homes.device_type[action]
        n_valid = valid.how_many(trigger_type, action_type)
        scores = np.full((len(trigger), valid.n_relations), np.nan, dtype=np.float32)
        order = np.argsort(homes.device_home[trigger], kind="stable")
        order = order[n_valid[order] > 0]
        end = np.cumsum(n_valid[order])
        first = 0
        while first < len(order):
            last = int(np.searchsorted(end, end[first] - n_valid[order[first]] + AT_ONCE, side="right"))
            some = order[first : max(last, first + 1)]
            pair, triple = valid.of_pairs(trigger_type[some], action_type[some])
            relation = valid.relation[triple]
            shown, devices, others = homes_of_pairs(homes, trigger[some], action[some])
            devices, others = devices[pair], others[pair]
            candidates = Rules(shown.device_home[devices], devices, others, relation)
            scores[some[pair], relation] = 0.0
            if self.trees is not None:
                features = self.evidence.features(shown, candidates)
                scores[some[pair], relation] = log_odds(self.trees, features)
            first += len(some)
        return scores
