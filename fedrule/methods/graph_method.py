"""What all graph methods share: their options, and the scorer that is built from these.

The defaults are the paper's text: hidden 16, a predictor as wide as there are relations, all rules send messages and
all are targets, beside as many non-rules, with binary cross entropy. The authors' public code has other sizes (preset
`authors-code`) and draws the non-rules once; the text does not say when, and they are drawn anew every round here. The
paper's rates are those of preset `paper`. All other options are what the paper lacks; each can be switched on alone,
which is what the ablations do. An option that has no effect beside the others is refused.

Edge cases:

- Homes without rules, or with one device, add nothing to training and are scored like any other; a device without
  rules has its type only. Rules of a device with itself are rules like others.
- Without a single rule there is nothing to learn: a warning, and all scores are 0, probability 1/2 (NaN where there is
  no score for what no home has, see below).
- Feasible and hard non-rules are all of triples (type, relation, type) that some home has. A model trained on these
  never saw any other and has no score for it (NaN), as user-item models have none.
- Homes with other vocabularies than the training homes are refused, since their numbers would mean other things.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar, Literal, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np

from baselines.method import check_range
from datasets import negatives
from datasets.common.errors import DataError, unknown
from datasets.homes import Homes
from datasets.negatives import Feasible
from datasets.splits import Hidden, split
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.lazy import torch
from fedrule.network.encoders import Parameters, Sizes
from fedrule.network.network import LinkPredictor, Network
from fedrule.network.options import ModelOptions, Supports, check_available, derived, needs_defaults
from fedrule.network.score import GraphModel, Scorer
from fedrule.network.terms import Context, CountBias, EvidenceNetwork, LearnedBias, Rooms, ScoreTerm
from fedrule.training.examples import Examples, NonRules, SamplingOptions, n_non_rules
from fedrule.training.loop import WarmStart
from fedrule.training.losses import OBJECTIVES, Objective

log = logging.getLogger(__name__)

Objectives: TypeAlias = Literal["bce", "ranking", "infonce"]


@dataclass(frozen=True)
class GraphMethod(ModelOptions):
    """Devices are nodes, rules are edges, what to recommend is a missing edge."""

    NAME: ClassVar[str]

    objective: Objectives = "bce"  # the paper's; ranking of a home's list; infonce: softmax against the drawn non-rules
    non_rules: NonRules = "paper"  # how they are drawn; feasible; hard: those with the highest scores; or half of them
    per_rule: int = 1  # non-rules beside each rule
    candidates: int = 0  # non-rules of each home instead of `per_rule`, the list that ranking is about; 0: by rule
    draws: int = 0  # draws of non-rules and hidden rules, used in turn; 1: the authors' code; 0: new in every round
    hidden_rules: float = 0.0  # chance that an automation is only a target; 0: all rules are targets and send messages
    rounds: int = derived(100)  # passes over all homes
    validation: float = 0.0  # share of each home's rules for validation; they are not trained on
    patience: int = 0  # rounds without a better validation loss before it stops and returns to the best; 0: never

    def __post_init__(self) -> None:
        for name, choices in _choices().items():
            if getattr(self, name) not in choices:
                raise unknown(f"{name} of {self.NAME}", getattr(self, name), choices)
        self.complete()
        check_available(self.NAME, self, self.UNAVAILABLE)
        check_range(self.NAME, self, "at least 1", "rounds", "per_rule")
        check_range(self.NAME, self, "at least 0", "candidates", "context", "draws", "evidence", "patience")
        check_range(self.NAME, self, "in [0, 1)", "dropout", "hidden_rules", "validation")
        if self.patience and not self.validation:
            raise DataError(f"{self.NAME}: patience {self.patience} needs a validation loss; set validation, e.g. 0.1")
        if self.non_rules in ("hard", "half-hard") and self.draws:
            raise DataError(f"{self.NAME}: draws {self.draws}, but what is hard changes with the model; set draws to 0")
        if self.hidden_rules and self.draws == 1:
            raise DataError(f"{self.NAME}: with draws 1 most rules are never hidden, nor targets; use 0 or e.g. 10")
        if self.candidates and self.per_rule != 1:
            raise DataError(f"{self.NAME}: give per_rule ({self.per_rule}) or candidates ({self.candidates}), not both")
        if self.dropout and not (self.hidden or self.evidence):
            raise DataError(f"{self.NAME}: dropout {self.dropout} has no effect without a network and evidence; set 0")
        if not self.hidden:
            if not (self.context or self.evidence or self.bias != "none"):
                raise DataError(f"{self.NAME}: without a network (hidden 0) set bias, context or evidence")
            for name, default in needs_defaults(Supports.NO_NETWORK).items():
                if getattr(self, name) != default:
                    raise DataError(f"{self.NAME}: {name} is an option of the network, and with hidden 0 there is none")
        self.network(n_types=1, n_relations=1)  # refuses sizes that the encoder cannot be built with

    @property
    def log_odds(self) -> bool:
        """Whether scores are the log-odds of a rule against one of the evaluation's non-rules, as many of each."""
        return (self.objective, self.non_rules, self.per_rule, self.candidates) == ("bce", "paper", 1, 0)

    @property
    def sees_answers(self) -> bool:
        """Whether in training the score of a rule depends on the rule itself, as in the paper."""
        sends = self.hidden > 0 and self.direction != "none"  # neither a bias nor the context shows a rule to itself
        return self.hidden_rules == 0 and (sends or self.evidence > 0)

    @property
    def counts_homes(self) -> bool:
        """Whether a score depends on how many of the training homes have what."""
        return self.evidence > 0 or self.bias == "counts"

    @property
    def answers_unseen(self) -> bool:
        """Whether it scores rules that are not valid; trained on valid non-rules only, it never saw any other."""
        return self.non_rules == "paper"

    @property
    def sampling_options(self) -> SamplingOptions:
        return {"non_rules": self.non_rules, "per_rule": self.per_rule, "candidates": self.candidates}

    @property
    def objective_function(self) -> Objective:
        return OBJECTIVES[self.objective]

    def prepare(self, train: Homes, rng: np.random.Generator, *, warm_start: WarmStart | None = None) -> TrainingSetup:
        """Split off validation rules where there are to be any, and build the scorer."""
        validation = None
        warm_start = warm_start or WarmStart()
        if warm_start.validation is not None:
            validation = validation_examples(train, warm_start.validation, self.sampling_options, rng=rng)
        elif self.validation:
            train, validation = split_validation(train, self.validation, self.sampling_options, rng=rng)
            if validation is None:
                message = "%s: homes of %s have too few rules to validate on a share of %g; there is no validation loss"
                log.warning(message, self.NAME, train.name, self.validation)
        if warm_start.counts is None:
            valid, counts = self.count(train, rng)
        else:
            valid, counts = warm_start.counts.valid, warm_start.counts
        return TrainingSetup(self.NAME, train, validation, self.scorer(valid, counts), warm_start.parameters)

    def count(self, train: Homes, rng: np.random.Generator) -> tuple[ValidRules, Statistics | None]:  # noqa: ARG002
        """The valid rules, and the counts over homes where a score needs them; private methods draw noise."""
        valid = ValidRules.of(train)
        return valid, Statistics.of(train, valid, all_patterns=self.evidence > 0) if self.counts_homes else None

    def scorer(self, valid: ValidRules, counts: Statistics | None = None) -> Scorer:
        """All of a model but its parameters, independent of any home; `counts` where it counts homes."""
        network = self.network(valid.n_types, valid.n_relations)
        return Scorer(network, valid, self._terms(valid, counts), answers_unseen=self.answers_unseen)

    def network(self, n_types: int, n_relations: int) -> LinkPredictor | None:
        """That of the paper, with the options that are given; None: the score is made of terms alone."""
        if not self.hidden:
            return None
        options = {field.name: getattr(self, field.name) for field in fields(Sizes) if hasattr(self, field.name)}
        return Network(Sizes(n_types, n_relations, **options), self.encoder, self.predictor_hidden)

    def _terms(self, valid: ValidRules, counts: Statistics | None) -> tuple[ScoreTerm, ...]:
        if counts is None and self.counts_homes:
            raise DataError(f"{self.NAME}: its score needs counts over homes; pass counts=")
        terms: list[ScoreTerm] = []
        if self.bias == "learned":
            terms.append(LearnedBias(valid))
        if counts is not None and self.bias == "counts":
            terms.append(CountBias.of(counts))
        if self.context:
            terms.append(Context(valid, self.context))
        if self.words and not self.evidence:
            terms.append(Rooms(valid))
        if counts is not None and self.evidence:
            terms.append(EvidenceNetwork(counts.evidence(), self.evidence, self.dropout, self.words))
        return tuple(terms)


@cache  # evaluating annotations takes longer than all other checks of an option
def _choices() -> dict[str, tuple[str, ...]]:
    """What the options that have named choices may be."""
    hints = get_type_hints(GraphMethod).items()
    return {name: get_args(hint) for name, hint in hints if get_origin(hint) is Literal}


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSetup:
    """What training starts from."""

    name: str  # of the method
    train: Homes  # without the validation rules
    validation: Examples | None
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
        """The model where there is not one rule to learn from."""
        parameters, outcome = self.initial, "the model stays as it was"
        if parameters is None:
            drawn = self.scorer.initial(torch.Generator())
            parameters = {name: torch.zeros_like(value) for name, value in drawn.items()}
            outcome = "all scores are 0" if self.scorer.answers_unseen else "it has no score for anything"
        log.warning("%s: %s has no rule to learn from; %s", self.name, self.train.name, outcome)
        return self.model(parameters)


def split_validation(
    train: Homes, fraction: float, sampling: SamplingOptions, *, rng: np.random.Generator
) -> tuple[Homes, Examples | None]:
    """The homes to train on and the validation examples, whole automations; None where homes have too few rules."""
    parts = split(train, "holdout", seed=int(rng.integers(2**31)), fraction=fraction)
    if not len(parts.test):
        return train, None
    return parts.train, validation_examples(parts.train, parts.test, sampling, rng=rng)


def validation_examples(
    train: Homes, hidden: Hidden, sampling: SamplingOptions, *, rng: np.random.Generator
) -> Examples | None:
    """Rules hidden from homes whose other rules are `train`, beside non-rules; None where none are hidden.

    Non-rules are those of training, drawn once, so that rounds can be compared; for hard ones they are the feasible
    ones, since what is hard changes with the model.
    """
    if not len(hidden):
        return None
    if hidden.homes is not train and hidden.homes.fingerprint != train.fingerprint:
        raise DataError(f"{train.name}: the validation rules are not hidden from these homes; split them once for both")
    per_rule, candidates = sampling["per_rule"], sampling["candidates"]
    wanted = n_non_rules(hidden.rules, train.n_homes, per_rule=per_rule, candidates=candidates)
    if sampling["non_rules"] == "paper":
        drawn = negatives.paper(train, hidden.rules, rng=rng, wanted=wanted)
    else:
        feasible = Feasible.of(train, ValidRules.of(train), taken=[train.rules, hidden.rules])
        return Examples.of(train, hidden.rules, feasible.draw(wanted, rng), train, available=feasible.available)
    return Examples.of(train, hidden.rules, drawn, train)
