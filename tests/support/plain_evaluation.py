"""The evaluation once more, as plain loops over homes, hidden rules and candidates: what the fast one has to equal."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from baselines.method import Fitted
from datasets import Rules, negatives
from datasets.splits import Hidden, Split
from datasets.valid import ValidRules
from tests.support.strategies import triples

Cell = tuple[int, int, int]  # trigger device, action device, relation
LISTS = ("", "all", "closed")


class Row(NamedTuple):
    """A hidden rule."""

    home: int
    size: int
    seen: bool
    unanswered: bool
    closed: bool
    found: dict[str, list[int]]  # the places it could have in each list that is asked for it


class Plain:
    """One part of one split and a fitted model, looked at one number at a time."""

    def __init__(self, fitted: Fitted, split: Split, part: str) -> None:
        self.fitted, self.split, self.part = fitted, split, part
        self.hidden: Hidden = getattr(split, part)
        self.homes = self.hidden.homes
        self.rules = sorted(triples(self.hidden.rules) + triples(self.hidden.rare), key=lambda rule: rule[0])
        self.known = {rule[1:] for rule in triples(self.homes.rules)}
        everything = [*triples(split.train.rules), *triples(self.homes.rules)]
        self.self_pairs = any(trigger == action for _, trigger, action, _ in everything)
        typed = zip(*(column.tolist() for column in split.train.typed()), strict=True)
        self.seen = set(typed)
        self.scores: dict[tuple[int, int], list[float]] = {}

    def score(self, cell: Cell) -> float:
        trigger, action, relation = cell
        if (trigger, action) not in self.scores:
            asked = self.fitted.score_pairs(self.homes, np.array([trigger]), np.array([action]))
            self.scores[trigger, action] = asked[0].tolist()
        return self.scores[trigger, action][relation]

    def devices(self, home: int) -> list[int]:
        return np.flatnonzero(self.homes.device_home == home).tolist()

    def typed(self, cell: Cell) -> Cell:
        kind = self.homes.device_type
        return int(kind[cell[0]]), cell[2], int(kind[cell[1]])

    def candidates(self, home: int, kind: str = "") -> list[Cell]:
        """Of the list "" (valid), "all" or "closed" (valid, between devices with a known rule)."""
        devices, relations = self.devices(home), range(len(self.homes.relations))
        cells = [(t, a, r) for t in devices for a in devices for r in relations if self.self_pairs or t != a]
        cells = [c for c in cells if c not in self.known and (kind == "all" or self.typed(c) in self.seen)]
        return [c for c in cells if self.is_closed(c)] if kind == "closed" else cells

    def is_closed(self, cell: Cell) -> bool:
        used = {device for trigger, action, _ in self.known for device in (trigger, action)}
        return {cell[0], cell[1]} <= used

    def places(self, rule: Cell, candidates: list[Cell]) -> list[int]:
        """Every place that the rule could have in a random order of its ties; none where it cannot be found."""
        if rule not in candidates or math.isnan(own := self.score(rule)):
            return []
        others = [self.score(cell) for cell in candidates]
        above, level = sum(other > own for other in others), sum(other == own for other in others)
        return list(range(above + 1, above + level + 1))

    def ranking(self) -> dict[str, float]:
        """The summary of protocol `ranking`."""
        hidden: dict[int, list[Cell]] = {}
        for home, trigger, action, relation in self.rules:
            hidden.setdefault(home, []).append((trigger, action, relation))
        rows: list[Row] = []
        outside = 0
        by_home: dict[str, list[float]] = {}
        for home in sorted(hidden):
            lists = {kind: self.candidates(home, kind) for kind in LISTS}
            own = []
            for rule in hidden[home]:
                found: dict[str, list[int]] = {}
                for kind, cells in lists.items():
                    if kind == "closed" and not self.is_closed(rule):
                        continue
                    found[suffix(kind, raw=True)] = self.places(rule, cells)
                    without = [cell for cell in cells if cell == rule or cell not in hidden[home]]
                    found[suffix(kind)] = self.places(rule, without)
                seen, closed = self.typed(rule) in self.seen, self.is_closed(rule)
                missing = rule not in lists["all"] or math.isnan(self.score(rule))
                outside += rule not in lists["all"]
                own.append(Row(home, len(self.devices(home)), seen, missing, closed, found))
            rows += own
            for kind, cells in lists.items():
                end = suffix(kind)
                asked = [rule for rule in hidden[home] if kind != "closed" or self.is_closed(rule)]
                if asked:
                    values = self.over_home(asked, cells)
                    gains = gains_of([row.found[end] for row in own if end in row.found], end, (10,))
                    values |= {"mrr_home": gains[f"mrr{end}"], "hr@10_home": gains[f"hr@10{end}"]}
                else:
                    values = dict.fromkeys(("mrr_first", "recall@10", "ndcg@10", "map", "mrr_home", "hr@10_home"))
                for name, value in values.items():
                    by_home.setdefault(f"{name}{end}", []).extend([] if value is None else [value])

        summary = summarised(rows, range(1, 51), tuple(LISTS))
        closed = [row for row in rows if row.closed]
        summary |= {"hidden, closed": len(closed), "homes, closed": len({row.home for row in closed})}
        summary["not_candidates"] = outside
        summary |= {name: average(values) for name, values in by_home.items()}
        slices = {"seen": [row for row in rows if row.seen], "unseen": [row for row in rows if not row.seen]}
        slices["between devices with known rules"] = closed
        slices["with an orphan"] = [row for row in rows if not row.closed]
        sizes = {"1-2": (1, 2), "3-5": (3, 5), "6-10": (6, 10), "11-20": (11, 20), ">20": (21, 10**9)}
        for name, (least, most) in sizes.items():
            slices[f"devices {name}"] = [row for row in rows if least <= row.size <= most]
        for name, some in slices.items():
            found = summarised(some, (1, 3, 5, 10, 20, 50), ("", "all"))
            summary |= {f"{name}: {key}": value for key, value in found.items()}
        return summary

    def over_home(self, hidden: list[Cell], candidates: list[Cell]) -> dict[str, float]:
        """The metrics of one home with all of its hidden rules, expected over random orders of ties."""
        found = [rule for rule in hidden if self.places(rule, candidates)]
        gain = sum(
            average([1 / math.log2(1 + k) if k <= 10 else 0 for k in self.places(rule, candidates)]) for rule in found
        )
        values = {
            "mrr_first": 0.0,
            "ndcg@10": gain / sum(1 / math.log2(1 + k) for k in range(1, min(len(hidden), 10) + 1)),
        }
        values["recall@10"] = sum(average([k <= 10 for k in self.places(rule, candidates)]) for rule in found) / len(
            hidden
        )
        precisions = []
        for rule in found:
            places, own = self.places(rule, candidates), self.score(rule)
            above = sum(self.score(other) > own for other in found)
            level = sum(self.score(other) == own for other in found if other != rule)
            # Each of the other tied candidates stands before the rule as often as not: j of them at the j-th place.
            before = [above + level * j / max(len(places) - 1, 1) for j in range(len(places))]
            precisions.append(average([(1 + b) / k for b, k in zip(before, places, strict=True)]))
        values["map"] = sum(precisions) / len(hidden)
        if found:
            best = max(self.score(rule) for rule in found)
            tied = [rule for rule in found if self.score(rule) == best]
            places = self.places(tied[0], candidates)
            e, r = len(places), len(tied)
            # The mean of the least of r places among e, by the chance that it is at least j.
            least = sum(math.comb(e - j + 1, r) for j in range(1, e + 1)) / math.comb(e, r)
            values["mrr_first"] = 1 / (places[0] - 1 + least)
        return values

    def non_rules(self, seed: int, kind: str = "paper") -> Rules:
        """Drawn by the library, whose own tests say that they are right; which stream is drawn from stands here."""
        purpose = {
            ("test", "paper"): 3,
            ("validation", "paper"): 4,
            ("test", "feasible"): 5,
            ("validation", "feasible"): 6,
        }
        rng = np.random.default_rng([seed, self.split.seed, purpose[self.part, kind]])
        wanted = np.bincount(self.hidden.rules.home, minlength=self.homes.n_homes)
        hidden, *forbidden = (
            rules.take(self.self_pairs | (rules.trigger != rules.action))
            for rules in (self.hidden.rules, *self.split.forbidden)
        )
        more = {"forbidden": forbidden, "valid": ValidRules.of(self.split.train), "self_pairs": self.self_pairs}
        return negatives.sample(kind, self.homes, hidden, rng=rng, wanted=wanted, **more)

    def paper(self, seed: int) -> dict[str, float]:
        """The summary of protocol `paper`, scores taken for log-odds; without rules outside of the vocabulary."""
        rules = [rule for rule in self.rules if rule[3] >= 0]
        examples = [(*rule, True) for rule in rules] + [(*rule, False) for rule in triples(self.non_rules(seed))]
        losses, areas, pooled = [], [], []
        for home in sorted({rule[0] for rule in rules}):
            here = [(self.score((t, a, r)), positive) for h, t, a, r, positive in examples if h == home]
            probability = [0.5 if math.isnan(score) else 1 / (1 + math.exp(-score)) for score, _ in here]
            lowest = [-1e9 if math.isnan(score) else score for score, _ in here]
            positive = [is_rule for _, is_rule in here]
            losses.append(log_loss(positive, probability, labels=[False, True]))
            if not all(positive):
                areas.append(roc_auc_score(positive, lowest))
            pooled += list(zip(positive, lowest, strict=True))
        feasible = triples(self.non_rules(seed, "feasible"))
        areas_feasible = []
        for home in sorted({rule[0] for rule in feasible}):
            here = [(rule, rule in rules) for rule in [*rules, *feasible] if rule[0] == home]
            scores = [self.score(rule[1:]) for rule, _ in here]
            lowest = [-1e9 if math.isnan(score) else score for score in scores]
            areas_feasible.append(roc_auc_score([is_rule for _, is_rule in here], lowest))
        both = len({positive for positive, _ in pooled}) == 2
        ranks = [self.rank_of_relation(*rule[1:], keep_known=True) for rule in rules]
        ranks_rt = [self.rank_of_relation(*rule[1:], keep_known=False) for rule in rules]
        missing = [positive for _, t, a, r, positive in examples if math.isnan(self.score((t, a, r)))]
        return {
            "loss": average(losses),
            "auc": average(areas),
            "auc_pooled": roc_auc_score(*zip(*pooled, strict=True)) if both else math.nan,
            "auc_feasible": average(areas_feasible),
            "mr": average(ranks),
            "mr_rt": average(ranks_rt),
            "mr_paper": average(ranks) - 1,
            "hidden": len(rules),
            "non_rules": len(examples) - len(rules),
            "feasible": len(feasible),
            "homes": len(losses),
            "homes_without_auc": len(losses) - len(areas),
            "unanswered": sum(missing),
            "unanswered_non_rules": len(missing) - sum(missing),
            "unanswered_feasible": sum(math.isnan(self.score(rule[1:])) for rule in feasible),
            "calibrated": 0,
        }

    def rank_of_relation(self, trigger: int, action: int, relation: int, *, keep_known: bool) -> float:
        """Among the relations of the rule's own device pair; what has no score ties at the end."""
        relations = range(len(self.homes.relations))
        cells = [(trigger, action, r) for r in relations if keep_known or (trigger, action, r) not in self.known]
        scores = {r: self.score((t, a, r)) for t, a, r in cells}
        lowest = {r: -math.inf if math.isnan(score) else score for r, score in scores.items()}
        above = sum(score > lowest[relation] for score in lowest.values())
        level = sum(score == lowest[relation] for score in lowest.values())
        return sum(range(above + 1, above + level + 1)) / level


def suffix(kind: str, *, raw: bool = False) -> str:
    words = " ".join([*([kind] if kind else []), *(["raw"] if raw else [])])
    return f", {words}" if words else ""


def gains_of(rules: list[list[int]], end: str, cuts: range | tuple[int, ...]) -> dict[str, float]:
    """Means over rules, given the places that each could have."""
    found = {
        f"hr@{n}{end}": average([average([k <= n for k in places]) if places else 0 for places in rules]) for n in cuts
    }
    found[f"mrr{end}"] = average([1 / average(places) if places else 0 for places in rules])
    cut = [(places, [k for k in places if k <= 50]) for places in rules]
    within = [len(inside) / len(places) / average(inside) if inside else 0 for places, inside in cut]
    return found | {f"mrr@50{end}": average(within)}


def summarised(rows: list[Row], cuts: range | tuple[int, ...], lists: tuple[str, ...]) -> dict[str, float]:
    """Counts and means of rows."""
    summary: dict[str, float] = {
        "hidden": len(rows),
        "homes": len({row.home for row in rows}),
        "unseen": sum(not row.seen for row in rows),
        "unanswered": sum(row.unanswered for row in rows),
    }
    for kind in lists:
        end = suffix(kind)
        summary |= gains_of([row.found[end] for row in rows if end in row.found], end, cuts)
        end = suffix(kind, raw=True)
        gains = gains_of([row.found[end] for row in rows if end in row.found], end, (10,))
        summary |= {name: value for name, value in gains.items() if "@50" not in name}
    return summary


def average(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
