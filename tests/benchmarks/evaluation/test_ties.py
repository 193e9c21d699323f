"""Ties are worth no more than a random order of them: each metric against all strict orders, from its definition."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datasets
from baselines.method import Fitted, Scores
from baselines.orphans import OrphansModel
from baselines.registry import build
from benchmarks.evaluation import evaluate
from datasets import Homes, Rules
from datasets.homes import Array
from datasets.splits import Hidden, Split
from datasets.valid import ValidRules
from tests.benchmarks.evaluation.test_evaluate import cases
from tests.support.real_data import needs_real
from tests.support.strategies import triples

RELATIONS = 4
CELLS = [(pair, relation) for pair in (0, 1) for relation in range(RELATIONS)]  # switch -> lamp, lamp -> switch
KNOWN = (0, 0)
SCORE = st.sampled_from([0.0, 1.0, 2.0, math.nan])
EXPECTED = ("hr@1", "hr@3", "hr@5", "hr@10", "hr@10, raw", "recall@10", "ndcg@10", "map")  # equal to the expectation
BELOW = ("mrr", "mrr, raw", "mrr@50", "mrr_first")  # at most the expectation

Cell = tuple[int, int]


@dataclass(frozen=True)
class Listed:
    """The given score of every cell of a home with a switch and a lamp."""

    scores: dict[Cell, float]

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:  # noqa: ARG002
        table = [[self.scores[pair, relation] for relation in range(RELATIONS)] for pair in (0, 1)]
        return np.array(table, dtype=np.float32)[homes.device_type[trigger]]


def one_home(hidden: list[Cell], seen: list[Cell]) -> Split:
    """A switch and a lamp with one known rule; these are hidden, and the triples `seen` were in training."""

    def rules(cells: list[Cell]) -> Rules:
        trigger = np.array([pair for pair, _ in cells])
        return Rules(np.zeros_like(trigger), trigger, 1 - trigger, np.array([relation for _, relation in cells]))

    known = Homes(
        name="one home",
        types=("Switch", "Lamp"),
        relations=tuple((f"trigger {number}", f"action {number}") for number in range(RELATIONS)),
        users=np.array([1]),
        device_home=np.array([0, 0]),
        device_type=np.array([0, 1]),
        device_ids=np.array([1, 2]),
        rules=rules([KNOWN]),
    )
    train = replace(known, rules=rules(sorted({KNOWN, *seen})))
    none = np.zeros(0, dtype=np.int64)
    nothing = Hidden(known.subset(none), known.rules.take(none))
    return Split("by hand", 0, {}, train, nothing, Hidden(known, rules(sorted(hidden))), train, unseen_homes=True)


def strict_orders(cells: list[Cell], scores: dict[Cell, float]) -> list[list[Cell]]:
    """Every order of the cells with a score, best first, in which equal scores stand in any order."""
    listed = sorted((cell for cell in cells if not math.isnan(scores[cell])), key=lambda cell: -scores[cell])
    blocks = [list(permutations(block)) for _, block in groupby(listed, key=lambda cell: scores[cell])]
    return [[cell for block in order for cell in block] for order in product(*blocks)]


def metrics_of(order: list[Cell], hidden: list[Cell]) -> dict[str, float]:
    """Of a strict order, by the definition of each metric."""
    raw = {cell: place for place, cell in enumerate(order, 1) if cell in hidden}
    filtered = {cell: place - sum(other < place for other in raw.values()) for cell, place in raw.items()}
    n, first = len(hidden), min(raw.values(), default=math.inf)
    found = {f"hr@{cut}": sum(place <= cut for place in filtered.values()) / n for cut in (1, 3, 5, 10)}
    found["hr@10, raw"] = found["recall@10"] = sum(place <= 10 for place in raw.values()) / n
    ideal = sum(1 / math.log2(1 + place) for place in range(1, min(n, 10) + 1))
    found["ndcg@10"] = sum(1 / math.log2(1 + place) for place in raw.values() if place <= 10) / ideal
    found["map"] = sum(sum(other <= place for other in raw.values()) / place for place in raw.values()) / n
    found["mrr"] = found["mrr@50"] = sum(1 / place for place in filtered.values()) / n
    found["mrr, raw"] = sum(1 / place for place in raw.values()) / n
    return found | {"mrr_first": 1 / first}


@given(st.data())
def test_ties_are_worth_no_more_than_the_mean_over_all_strict_orders(data):
    cells = [cell for cell in CELLS if cell != KNOWN]
    scores = dict(zip(CELLS, data.draw(st.lists(SCORE, min_size=len(CELLS), max_size=len(CELLS))), strict=True))
    hidden = data.draw(st.lists(st.sampled_from(cells), min_size=1, max_size=5, unique=True))
    seen = data.draw(st.lists(st.sampled_from(cells), unique=True))
    summary = evaluate(Listed(scores), one_home(hidden, seen)).summary
    valid = [cell for cell in cells if cell in seen]
    for suffix, listed in (("", valid), (", all", cells), (", closed", valid)):  # both devices have a known rule
        every = [metrics_of(order, hidden) for order in strict_orders(listed, scores)]
        for name in (*EXPECTED, *BELOW):
            expected = sum(metrics[name] for metrics in every) / len(every)
            own = summary[name.replace(", raw", f"{suffix} raw") if "raw" in name and suffix else name + suffix]
            if name in EXPECTED or len(every) == 1:
                assert own == pytest.approx(expected), (name, suffix)
            assert own <= expected + 1e-12, (name, suffix)


def test_a_perfect_order_has_one_in_every_filtered_and_per_home_metric():
    hidden = [(0, 1), (1, 2), (1, 3)]
    scores = dict.fromkeys(CELLS, -1.0) | {cell: float(number) for number, cell in enumerate(hidden)}
    summary = evaluate(Listed(scores), one_home(hidden, CELLS[1:])).summary
    for name in ("mrr", "hr@1", "mrr@50", "mrr_first", "recall@10", "ndcg@10", "map", "mrr, closed", "map, all"):
        assert summary[name] == pytest.approx(1), name
    # Raw, the three are at places 1, 2 and 3.
    assert summary["mrr, raw"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


@settings(max_examples=30, deadline=None)
@given(cases())
def test_the_probe_knows_nothing_on_closed_lists(case):
    _, made, part = case

    class Equal:
        def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:  # noqa: ARG002
            return np.zeros((len(trigger), len(homes.relations)), dtype=np.float32)

    probe, equal = (evaluate(model, made, part=part).summary for model in (OrphansModel(), Equal()))
    for name in (name for name in equal if "closed" in name and ":" not in name):
        assert probe[name] == pytest.approx(equal[name], nan_ok=True), name


@dataclass(frozen=True)
class HeadTied:
    """A model with the best valid candidates of every home tied with each other."""

    fitted: Fitted
    valid: ValidRules
    many: int

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        scores = np.array(self.fitted.score_pairs(homes, trigger, action))
        allowed = self.valid.dense()[homes.device_type[trigger], homes.device_type[action]] & ~np.isnan(scores)
        row = {pair: number for number, pair in enumerate(zip(trigger.tolist(), action.tolist(), strict=True))}
        for _, t, a, relation in triples(homes.rules):
            allowed[row[t, a], relation] = False
        for home in np.unique(homes.device_home[trigger]):
            rows = np.flatnonzero(homes.device_home[trigger] == home)
            order = np.argsort(np.where(allowed[rows], -scores[rows], np.inf), axis=None)[: self.many]
            order = order[: np.count_nonzero(allowed[rows])]
            scores[rows[order // scores.shape[1]], order % scores.shape[1]] = 1e6
        return scores


@needs_real("ifttt")
def test_tying_the_head_of_every_list_gains_no_hits():
    made = datasets.split(datasets.load("ifttt-fedrule").merged_types(), "holdout", seed=0)
    fitted = build("ease").fit(made.train, rng=np.random.default_rng(0))
    plain, tied = evaluate(fitted, made), evaluate(HeadTied(fitted, ValidRules.of(made.train), 19), made)
    head = (tied.rules["score"] == 1e6) & tied.rules["seen"]
    size = tied.rules["tied"][head]
    assert (size <= 19).all()
    # With the mean place of a tied block, 10 of 1 to 19, all of the head would be hits at 10; now 10/19 of it are, and
    # all of it in the homes with at most 10 candidates.
    assert head.mean() > plain.summary["hr@10, raw"] + 0.1
    assert tied.summary["hr@10, raw"] == pytest.approx(np.minimum(10 / size, 1).sum() / len(head))
    for name in ("hr@10", "hr@10, raw", "mrr", "mrr@50", "recall@10", "ndcg@10", "map", "mrr_first"):
        assert tied.summary[name] < plain.summary[name], name
