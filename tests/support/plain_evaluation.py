"""The evaluation once more, as plain loops over homes, hidden rules and candidates: what the fast one has to equal."""

from __future__ import annotations

import math

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from baselines.method import Fitted
from datasets import Rules, negatives
from datasets.splits import Hidden, Split
from datasets.valid import ValidRules
from tests.support.strategies import triples

Cell = tuple[int, int, int]  # trigger device, action device, relation


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

    def candidates(self, home: int, *, valid: bool) -> list[Cell]:
        devices, relations = self.devices(home), range(len(self.homes.relations))
        cells = [(t, a, r) for t in devices for a in devices for r in relations if self.self_pairs or t != a]
        return [c for c in cells if c not in self.known and (not valid or self.typed(c) in self.seen)]

    def rank(self, rule: Cell, candidates: list[Cell]) -> float:
        """1-based, ties averaged; infinite where the rule has no score or is not in the list."""
        if rule not in candidates or math.isnan(own := self.score(rule)):
            return math.inf
        others = [self.score(cell) for cell in candidates]
        above, level = sum(other > own for other in others), sum(other == own for other in others)
        return sum(range(above + 1, above + level + 1)) / level

    def ranking(self) -> dict[str, float]:
        """The summary of protocol `ranking`."""
        lists = {
            (home, valid): self.candidates(home, valid=valid)
            for home in {rule[0] for rule in self.rules}
            for valid in (True, False)
        }
        rows = []
        for home, *rule in self.rules:
            cell = (rule[0], rule[1], rule[2])
            both = [self.rank(cell, lists[home, valid]) for valid in (True, False)]
            size = len(self.devices(home))
            missing = cell not in lists[home, False] or math.isnan(self.score(cell))
            rows.append((home, size, self.typed(cell) in self.seen, missing, *both))

        summary = summarised(rows, range(1, 51))
        summary["not_candidates"] = sum((t, a, r) not in lists[home, False] for home, t, a, r in self.rules)
        for suffix, column in (("", 4), (", all", 5)):
            by_home = [[row[column] for row in rows if row[0] == home] for home in sorted({row[0] for row in rows})]
            summary[f"mrr_home{suffix}"] = average([average([1 / rank for rank in ranks]) for ranks in by_home])
            summary[f"hr@10_home{suffix}"] = average([average([rank <= 10 for rank in ranks]) for ranks in by_home])
        slices = {"seen": [row for row in rows if row[2]], "unseen": [row for row in rows if not row[2]]}
        sizes = {"1-2": (1, 2), "3-5": (3, 5), "6-10": (6, 10), "11-20": (11, 20), ">20": (21, 10**9)}
        for name, (least, most) in sizes.items():
            slices[f"devices {name}"] = [row for row in rows if least <= row[1] <= most]
        for name, some in slices.items():
            summary |= {f"{name}: {key}": value for key, value in summarised(some, (1, 3, 5, 10, 20, 50)).items()}
        return summary

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


def summarised(rows: list[tuple[float, ...]], cuts: range | tuple[int, ...]) -> dict[str, float]:
    """Counts and means of rows (home, size, seen, unanswered, rank, rank among all)."""
    found: dict[str, float] = {
        "hidden": len(rows),
        "homes": len({row[0] for row in rows}),
        "unseen": sum(not row[2] for row in rows),
        "unanswered": sum(row[3] for row in rows),
    }
    for suffix, column in (("", 4), (", all", 5)):
        ranks = [row[column] for row in rows]
        found |= {f"hr@{n}{suffix}": average([rank <= n for rank in ranks]) for n in cuts}
        found[f"mrr{suffix}"] = average([1 / rank for rank in ranks])
        found[f"mrr@50{suffix}"] = average([1 / rank if rank <= 50 else 0 for rank in ranks])
        found[f"ndcg@10{suffix}"] = average([1 / math.log2(1 + rank) if rank <= 10 else 0 for rank in ranks])
    return found


def average(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
