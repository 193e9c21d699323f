"""Protocol `ranking`: the rank of every hidden rule among all rules that its home could add.

Candidates are every ordered device pair x every relation minus the rules known at the time; the filtered list keeps
those whose (type, relation, type) is valid. Other hidden rules of the home stay candidates: at the time of the
prediction nobody knows which of them comes next. With g candidates above the hidden rule and e tied with it (itself
included), its rank is g + (e + 1) / 2. A candidate without a score (NaN) is below all others.

Gains are averaged over hidden rules; `mrr_home` and `hr@10_home` average over homes instead. A plain name is with the
valid filter, "<name>, all" without it. A rule whose triple was never seen in training cannot be found under the filter
and counts as a miss there (`unseen` is their number); so does one without a score (`unanswered`). Hidden rules decide
nothing about the candidates: a device may act on itself only if a known rule has such a pair, and a hidden rule that is
no candidate, also as its relation is too rare in training (`datasets.splits`), is a miss everywhere (`not_candidates`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from baselines.method import Fitted, Scores
from baselines.scoring import Values, allows_self_pairs, hidden_part, pairs_at_once, restrict_homes, score
from benchmarks.evaluation.metrics import Evaluation, discounted_gain, hits, mean, mean_by, reciprocal_rank
from datasets.candidates import Pairs
from datasets.homes import Array, Homes, Mask, Rules
from datasets.splits import Hidden, Split
from datasets.valid import ValidRules

WHOLE = 128  # chunks: a larger home is scored in pieces, and twice
MANY = 8  # hidden rules of a home scored alone from which sorting its candidates beats comparing with each rule
LONGEST = 50  # end of the hit-rate curve
HITS = (1, 3, 5, 10, 20, 50)  # points of the curve that homes and slices have as well
SIZES = ((1, 2), (3, 5), (6, 10), (11, 20), (21, None))  # devices of a home, both ends included


class Ranks(NamedTuple):
    """Ranks of hidden rules; infinite where a rule has no score or is not in the list."""

    score: Scores  # [n_hidden]
    valid: Values  # [n_hidden]  among valid candidates
    every: Values  # [n_hidden]  among all candidates
    n_valid: Array  # [n_homes]  valid candidates of the home
    n_every: Array  # [n_homes]  all candidates of the home


def rank_hidden(fitted: Fitted, hidden: Hidden, *, valid: ValidRules, self_pairs: bool, chunk: int) -> Ranks:
    """Ranks with and without the valid filter. Every home has to have a hidden rule; `chunk` changes no number."""
    homes, rules = hidden.homes, hidden.every
    candidates = Candidates.of(fitted, homes, valid=valid, self_pairs=self_pairs)
    pairs = candidates.pairs
    pair = np.where(is_candidate(rules, self_pairs), pairs.number(rules), -1)
    scores = np.full(len(rules), np.nan, dtype=np.float32)
    twice = np.zeros((2, len(rules)), dtype=np.int64)  # 2 g + e, filtered and unfiltered
    lengths = np.zeros((2, homes.n_homes), dtype=np.int64)
    limit = pairs_at_once(homes, chunk)
    for first, end in pairs.runs(limit):
        here = slice(*np.searchsorted(rules.home, [first, end]))
        cuts = [*range(pairs.start[first], pairs.start[end], WHOLE * limit), int(pairs.start[end])]
        kept = candidates.block(first, end, *cuts) if len(cuts) == 2 else None  # one piece serves both loops
        for begin, behind in pairwise(cuts):
            block = kept or candidates.block(first, end, begin, behind)
            inside = np.flatnonzero((pair[here] >= begin) & (pair[here] < behind))
            scores[here][inside] = block.scores[pair[here][inside] - begin, rules.relation[here][inside]]
        for begin, behind in pairwise(cuts):
            block = kept or candidates.block(first, end, begin, behind)
            twice[:, here] += block.count(rules.home[here] - first, scores[here])
            lengths[:, first:end] += block.lengths
    seen = is_seen(homes, rules, valid)
    rank = np.where(np.isnan(scores), np.inf, (twice + 1) / 2)
    return Ranks(scores, np.where(seen, rank[0], np.inf), rank[1], *lengths)


def is_candidate(rules: Rules, self_pairs: bool) -> Mask:
    """[n_rules]: whether its relation is in the vocabulary and its devices are a pair."""
    return (rules.relation >= 0) & (self_pairs | (rules.trigger != rules.action))


def is_seen(homes: Homes, rules: Rules, valid: ValidRules) -> Mask:
    """[n_rules]: whether the triple was seen in training."""
    trigger_type, relation, action_type = homes.typed(rules)
    return (relation >= 0) & valid.contains(trigger_type, action_type, np.maximum(relation, 0))


@dataclass(frozen=True, slots=True)
class Block:
    """Scores of pairs of neighbouring homes, or of a piece of one home."""

    scores: Scores  # [n_pairs, n_relations]  NaN for known rules and missing scores
    valid: Mask  # [n_pairs, n_relations]
    pairs: Array  # [n_homes]  of each home
    lengths: Array  # [2, n_homes]  valid and all candidates of each home

    def count(self, home: Array, threshold: Scores) -> Array:
        """[2, n_rules]: 2 g + e among valid and among all candidates, for rules sorted by their home in the block."""
        if len(self.pairs) == 1 and len(home) > MANY:
            return np.stack([_by_sorting(cells, threshold) for cells in (self.scores[self.valid], self.scores)])
        twice = np.zeros((2, len(home)), dtype=np.int64)
        layer = np.arange(len(home)) - np.searchsorted(home, home)  # 0 for the first rule of each home, then 1, ...
        scores, valid, pairs, homes = self.scores, self.valid, self.pairs, np.arange(len(self.pairs))
        for number in range(layer.max() + 1):
            chosen = np.flatnonzero(layer == number)
            if len(chosen) < len(homes):  # only the homes that have so many rules
                stay = np.isin(homes, home[chosen], assume_unique=True)
                rows = np.repeat(stay, pairs)
                scores, valid, pairs, homes = scores[rows], valid[rows], pairs[stay], homes[stay]
            twice[:, chosen] = _by_comparing(scores, valid, pairs, threshold[chosen])
        return twice


def _by_comparing(scores: Scores, valid: Mask, pairs: Array, threshold: Scores) -> Array:
    """One rule of each home against the home's candidates."""
    least = np.repeat(threshold, pairs)[:, None]
    points = (scores > least).view(np.uint8)  # 2 above the rule, 1 tied with it, 0 below or NaN
    points += (scores >= least).view(np.uint8)
    every = _sum_by_home(points, pairs)
    points *= valid.view(np.uint8)
    return np.stack([_sum_by_home(points, pairs), every])


def _sum_by_home(points: npt.NDArray[np.uint8], pairs: Array) -> Array:
    n_pairs, n_relations = points.shape
    narrow = np.uint16 if n_relations < 2**15 else np.int64  # a row's sum fits; reduceat casts all of its input
    rows = np.add.reduceat(points.ravel(), np.arange(n_pairs) * n_relations, dtype=narrow)
    return np.add.reduceat(rows, np.cumsum(pairs) - pairs, dtype=np.int64)


def _by_sorting(cells: Scores, threshold: Scores) -> npt.NDArray[np.intp]:
    """All rules of one home against its candidates: (n - right) + (n - left) places of n sorted numbers."""
    ordered = np.sort(cells, axis=None)
    n = np.searchsorted(ordered, np.float32(np.nan))  # NaN is sorted behind all numbers
    return 2 * n - np.searchsorted(ordered, threshold, side="right") - np.searchsorted(ordered, threshold)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The scored candidates of homes, block by block."""

    fitted: Fitted
    pairs: Pairs
    valid: ValidRules
    known_pair: Array  # [n_known]  sorted
    known_relation: Array  # [n_known]

    @classmethod
    def of(cls, fitted: Fitted, homes: Homes, *, valid: ValidRules, self_pairs: bool) -> Candidates:
        pairs, known = Pairs.of(homes, self_pairs=self_pairs), homes.rules
        number = pairs.number(known)
        order = np.argsort(number)
        return cls(fitted, pairs, valid, number[order], known.relation[order])

    def block(self, first: int, end: int, begin: int, behind: int) -> Block:
        """Pairs `begin` to before `behind`: all of homes `first` to before `end`, or a piece of a lone home."""
        _, trigger, action = self.pairs.devices(np.arange(begin, behind))
        scores = score(self.fitted, self.pairs.homes, trigger, action)
        some = slice(*np.searchsorted(self.known_pair, [begin, behind]))
        row, relation = self.known_pair[some] - begin, self.known_relation[some]
        scores[row, relation] = np.nan
        valid, n_valid = self._valid(trigger, action)
        bounds = np.clip(self.pairs.start[first : end + 1], begin, behind)
        pairs = bounds[1:] - bounds[:-1]
        start = np.cumsum(pairs) - pairs
        home = np.searchsorted(start, row, side="right") - 1
        taken = [np.bincount(home[which], minlength=len(pairs)) for which in (valid[row, relation], slice(None))]
        lengths = np.stack([np.add.reduceat(n_valid, start), pairs * scores.shape[1]]) - taken
        return Block(scores, valid, pairs, lengths)

    def _valid(self, trigger: Array, action: Array) -> tuple[Mask, Array]:
        """[n_pairs, n_relations]: the rows of the valid-rule tensor for the types of these pairs; their counts."""
        types, valid = self.pairs.homes.device_type, self.valid
        type_pair = types[trigger] * valid.n_types + types[action]
        present = np.bincount(type_pair, minlength=valid.n_types**2) > 0
        row = np.cumsum(present) - 1  # only the pairs of types that occur here: the tensor itself may be large
        table = np.zeros((row[-1] + 1, valid.n_relations), dtype=np.bool_)
        cell = valid.cell[present[valid.cell // valid.n_relations]]
        table[row[cell // valid.n_relations], cell % valid.n_relations] = True
        return np.take(table, row[type_pair], axis=0), np.diff(valid.start)[type_pair]


def evaluate_ranking(fitted: Fitted, split: Split, *, part: str, chunk: int) -> Evaluation:
    """Valid are the triples that the model was trained on, those of `split.train`."""
    valid = ValidRules.of(split.train)
    hidden, self_pairs = hidden_part(split, part), allows_self_pairs(split, part)
    homes, (rules, rare) = restrict_homes(hidden, hidden.rare)
    hidden = Hidden(homes, rules, rare)
    ranks = rank_hidden(fitted, hidden, valid=valid, self_pairs=self_pairs, chunk=chunk)
    rules = hidden.every
    seen = is_seen(homes, rules, valid)
    answered = ~np.isnan(ranks.score)
    gains = _gains(ranks)

    summary = _counts(rules.home, seen, answered)
    summary["not_candidates"] = float(np.count_nonzero(~is_candidate(rules, self_pairs)))
    for name, rank in (("", ranks.valid), (", all", ranks.every)):
        summary |= {f"hr@{n}{name}": mean(hits(rank, n)) for n in range(1, LONGEST + 1)}
    summary |= {name: mean(gain) for name, gain in gains.items()}
    for name in ("mrr", "hr@10", "mrr, all", "hr@10, all"):
        metric, comma, every = name.partition(",")
        summary[f"{metric}_home{comma}{every}"] = mean(mean_by(gains[name], rules.home, homes.n_homes))
    devices = np.diff(homes.device_start)
    for name, chosen in _slices(devices[rules.home], seen):
        counts = _counts(rules.home[chosen], seen[chosen], answered[chosen])
        part_of = counts | {metric: mean(gain[chosen]) for metric, gain in gains.items()}
        summary |= {f"{name}: {metric}": value for metric, value in part_of.items()}

    home_table = pd.DataFrame(
        {
            "user": homes.users,
            "devices": devices,
            "candidates": ranks.n_valid,
            "candidates, all": ranks.n_every,
            "n_hidden": np.bincount(rules.home),
            "unseen": np.bincount(rules.home, ~seen).astype(np.int64),
            "unanswered": np.bincount(rules.home, ~answered).astype(np.int64),
        }
        | {name: mean_by(gain, rules.home, homes.n_homes) for name, gain in gains.items()}
    )
    rule_table = pd.DataFrame(
        {
            "user": homes.users[rules.home],
            "trigger": homes.device_ids[rules.trigger],
            "action": homes.device_ids[rules.action],
            "relation": rules.relation,
            "devices": devices[rules.home],
            "seen": seen,
            "score": ranks.score,
            "rank": ranks.valid,
            "rank, all": ranks.every,
        }
    )
    return Evaluation("ranking", summary, rule_table, home_table)


def _gains(ranks: Ranks) -> dict[str, Values]:
    """The main metrics of each hidden rule by name."""
    gains: dict[str, Values] = {}
    for name, rank in (("", ranks.valid), (", all", ranks.every)):
        gains |= {f"hr@{n}{name}": hits(rank, n) for n in HITS}
        gains[f"mrr{name}"] = reciprocal_rank(rank)
        gains[f"mrr@50{name}"] = reciprocal_rank(rank, 50)
        gains[f"ndcg@10{name}"] = discounted_gain(rank, 10)
    return gains


def _counts(home: Array, seen: Mask, answered: Mask) -> dict[str, float]:
    """How many there are; `home` is sorted."""
    return {
        "hidden": float(len(home)),
        "homes": float(np.count_nonzero(np.diff(home, prepend=-1))),
        "unseen": float(np.count_nonzero(~seen)),
        "unanswered": float(np.count_nonzero(~answered)),
    }


def _slices(devices: Array, seen: Mask) -> Iterator[tuple[str, Mask]]:
    """Hidden rules by whether their triple was seen in training, and by the size of their home."""
    yield "seen", seen
    yield "unseen", ~seen
    for least, most in SIZES:
        name = f"devices {least}-{most}" if most else f"devices >{least - 1}"
        yield name, (devices >= least) & (devices <= (most or np.inf))
