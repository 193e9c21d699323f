"""The published Wyze sets to imitate: their counts, and shapes for what was not published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.homes import Array
from datasets.synthetic.counts import Counts, paired
from datasets.synthetic.draws import Floats

BOTH = "Camera ContactSensor Light Lock MeshLight MotionSensor OutdoorPlug Plug Thermostat"  # in either set
SIZE_AND_RULES = 0.6  # how closely the number of rules goes with the number of devices


@dataclass(frozen=True, slots=True)
class Preset:
    """A published set to imitate at full size."""

    published: str  # the entry of datasets.published
    types: tuple[str, ...]
    homes: int
    rules: int
    devices: int
    homes_with_several_rules: int  # all others have one
    devices_with_several_rules: float  # mean of those homes
    rules_each: Counts  # of homes with several rules
    devices_each: Counts  # of homes with several rules
    devices_with_one_rule: Counts
    n_relations: int
    n_typed: int
    rules_by_rank: dict[int, float]  # of the commonest relation, the second, ...: a line through these in logs
    every_typed: bool = False  # every typed rule of the catalogue occurs
    seen_often: int = 0  # relations that occur at least 20 times; 0 leaves that to chance
    most: int = 0  # rules of the commonest relation, where `seen_often` is given
    cloud: float = 0.0  # share of homes, among those with two devices or more, that use Cloud


PRESETS = {
    "paper": Preset(
        published="wyze-paper",
        types=tuple(f"{BOTH} ChimeSensor OutdoorCamera".split()),
        homes=76_218,
        rules=201_940,
        devices=304_872,  # 4 per home
        homes_with_several_rules=41_900,
        devices_with_several_rules=4.5,
        rules_each=Counts({2: 0.42, 3: 0.64, 5: 0.84, 10: 0.963}, 80),
        devices_each=Counts({1: 0.03, 2: 0.23, 3: 0.47, 5: 0.77, 8: 0.93}, 40),
        devices_with_one_rule=Counts({1: 0.10, 2: 0.40, 3: 0.66, 5: 0.89, 8: 0.97}, 30),
        n_relations=163,
        n_typed=1_207,
        rules_by_rank={1: 21_000, 2: 18_000, 10: 6_500, 40: 900, 80: 250, 163: 25},
        every_typed=True,
    ),
    "public": Preset(
        published="wyze-public",
        types=tuple(f"{BOTH} ClimateSensor Cloud Irrigation LeakSensor LightStrip RobotVacuum Switch".split()),
        homes=272_664,
        rules=852_072,
        devices=1_354_098,
        homes_with_several_rules=149_558,
        devices_with_several_rules=6.19,
        rules_each=Counts({2: 0.371, 3: 0.56, 5: 0.777, 10: 0.925}, 446),
        devices_each=Counts({1: 0.10, 2: 0.34, 3: 0.53, 5: 0.705, 10: 0.835}, 154),
        devices_with_one_rule=Counts({1: 0.14, 2: 0.45, 3: 0.68, 5: 0.88, 10: 0.965}, 60),
        n_relations=791,
        n_typed=3_000,
        rules_by_rank={1: 67_500, 2: 61_500, 10: 29_800, 11: 19_500, 395: 121, 552: 32, 553: 10, 791: 1.5},
        seen_often=552,
        most=65_218,
        cloud=0.24,
    ),
}


def sizes(preset: Preset, n_homes: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rules and devices of each home: homes with several rules own more, and the more rules the more devices."""
    scale = n_homes / preset.homes
    several = round(preset.homes_with_several_rules * scale)
    n_rules, n_devices = max(round(preset.rules * scale), n_homes), max(round(preset.devices * scale), n_homes)
    full = preset.homes_with_several_rules
    rules = preset.rules_each.to_total(several, n_rules - (n_homes - several), full)
    owned = round(preset.devices_with_several_rules * several)
    owned = n_devices if several == n_homes else owned
    devices = paired(rules, preset.devices_each.to_total(several, owned, full), SIZE_AND_RULES, rng)
    others = preset.devices_with_one_rule.to_total(n_homes - several, n_devices - owned, preset.homes - full)
    shuffled = rng.permutation(n_homes)
    rules = np.concatenate([rules, np.ones(n_homes - several, dtype=np.int64)])
    return rules[shuffled], np.concatenate([devices, others])[shuffled]


def rules_by_rank(preset: Preset) -> Floats:
    """[n_relations]: how many rules the commonest relation has at full size, the second, and so on."""
    ranks, rules = list(preset.rules_by_rank), list(preset.rules_by_rank.values())
    by_rank = np.exp(np.interp(np.log(np.arange(1, preset.n_relations + 1)), np.log(ranks), np.log(rules)))
    scaled: Floats = by_rank * (preset.rules / by_rank.sum())
    return scaled
