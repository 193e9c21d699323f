"""Splitting and drawing negatives, up to the size of the paper (76,218 homes), against plain loops over homes."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from benchmarks.speed.measure import note_ratio, seconds
from datasets.homes import Homes, Rules
from datasets.negatives import KINDS, sample
from datasets.splits import SPLITS, Hidden, Split, split
from datasets.valid import ValidRules

SAMPLE = 2_000  # homes that the slow loops go through
ROUNDS = 3  # of either, the fastest counts
SIZES = {"smoke": 10_000, "default": 76_218, "paper": 76_218}  # homes; the last have 201,940 rules

Rule = tuple[int, int, int]  # trigger, action, relation


@pytest.fixture(scope="module")
def homes(scale: str) -> Homes:
    """Homes of the paper's kind."""
    return datasets.load("wyze-synthetic", preset="paper", homes=SIZES[scale])


@pytest.fixture(scope="module")
def some(homes: Homes) -> Homes:
    """A random sample of them."""
    return homes.subset(np.random.default_rng(0).choice(homes.n_homes, SAMPLE, replace=False))


@pytest.mark.parametrize("how", sorted(SPLITS))
def test_split(benchmark: BenchmarkFixture, homes: Homes, some: Homes, how: str) -> None:
    benchmark.pedantic(split, args=(homes, how), rounds=ROUNDS)
    note_ratio(benchmark, homes.n_homes, seconds(lambda: split_loop(some, how), repeats=ROUNDS) / SAMPLE)


@pytest.mark.parametrize("kind", KINDS)
def test_negatives(benchmark: BenchmarkFixture, homes: Homes, some: Homes, kind: str) -> None:
    """As many as there are training rules, none of them hidden."""
    made = split(homes)
    valid = ValidRules.of(made.train)

    def draw() -> Rules:
        rng = np.random.default_rng(0)
        return sample(kind, made.train, made.train.rules, rng=rng, forbidden=made.forbidden, valid=valid)

    benchmark.pedantic(draw, rounds=ROUNDS)
    small = split(some)
    reference = seconds(lambda: negatives_loop(kind, small, valid), repeats=ROUNDS)
    note_ratio(benchmark, homes.n_homes, reference / SAMPLE)


def split_loop(homes: Homes, how: str) -> tuple[Homes, Hidden]:
    """Train and test, hiding home by home; one rule of a fifth of the homes for new ones, which leave train."""
    rng = np.random.default_rng(0)
    start = homes.rule_start.tolist()
    hidden, unseen = np.zeros(homes.n_rules, dtype=np.bool_), np.zeros(homes.n_homes, dtype=np.bool_)
    for home, (first, end) in enumerate(pairwise(start)):
        count = int(0.2 * (end - first)) if how == "holdout" else int(end - first >= 2)
        if how == "new_homes":
            unseen[home] = count and rng.random() < 0.2
            count *= int(unseen[home])
        hidden[first + rng.permutation(end - first)[:count]] = True
    if how != "new_homes":
        test = Hidden(homes.with_rules(~hidden), homes.rules.take(hidden))
        return test.homes, test
    hidden = hidden[unseen[homes.rules.home]]
    context = homes.subset(unseen)
    return homes.subset(~unseen), Hidden(context.with_rules(~hidden), context.rules.take(hidden))


def negatives_loop(kind: str, made: Split, valid: ValidRules) -> Rules:
    """The same as columns, drawing home by home with plain lists."""
    homes, n_relations = made.train, len(made.train.relations)
    relations = {(t, a): valid.relations_of(t, a).tolist() for t, a in np.ndindex(valid.shape[:2])}
    types, start, rule_start = homes.device_type.tolist(), homes.device_start.tolist(), homes.rule_start.tolist()
    known, hidden = plain(homes.rules), set(plain(made.test.rules))
    drawn: list[tuple[int, Rule]] = []
    for home in range(homes.n_homes):
        rules = known[rule_start[home] : rule_start[home + 1]]
        devices = range(start[home], start[home + 1])
        if kind == "paper":
            found = paper_loop(rules, devices, n_relations, hidden)
        else:
            cells = [(i, j, r) for i in devices for j in devices for r in relations[types[i], types[j]]]
            free = [cell for cell in cells if cell not in rules and cell not in hidden]
            found = random.sample(free, min(len(rules), len(free)))
        drawn += [(home, rule) for rule in found]
    return Rules(*np.array([(home, *rule) for home, rule in drawn]).T)


def paper_loop(rules: list[Rule], devices: range, n_relations: int, hidden: set[Rule]) -> list[Rule]:
    """Drawn until distinct: half of them on pairs apart, the others on pairs of a rule with another relation."""
    existing = list({(trigger, action) for trigger, action, _ in rules})
    apart = [(i, j) for i in devices for j in devices if (i, j) not in existing]
    drawn: list[Rule] = []
    while len(drawn) < len(rules):
        pairs = apart if apart and len(drawn) < (len(rules) + 1) // 2 else existing
        rule = (*random.choice(pairs), random.randrange(n_relations))
        if rule not in rules and rule not in hidden and rule not in drawn:
            drawn.append(rule)
    return drawn


def plain(rules: Rules) -> list[Rule]:
    return list(zip(rules.trigger.tolist(), rules.action.tolist(), rules.relation.tolist(), strict=True))
