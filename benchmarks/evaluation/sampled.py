"""Rules asked for beside as many sampled non-rules: the scores of both, and the rank of each rule on its device pair.

Non-rules are drawn by `datasets.negatives`, never a rule of train, validation or test. The draw depends on the split,
the part and the seed only: all methods, and all rounds of one, are asked about the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from baselines.method import Fitted, Scores
from benchmarks.evaluation.metrics import Values
from benchmarks.evaluation.scoring import Trained, asked_part, narrow, pairs_at_once, score
from datasets.common.streams import Stream, generator
from datasets import negatives
from datasets.candidates import Pairs
from datasets.homes import Array, Homes, Mask, Rules
from datasets.splits import Hidden, Split
from datasets.valid import ValidRules

STREAMS = {
    ("test", "paper"): Stream.TEST_NON_RULES,
    ("validation", "paper"): Stream.VALIDATION_NON_RULES,
    ("train", "paper"): Stream.TRAIN_NON_RULES,
    ("test", "feasible"): Stream.TEST_FEASIBLE,
    ("validation", "feasible"): Stream.VALIDATION_FEASIBLE,
    ("train", "feasible"): Stream.TRAIN_FEASIBLE,
}
COLUMNS = ("home", "trigger", "action", "relation")


@dataclass(frozen=True, slots=True)
class Sampled:
    """Rules asked for and non-rules with their scores, in the order of their device pairs."""

    homes: Homes  # those that are asked about
    rules: Rules  # [n_examples]
    kind: Array  # [n_examples]  0 for a rule asked for, 1 for a non-rule of the first kind that was drawn, and so on
    score: Values  # [n_examples]
    rank: Values  # [n_asked]  among all relations of the rule's device pair; NaN scores lie below all others
    rank_rt: Values  # [n_asked]  with the known rules of the pair removed; NaN where the rule itself is known

    @property
    def positive(self) -> Mask:
        """[n_examples]: whether it is a rule asked for."""
        return np.equal(self.kind, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What every model is asked about a part of a split; drawn once, it can be put to many models."""

    homes: Homes  # those that are asked about
    pairs: Pairs  # of `homes`
    rules: Rules  # [n_examples]  in the order of their device pairs
    kind: Array  # [n_examples]  as in `Sampled`
    known: Rules  # of the pairs that are asked about, in the order of their device pairs
    trained: bool  # the rules asked for are among the known ones

    @classmethod
    def of(
        cls, split: Split, *, part: str, seed: int, kinds: Sequence[str] = ("paper",), of_homes: Array | None = None
    ) -> Examples:
        """A part's rules and as many non-rules of each kind, of the same homes; of some of these homes, if given.

        Non-rules are drawn for all homes of the part: those of a home do not depend on which others are asked about.
        """
        asked = asked_part(split, part)
        drawn = [_non_rules(asked, split, part=part, seed=seed, kind=kind) for kind in kinds]
        if of_homes is not None:
            asked = replace(asked, rules=asked.rules.take(np.isin(asked.rules.home, of_homes)))
            drawn = [rules.take(np.isin(rules.home, of_homes)) for rules in drawn]
        homes, examples = narrow(asked, *drawn)
        pairs = Pairs.of(homes, self_pairs=True)
        together = ([getattr(some, column) for some in examples] for column in COLUMNS)
        rules = Rules(*(np.concatenate(columns) for columns in together))
        pair = pairs.number(rules)
        order = np.argsort(pair, kind="stable")
        known_pair = pairs.number(homes.rules)
        known = np.argsort(known_pair)[np.isin(np.sort(known_pair), pair)]
        kind = np.repeat(np.arange(len(examples)), [len(some) for some in examples])
        return cls(
            homes, pairs, rules.take(order), kind[order], homes.rules.take(known), trained=isinstance(asked, Trained)
        )

    def score(self, fitted: Fitted, *, chunk: int) -> Sampled:
        """The answers of a model, a chunk of pairs at a time."""
        positive = self.kind == 0
        pair, known_pair = self.pairs.number(self.rules), self.pairs.number(self.known)
        asked = np.unique(pair)
        scores = np.empty(len(self.rules))
        ranks = np.full((2, len(self.rules)), np.nan)
        limit = pairs_at_once(self.homes, chunk)
        for begin in range(0, len(asked), limit):
            some = asked[begin : begin + limit]
            _, trigger, action = self.pairs.devices(some)
            block = score(fitted, self.homes, trigger, action)
            here = slice(*np.searchsorted(pair, [some[0], some[-1] + 1]))
            row, relation, mine = np.searchsorted(some, pair[here]), self.rules.relation[here], positive[here]
            scores[here] = block[row, relation]
            block[np.isnan(block)] = -np.inf
            ranks[0, here][mine] = _rank_in_row(block, row[mine], relation[mine])
            if self.trained:  # without the pair's known rules the rule itself would not be in the list
                continue
            taken = slice(*np.searchsorted(known_pair, [some[0], some[-1] + 1]))
            removed = np.searchsorted(some, known_pair[taken]), self.known.relation[taken]
            block[removed] = np.nan  # neither above nor level
            ranks[1, here][mine] = _rank_in_row(block, row[mine], relation[mine])
        return Sampled(self.homes, self.rules, self.kind, scores, ranks[0, positive], ranks[1, positive])


def sampled_rules(
    fitted: Fitted, split: Split, *, part: str, seed: int, chunk: int, kinds: Sequence[str] = ("paper",)
) -> Sampled:
    """Score a part's rules and as many non-rules of each kind, of the same homes."""
    return Examples.of(split, part=part, seed=seed, kinds=kinds).score(fitted, chunk=chunk)


def _non_rules(asked: Hidden | Trained, split: Split, *, part: str, seed: int, kind: str) -> Rules:
    rng = generator(STREAMS[part, kind], seed, split.seed)
    valid = ValidRules.of(split.train) if kind == "feasible" else None
    return negatives.sample(kind, asked.homes, asked.rules, rng=rng, forbidden=split.forbidden, valid=valid)


def _rank_in_row(block: Scores, row: Array, relation: Array) -> Values:
    """The rank of each cell in its row, the highest first; ties take their average, NaN is not in the list."""
    own, cells = block[row, relation][:, None], block[row]
    return np.asarray((np.count_nonzero(cells > own, axis=1) + np.count_nonzero(cells >= own, axis=1) + 1) / 2)
