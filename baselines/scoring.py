"""Scores of a fitted model in bounded chunks, and the scores of a part's rules beside as many sampled non-rules.

Non-rules are drawn by `datasets.negatives`, never a rule of train, validation or test. The draw depends on the split,
the part and the seed only, so that all methods, and all rounds of one, are compared on the same examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from baselines.method import Fitted, Scores
from datasets import negatives
from datasets.candidates import Pairs, has_self_rules
from datasets.common.errors import DataError, unknown
from datasets.common.random import Stream, generator
from datasets.homes import Array, Homes, HomeSubset, Mask, Rules
from datasets.splits import Hidden, Split
from datasets.valid import ValidRules

Values: TypeAlias = npt.NDArray[np.float64]

CHUNK = 1 << 20  # candidates scored at a time: 4 MB of scores, which fit into a cache
CHECKED_AT_ONCE = 1 << 18  # scores that are checked or counted at a time: 1 MB
PARTS = ("test", "validation")
STREAMS = {
    ("test", "paper"): Stream.TEST_NON_RULES,
    ("validation", "paper"): Stream.VALIDATION_NON_RULES,
    ("train", "paper"): Stream.TRAIN_NON_RULES,
    ("test", "feasible"): Stream.TEST_FEASIBLE,
    ("validation", "feasible"): Stream.VALIDATION_FEASIBLE,
    ("train", "feasible"): Stream.TRAIN_FEASIBLE,
}
COLUMNS = ("home", "trigger", "action", "relation")


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRules:
    """The training rules as queries: unlike hidden rules they are in the graph while they are scored."""

    homes: Homes
    rules: Rules  # those of `homes`, sorted by home

    def __len__(self) -> int:
        return len(self.rules)


def part_rules(split: Split, part: str) -> Hidden | TrainingRules:
    """The rules to score of a part: the hidden ones of `test` or `validation`, or with `train` the training rules."""
    if part != "train":
        return hidden_part(split, part)
    if not split.train.n_rules:
        raise DataError(f"{split.train.name}: {split.name} leaves no rule to train on; give homes with more rules")
    return TrainingRules(split.train, split.train.rules)


def hidden_part(split: Split, part: str) -> Hidden:
    """The hidden rules of `test` or `validation`; an error if there are none."""
    if part not in PARTS:
        raise unknown("part of a split", part, PARTS)
    hidden = split.test if part == "test" else split.validation
    if not len(hidden.rules):
        carved = part == "test" or bool(split.parameters["validation"])
        remedy = "give homes with more rules" if carved else "split with validation=True"
        remedy = "choose a smaller min_pair_count" if len(hidden.rare) else remedy
        raise DataError(f"{hidden.homes.name}: {split.name} hides no rule in its {part} part; {remedy}")
    return hidden


def restrict_homes(queries: Hidden | TrainingRules, *more: Rules) -> tuple[Homes, tuple[Rules, ...]]:
    """The homes with queries or more rules, so that no other is ever scored; both renumbered to them."""
    with_rules = np.concatenate([rules.home for rules in (queries.rules, *more)])
    subset = HomeSubset.of(queries.homes, np.flatnonzero(np.bincount(with_rules)))
    moved = (rules.moved(np.searchsorted(subset.chosen, rules.home), subset.shift) for rules in (queries.rules, *more))
    return subset.homes, tuple(moved)


def allows_self_pairs(split: Split, part: str) -> bool:
    """Whether a rule that is known when a part is predicted lets a device act on itself: then any device may."""
    return has_self_rules(split.train.rules, part_rules(split, part).homes.rules)


def pairs_at_once(homes: Homes, chunk: int) -> int:
    """How many device pairs make a chunk of candidates; at least one."""
    if chunk < 1:
        raise DataError(f"chunk must be at least 1 candidate, got {chunk}")
    return max(chunk // max(len(homes.relations), 1), 1)


def score(fitted: Fitted, homes: Homes, trigger: Array, action: Array) -> Scores:
    """[n_pairs, n_relations] for pairs sorted by home; the model may keep the array, so that it must not be changed.

    The model gets only the homes from the first pair's to the last pair's, so that its memory is bounded by the chunk.
    """
    first, last = homes.device_home[trigger[[0, -1]]]
    shown = homes.subset(np.arange(first, last + 1))
    shift = np.searchsorted(homes.device_home, first)
    scores = np.asarray(fitted.score_pairs(shown, trigger - shift, action - shift))
    if scores.shape != (len(trigger), len(homes.relations)):
        wanted = f"[{len(trigger)} pairs, {len(homes.relations)} relations]"
        raise DataError(f"{type(fitted).__name__}.score_pairs returned shape {scores.shape} instead of {wanted}")
    rows = pairs_at_once(homes, CHECKED_AT_ONCE)
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, refused below
        own = scores.astype(np.float32, copy=False)
    if any(np.isinf(own[at : at + rows]).any() for at in range(0, len(own), rows)):
        raise DataError(f"{type(fitted).__name__}.score_pairs returned an infinite score; scores must be finite or NaN")
    return own


@dataclass(frozen=True, slots=True)
class ScoredExamples:
    """Rules and sampled non-rules with their scores, sorted by device pair."""

    homes: Homes  # those with examples
    rules: Rules  # [n_examples]
    kind: Array  # [n_examples]  0 for a rule, 1 for a non-rule of the first kind drawn, and so on
    score: Values  # [n_examples]
    rank: Values  # [n_rules]  among all relations of the rule's device pair; NaN scores come last
    rank_rt: Values  # [n_rules]  with the known rules of the pair removed; NaN where the rule itself is known

    @property
    def positive(self) -> Mask:
        """[n_examples]: whether it is a rule."""
        return np.equal(self.kind, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """A part's rules and sampled non-rules; drawn once, scored by many models."""

    homes: Homes  # those with examples
    pairs: Pairs  # of `homes`
    rules: Rules  # [n_examples]  sorted by device pair
    kind: Array  # [n_examples]  as in `ScoredExamples`
    known: Rules  # of the examples' pairs, sorted by device pair
    trained: bool  # the rules are training rules, hence known

    @classmethod
    def of(
        cls, split: Split, *, part: str, seed: int, kinds: Sequence[str] = ("paper",), of_homes: Array | None = None
    ) -> Examples:
        """A part's rules and as many non-rules of each kind, of the same homes; only of the homes `of_homes`, if given.

        Non-rules are drawn for all homes of the part, so that those of a home do not depend on `of_homes`.
        """
        queries = part_rules(split, part)
        drawn = [_non_rules(queries, split, part=part, seed=seed, kind=kind) for kind in kinds]
        if of_homes is not None:
            queries = replace(queries, rules=queries.rules.take(np.isin(queries.rules.home, of_homes)))
            drawn = [rules.take(np.isin(rules.home, of_homes)) for rules in drawn]
        homes, examples = restrict_homes(queries, *drawn)
        pairs = Pairs.of(homes, self_pairs=True)
        together = ([getattr(some, column) for some in examples] for column in COLUMNS)
        rules = Rules(*(np.concatenate(columns) for columns in together))
        pair = pairs.number(rules)
        order = np.argsort(pair, kind="stable")
        known_pair = pairs.number(homes.rules)
        known = np.argsort(known_pair)[np.isin(np.sort(known_pair), pair)]
        kind = np.repeat(np.arange(len(examples)), [len(some) for some in examples])
        return cls(
            homes,
            pairs,
            rules.take(order),
            kind[order],
            homes.rules.take(known),
            trained=isinstance(queries, TrainingRules),
        )

    def score(self, fitted: Fitted, *, chunk: int) -> ScoredExamples:
        """Score them with a model, a chunk of pairs at a time."""
        positive = self.kind == 0
        pair, known_pair = self.pairs.number(self.rules), self.pairs.number(self.known)
        distinct = np.unique(pair)
        scores = np.empty(len(self.rules))
        ranks = np.full((2, len(self.rules)), np.nan)
        limit = pairs_at_once(self.homes, chunk)
        for begin in range(0, len(distinct), limit):
            some = distinct[begin : begin + limit]
            _, trigger, action = self.pairs.devices(some)
            block = score(fitted, self.homes, trigger, action)
            here = slice(*np.searchsorted(pair, [some[0], some[-1] + 1]))
            row, relation, mine = np.searchsorted(some, pair[here]), self.rules.relation[here], positive[here]
            scores[here] = block[row, relation]
            block = np.where(np.isnan(block), -np.inf, block)
            ranks[0, here][mine] = _rank_in_row(block, row[mine], relation[mine])
            if self.trained:  # removing the pair's known rules would remove the rule itself
                continue
            taken = slice(*np.searchsorted(known_pair, [some[0], some[-1] + 1]))
            removed = np.searchsorted(some, known_pair[taken]), self.known.relation[taken]
            block[removed] = np.nan  # neither above nor tied
            ranks[1, here][mine] = _rank_in_row(block, row[mine], relation[mine])
        return ScoredExamples(self.homes, self.rules, self.kind, scores, ranks[0, positive], ranks[1, positive])


def score_examples(
    fitted: Fitted, split: Split, *, part: str, seed: int, chunk: int, kinds: Sequence[str] = ("paper",)
) -> ScoredExamples:
    """Score a part's rules and as many non-rules of each kind, of the same homes."""
    return Examples.of(split, part=part, seed=seed, kinds=kinds).score(fitted, chunk=chunk)


def _non_rules(queries: Hidden | TrainingRules, split: Split, *, part: str, seed: int, kind: str) -> Rules:
    rng = generator(STREAMS[part, kind], seed, split.seed)
    valid = ValidRules.of(split.train) if kind == "feasible" else None
    rules, forbidden, self_pairs = queries.rules, list(split.forbidden), allows_self_pairs(split, part)
    wanted = np.bincount(rules.home, minlength=queries.homes.n_homes)
    if not self_pairs:  # a hidden rule of a device with itself is on no pair that a non-rule could have
        rules, *forbidden = [each.take(each.trigger != each.action) for each in (rules, *forbidden)]
    return negatives.sample(
        kind, queries.homes, rules, rng=rng, forbidden=forbidden, valid=valid, wanted=wanted, self_pairs=self_pairs
    )


def _rank_in_row(block: Scores, row: Array, relation: Array) -> Values:
    """The rank of each cell in its row, the highest first; ties take their average, NaN is not in the list."""
    own, cells = block[row, relation][:, None], block[row]
    return np.asarray((np.count_nonzero(cells > own, axis=1) + np.count_nonzero(cells >= own, axis=1) + 1) / 2)
