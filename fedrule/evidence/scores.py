"""Scores of all valid candidates of homes by the evidence network alone, without rows of features.

The same as `EvidenceNetwork` of fedrule/network/terms.py on `Evidence.features`, faster; tested equal. It imports
neither torch nor SciPy nor pandas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from datasets.homes import Array, Homes, Mask, spans
from datasets.valid import ValidRules
from fedrule.arrays import read_only
from fedrule.evidence import forward_pass
from fedrule.evidence.counts import CompanionCounts
from fedrule.evidence.feature_blocks import N_HOME, N_TYPED, Companions
from fedrule.evidence.features import IS_WORD, NAMES, companion_tables, graphs, standardized
from fedrule.evidence.forward_pass import Weights
from fedrule.evidence.home_graph import Table, Vocabulary

MOST_RULES = 20_000  # valid rules that evidence relates with each other: 3.2 GB for each matrix


class CandidateScores(NamedTuple):
    """The scores of valid candidates: of each pair in turn, relation by relation."""

    scores: Table  # [n]
    pair: Array  # [n]  the place of its pair
    item: Array  # [n]  its number among the valid rules


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceScores:
    """A trained evidence network and what it knows of all homes; arrays are read-only, as in memory that is shared."""

    valid: ValidRules
    vocabulary: Vocabulary
    companions: Companions
    inverse: npt.NDArray[np.float64]  # [n_valid, n_valid]  of EASE
    ease_scale: npt.NDArray[np.float64]  # [n_valid]
    weights: Weights
    knows_words: bool  # whether training homes had words; otherwise those of other homes are ignored

    @classmethod
    def of(
        cls,
        valid: ValidRules,
        vocabulary: Vocabulary,
        given: Table,  # [n_valid, n_given]
        companions: CompanionCounts,
        inverse: npt.NDArray[np.float64],
        ease_scale: npt.NDArray[np.float64],
        parameters: Mapping[str, npt.NDArray[np.floating]],  # those of the term `evidence`
        *,
        knows_words: bool,
    ) -> EvidenceScores:
        weights = network_weights(parameters, standardized(given, N_HOME))
        nothing = np.zeros(0, dtype=np.int64)
        common = companion_tables(companions, nothing, nothing)
        return cls(valid, vocabulary, common, read_only(inverse), read_only(ease_scale), weights, knows_words)

    def of_pairs(self, homes: Homes, trigger: Array, action: Array) -> CandidateScores:
        """Those of these device pairs; a pair twice is scored once."""
        start = homes.device_start
        devices = np.diff(start)
        pair_start = np.concatenate([[0], np.cumsum(devices**2)])
        home = homes.device_home[trigger]
        number = pair_start[home] + (trigger - start[home]) * devices[home] + action - start[home]
        pair, item = self.valid.of_pairs(homes.device_type[trigger], homes.device_type[action])
        many = self.valid.how_many(homes.device_type[trigger], homes.device_type[action])
        place = np.full(pair_start[-1], -1, dtype=np.int64)
        begin = np.cumsum(many) - many
        place[number] = begin
        scores = np.empty(len(item), dtype=np.float32)
        known = self.vocabulary, self.companions, self.inverse, self.ease_scale, self.weights
        forward_pass.score_homes(scores, place, pair_start, graphs(homes, words=self.knows_words), *known)
        if np.any(place[number] != begin):  # of a pair that comes again only the last place was written
            scores = scores[spans(place[number], place[number] + many)]
        return CandidateScores(scores, pair, item)


def network_weights(parameters: Mapping[str, npt.NDArray[np.floating]], given: Table) -> Weights:
    """The parameters of the evidence network as the compiled loops take them, given the given features of each rule.

    A network without words has zeros for these.
    """
    first, direct = parameters["first"], parameters["direct"]
    hidden = first.shape[1]
    both, bias = np.zeros((len(NAMES), hidden + 1), dtype=np.float32), np.zeros(hidden + 1, dtype=np.float32)
    used = used_features(words=len(first) == len(NAMES))
    both[used, :hidden], both[used, hidden] = first, direct
    bias[:hidden] = parameters["first_bias"]
    of_rule = given @ both[N_HOME:N_TYPED] + bias
    return Weights(*map(read_only, (of_rule, both, np.array(parameters["last"], dtype=np.float32))))


def used_features(*, words: bool) -> Mask:
    """[n_features]: those that a network takes which does, or does not, know words."""
    return ~IS_WORD | words


def network_shapes(hidden: int, *, words: bool) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters of an evidence network by name."""
    n = int(used_features(words=words).sum())
    return {
        "direct": (n,),
        "first": (n, hidden),
        "first_bias": (hidden,),
        "last": (hidden,),
    }


def too_many_rules(n_valid: int) -> str:
    """Why evidence of so many valid rules is refused."""
    return (
        f"evidence of {n_valid:,} valid rules, more than {MOST_RULES:,}, would not fit into memory; "
        "use a method without evidence, e.g. graphrule, or fewer types and relations"
    )
