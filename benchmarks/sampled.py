"""Hidden rules beside as many sampled non-rules, with the scores of both and the rank of each rule on its device pair.

Non-rules are drawn by `datasets.negatives.paper`, never a rule of train, validation or test. The draw depends on the
split and the seed only: all methods are asked about the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baselines.method import Fitted, Scores
from benchmarks.metrics import Values
from benchmarks.scoring import hidden_part, narrow, pairs_at_once, score
from datasets import negatives
from datasets.candidates import Pairs
from datasets.homes import Array, Homes, Mask, Rules
from datasets.splits import Split

COLUMNS = ("home", "trigger", "action", "relation")


@dataclass(frozen=True, slots=True)
class Sampled:
    """Hidden rules and non-rules with their scores, in the order of their device pairs."""

    homes: Homes  # those with hidden rules
    rules: Rules  # [n_examples]
    positive: Mask  # [n_examples]  whether it is a hidden rule
    score: Values  # [n_examples]
    rank: Values  # [n_hidden]  among all relations of the rule's device pair; NaN scores lie below all others
    rank_rt: Values  # [n_hidden]  with the known rules of the pair removed


def sampled_rules(fitted: Fitted, split: Split, *, part: str, seed: int, chunk: int) -> Sampled:
    """Score a part's hidden rules and as many non-rules of the same homes, a chunk of device pairs at a time."""
    hidden = hidden_part(split, part)
    drawn = negatives.paper(
        hidden.homes, hidden.rules, rng=np.random.default_rng([seed, split.seed]), forbidden=split.forbidden
    )
    homes, (positives, others) = narrow(hidden, drawn)
    pairs = Pairs.of(homes, self_pairs=True)
    both = ((getattr(positives, column), getattr(others, column)) for column in COLUMNS)
    rules = Rules(*(np.concatenate(columns) for columns in both))
    order = np.argsort(pairs.number(rules), kind="stable")
    rules, positive = rules.take(order), order < len(positives)
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
    return Sampled(homes, rules, positive, scores, ranks[0, positive], ranks[1, positive])


def _rank_in_row(block: Scores, row: Array, relation: Array) -> Values:
    """The rank of each cell in its row, the highest first; ties take their average, NaN is not in the list."""
    own, cells = block[row, relation][:, None], block[row]
    return np.asarray((np.count_nonzero(cells > own, axis=1) + np.count_nonzero(cells >= own, axis=1) + 1) / 2)
