"""What all graph methods have in common: their options, and the scorer that these make.

The defaults are the paper's text: hidden 16, a predictor as wide as there are relations, all rules send messages and
all are asked for, beside as many non-rules, by binary cross entropy. The authors' public code has other sizes (preset
`authors-code`) and draws the non-rules once; the text does not say when, and they are drawn anew every round here. All
other fields are what the paper lacks; each can be switched on alone, which is what the ablations do.

What they do with what they cannot learn from:

- Homes without rules, or with one device, train nobody and are scored like any other; a device without rules has its
  type only. Rules of a device with itself are rules like others.
- Without a single rule there is nothing to learn: a warning, and all scores are 0, probability 1/2 (NaN where there is
  no score for what no home has, see below).
- Feasible and hard non-rules are all of triples (type, relation, type) that some home has. Trained on these, a model
  was never asked about any other and has no score for it (NaN), as user-item models have none.
- Homes with other vocabularies than the training homes are refused, since their numbers would mean other things.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias, TypedDict, get_args

import numpy as np
import torch

from datasets import negatives
from datasets.common.errors import DataError, unknown
from datasets.homes import Homes
from datasets.negatives import Feasible
from datasets.splits import Hidden, split
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.model.encoders import Direction, Messages, Parameters, Sizes
from fedrule.model.network import Network
from fedrule.model.score import GraphModel, Scorer
from fedrule.model.terms import Context, CountBias, EvidenceNetwork, LearnedBias, ScoreTerm
from fedrule.training.examples import Examples, NonRules, how_many
from fedrule.training.loop import WarmStart
from fedrule.training.losses import OBJECTIVES, Objective

if TYPE_CHECKING:
    from fedrule.methods.graphrule import GraphRule


# --- The choices of `graphrule`, the sizes that the authors published, and which options do not go together.

Encoders: TypeAlias = Literal["sage", "gcn", "gat"]
Presets: TypeAlias = Literal["paper-text", "authors-code"]
Objectives: TypeAlias = Literal["bce", "ranking"]
Biases: TypeAlias = Literal["none", "learned", "counts"]

CHOICES: dict[str, tuple[str, ...]] = {
    "encoder": get_args(Encoders),
    "objective": get_args(Objectives),
    "bias": get_args(Biases),
    "direction": get_args(Direction),
    "messages": get_args(Messages),
    "non_rules": get_args(NonRules),
}


class SamplingOptions(TypedDict):
    """What is drawn beside the rules that are asked for."""

    non_rules: NonRules
    per_rule: int
    candidates: int


class Preset(NamedTuple):
    """Sizes that the authors published."""

    hidden: int
    predictor_hidden: int  # 0: as many as relations
    dropout: float


PRESETS = {"paper-text": Preset(16, 0, 0.0), "authors-code": Preset(32, 32, 0.5)}
# Options that only the network has, with their defaults.
NETWORK_ONLY = {"encoder": "sage", "self_loops": False, "heads": 1, "messages": "type", "node_embedding": 0}


def sizes_of(preset: str, method: str) -> Preset:
    """The sizes of a preset; an unknown one is answered with those there are."""
    if preset not in PRESETS:
        raise unknown(f"preset of {method}", preset, PRESETS)
    return PRESETS[preset]


def refuse_wrong_options(method: GraphMethod) -> None:
    """An error for a value that is none, and for one that would have no effect beside the others."""
    for name, choices in CHOICES.items():
        if getattr(method, name) not in choices:
            raise unknown(f"{name} of {method.NAME}", getattr(method, name), choices)
    refuse_wrong_numbers(
        method,
        at_least_one=("rounds", "per_rule"),
        not_negative=("candidates", "context", "draws", "evidence", "patience"),
        shares=("dropout", "hidden_rules", "validation"),
    )
    if method.patience and not method.validation:
        raise DataError(f"{method.NAME}: patience {method.patience} has nothing to watch; set validation, e.g. 0.1")
    if method.non_rules == "hard" and method.draws:
        raise DataError(f"{method.NAME}: draws {method.draws}, but what is hard changes with the model; set draws to 0")
    if method.hidden_rules and method.draws == 1:
        raise DataError(
            f"{method.NAME}: with draws 1 most rules are never hidden and never asked for; use 0 or e.g. 10"
        )
    if not (method.hidden or method.context or method.evidence or method.bias != "none"):
        raise DataError(f"{method.NAME}: without a network (hidden 0) set bias, context or evidence to score by")
    if not method.hidden:
        for name, value in NETWORK_ONLY.items():
            if getattr(method, name) != value:
                raise DataError(f"{method.NAME}: {name} is of the network, and with hidden 0 there is none")


def refuse_wrong_schedule(method: GraphRule) -> None:
    """The same for what only centralized training has."""
    not_negative = ("homes_per_draw", "batch_size", "weight_decay")
    refuse_wrong_numbers(method, not_negative=not_negative, positive=("learning_rate",))


def refuse_wrong_numbers(
    method: GraphMethod,
    *,
    at_least_one: tuple[str, ...] = (),
    not_negative: tuple[str, ...] = (),
    shares: tuple[str, ...] = (),
    positive: tuple[str, ...] = (),
) -> None:
    """An error for the first of these options that is out of its range."""
    for names, words, wrong in (
        (at_least_one, "below 1", lambda value: value < 1),
        (not_negative, "negative or no number", lambda value: not value >= 0),
        (shares, "no share from 0 to below 1", lambda value: not 0 <= value < 1),
        (positive, "not above 0, e.g. 0.01", lambda value: not value > 0),
    ):
        for name in names:
            if wrong(getattr(method, name)):
                raise DataError(f"{method.NAME}: {name} {getattr(method, name)} is {words}")


# --- Rules of the training homes that are kept back, to see whether training still gets better on what it is not told.


def split_validation(
    train: Homes, share: float, *, non_rules: NonRules, per_rule: int, candidates: int, rng: np.random.Generator
) -> tuple[Homes, Examples | None]:
    """The homes to train on, and the rules kept back beside non-rules; None where homes are too small to keep any.

    Whole automations are kept back.
    """
    parts = split(train, "holdout", seed=int(rng.integers(2**31)), fraction=share)
    if not len(parts.test):
        return train, None
    sampling_options = {"per_rule": per_rule, "candidates": candidates}
    return parts.train, validation_examples(parts.train, parts.test, non_rules=non_rules, **sampling_options, rng=rng)


def validation_examples(
    train: Homes, kept: Hidden, *, non_rules: NonRules, per_rule: int, candidates: int, rng: np.random.Generator
) -> Examples | None:
    """Rules that are kept back of homes whose other rules are `train`, beside non-rules; None where none are.

    Non-rules are those of training, drawn once, so that rounds can be compared; for hard ones they are the feasible
    ones, since what is hard changes with the model.
    """
    if not len(kept):
        return None
    if kept.homes is not train and kept.homes.fingerprint != train.fingerprint:
        raise DataError(f"{train.name}: the rules to watch are not kept back of these homes; split them once for both")
    wanted = how_many(kept.rules, train.n_homes, per_rule=per_rule, candidates=candidates)
    if non_rules == "paper":
        drawn = negatives.paper(train, kept.rules, rng=rng, wanted=wanted)
    else:
        drawn = Feasible.of(train, ValidRules.of(train), taken=[train.rules, kept.rules]).draw(wanted, rng)
    return Examples.of(train, kept.rules, drawn, train)


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What training starts from."""

    name: str  # of the method
    train: Homes  # without the rules kept back
    validation: Examples | None  # rules kept back
    scorer: Scorer
    parameters: Parameters | None = None  # to continue from; None: drawn

    @property
    def initial(self) -> Parameters | None:
        """Parameters to continue from, in tensors of their own; None where they are to be drawn."""
        if self.parameters is None:
            return None
        return {name: value.detach().float().clone() for name, value in self.parameters.items()}

    def model(self, parameters: Parameters) -> GraphModel:
        """The fitted method with these parameters."""
        return GraphModel(self.name, self.scorer, parameters, self.train.types, self.train.relations)

    def untrained(self) -> GraphModel:
        """Where there is not one rule to learn from."""
        parameters, outcome = self.initial, "the model stays as it was"
        if parameters is None:
            drawn = self.scorer.initial(torch.Generator())
            parameters = {name: torch.zeros_like(value) for name, value in drawn.items()}
            outcome = "all scores are 0" if self.scorer.answers_unseen else "it has no score for anything"
        log.warning("%s: %s has no rule to learn from; %s", self.name, self.train.name, outcome)
        return self.model(parameters)


@dataclass(frozen=True)
class GraphMethod:
    """Devices are nodes, rules are edges, what to recommend is a missing edge."""

    NAME: ClassVar[str]

    preset: Presets = "paper-text"  # sizes of the paper's text (16, relations, 0) or of the authors' code (32, 32, 0.5)
    hidden: int = -1  # size of hidden states and embeddings; 0: no network; -1, here and in the next two: the preset's
    predictor_hidden: int = -1  # units between the predictor's two layers; 0: as many as relations
    dropout: float = -1.0  # share of hidden states that training drops, of the encoder and of `evidence`
    encoder: Encoders = "sage"  # the graph neural network; the paper chose sage over gcn and gat
    self_loops: bool = False  # gcn, gat: a device hears itself too
    heads: int = 1  # gat: attentions side by side
    direction: Direction = "in"  # a device hears from triggers that act on it, from its actions, both or nobody (sage)
    messages: Messages = "type"  # what a message says: the neighbour's state (the paper), or also the rule's relation
    node_embedding: int = 0  # size of an embedding of a device's number among those of its type; 0: they look alike
    objective: Objectives = "bce"  # cross entropy of rules and non-rules (the paper), or ranking over a home's list
    non_rules: NonRules = "paper"  # those of the paper, feasible ones, or hard: the feasible ones that score highest
    per_rule: int = 1  # non-rules beside each rule
    candidates: int = 0  # non-rules of each home in place of `per_rule`, the list that ranking is about; 0: by rule
    draws: int = 0  # draws of non-rules and hidden rules that rounds take turns with; 1: authors' code; 0: ever new
    hidden_rules: float = (
        0.0  # probability that an automation sends no messages and is asked for; 0: all do and all are
    )
    bias: Biases = "none"  # one for each (type, relation, type): learned, or from how many homes have it
    context: int = 0  # size of a vector for the whole home, what it has automated and owns, in the score; 0: none
    evidence: int = 0  # hidden units of a small network on plain graph features of a candidate, in the score; 0: none
    rounds: int = 100  # looks at every home
    validation: float = 0.0  # share of each home's rules kept back to watch the loss on; they are not trained on
    patience: int = 0  # rounds without a better watched loss before it stops and goes back to the best; 0: never

    def __post_init__(self) -> None:
        for name, value in sizes_of(self.preset, self.NAME)._asdict().items():
            if getattr(self, name) == -1:  # written down in full: the parameters are the key of a result
                object.__setattr__(self, name, value)
        refuse_wrong_options(self)
        self._network(n_types=1, n_relations=1)  # refuses sizes that the encoder cannot be built with

    @property
    def log_odds(self) -> bool:
        """Whether scores are the log-odds of a rule against one of the evaluation's non-rules, as many of each."""
        return (self.objective, self.non_rules, self.per_rule, self.candidates) == ("bce", "paper", 1, 0)

    @property
    def sees_answers(self) -> bool:
        """Whether the score of a rule is shown the rule itself while it is asked for, as in the paper."""
        sends = self.hidden > 0 and self.direction != "none"  # neither a bias nor the context shows a rule to itself
        return self.hidden_rules == 0 and (sends or self.evidence > 0)

    @property
    def sampling_options(self) -> SamplingOptions:
        """What is drawn beside the rules that are asked for."""
        return {"non_rules": self.non_rules, "per_rule": self.per_rule, "candidates": self.candidates}

    @property
    def objective_function(self) -> Objective:
        return OBJECTIVES[self.objective]

    def prepare(self, train: Homes, rng: np.random.Generator, *, warm_start: WarmStart | None = None) -> Prepared:
        """Keep rules back where they are to be watched, and put the scorer together."""
        validation = None
        warm_start = warm_start or WarmStart()
        if warm_start.validation is not None:
            validation = validation_examples(train, warm_start.validation, rng=rng, **self.sampling_options)
        elif self.validation:
            train, validation = split_validation(train, self.validation, rng=rng, **self.sampling_options)
            if validation is None:
                small = "%s: homes of %s have too few rules to keep a share of %g back; there is no loss to watch"
                log.warning(small, self.NAME, train.name, self.validation)
        counts = warm_start.counts
        if counts is None and self.counts_homes:
            counts = Statistics.of(train, ValidRules.of(train), whole=self.evidence > 0)
        valid = ValidRules.of(train) if counts is None else counts.valid
        return Prepared(self.NAME, train, validation, self.scorer(valid, counts), warm_start.parameters)

    @property
    def counts_homes(self) -> bool:
        """Whether a score depends on how many of the training homes have what."""
        return self.evidence > 0 or self.bias == "counts"

    def scorer(self, valid: ValidRules, counts: Statistics | None = None) -> Scorer:
        """All of a model but its parameters, without a look at any home; `counts` where it counts homes."""
        network = self._network(valid.n_types, valid.n_relations)
        return Scorer(network, valid, self._terms(valid, counts), answers_unseen=self.non_rules == "paper")

    def _network(self, n_types: int, n_relations: int) -> Network | None:
        if not self.hidden:
            return None
        sizes = Sizes(
            n_types,
            n_relations,
            hidden=self.hidden,
            dropout=self.dropout,
            direction=self.direction,
            messages=self.messages,
            node_embedding=self.node_embedding,
            self_loops=self.self_loops,
            heads=self.heads,
        )
        return Network(sizes, self.encoder, self.predictor_hidden)

    def _terms(self, valid: ValidRules, counts: Statistics | None) -> tuple[ScoreTerm, ...]:
        if counts is None and self.counts_homes:
            raise DataError(f"{self.NAME}: its score needs counts over homes; hand them in")
        terms: list[ScoreTerm] = []
        if self.bias == "learned":
            terms.append(LearnedBias(valid))
        if counts is not None and self.bias == "counts":
            terms.append(CountBias.of(counts))
        if self.context:
            terms.append(Context(valid, self.context))
        if counts is not None and self.evidence:
            terms.append(EvidenceNetwork(counts.evidence(), self.evidence, self.dropout))
        return tuple(terms)
