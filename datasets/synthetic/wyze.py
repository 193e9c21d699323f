"""Synthetic Wyze homes: a model of how homes come to own devices and to automate them, at published sizes.

What is assumed, in the order in which a home comes about:
- Sizes. A published set fixes how many homes, devices and rules there are and how they spread (PRESETS; what the
  paper does not publish is shaped like the public set, with four devices a home). Homes with more devices tend to
  have more rules; every home has at least one. `homes` scales totals in proportion and keeps the vocabularies.
- Ownership. A home buys by a profile (cameras, security kit, lighting, ...) and now and then by a second one, which
  makes types occur together; one device in three is one more of a type that it has. The first can carry a rule by
  itself, the second is rather one that starts rules. Cloud (preset `public`) is not a device but the vendor's services:
  one id for all homes, in a home only where a rule uses it, and counted among its devices.
- Zones. Devices are in rooms or in the garden. Zones are never part of the data; they show only in its rules.
- Intents. A home wants two things (security, lighting, comfort, energy, safety, routine), the main one half the time
  suggested by its profile; a zone follows one of them, or its own. Intents are never part of the data either.
- Rules. 60 % start from a wish: a device that is much used notices something; the intent of its zone (seldom of the
  home, or none in particular) decides what is wanted; a device answers, rather one in the same zone, now and then the
  same one. The others follow from the rule before: its companion for the same two devices (Open -> Power On, then
  Close -> Power Off), or the same for one more device of the type, in either place.
- Catalogue. A rule is possible where the trigger's type has the state and the actor's type the action. How much it is
  liked depends on how well both serve the intent, on whether they start or end things alike, and on taste; out of all
  that is possible a fixed part is offered, the same for every seed.
- Popularity. Relations occur as unevenly as published, or (paper) in a similar heavy tail; else the model decides.
- Exactness. At full size under 0.5 % of rules are drawn anew or replaced, so that what was published as a count is met:
  every rule of the catalogue occurs (paper), relations occur at least 20 times or at most so often (public).

So the next rule shows in what is popular, in which rules go together over homes (intents, companions), and in which
very device is already wired to which (zones, habits, how much a device is used); none of these decides it alone. The
strengths are round numbers, set so that random order, popularity, an item-item model and plain counts of what a device
is wired to already differ clearly and none gets nearly everything right. No trained graph model was looked at.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from datasets.common.errors import unknown
from datasets.homes import Array, Homes, Provenance, Rules
from datasets.registry import dataset
from datasets.synthetic.catalogue import Catalogue, catalogue
from datasets.synthetic.draws import LARGEST_SEED, Floats, check_integer
from datasets.synthetic.households import (
    Draft,
    Households,
    RuleSampler,
    draft,
    draw_households,
    fit_to_capacity,
    rule_capacity,
)
from datasets.synthetic.match_counts import every_rule_once, often_seen, resolve_duplicates
from datasets.synthetic.names import draw_words


@dataclass(frozen=True, slots=True)
class Counts:
    """A distribution of whole numbers given by a few points of it: the share of homes with at most so many.

    Between two points log P(X > x) is straight in log x, as in a power law; beyond the last one the tail bends as much
    as the total requires and ends at `largest`.
    """

    at_most: dict[int, float]  # rising; the first number is the smallest count
    largest: int

    def quantiles(self, n: int, bend: float, longest: int) -> Array:
        """[n]: rising counts, the middle of each of n equal shares; of `longest` of them the last is `largest`."""
        above = 1 - (np.arange(n) + 0.5) / n  # P(X > x) at each
        knots, share = np.array(list(self.at_most)), 1 - np.array(list(self.at_most.values()))
        inside = np.interp(-np.log(above), -np.log(share), np.log(knots))
        reach = np.log(share[-1] / above) / np.log(share[-1] * 2 * max(n, longest))
        tail = np.log(knots[-1]) + np.log(self.largest / knots[-1]) * np.clip(reach, 0, 1) ** bend
        counts = np.exp(np.where(above < share[-1], tail, inside))
        whole: Array = np.ceil(np.maximum(counts, knots[0]) - 1e-9).astype(np.int64)
        return whole

    def to_total(self, n: int, total: int, longest: int) -> Array:
        """[n]: rising counts that sum to `total`; `longest` is how many homes it takes to see the largest."""
        if n == 0:
            return np.zeros(0, dtype=np.int64)
        low, high = 0.05, 20.0  # a larger bend makes a thinner tail
        for _ in range(25):
            bend = (low + high) / 2
            low, high = (bend, high) if self.quantiles(n, bend, longest).sum() > total else (low, bend)
        fixed = int(n >= longest)  # the one that is published as the largest must not move
        return np.sort(_adjust_to_total(self.quantiles(n, high, longest), total, min(self.at_most), fixed))


def _adjust_to_total(counts: Array, total: int, smallest: int, fixed: int) -> Array:
    """Rising counts moved by one here and there, the larger ones first, until they sum to `total`."""
    counts = counts.copy()
    while (missing := total - int(counts.sum())) != 0:
        movable = np.flatnonzero(counts[: len(counts) - fixed] + np.sign(missing) >= smallest)[::-1]
        if not len(movable) and not fixed:
            raise AssertionError(f"{len(counts)} counts of at least {smallest} cannot sum to {total}")
        fixed = fixed if len(movable) else 0
        counts[movable[: abs(missing)]] += np.sign(missing)
    return counts


def paired(first: Array, second: Array, correlation: float, rng: np.random.Generator) -> Array:
    """The rising counts of `second` ordered to correlate with `first`: correlation 0 is random, 1 by rank."""
    order = np.argsort(np.argsort(first + rng.random(len(first)))) / max(len(first), 1)
    score: Floats = correlation * order + (1 - correlation) * rng.random(len(first))
    return second[np.argsort(np.argsort(score))]


SIZE_AND_RULES = 0.6  # correlation of the numbers of rules and of devices


@dataclass(frozen=True, slots=True)
class Preset:
    """A published set to imitate at full size."""

    published: str  # the entry of datasets.describe
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
    seen_often: int = 0  # relations that occur at least 20 times; 0 leaves that to the model
    most: int = 0  # rules of the commonest relation, where `seen_often` is given
    cloud: float = 0.0  # share of homes, among those with two devices or more, that use Cloud


def _preset(counts: dict[str, Any], types: str, rules_by_rank: list[tuple[int, float]], **fields: Any) -> Preset:
    """A preset from its table in wyze.toml."""
    fields |= {name: Counts(dict(shape["at_most"]), shape["largest"]) for name, shape in counts.items()}
    return Preset(types=tuple(types.split()), rules_by_rank=dict(rules_by_rank), **fields)


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PRESETS = {name: _preset(**table) for name, table in _TABLES.items()}


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


NAME = "wyze-synthetic"
MOST_HOMES = 10_000_000  # beyond this, keys of (device, device, relation) would not fit into 63 bits
NAMES = 1  # the random stream of names
ALONE = 5  # rules that a type must be able to have with itself to be the first device of a home


@dataset(NAME)
def wyze_synthetic(*, preset: str = "paper", homes: int | None = None, seed: int = 0, words: bool = True) -> Homes:
    """Synthetic smart homes after a published set.

    preset: paper or public
    homes: how many; none for as many as published
    words: with words of the devices' names, which mostly say the room; nothing else depends on it
    """
    if preset not in PRESETS:
        raise unknown(f"preset of {NAME}", preset, PRESETS)
    chosen = PRESETS[preset]
    n_homes = chosen.homes if homes is None else check_integer(NAME, "homes", homes, least=1, most=MOST_HOMES)
    rng = np.random.default_rng([check_integer(NAME, "seed", seed, least=0, most=LARGEST_SEED), chosen.homes])
    cat = catalogue(chosen.types, chosen.n_relations, chosen.n_typed, every_feature=chosen.seen_often > 0)

    n_rules, n_devices = sizes(chosen, n_homes, rng)
    cloud = np.flatnonzero((rng.random(n_homes) < chosen.cloud) & (n_devices >= 2))
    starters = np.bincount(cat.trigger_type[cat.alone], minlength=len(cat.types)) >= ALONE
    households = draw_households(n_devices, cat.types, starters, cloud, rng)
    n_rules = fit_to_capacity(n_rules, rule_capacity(households, cat))
    sampler = RuleSampler(households, cat, np.ones(len(cat.relations)), rng)
    drafted = draft(sampler, n_rules, cloud)
    sampler, resolved = resolve_duplicates(sampler, drafted, rules_by_rank(chosen) * (n_rules.sum() / chosen.rules))
    full = n_homes == chosen.homes
    if full and chosen.every_typed:
        resolved = every_rule_once(sampler, resolved)
    if full and chosen.seen_often:
        resolved = often_seen(sampler, resolved, chosen.seen_often, chosen.most)
    note = f"{n_homes:,} homes, not {chosen.homes:,}: counts are in proportion and not compared with the published ones"
    provenance = Provenance(
        source=f"generated: {NAME}, preset {preset}, homes {n_homes}, seed {seed}",
        notes=() if full else (note,),
        published=chosen.published if full else "",
    )
    made = _homes(households, cat, resolved, provenance)
    if not words:
        return made
    # A random stream of their own: the homes are the same with and without words.
    return replace(made, words=draw_words(households, np.random.default_rng([seed, chosen.homes, NAMES])))


def _homes(households: Households, cat: Catalogue, drafted: Draft, provenance: Provenance) -> Homes:
    """Homes under names: vocabularies sorted, devices numbered from 1 and Cloud 0, as one device of all homes."""
    types, relations = sorted(cat.types), sorted(cat.relations)
    type_number = np.array([types.index(t) for t in cat.types])
    relation_number = np.array([relations.index(r) for r in cat.relations])
    thing = np.array(cat.types)[households.device_type] != "Cloud"
    return Homes(
        name=NAME,
        types=tuple(types),
        relations=tuple(relations),
        users=np.arange(1, households.n_homes + 1),
        device_home=households.device_home,
        device_type=type_number[households.device_type],
        device_ids=np.where(thing, np.cumsum(thing), 0),
        rules=Rules(drafted.home, drafted.trigger, drafted.action, relation_number[cat.relation[drafted.rule]]),
        provenance=provenance,
    )
