"""Hidden rules beside as many sampled non-rules, with the scores of both and the rank of each rule on its device pair.

Non-rules are drawn by `datasets.negatives`, never a rule of train, validation or test. The draw depends on the split,
the part and the seed only: all methods are asked about the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baselines.method import Fitted, Scores
from benchmarks.metrics import Values
from benchmarks.scoring import hidden_part, narrow, pairs_at_once, score
from benchmarks.streams import Stream, generator
from datasets import negatives
from datasets.candidates import Pairs
from datasets.homes import Array, Homes, Mask, Rules
from datasets.splits import Hidden, Split
from datasets.valid import ValidRules

STREAMS = {
    ("test", "paper"): Stream.TEST_NON_RULES,
    ("validation", "paper"): Stream.VALIDATION_NON_RULES,
    ("test", "feasible"): Stream.TEST_FEASIBLE,
    ("validation", "feasible"): Stream.VALIDATION_FEASIBLE,
}
COLUMNS = ("home", "trigger", "action", "relation")


@dataclass(frozen=True, slots=True)
class Sampled:
    """Hidden rules and non-rules with their scores, in the order of their device pairs."""

    homes: Homes  # those with hidden rules
    rules: Rules  # [n_examples]
    kind: Array  # [n_examples]  0 for a hidden rule, 1 for a non-rule of the first kind that was asked for, and so on
    score: Values  # [n_examples]
    rank: Values  # [n_hidden]  among all relations of the rule's device pair; NaN scores lie below all others
    rank_rt: Values  # [n_hidden]  with the known rules of the pair removed

    @property
    def positive(self) -> Mask:
        """[n_examples]: whether it is a hidden rule."""
        return np.equal(self.kind, 0)


def sampled_rules(
    fitted: Fitted, split: Split, *, part: str, seed: int, chunk: int, kinds: Sequence[str] = ("paper",)
) -> Sampled:
    """Score a part's hidden rules and as many non-rules of each kind, of the same homes, a chunk of pairs at a time."""
    hidden = hidden_part(split, part)
    drawn = [_non_rules(hidden, split, part=part, seed=seed, kind=kind) for kind in kinds]
    homes, examples = narrow(hidden, *drawn)
    pairs = Pairs.of(homes, self_pairs=True)
    together = ([getattr(some, column) for some in examples] for column in COLUMNS)
    rules = Rules(*(np.concatenate(columns) for columns in together))
    order = np.argsort(pairs.number(rules), kind="stable")
    rules, of_kind = rules.take(order), np.repeat(np.arange(len(examples)), [len(some) for some in examples])[order]
    positive = of_kind == 0
    pair = pairs.number(rules)
    asked = np.unique(pair)
    known_pair = pairs.number(homes.rules)
    known = np.argsort(known_pair)[np.isin(np.sort(known_pair), asked)]  # rules of the pairs that are asked about
    known_pair, known_relation = known_pair[known], homes.rules.relation[known]

    scores = np.empty(len(rules))
    ranks = np.full((2, len(rules)), np.nan)
    limit = pairs_at_once(homes, chunk)
    for begin in range(0, len(asked), limit):
        some = asked[begin : begin + limit]
        _, trigger, action = pairs.devices(some)
        block = score(fitted, homes, trigger, action)
        here = slice(*np.searchsorted(pair, [some[0], some[-1] + 1]))
        row, relation, mine = np.searchsorted(some, pair[here]), rules.relation[here], positive[here]
        scores[here] = block[row, relation]
        block[np.isnan(block)] = -np.inf
        ranks[0, here][mine] = _rank_in_row(block, row[mine], relation[mine])
        taken = slice(*np.searchsorted(known_pair, [some[0], some[-1] + 1]))
        block[np.searchsorted(some, known_pair[taken]), known_relation[taken]] = np.nan  # neither above nor level
        ranks[1, here][mine] = _rank_in_row(block, row[mine], relation[mine])
    return Sampled(homes, rules, of_kind, scores, ranks[0, positive], ranks[1, positive])


def _non_rules(hidden: Hidden, split: Split, *, part: str, seed: int, kind: str) -> Rules:
    rng = generator(STREAMS[part, kind], seed, split.seed)
    valid = ValidRules.of(split.train) if kind == "feasible" else None
    return negatives.sample(kind, hidden.homes, hidden.rules, rng=rng, forbidden=split.forbidden, valid=valid)


def _rank_in_row(block: Scores, row: Array, relation: Array) -> Values:
    """The rank of each cell in its row, the highest first; ties take their average, NaN is not in the list."""
    own, cells = block[row, relation][:, None], block[row]
    return np.asarray((np.count_nonzero(cells > own, axis=1) + np.count_nonzero(cells >= own, axis=1) + 1) / 2)
