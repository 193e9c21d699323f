"""Trees that rank candidates by their features: training examples, trees, and scores a block at a time.

What `graphfeatures`, `recrules` and `takg` share; they differ in what is counted over homes and in the features. Part
of each home's automations is hidden, and the trees learn to tell these from rules that the home could have but does
not, by what the rest of the home and all other homes do. The ranking is pointwise: the score of a candidate is its
log-odds of being a rule. The trees are those of scikit-learn: Pedregosa et al. (2011), "Scikit-learn: machine learning
in Python", JMLR.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from baselines.method import OnRound, Scores, check_range, ignore
from datasets.homes import Array, Homes, Mask, Rules
from datasets.valid import ValidRules
from fedrule.arrays import distinct_rows
from fedrule.evidence.features import Features
from fedrule.network.score import check_vocabulary, homes_of_pairs
from fedrule.training.examples import ExampleSampler

log = logging.getLogger(__name__)

AT_ONCE = 1 << 17  # candidates whose features are computed at a time: 40 MB
MOST_HOMES = 20_000  # that examples are drawn of, counting a home once a draw: small trees learn no more from more
ROWS = 1 << 12  # candidates that the trees score at a time: 2.5 MB of features in float64


class Counts(Protocol):
    """What was counted over some homes, and the features that it gives to candidates of any homes."""

    @property
    def valid(self) -> ValidRules:
        """The typed rules that the counted homes have."""

    def features(self, homes: Homes, candidates: Rules) -> Features:
        """[n_candidates, n_features] of valid candidates sorted by home, given the rules that the homes have."""


class Trees(Protocol):
    """Fitted trees."""

    def decision_function(self, features: Features) -> npt.NDArray[np.float64]:
        """[n_rows]: log-odds."""


@dataclass(frozen=True, slots=True)
class FoldedExamples:
    """Draws training examples whose counts are of other homes.

    What is counted over homes is counted over those of the other folds. To leave out only the home itself would give
    the answer away: of the candidates of one typed rule, those that are rules would see one home less.
    """

    hidden: float  # probability that an automation is hidden from the features and a target
    folds: int  # parts of the homes
    draws: int  # times that other automations are hidden and other non-rules drawn; see `draws_of`
    per_rule: int = 1  # non-rules for each target, among those that the home could have
    candidates: int = 0  # non-rules of each home with a target instead; 0: by target

    def draws_of(self, n_homes: int) -> int:
        """Draws of each home that is drawn of, fewer of many homes."""
        return max(1, min(self.draws, MOST_HOMES // max(n_homes, 1)))

    def n_drawn(self, n_homes: int) -> int:
        """How many examples, of a home in a draw, are drawn of so many homes."""
        return self.draws_of(n_homes) * min(n_homes, MOST_HOMES)

    def draw(
        self, train: Homes, rng: np.random.Generator, *, count: Callable[[Homes], Counts]
    ) -> tuple[Features, Mask]:
        """The features of candidates of all homes, and which of these are rules; `count` is called for each fold."""
        features, positive = list[Features](), [np.zeros(0, dtype=np.bool_)]
        order = rng.permutation(train.n_homes)
        fold = order % self.folds
        for number in range(min(self.folds, train.n_homes)):
            counts = count(train.subset(fold != number))
            part = train.subset((fold == number) & (order < MOST_HOMES))
            sampler = ExampleSampler.of(
                part,
                counts.valid,
                hidden=self.hidden,
                non_rules="feasible",
                per_rule=self.per_rule,
                candidates=self.candidates,
            )
            for _ in range(self.draws_of(train.n_homes)):
                drawn = sampler.draw(rng)
                trigger_type, relation, action_type = part.typed(drawn.candidates)
                valid = counts.valid.contains(trigger_type, action_type, relation)  # as when it recommends
                features.append(counts.features(drawn.context, drawn.candidates.take(valid)))
                positive.append(drawn.positive[valid])
        none = np.zeros((0, 0), dtype=np.float32)  # without homes
        return np.concatenate(features or [none]), np.concatenate(positive)


@dataclass(frozen=True, slots=True)
class Boosting:
    """Gradient-boosted trees, each on the errors of those before it."""

    learning_rate: float
    max_iter: int
    max_leaf_nodes: int
    min_samples_leaf: int
    l2: float

    def fit(self, features: Features, positive: Mask, rng: np.random.Generator) -> Trees:
        """With one thread the same seed gives the same trees bit for bit."""
        trees: Trees = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.max_iter,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2,
            early_stopping=False,  # it would validate on candidates of the same homes
            random_state=int(rng.integers(2**31)),
        ).fit(features, positive)
        return trees


@dataclass(frozen=True, slots=True)
class Forest:
    """A random forest: trees on samples of the candidates, whose probabilities are averaged."""

    trees: int
    min_samples_leaf: int

    def fit(self, features: Features, positive: Mask, rng: np.random.Generator) -> Trees:
        forest = RandomForestClassifier(
            self.trees, min_samples_leaf=self.min_samples_leaf, random_state=int(rng.integers(2**31))
        )
        return ForestOdds(forest.fit(features, positive), self.min_samples_leaf)


@dataclass(frozen=True, slots=True)
class ForestOdds:
    """The log-odds of a forest's mean probability p, which may be 0 or 1: log (n p + 1) - log (n (1 - p) + 1)."""

    forest: RandomForestClassifier
    n: int  # candidates that a leaf has at least

    def decision_function(self, features: Features) -> npt.NDArray[np.float64]:
        p = self.forest.predict_proba(features)[:, 1]
        return np.asarray(np.log1p(self.n * p) - np.log1p(self.n * (1 - p)))


@dataclass(frozen=True)
class FeatureRanker(ABC):
    """A method whose trees rank candidates by features of what is counted over homes."""

    NAME: ClassVar[str]
    TYPED: ClassVar[bool] = False  # features are of typed rules
    log_odds: ClassVar[bool] = False

    hidden_rules: float = 0.3  # probability that an automation is hidden from the features and a target
    folds: int = 5  # parts of the homes; what one part learns from is counted over the others
    draws: int = 4  # times that other automations are hidden and other non-rules drawn; fewer for more than 5,000 homes
    learning_rate: float = 0.05  # of boosting: weight of each tree
    max_leaf_nodes: int = 8  # of boosting: leaves of a tree
    min_samples_leaf: int = 50  # candidates in a leaf

    def __post_init__(self) -> None:
        check_range(self.NAME, self, "in (0, 1)", "hidden_rules")
        check_range(self.NAME, self, "above 0", "learning_rate")
        check_range(self.NAME, self, "at least 1", "draws", "min_samples_leaf")
        check_range(self.NAME, self, "at least 2", "folds", "max_leaf_nodes")

    @property
    @abstractmethod
    def examples(self) -> FoldedExamples:
        """What the trees learn from."""

    @property
    @abstractmethod
    def learner(self) -> Boosting | Forest:
        """Which trees."""

    @abstractmethod
    def count(self, homes: Homes) -> Counts:
        """What gives candidates their features."""

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> FeatureModel:
        """All randomness comes from `rng`; with one thread the same numbers come out bit for bit."""
        homes, model = (train.merged_types(), TypedFeatureModel) if self.TYPED else (train, FeatureModel)
        features, positive = self.examples.draw(homes, rng, count=self.count)
        trees = None
        if positive.any() and not positive.all():
            trees = self.learner.fit(features, positive, rng)
        else:
            log.warning("%s: %s has too few rules to learn from; all scores are 0", self.NAME, train.name)
        fitted = model(self.NAME, train, self.count(homes), trees)
        on_round(1, 1, fitted, {})
        return fitted


def log_odds(trees: Trees, features: Features) -> npt.NDArray[np.float64]:
    """Of each row, with rows that are the same scored once.

    Some at a time, since every tree passes over all rows, which then stay in the processor's cache.
    """
    first, place = distinct_rows(features)
    features = features[first]
    parts = [trees.decision_function(features[at : at + ROWS]) for at in range(0, len(features), ROWS)]
    return np.concatenate([np.zeros(0), *parts])[place]


class FeatureModel:
    """Scores of valid rules by trees on their features; without trees all are 0."""

    def __init__(self, name: str, train: Homes, counts: Counts, trees: Trees | None) -> None:
        self.name, self.types, self.relations = name, train.types, train.relations
        self.counts, self.trees = counts, trees

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """Log-odds among the candidates of training; NaN for a (type, relation, type) that training never saw."""
        check_vocabulary(self.name, homes, self.types, self.relations)
        valid = self.counts.valid
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
                features = self.counts.features(shown, candidates)
                scores[some[pair], relation] = log_odds(self.trees, features)
            first += len(some)
        return scores


class TypedFeatureModel(FeatureModel):
    """The same for features of typed rules: devices of one type share their scores, which are computed once."""

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """As `FeatureModel`, of the homes with one device of each type."""
        merged = homes.merged_types()
        kind = homes.device_home * max(len(homes.types), 1) + homes.device_type
        device = np.unique(kind, return_inverse=True)[1]  # `merged_types` numbers its devices by home and type
        pair = device[trigger] * max(merged.n_devices, 1) + device[action]
        distinct_pairs, of_pair = np.unique(pair, return_inverse=True)
        scores = super().score_pairs(merged, *np.divmod(distinct_pairs, max(merged.n_devices, 1)))
        return scores[of_pair]
