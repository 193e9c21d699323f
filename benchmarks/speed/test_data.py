"""Generating, reading and splitting homes and drawing negatives, up to published sizes, against plain loops.

Every loop is measured in the same run, on a sample.
"""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from benchmarks.conftest import Peak
from benchmarks.speed.measure import note_ratio, seconds
from datasets.homes import Homes, Rules
from datasets.negatives import KINDS, sample
from datasets.readers.wyze import read_wyze, write_wyze
from datasets.splits import SPLITS, Hidden, Split, split
from datasets.synthetic.catalogue import INTENT_USE, INTENTS, PROFILES, Catalogue, catalogue
from datasets.synthetic.households import SAME_ZONE
from datasets.synthetic.wyze import PRESETS, Preset
from datasets.valid import ValidRules

ROUNDS = 3  # of either, the fastest counts
SAMPLE = 2_000  # homes that the loops make or go through
ROWS = {"smoke": 4_000, "default": 20_000, "paper": 40_000}  # that the loop reads, devices and rules mixed as in all
# Presets and how many of their homes are generated; None is all of them.
GENERATED: dict[str, tuple[tuple[str, int | None], ...]] = {
    "smoke": (("paper", 10_000),),
    "default": (("paper", None), ("public", 50_000)),
    "paper": (("paper", None), ("public", None)),
}
READ = {"smoke": 5_000, "default": 50_000, "paper": 272_664}  # homes; the last are all of the public data
SPLIT = {"smoke": 10_000, "default": 76_218, "paper": 76_218}  # homes; the last have 201,940 rules

Rule = tuple[int, int, int]  # trigger, action, relation


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    scale = metafunc.config.getoption("scale")
    if "name" in metafunc.fixturenames:
        metafunc.parametrize(("name", "n_homes"), GENERATED[scale])
    elif "n_homes" in metafunc.fixturenames:
        metafunc.parametrize("n_homes", [READ[scale]])


def test_generate(benchmark: BenchmarkFixture, peak: Peak, name: str, n_homes: int | None) -> None:
    options = {"preset": name, "homes": n_homes}
    homes: Homes = benchmark.pedantic(datasets.load, args=("wyze-synthetic",), kwargs=options, rounds=ROUNDS)
    preset = PRESETS[name]
    offered = catalogue(preset.types, preset.n_relations, preset.n_typed, every_feature=preset.seen_often > 0)
    reference = seconds(lambda: home_by_home(preset, offered, SAMPLE), repeats=ROUNDS) / SAMPLE
    program = f"import datasets\ndatasets.load('wyze-synthetic', **{options})"
    note_ratio(benchmark, homes.n_homes, reference, **peak(program))


def test_load_csv_pair(benchmark: BenchmarkFixture, peak: Peak, tmp_path: Path, scale: str, n_homes: int) -> None:
    """All homes of the public data are 852,072 rules and 1,354,098 devices."""
    folder = tmp_path / "tables"
    write_wyze(datasets.load("wyze-synthetic", preset="public", homes=n_homes), folder)
    homes: Homes = benchmark.pedantic(read_wyze, args=(folder,), rounds=ROUNDS)
    lines = {kind: homes.provenance.counts[f"{kind} rows"] for kind in ("device", "rule")}
    rows = sum(lines.values())
    # A rule takes the loop longer than a device: in equal numbers they would flatter the ratio.
    devices, rules = (
        pd.read_csv(folder / f"train_{kind}.csv", nrows=round(ROWS[scale] * count / rows))
        for kind, count in lines.items()
    )
    reference = seconds(lambda: row_by_row(devices, rules), repeats=ROUNDS) / (len(devices) + len(rules))
    program = f"from pathlib import Path\nfrom datasets.readers.wyze import read_wyze\nread_wyze(Path({str(folder)!r}))"
    note_ratio(benchmark, rows, reference, **peak(program))


@pytest.fixture(scope="module")
def homes(scale: str) -> Homes:
    """Homes of the paper's kind."""
    return datasets.load("wyze-synthetic", preset="paper", homes=SPLIT[scale])


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


def home_by_home(preset: Preset, offered: Catalogue, n_homes: int) -> list[set[tuple[int, int, int]]]:
    """Homes of the mean size by the same kind of model, one draw at a time.

    It does less: it draws each rule once, where the generator draws relations a dozen times over to fit their
    popularity; it knows no heavy tails, companions or exact totals. So the ratio is a lower bound.
    """
    rng = random.Random(0)
    profiles = [
        {offered.types.index(t): weight for t, weight in p.owns.items() if t in offered.types} for p in PROFILES
    ]
    rules_between: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, types in enumerate(zip(offered.trigger_type.tolist(), offered.action_type.tolist(), strict=True)):
        rules_between[types].append(i)
    appeal, relation = offered.appeal.tolist(), offered.relation.tolist()
    wish = [{types: sum(row[i] for i in rules) for types, rules in rules_between.items()} for row in appeal]
    made = []
    for _ in range(n_homes):
        owns = rng.choices(profiles, [p.share for p in PROFILES])[0]
        intent = rng.choices(range(len(INTENTS)), INTENT_USE)[0]
        more = rng.choices(list(owns), list(owns.values()), k=round(preset.devices / preset.homes) - 1)
        owned = [offered.types.index("Camera"), *more]  # so that every home can have a rule
        zone = [rng.randrange(2) for _ in owned]
        rules: set[tuple[int, int, int]] = set()
        while len(rules) < round(preset.rules / preset.homes):
            trigger = rng.randrange(len(owned))
            wanted = [
                wish[intent].get((owned[trigger], kind), 0.0) * (SAME_ZONE if zone[trigger] == zone[j] else 1.0)
                for j, kind in enumerate(owned)
            ]
            action = rng.choices(range(len(owned)), wanted)[0]
            options = rules_between[owned[trigger], owned[action]]
            rule = rng.choices(options, [appeal[intent][i] for i in options])[0]
            rules.add((trigger, action, relation[rule]))
        made.append(rules)
    return made


def row_by_row(devices: pd.DataFrame, rules: pd.DataFrame) -> dict[int, tuple[dict[int, str], set[tuple[int, ...]]]]:
    """The same homes as dictionaries, one `iterrows` step per row; parsing the CSV is not even counted."""
    homes: dict[int, tuple[dict[int, str], set[tuple[int, ...]]]] = {}
    relations: dict[tuple[str, str], int] = {}
    for _, row in devices.iterrows():
        homes.setdefault(row["user_id"], ({}, set()))[0][row["device_id"]] = row["device_model"]
    for _, row in rules.iterrows():
        owned, known = homes.setdefault(row["user_id"], ({}, set()))
        owned.setdefault(row["trigger_device_id"], row["trigger_device"])
        owned.setdefault(row["action_device_id"], row["action_device"])
        relation = relations.setdefault((row["trigger_state"], row["action"]), len(relations))
        known.add((row["trigger_device_id"], row["action_device_id"], relation))
    return homes


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
