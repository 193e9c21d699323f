"""Score terms, which are added to the network's logit: a bias, the context of the home, evidence from its graph.

A term first observes candidates, once for each example and without parameters, and then scores what it observed. So
the costly part is done once however many steps follow, and the score is a pure function of parameters and tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from datasets.homes import Array, Homes, Mask, Relation, Rules
from datasets.valid import ValidRules
from fedrule.arrays import read_only
from fedrule.evidence.counts import PRIOR_HAVE, PRIOR_OWN, ColumnReader
from fedrule.evidence.evidence import Evidence
from fedrule.evidence.feature_blocks import N_PAIR, PAIR, pair_features
from fedrule.evidence.features import IS_WORD, graphs, standardized, vocabulary
from fedrule.evidence.scores import EvidenceScores, used_features
from fedrule.evidence.statistics import Statistics
from fedrule.lazy import torch
from fedrule.network.encoders import Dropout, Parameters, rows, uniform

if TYPE_CHECKING:
    from torch import Tensor

Observed: TypeAlias = "dict[str, Tensor]"

PAIR_WORDS = IS_WORD[PAIR : PAIR + N_PAIR]  # the features of a pair by words


class ScoreTerm(Protocol):
    """Something that adds to the logits of candidates. Its name is the prefix of the names of its parameters."""

    @property
    def name(self) -> str: ...

    @property
    def by_candidate(self) -> bool:
        """Whether all that it observes has a row for each candidate."""

    @property
    def by_type(self) -> bool:
        """Whether candidates with the same (type, relation, type) are the same to it, in whatever home."""

    def initial(self, generator: torch.Generator) -> Parameters:
        """Initial parameters; none for a term that has nothing to learn."""

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:
        """What is known about candidates [n] of these homes, given the rules that the homes have.

        `leave_out` is given in training: the same homes with all their training rules. Statistics of all homes then
        leave out each home's own contribution, which would give the answer away.
        """

    def logits_of(self, parameters: Parameters, observed: Observed, dropout: Dropout | None) -> Tensor:
        """[n]: what to add to each candidate's logit; `dropout` is for training."""


def items(valid: ValidRules, homes: Homes, rules: Rules) -> Array:
    """The number of each rule's (type, relation, type) among the valid ones; all unseen ones share the last."""
    trigger_type, relation, action_type = homes.typed(rules)
    number = valid.number(trigger_type, action_type, relation)
    return np.where(number >= 0, number, len(valid))


def count_item(valid: ValidRules, homes: Homes, candidates: Rules) -> Array:
    """[n_candidates]: how many rules of the candidate's home are of its (type, relation, type)."""
    width = len(valid) + 1
    own, count = np.unique(homes.rules.home * width + items(valid, homes, homes.rules), return_counts=True)
    key = candidates.home * width + items(valid, homes, candidates)
    place = np.searchsorted(own, key)
    return np.where(np.append(own, -1)[place] == key, np.append(count, 0)[place], 0)


@dataclass(frozen=True, slots=True, eq=False)
class LearnedBias:
    """A parameter for each (type, relation, type) in training, and one for all others.

    The paper's network has one bias for each relation; how common a rule is between two types it has to learn from
    their embeddings.
    """

    valid: ValidRules
    name: ClassVar[str] = "bias"
    by_candidate: ClassVar[bool] = True
    by_type: ClassVar[bool] = True

    def initial(self, generator: torch.Generator) -> Parameters:  # noqa: ARG002
        return {"item": torch.zeros(len(self.valid) + 1)}

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:  # noqa: ARG002
        return {"item": torch.from_numpy(items(self.valid, homes, candidates))}

    def logits_of(self, parameters: Parameters, observed: Observed, dropout: Dropout | None) -> Tensor:  # noqa: ARG002
        return rows(parameters["item"], observed["item"])


@dataclass(frozen=True, slots=True, eq=False)
class CountBias:
    """scale x log((homes that have it + 0.3) / (homes that own both types + 3)), with a learned scale, initially 1."""

    valid: ValidRules
    have: npt.NDArray[np.float64]  # [n_valid + 1]  homes with the typed rule; 0 for the last, all unseen ones
    could: npt.NDArray[np.float64]  # [n_types ** 2]  homes that own devices of both types
    noisy: bool = False  # with differential privacy: homes are not left out
    name: ClassVar[str] = "bias"
    by_candidate: ClassVar[bool] = True
    by_type: ClassVar[bool] = True

    @classmethod
    def of(cls, counts: Statistics) -> CountBias:
        return cls(counts.valid, np.append(counts.with_rule, 0).astype(np.float64), counts.both, counts.noisy)

    def initial(self, generator: torch.Generator) -> Parameters:  # noqa: ARG002
        return {"scale": torch.ones(1)}

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:
        """In training a home is not counted for its own candidates."""
        trigger_type, _, action_type = homes.typed(candidates)
        have = self.have[items(self.valid, homes, candidates)]
        could = self.could[trigger_type * len(homes.types) + action_type]
        if leave_out is not None and not self.noisy:
            have = have - (count_item(self.valid, leave_out, candidates) > 0)
            could = could - 1  # every home with the candidate owns both types
        return {"log_frequency": torch.from_numpy(np.log((have + PRIOR_HAVE) / (could + PRIOR_OWN)))}

    def logits_of(self, parameters: Parameters, observed: Observed, dropout: Dropout | None) -> Tensor:  # noqa: ARG002
        scale = parameters["scale"]
        return scale * observed["log_frequency"].to(scale.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The whole home in the score of one rule: what else it has automated, and which entity types it owns.

    A device's embedding sees what is two rules away; this sees everything, as matrix factorization does. With e an
    embedding for each typed rule and s one for each entity type,

        c = ReLU(sum of e over the home's typed rules / sqrt(their number + 1) + mean of s over its types),

    and a candidate of typed rule m gets <c, v_m>. A rule is never context for itself: where the home has the candidate
    already, c is made of its other rules, or training would learn to repeat its input.
    """

    valid: ValidRules
    size: int
    name: ClassVar[str] = "context"
    by_candidate: ClassVar[bool] = False  # it observes homes
    by_type: ClassVar[bool] = False

    def initial(self, generator: torch.Generator) -> Parameters:
        """The vectors v_m are initially zero, so that training starts from the network's own score."""
        known = len(self.valid) + 1
        return {
            "rule": uniform(known, self.size, fan_in=self.size, generator=generator),
            "type": uniform(self.valid.n_types, self.size, fan_in=self.size, generator=generator),
            "candidate": torch.zeros(known, self.size),
        }

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:  # noqa: ARG002
        """Each typed rule and each type of a home counts once, however many devices carry it out or are of it."""
        width, n_types, n_relations = len(self.valid) + 1, self.valid.n_types, self.valid.n_relations
        rule = np.unique(homes.rules.home * width + items(self.valid, homes, homes.rules))
        owned = np.unique(homes.device_home * n_types + homes.device_type)
        keys, known = (some.keys(homes.n_devices, n_relations) for some in (candidates, homes.rules))
        alone = np.isin(keys, known) & (count_item(self.valid, homes, candidates) == 1)
        columns = {
            "rule_home": rule // width,
            "rule": rule % width,
            "type_home": owned // max(n_types, 1),
            "type": owned % max(n_types, 1),
            "rules": np.bincount(rule // width, minlength=homes.n_homes),
            "types": np.bincount(owned // max(n_types, 1), minlength=homes.n_homes),
            "home": candidates.home,
            "candidate": items(self.valid, homes, candidates),
            "known": alone.astype(np.int64),  # 1 where the candidate is a rule that the home has
        }
        return {name: torch.tensor(column) for name, column in columns.items()}

    def logits_of(self, parameters: Parameters, observed: Observed, dropout: Dropout | None) -> Tensor:  # noqa: ARG002
        home, candidate = observed["home"], observed["candidate"]
        rule, kind = parameters["rule"], parameters["type"]
        none = rule.new_zeros(len(observed["rules"]), self.size)
        rules = none.index_add(0, observed["rule_home"], rule.index_select(0, observed["rule"]))
        types = none.index_add(0, observed["type_home"], kind.index_select(0, observed["type"]))
        types = types / observed["types"].clamp(min=1)[:, None]
        known = observed["known"][:, None]
        others = rules.index_select(0, home) - known * rule.index_select(0, candidate)
        count = observed["rules"].index_select(0, home)[:, None] - known
        context = torch.relu(others * (count + 1).to(rule.dtype).rsqrt() + types.index_select(0, home))
        return (context * parameters["candidate"].index_select(0, candidate)).sum(dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class Rooms:
    """What the words of trigger and action say for each relation: a weight for each feature of a pair by words.

    It tells devices of one type apart for the paper's network, which knows no rooms. The evidence network has these
    features anyway.
    """

    valid: ValidRules
    name: ClassVar[str] = "rooms"
    by_candidate: ClassVar[bool] = True
    by_type: ClassVar[bool] = False

    def initial(self, generator: torch.Generator) -> Parameters:  # noqa: ARG002
        return {"weight": torch.zeros(self.valid.n_relations, int(PAIR_WORDS.sum()))}

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:  # noqa: ARG002
        features = np.zeros((len(candidates), len(PAIR_WORDS)), dtype=np.float32)
        words = vocabulary(self.valid, ColumnReader.of(homes.types, homes.relations))
        columns = (read_only(column) for column in (candidates.home, candidates.trigger, candidates.action))
        pair_features(features, graphs(homes), words, *columns)
        return {
            "features": torch.from_numpy(np.compress(PAIR_WORDS, features, axis=1)),
            "relation": torch.tensor(candidates.relation),
        }

    def logits_of(self, parameters: Parameters, observed: Observed, dropout: Dropout | None) -> Tensor:  # noqa: ARG002
        weight = rows(parameters["weight"], observed["relation"])
        return (observed["features"].to(weight.dtype) * weight).sum(dim=-1)


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceNetwork:
    """A small network on the plain graph features of a candidate: a hidden layer and a direct weight per feature."""

    evidence: Evidence
    hidden: int
    dropout: float = 0.0
    words: bool = True  # whether it takes the features by words; where no device has one they say nothing
    name: ClassVar[str] = "evidence"
    by_candidate: ClassVar[bool] = True
    by_type: ClassVar[bool] = False

    def initial(self, generator: torch.Generator) -> Parameters:
        n, hidden = self.n_features, self.hidden
        return {
            "direct": torch.zeros(n),
            "first": uniform(n, hidden, fan_in=n, generator=generator),
            "first_bias": uniform(hidden, fan_in=n, generator=generator),
            "last": uniform(hidden, fan_in=hidden, generator=generator),
        }

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:
        return {"features": torch.from_numpy(self.features(homes, candidates, leave_out=leave_out))}

    def features(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> npt.NDArray[np.float32]:
        """[n, n_features]: those that it takes, standardized."""
        features = self.evidence.features(homes, candidates, leave_out=leave_out)
        return np.compress(self.used, standardized(features), axis=1)

    def logits_of(self, parameters: Parameters, observed: Observed, dropout: Dropout | None) -> Tensor:
        from fedrule.network.hidden_layer import HiddenLayer  # defines a function of torch: not above

        features = observed["features"].to(parameters["direct"].dtype)
        kept = None if dropout is None else dropout.kept((len(features), self.hidden), self.dropout)
        weights = (parameters[name] for name in ("direct", "first", "first_bias", "last"))
        share = 1.0 if kept is None else 1 - self.dropout
        logits: Tensor = HiddenLayer.apply(features, *weights, kept, share)  # type: ignore[no-untyped-call]
        return logits

    @property
    def used(self) -> Mask:
        """[n_all_features]: those that it takes."""
        return used_features(words=self.words)

    @property
    def n_features(self) -> int:
        return int(self.used.sum())

    def scores(self, parameters: Parameters, types: Sequence[str], relations: Sequence[Relation]) -> EvidenceScores:
        """What scores all candidates of homes by this term with these parameters, and fast."""
        evidence, reader = self.evidence, ColumnReader.of(types, relations)
        return EvidenceScores.of(
            evidence.valid,
            vocabulary(evidence.valid, reader),
            evidence.given(reader),
            evidence.companions,
            evidence.together.inverse,
            evidence.ease_scale,
            {name: value.numpy() for name, value in parameters.items()},
            knows_words=evidence.rooms.any,
        )
