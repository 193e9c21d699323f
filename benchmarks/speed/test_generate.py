"""Making up smart homes, up to published sizes, against a plain loop that makes them home by home in the same run."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from benchmarks.conftest import Peak
from benchmarks.speed.measure import note_ratio, seconds
from datasets.homes import Homes
from datasets.synthetic.catalogue import INTENT_USE, INTENTS, PROFILES, Catalogue, catalogue
from datasets.synthetic.wiring import SAME_ZONE
from datasets.synthetic.wyze import PRESETS, Preset

SAMPLE = 2_000  # homes that the loop makes
ROUNDS = 3  # of either, the fastest counts
# Presets and how many of their homes; None is all of them.
SIZES: dict[str, tuple[tuple[str, int | None], ...]] = {
    "smoke": (("paper", 10_000),),
    "default": (("paper", None), ("public", 50_000)),
    "paper": (("paper", None), ("public", None)),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize(("name", "n_homes"), SIZES[metafunc.config.getoption("scale")])


def test_generate(benchmark: BenchmarkFixture, peak: Peak, name: str, n_homes: int | None) -> None:
    asked = {"preset": name, "homes": n_homes}
    homes: Homes = benchmark.pedantic(datasets.load, args=("wyze-synthetic",), kwargs=asked, rounds=ROUNDS)
    preset = PRESETS[name]
    offered = catalogue(preset.types, preset.n_relations, preset.n_typed, every_feature=preset.seen_often > 0)
    reference = seconds(lambda: home_by_home(preset, offered, SAMPLE), repeats=ROUNDS) / SAMPLE
    program = f"import datasets\ndatasets.load('wyze-synthetic', **{asked})"
    note_ratio(benchmark, homes.n_homes, reference, **peak(program))


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
