"""Protocol `ranking`: the place of every hidden rule among all rules that its home could add.

Candidates are every ordered device pair x every relation minus the rules known at the time. There are three lists:

- "": the candidates whose (type, relation, type) is valid, i.e. was seen in training;
- "all": all candidates, without the valid filter;
- "closed": the valid candidates between devices that have a known rule, and only the hidden rules between such devices.
  A device without a known rule, an orphan, is a hint where homes list only devices that are used by rules: one of
  these is hidden. No method can gain by it here.

Gains are averaged over hidden rules; `mrr_home` and `hr@10_home` average over homes instead. These are filtered: the
home's other hidden rules are left out of the list (Bordes et al. 2013, "Translating embeddings for modeling
multi-relational data", NeurIPS), so that a perfect order has 1 wherever all hidden rules are in the list. With ", raw"
they stay in it. `mrr_first`, `recall@10`, `ndcg@10` and `map` are per home, with all of its hidden rules as the
relevant ones of a raw list, and averaged over homes. "<name>, <list>" is of that list. A rule whose triple was never
seen in training cannot be found under the valid filter and counts as a miss there (`unseen` is their number); so does
one without a score (`unanswered`). A candidate without a score (NaN) is below all others.

Hidden rules decide nothing about the candidates: a device may act on itself only if a known rule has such a pair, and a
hidden rule that is no candidate, e.g. since its relation is too rare in training (`datasets.splits`), is a miss
everywhere (`not_candidates`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from baselines.method import Fitted, Scores
from baselines.scoring import (
    CHECKED_AT_ONCE,
    Values,
    allows_self_pairs,
    hidden_part,
    pairs_at_once,
    restrict_homes,
    score,
)
from benchmarks.evaluation.metrics import (
    Evaluation,
    counts_above,
    discounted_gain,
    first_hit,
    hit_curve,
    hits,
    ideal_gain,
    mean,
    precision,
    ratio,
    reciprocal_rank,
)
from datasets.candidates import Pairs
from datasets.homes import Array, Homes, Mask, Rules
from datasets.splits import Hidden, Split
from datasets.valid import ValidRules

LISTS = ("", ", all", ", closed")  # what their metrics end with
KEPT_CHUNKS = 128  # of scores; a home with more is scored in pieces, and twice
# Where scores that are above begin, and those that are above or tied.
SIDES: tuple[Literal["right"], Literal["left"]] = ("right", "left")
CURVE_END = 50  # the last N of the curve of hit rates
HITS = (1, 3, 5, 10, 20, 50)  # points of the curve that homes and slices have as well
SIZES = ((1, 2), (3, 5), (6, 10), (11, 20), (21, None))  # devices of a home, both ends included
Bits: TypeAlias = npt.NDArray[np.uint8]


class Places(NamedTuple):
    """Where hidden rules stand in one kind of list, see `metrics`."""

    above: Array  # [n_hidden]
    tied: Array  # [n_hidden]
    others_above: Array  # [n_hidden]  other hidden rules of the home among those above
    others_tied: Array  # [n_hidden]
    query: Mask  # [n_hidden]  whether the rule counts in this list

    @classmethod
    def of(cls, above: Array, tied: Array, scores: Scores, home: Array, *, listed: Mask, query: Mask) -> Places:
        """From counts among candidates; `listed` are the rules that are in the list, if they have a score."""
        found = np.flatnonzero(listed & ~np.isnan(scores))
        columns = above[found], tied[found], *counts_above(scores[found], home[found])
        places = np.zeros((len(columns), len(scores)), dtype=np.int64)
        places[:, found] = columns
        return cls(places[0], places[1], places[2], places[3], query)

    @property
    def filtered(self) -> tuple[Array, Array]:
        """Above and tied without the other hidden rules."""
        return self.above - self.others_above, self.tied - self.others_tied


class Ranks(NamedTuple):
    """The scores of hidden rules, their places in each list, and how long the lists are."""

    score: Scores  # [n_hidden]
    closed: Mask  # [n_hidden]  both devices have a known rule
    places: dict[str, Places]  # by list
    lengths: dict[str, Array]  # [n_homes]  by list


def rank_hidden(fitted: Fitted, hidden: Hidden, *, valid: ValidRules, self_pairs: bool, chunk: int) -> Ranks:
    """Places in every list. Every home has to have a hidden rule; `chunk` changes no number."""
    homes, rules = hidden.homes, hidden.every
    candidates = Candidates.of(fitted, homes, valid=valid, self_pairs=self_pairs)
    pairs = candidates.pairs
    pair = np.where(is_candidate(rules, self_pairs), pairs.number(rules), -1)
    scores = np.full(len(rules), np.nan, dtype=np.float32)
    counts = np.zeros((len(LISTS), 2, len(rules)), dtype=np.int64)  # above, and above or tied
    lengths = np.zeros((len(LISTS), homes.n_homes), dtype=np.int64)
    limit = pairs_at_once(homes, chunk)
    for first, end in pairs.runs(limit):
        here = slice(*np.searchsorted(rules.home, [first, end]))
        cuts = [*range(pairs.start[first], pairs.start[end], KEPT_CHUNKS * limit), int(pairs.start[end])]
        kept = candidates.block(first, end, *cuts) if len(cuts) == 2 else None  # one piece serves both loops
        for begin, behind in pairwise(cuts):
            block = kept or candidates.block(first, end, begin, behind)
            inside = np.flatnonzero((pair[here] >= begin) & (pair[here] < behind))
            scores[here][inside] = block.scores[pair[here][inside] - begin, rules.relation[here][inside]]
        for begin, behind in pairwise(cuts):
            block = kept or candidates.block(first, end, begin, behind)
            counts[..., here] += block.count(rules.home[here] - first, scores[here])
            lengths[:, first:end] += block.lengths
    seen = is_seen(homes, rules, valid)
    closed = candidates.known_device[rules.trigger] & candidates.known_device[rules.action]
    every = np.ones_like(seen)
    places = {
        name: Places.of(above, at_least - above, scores, rules.home, listed=listed, query=query)
        for name, (above, at_least), listed, query in zip(
            LISTS, counts, (seen, every, seen & closed), (every, every, closed), strict=True
        )
    }
    return Ranks(scores, closed, places, dict(zip(LISTS, lengths, strict=True)))


def is_candidate(rules: Rules, self_pairs: bool) -> Mask:
    """[n_rules]: whether its relation is in the vocabulary and its devices are a pair."""
    return np.asarray((rules.relation >= 0) & (self_pairs | (rules.trigger != rules.action)))


def is_seen(homes: Homes, rules: Rules, valid: ValidRules) -> Mask:
    """[n_rules]: whether the triple was seen in training."""
    trigger_type, relation, action_type = homes.typed(rules)
    return (relation >= 0) & valid.contains(trigger_type, action_type, np.maximum(relation, 0))


@dataclass(frozen=True, slots=True)
class Block:
    """Scores of pairs of neighbouring homes, or of a piece of one home."""

    scores: Scores  # [n_pairs, n_relations]  NaN where there is none
    known: Array  # [n_known]  cells of known rules, which are no candidates, sorted
    valid: Mask  # [n_type_pairs, n_relations]
    type_pair: Array  # [n_pairs]  rows of `valid`
    closed: Mask  # [n_pairs]
    pairs: Array  # [n_homes]  of each home
    lengths: Array  # [n_lists, n_homes]  candidates of each home

    def count(self, home: Array, threshold: Scores) -> Array:
        """[n_lists, 2, n_rules]: candidates above, and above or tied, for rules sorted by their home in the block."""
        if len(self.pairs) == 1:
            return self._by_sorting(threshold)
        scores, cells = self.rows(0, len(self.scores))
        counts = np.zeros((len(LISTS), 2, len(home)), dtype=np.int64)
        layer = np.arange(len(home)) - np.searchsorted(home, home)  # 0 for the first rule of each home, then 1, ...
        pairs, homes, closed = self.pairs, np.arange(len(self.pairs)), self.closed
        valid = np.packbits(cells, axis=1)
        for number in range(layer.max() + 1):
            chosen = np.flatnonzero(layer == number)
            if len(chosen) < len(homes):  # only the homes that have so many rules
                stay = np.isin(homes, home[chosen], assume_unique=True)
                rows = np.repeat(stay, pairs)
                scores, valid, closed, pairs, homes = scores[rows], valid[rows], closed[rows], pairs[stay], homes[stay]
            counts[..., chosen] = _by_comparing(scores, valid, closed, pairs, threshold[chosen])
        return counts

    def rows(self, begin: int, end: int) -> tuple[Scores, Mask]:
        """Of pairs `begin` to before `end`: the scores, NaN for known rules, and which cells are valid."""
        n_relations = self.scores.shape[1]
        scores = self.scores[begin:end].copy()
        known = slice(*np.searchsorted(self.known, [begin * n_relations, end * n_relations]))
        scores.ravel()[self.known[known] - begin * n_relations] = np.nan
        return scores, np.take(self.valid, self.type_pair[begin:end], axis=0)

    def _by_sorting(self, threshold: Scores) -> Array:
        """The same for one home, by the places of its rules among the sorted scores of its candidates."""
        least = np.fmin.reduce(threshold)  # what is below it, or has no score, is above no rule
        counts = np.zeros((len(LISTS), 2, len(threshold)), dtype=np.int64)
        rows = max(CHECKED_AT_ONCE // max(self.scores.shape[1], 1), 1)
        for begin in range(0, len(self.scores), rows):
            scores, valid = self.rows(begin, begin + rows)
            closed = self.closed[begin : begin + rows]
            lists = scores[valid], scores, scores[closed][valid[closed]]
            for number, cells in enumerate(lists):
                ordered = cells[cells >= least]
                ordered.sort()
                counts[number] += [len(ordered) - np.searchsorted(ordered, threshold, side) for side in SIDES]
        return counts


def _by_comparing(scores: Scores, valid: Bits, closed: Mask, pairs: Array, threshold: Scores) -> Array:
    """One rule of each home against the home's candidates; `valid` has a bit per candidate."""
    least = np.repeat(threshold, pairs)[:, None]
    counts = []
    for cells in (scores > least, scores >= least):
        bits = np.packbits(cells, axis=1)
        rows = _sum_rows(bits & valid)
        counts.append(_sum_by_home(np.stack([rows, _sum_rows(bits), rows * closed]), pairs))
    return np.stack(counts, axis=1)


def _sum_rows(bits: Bits) -> Array:
    """[n_pairs]: how many bits are set."""
    n_pairs, n_bytes = bits.shape
    return np.add.reduceat(np.bitwise_count(bits).ravel(), np.arange(n_pairs) * n_bytes, dtype=np.int64)


def _sum_by_home(values: Array, pairs: Array) -> Array:
    """[..., n_homes] from [..., n_pairs]; 0 for a home without pairs."""
    total = np.concatenate([np.zeros_like(values[..., :1]), np.cumsum(values, axis=-1)], axis=-1)
    end = np.cumsum(pairs)
    return np.asarray(total[..., end] - total[..., end - pairs])


@dataclass(frozen=True, slots=True)
class Candidates:
    """The scored candidates of homes, block by block."""

    fitted: Fitted
    pairs: Pairs
    valid: ValidRules
    known_pair: Array  # [n_known]  sorted
    known_relation: Array  # [n_known]
    known_device: Mask  # [n_devices]  it has a known rule

    @classmethod
    def of(cls, fitted: Fitted, homes: Homes, *, valid: ValidRules, self_pairs: bool) -> Candidates:
        pairs, known = Pairs.of(homes, self_pairs=self_pairs), homes.rules
        number = pairs.number(known)
        order = np.argsort(number)
        return cls(fitted, pairs, valid, number[order], known.relation[order], homes.used_devices)

    def block(self, first: int, end: int, begin: int, behind: int) -> Block:
        """Pairs `begin` to before `behind`: all of homes `first` to before `end`, or a piece of a lone home."""
        _, trigger, action = self.pairs.devices(np.arange(begin, behind))
        scores = score(self.fitted, self.pairs.homes, trigger, action)
        some = slice(*np.searchsorted(self.known_pair, [begin, behind]))
        row, relation = self.known_pair[some] - begin, self.known_relation[some]
        n_relations = scores.shape[1]
        valid, type_pair = self._valid(trigger, action)
        bounds = np.clip(self.pairs.start[first : end + 1], begin, behind)
        pairs = bounds[1:] - bounds[:-1]
        start = np.cumsum(pairs) - pairs
        home = np.searchsorted(start, row, side="right") - 1
        taken = [
            np.bincount(home[which], minlength=len(pairs)) for which in (valid[type_pair[row], relation], slice(None))
        ]
        closed = self.known_device[trigger] & self.known_device[action]
        n_valid = np.count_nonzero(valid, axis=1)[type_pair]
        of_pair = np.stack([n_valid, np.full_like(n_valid, n_relations), n_valid * closed])
        lengths = _sum_by_home(of_pair, pairs) - np.stack([*taken, taken[0]])  # orphans have no known rule
        return Block(scores, np.sort(row * n_relations + relation), valid, type_pair, closed, pairs, lengths)

    def _valid(self, trigger: Array, action: Array) -> tuple[Mask, Array]:
        """[n_type_pairs, n_relations]: which relations are valid between the types that occur; the row of each pair."""
        types, valid = self.pairs.homes.device_type, self.valid
        type_pair = types[trigger] * valid.n_types + types[action]
        present = np.bincount(type_pair, minlength=valid.n_types**2) > 0
        row = np.cumsum(present) - 1  # only the pairs of types that occur here: the tensor itself may be large
        table = np.zeros((row[-1] + 1, valid.n_relations), dtype=np.bool_)
        cell = valid.cell[present[valid.cell // valid.n_relations]]
        table[row[cell // valid.n_relations], cell % valid.n_relations] = True
        return table, row[type_pair]


def evaluate_ranking(fitted: Fitted, split: Split, *, part: str, chunk: int) -> Evaluation:
    """Valid are the triples that the model was trained on, those of `split.train`."""
    valid = ValidRules.of(split.train)
    hidden, self_pairs = hidden_part(split, part), allows_self_pairs(split, part)
    homes, (rules, rare) = restrict_homes(hidden, hidden.rare)
    hidden = Hidden(homes, rules, rare)
    ranks = rank_hidden(fitted, hidden, valid=valid, self_pairs=self_pairs, chunk=chunk)
    rules = hidden.every
    seen = is_seen(homes, rules, valid)
    answered, closed = ~np.isnan(ranks.score), ranks.closed
    devices, start = np.diff(homes.device_start), np.flatnonzero(np.diff(rules.home, prepend=-1))
    summary = _counts(rules.home, seen, answered)
    summary["not_candidates"] = float(np.count_nonzero(~is_candidate(rules, self_pairs)))
    summary |= {"hidden, closed": float(closed.sum()), "homes, closed": float(len(np.unique(rules.home[closed])))}
    slices = dict(_slices(devices[rules.home], seen, closed))
    for name, chosen in slices.items():
        counts = _counts(rules.home[chosen], seen[chosen], answered[chosen])
        summary |= {f"{name}: {count}": value for count, value in counts.items()}
    by_home: dict[str, Values] = {}
    for suffix, places in ranks.places.items():
        n_hidden: Array = np.add.reduceat(places.query, start, dtype=np.int64)
        gains = _gains(places, suffix)
        table = np.stack(list(gains.values()))  # [n_metrics, n_hidden]
        by_home |= dict(zip(gains, ratio(np.add.reduceat(table, start, axis=1), n_hidden), strict=True))
        curve = ratio(hit_curve(*places.filtered, CURVE_END), n_hidden.sum())
        summary |= {f"hr@{n}{suffix}": float(value) for n, value in enumerate(curve, 1)}
        summary |= dict(zip(gains, ratio(table.sum(axis=1), n_hidden.sum()).tolist(), strict=True))
        summary |= {f"{name}_home{suffix}": mean(by_home[f"{name}{suffix}"]) for name in ("mrr", "hr@10")}
        for name, chosen in slices.items() if "closed" not in suffix else ():
            means = ratio(table[:, chosen].sum(axis=1), np.count_nonzero(chosen)).tolist()
            summary |= {f"{name}: {metric}": value for metric, value in zip(gains, means, strict=True)}
        over_homes = {f"{name}{suffix}": value for name, value in _over_homes(places, start, n_hidden).items()}
        by_home |= over_homes
        summary |= {name: mean(value) for name, value in over_homes.items()}

    home_table = pd.DataFrame(
        {"user": homes.users, "devices": devices}
        | {f"candidates{suffix}": length for suffix, length in ranks.lengths.items()}
        | {
            "n_hidden": np.bincount(rules.home),
            "n_hidden, closed": np.bincount(rules.home[closed], minlength=homes.n_homes),
            "unseen": np.bincount(rules.home, ~seen).astype(np.int64),
            "unanswered": np.bincount(rules.home, ~answered).astype(np.int64),
        }
        | by_home
    )
    rule_table = pd.DataFrame(
        {
            "user": homes.users[rules.home],
            "trigger": homes.device_ids[rules.trigger],
            "action": homes.device_ids[rules.action],
            "relation": rules.relation,
            "devices": devices[rules.home],
            "seen": seen,
            "closed": closed,
            "score": ranks.score,
        }
        | {
            f"{name}{suffix}": getattr(places, name)  # all that any metric of these lists needs
            for suffix, places in ranks.places.items()
            for name in ("above", "tied", "others_above", "others_tied")
        }
    )
    return Evaluation("ranking", summary, rule_table, home_table)


def _gains(places: Places, suffix: str) -> dict[str, Values]:
    """The main metrics of each hidden rule by name, filtered and raw; 0 where the rule is no query of the list."""
    above, tied = places.filtered
    gains = {f"hr@{n}{suffix}": hits(above, tied, n) for n in HITS}
    gains |= {f"mrr{suffix}": reciprocal_rank(above, tied), f"mrr@50{suffix}": reciprocal_rank(above, tied, 50)}
    raw, all_above, all_tied = f"{suffix or ','} raw", places.above, places.tied
    return gains | {f"mrr{raw}": reciprocal_rank(all_above, all_tied), f"hr@10{raw}": hits(all_above, all_tied, 10)}


def _over_homes(places: Places, start: Array, hidden: Array) -> dict[str, Values]:
    """The metrics of each home by name; NaN for a home without a query of the list."""
    above, tied, *others, _ = places
    gains = {
        "mrr_first": (first_hit(above, tied, *others), np.minimum(hidden, 1)),
        "recall@10": (hits(above, tied, 10), hidden),
        "ndcg@10": (discounted_gain(above, tied, 10), ideal_gain(hidden, 10)),
        "map": (precision(above, tied, *others), hidden),
    }
    return {name: ratio(np.add.reduceat(gain, start), most) for name, (gain, most) in gains.items()}


def _counts(home: Array, seen: Mask, answered: Mask) -> dict[str, float]:
    """How many there are; `home` is sorted."""
    return {
        "hidden": float(len(home)),
        "homes": float(np.count_nonzero(np.diff(home, prepend=-1))),
        "unseen": float(np.count_nonzero(~seen)),
        "unanswered": float(np.count_nonzero(~answered)),
    }


def _slices(devices: Array, seen: Mask, closed: Mask) -> Iterator[tuple[str, Mask]]:
    """Hidden rules by whether their triple was seen in training, by orphans, and by the size of their home."""
    yield "seen", seen
    yield "unseen", ~seen
    yield "between devices with known rules", closed
    yield "with an orphan", ~closed
    for least, most in SIZES:
        name = f"devices {least}-{most}" if most else f"devices >{least - 1}"
        yield name, (devices >= least) & (devices <= (most or np.inf))
