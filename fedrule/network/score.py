"""The logit of a candidate rule: that of the network plus those of all score terms; and a fitted graph model.

Like the network, a scorer is a value without parameters of its own: training passes them in, and so does inference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from baselines.method import LARGEST_SCORE, Scores
from datasets.common.errors import DataError
from datasets.homes import Array, Homes, HomeSubset, Mask, Relation, Rules
from datasets.valid import ValidRules
from fedrule.arrays import distinct_rows
from fedrule.evidence.scores import EvidenceScores
from fedrule.lazy import torch
from fedrule.network.batch import GraphBatch
from fedrule.network.encoders import Dropout, Parameters
from fedrule.network.network import LinkPredictor
from fedrule.network.terms import EvidenceNetwork, Observed, ScoreTerm

if TYPE_CHECKING:
    from torch import Tensor

CELLS_AT_ONCE = 1 << 20  # scores computed at a time, 8 MB each in the predictor's two layers


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """Candidates of homes as tensors, with everything about them that does not depend on parameters."""

    homes: GraphBatch  # with the rules that send messages
    trigger: Tensor  # [n]
    action: Tensor  # [n]
    relation: Tensor  # [n]
    observed: tuple[Observed, ...]  # by each term


@dataclass(frozen=True, eq=False)
class Scorer:
    """A network and the terms that are added to its logits.

    Terms are for rules seen in training. The relations of a pair that were never seen all look alike to them: each is
    observed as the first of them, so that terms score a few relations of a pair and not all.
    """

    network: LinkPredictor | None  # None: the terms alone
    valid: ValidRules
    terms: tuple[ScoreTerm, ...] = ()
    answers_unseen: bool = True  # False where training never has a triple that no home has: then it gets no score

    @property
    def by_candidate(self) -> bool:
        """Whether all that it observes is about single candidates, so that those of a batch can be taken from it."""
        return self.network is None and all(term.by_candidate for term in self.terms)

    def initial(self, generator: torch.Generator) -> Parameters:
        """Initial parameters: the network's, and those of each term prefixed with its name and a dot."""
        of_terms = {f"{t.name}.{name}": value for t in self.terms for name, value in t.initial(generator).items()}
        return (self.network.initial(generator) if self.network else {}) | of_terms

    def query(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Query:
        """Candidates of homes whose rules send messages; `leave_out` is what terms need in training."""
        columns = (candidates.trigger, candidates.action, candidates.relation)
        trigger, action, relation = (torch.tensor(column) for column in columns)
        observed = self._observe(homes, candidates, leave_out=leave_out)
        return Query(GraphBatch.of(homes), trigger, action, relation, observed)

    def logits_of(self, parameters: Parameters, query: Query, dropout: Dropout | None = None) -> Tensor:
        """[n]; `dropout` is for training, without it nothing is dropped."""
        logits = next(iter(parameters.values())).new_zeros(len(query.trigger))
        if self.network:
            z = self.network.embed(parameters, query.homes, dropout)
            logits = self.network.logits_of(parameters, z, query.trigger, query.action, query.relation)
        return self._add_terms(logits, parameters, query.observed, dropout)

    def score_pairs(self, parameters: Parameters, homes: Homes, trigger: Array, action: Array) -> Scores:
        """[n_pairs, n_relations]; NaN for what it does not answer.

        Pairs that it cannot tell apart, e.g. those between devices without rules, are scored once. With parameters in
        float64 the scores, in float32, do not depend on what else is scored at the same time.
        """
        order = np.argsort(homes.device_home[trigger], kind="stable")
        shown, trigger, action = homes_of_pairs(homes, trigger[order], action[order])
        with torch.no_grad():
            z = self.network.embed(parameters, GraphBatch.of(shown)) if self.network else None
        first, place = self._distinct_pairs(shown, z, trigger, action)
        trigger, action = trigger[first], action[first]
        scores = np.empty((len(first), len(homes.relations)), dtype=np.float32)
        at_once = max(CELLS_AT_ONCE // max(len(homes.relations), 1), 1)
        for begin in range(0, len(first), at_once):
            some = slice(begin, begin + at_once)
            with torch.no_grad():
                block = self._block(parameters, shown, z, trigger[some], action[some])
            scores[some] = np.clip(block.numpy(), -LARGEST_SCORE, LARGEST_SCORE)  # a score is never infinite
        row = np.empty_like(place)
        row[order] = place
        return np.take(scores, row, axis=0)

    def _distinct_pairs(self, homes: Homes, z: Tensor | None, trigger: Array, action: Array) -> tuple[Array, Array]:
        """The first of all pairs with the same scores, in their order, and for each pair its place among these."""
        if not all(term.by_type for term in self.terms):
            return np.arange(len(trigger)), np.arange(len(trigger))
        types = homes.device_type[:, None].astype(np.float64)
        _, kind = distinct_rows(types if z is None else np.column_stack([types, z.numpy()]))
        return distinct_rows(np.stack([kind[trigger], kind[action]], axis=1))

    def _block(self, parameters: Parameters, homes: Homes, z: Tensor | None, trigger: Array, action: Array) -> Tensor:
        """[n_pairs, n_relations] for pairs in the order of homes, whose devices have the embeddings z."""
        logits = next(iter(parameters.values())).new_zeros(len(trigger), len(homes.relations))
        if self.network and z is not None:
            # All relations, even where few are needed: one product of matrices is faster than many of vectors.
            logits = self.network.logits(parameters, z, torch.tensor(trigger), torch.tensor(action))
        if self.answers_unseen and not self.terms:
            return logits
        homes, trigger, action = homes_of_pairs(homes, trigger, action)
        pair, relation, unseen = self._distinct(homes.device_type[trigger], homes.device_type[action])
        if not self.answers_unseen:
            pair, relation, unseen = pair[~unseen], relation[~unseen], unseen[~unseen]
        candidates = Rules(homes.device_home[trigger[pair]], trigger[pair], action[pair], relation)
        added = self._add_terms(logits.new_zeros(len(pair)), parameters, self._observe(homes, candidates), None)
        of_pair = logits.new_full((len(trigger), 1), 0.0 if self.answers_unseen else math.nan)
        of_pair[pair[unseen], 0] = added[unseen]
        of_all = of_pair.repeat(1, len(homes.relations))
        of_all[pair[~unseen], relation[~unseen]] = added[~unseen]
        return logits + of_all

    def _add_terms(
        self, logits: Tensor, parameters: Parameters, seen: tuple[Observed, ...], dropout: Dropout | None
    ) -> Tensor:
        for term, observed in zip(self.terms, seen, strict=True):
            prefix = f"{term.name}."
            own = {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}
            logits = logits + term.logits_of(own, observed, dropout)
        return logits

    def _observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> tuple[Observed, ...]:
        if not self.terms:
            return ()
        similar = self.similar(homes, candidates)
        return tuple(term.observe(homes, similar, leave_out=leave_out) for term in self.terms)

    def similar(self, homes: Homes, candidates: Rules) -> Rules:
        """The candidates as terms observe them: instead of a relation never seen of a pair the first such one."""
        trigger_type, relation, action_type = homes.typed(candidates)
        seen = self.valid.contains(trigger_type, action_type, relation)
        relation = np.where(seen, relation, self._first_unseen[trigger_type * self.valid.n_types + action_type])
        return Rules(candidates.home, candidates.trigger, candidates.action, relation)

    @cached_property
    def _first_unseen(self) -> Array:
        """[n_types ** 2]: the first relation never seen in training from one type to another; n_relations if none."""
        start, relation = self.valid.start, self.valid.relation
        count = np.diff(start)
        within = np.arange(len(relation)) - np.repeat(start[:-1], count)
        first = count.copy()  # the run is 0, 1, 2, ... unless it skips one before
        skips = relation != within
        np.minimum.at(first, np.repeat(np.arange(len(count)), count)[skips], within[skips])
        return first

    def _distinct(self, trigger_type: Array, action_type: Array) -> tuple[Array, Array, Mask]:
        """Pair and relation of all that terms distinguish, by pair: each seen in training, and one that was not."""
        pair, triple = self.valid.of_pairs(trigger_type, action_type)
        unseen = self._first_unseen[trigger_type * self.valid.n_types + action_type]
        some = np.flatnonzero(unseen < self.valid.n_relations)
        relation = np.concatenate([self.valid.relation[triple], unseen[some]])
        pair = np.concatenate([pair, some])
        order = np.argsort(pair, kind="stable")
        is_unseen = np.arange(len(pair)) >= len(triple)
        return pair[order], relation[order], is_unseen[order]


class GraphModel:
    """A fitted graph method: a scorer, its parameters, and the vocabularies that its numbers stand for."""

    def __init__(
        self,
        name: str,  # of the method
        scorer: Scorer,
        parameters: Parameters,
        types: tuple[str, ...],
        relations: tuple[Relation, ...],
    ) -> None:
        self.name, self.scorer, self.types, self.relations = name, scorer, types, relations
        # Scores with a network are computed in float64: in float32 they do not depend on which homes share a product.
        self.parameters = {key: value.double() for key, value in parameters.items()}

    @cached_property
    def evidence_scores(self) -> EvidenceScores | None:
        """What scores faster where the score is the evidence network and nothing else; None where it is not."""
        scorer = self.scorer
        alone = scorer.network is None and len(scorer.terms) == 1 and not scorer.answers_unseen
        if not alone or not isinstance(scorer.terms[0], EvidenceNetwork):
            return None
        own = {name.removeprefix("evidence."): value for name, value in self.parameters.items()}
        return scorer.terms[0].scores(own, self.types, self.relations)

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """Logits for every relation; homes never seen in training are scored like any other."""
        check_vocabulary(self.name, homes, self.types, self.relations)
        across = np.flatnonzero(homes.device_home[trigger] != homes.device_home[action])
        if len(across):
            first = across[0]
            raise DataError(
                f"{homes.name}: pair {first} has devices {trigger[first]} and {action[first]} of the homes "
                f"{homes.device_home[trigger[first]]} and {homes.device_home[action[first]]}; a rule is within a home"
            )
        if self.evidence_scores is None:
            return self.scorer.score_pairs(self.parameters, homes, trigger, action)
        found = self.evidence_scores.of_pairs(homes, trigger, action)
        scores = np.full((len(trigger), len(homes.relations)), np.nan, dtype=np.float32)
        scores[found.pair, self.scorer.valid.relation[found.item]] = np.clip(
            found.scores, -LARGEST_SCORE, LARGEST_SCORE
        )
        return scores


def check_vocabulary(name: str, homes: Homes, types: tuple[str, ...], relations: tuple[Relation, ...]) -> None:
    """An error where types and relations are numbered differently than in the training of method `name`."""
    if homes.types == types and homes.relations == relations:
        return
    unseen = [str(word) for word in (*homes.types, *homes.relations) if word not in {*types, *relations}]
    remedy = (
        f" It has never seen {', '.join(unseen[:3])}: leave out the devices and rules that have them, or fit again on "
        "homes that do (datasets.vocabulary brings homes into one vocabulary)."
    )
    raise DataError(
        f"{homes.name}: entity types and relations are not numbered as in the training of {name}; "
        f"use homes.with_vocabulary(model.types, model.relations).{remedy if unseen else ''}"
    )


def homes_of_pairs(homes: Homes, trigger: Array, action: Array) -> tuple[Homes, Array, Array]:
    """Only the homes of these pairs, which are in the order of homes, and the pairs' devices among theirs."""
    which, row = np.unique(homes.device_home[trigger], return_inverse=True)
    subset = HomeSubset.of(homes, which)
    return subset.homes, trigger + subset.shift[row], action + subset.shift[row]
