"""Synthetic homes before their counts are matched: what they own and want, and how their rules are drawn.

Profiles decide on devices, devices are in zones, zones have intents. Some rules start from an intent of a zone, others
follow from a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from datasets.homes import Array, Mask, starts
from datasets.synthetic.catalogue import INTENT_USE, INTENTS, OUTDOOR, PROFILES, ROLES, Catalogue
from datasets.synthetic.draws import Floats, accumulate, flatten_runs, pick, pick_along

MORE_OF_THE_SAME = 0.35  # share of devices bought because the home already has one of that type
SECOND_PROFILE = 0.25  # share of devices that come by another profile than the home's first
PROFILE_INTENT = 0.5  # share of homes whose main intent is what their profile suggests, not just any
ZONE_INTENT = (0.55, 0.30)  # share of zones that follow the home's main intent, its second; the rest any
ROOMS_PER_DEVICE = (0.2, 0.55)  # a home has one room and between these for every further device
ANYWHERE = -1  # the zone of Cloud, which is near everything
BUSY = 0.9  # spread (in logs) of how much a device is used relative to others of its type


@dataclass(frozen=True, eq=False)
class Households:
    """Homes before their first rule; devices sorted by home and type."""

    n_homes: int
    n_types: int
    device_home: Array  # [n_devices]
    device_type: Array  # [n_devices]
    zone: Array  # [n_devices]  never shared by homes; ANYWHERE for Cloud
    busy: Floats  # [n_devices]
    zone_intent: Array  # [n_zones]
    intent: Array  # [n_homes]  the main one
    second_intent: Array  # [n_homes]

    @cached_property
    def start(self) -> Array:
        """[n_homes + 1]: the devices of each home."""
        return starts(self.device_home, self.n_homes)

    @cached_property
    def type_start(self) -> Array:
        """[n_homes * n_types + 1]: the devices of each home and type."""
        return starts(self.device_home * self.n_types + self.device_type, self.n_homes * self.n_types)

    def owned(self) -> Array:
        """[n_homes, n_types]: how many devices of each type a home has."""
        return np.diff(self.type_start).reshape(self.n_homes, self.n_types)


def draw_households(
    n_devices: Array, types: tuple[str, ...], starters: Mask, cloud: Array, rng: np.random.Generator
) -> Households:
    """Homes with so many devices each; those in `cloud` use Cloud, which counts as one of their devices.

    The first device of a home is of a type in `starters`, those that make rules even alone; the second is rather one
    that starts rules: these are homes that have rules.
    """
    n_homes = len(n_devices)
    shares = np.array([p.share for p in PROFILES])
    profile, second = rng.choice(len(PROFILES), (2, n_homes), p=shares)
    intent = _intents(profile, rng)

    owns = np.array([[p.owns.get(t, 0.0) for t in types] for p in PROFILES])
    home = np.repeat(np.arange(n_homes), n_devices)
    first = np.cumsum(n_devices) - n_devices
    comes_by = np.where(rng.random(len(home)) < SECOND_PROFILE, second[home], profile[home])
    triggers = np.array([ROLES[t].triggers for t in types])
    kind = _types(home, first, comes_by, np.stack([owns * starters, owns * triggers, owns]), rng)
    if "Cloud" in types:
        kind[first[cloud] + n_devices[cloud] - 1] = types.index("Cloud")
    kind = np.sort(home * len(types) + kind) % len(types)

    low, high = ROOMS_PER_DEVICE
    rooms = 1 + ((n_devices - 1) * rng.uniform(low, high, n_homes)).astype(np.int64)
    zone_start = np.cumsum(rooms + 1) - (rooms + 1)  # the zone after the last room is the garden
    room = (rooms[home] * rng.random(len(home)) ** 1.3).astype(np.int64)  # the first rooms hold more
    outdoor = np.array([name in OUTDOOR for name in types])[kind]
    zone = zone_start[home] + np.where(outdoor, rooms[home], room)
    second_intent = rng.choice(len(INTENTS), n_homes, p=INTENT_USE)
    zone_home = np.repeat(np.arange(n_homes), rooms + 1)
    follows = rng.random(len(zone_home))
    main, both = ZONE_INTENT[0], sum(ZONE_INTENT)
    zone_intent = np.where(follows < main, intent[zone_home], second_intent[zone_home])
    zone_intent = np.where(follows < both, zone_intent, rng.choice(len(INTENTS), len(zone_home), p=INTENT_USE))
    return Households(
        n_homes,
        len(types),
        home,
        kind,
        np.where(np.array(types)[kind] == "Cloud", ANYWHERE, zone),
        np.exp(BUSY * rng.standard_normal(len(home))),
        zone_intent,
        intent,
        second_intent,
    )


def _intents(profile: Array, rng: np.random.Generator) -> Array:
    """[n_homes]: the main intent, half the time one that matches the profile."""
    suggested = np.array([[intent in p.intents.split() for intent in INTENTS] for p in PROFILES]).astype(float)
    begin = profile * len(INTENTS)
    by_profile = pick(suggested.ravel(), begin, begin + len(INTENTS), rng) - begin
    anything = rng.choice(len(INTENTS), len(profile), p=INTENT_USE)
    return np.where(rng.random(len(profile)) < PROFILE_INTENT, by_profile, anything)


def _types(home: Array, first: Array, profile: Array, owns: Floats, rng: np.random.Generator) -> Array:
    """[n_devices]: what each device is; `owns` [3, n_profiles, n_types] is for the first, the second, any later one."""
    _, n_profiles, n_types = owns.shape
    place = np.arange(len(home)) - first[home]
    begin = (np.minimum(place, 2) * n_profiles + profile) * n_types
    drawn = pick(owns.ravel(), begin, begin + n_types, rng) - begin
    # One more of the same: a device copies an earlier one of its home, which may itself be a copy.
    earlier = first[home] + (place * rng.random(len(home))).astype(np.int64)
    copies = (rng.random(len(home)) < MORE_OF_THE_SAME) & (place > 1)
    source = np.where(copies, earlier, np.arange(len(home)))
    while np.any(source[source] != source):
        source = source[source]
    types: Array = drawn[source]
    return types


SAME_ZONE = 7.0  # how much likelier a device acts on one in its own zone than on the same thing elsewhere
ITSELF = 0.6  # how readily a device acts on itself (a camera that records what it sees), relative to its zone
SELDOM = 1e-4  # the least wish for a rule between two types, relative to the greatest: whatever is possible happens
RULE_INTENT = (0.70, 0.18)  # share of rules that serve their zone's intent, the home's; the rest serve any
MAIN, SECOND = 0.60, 0.25  # how far the home's first and second intent decide which devices start rules
FOLLOWS = 0.40  # share of rules that follow from the one before: they belong to one automation
KINDS = (0.45, 0.35, 0.20)  # how it follows: a companion for the same devices, one more actor, one more trigger
OPTIONS_AT_ONCE = 4_000_000  # bounds the memory of a draw
COMPANION, MORE_ACTORS, MORE_TRIGGERS = range(3)


@dataclass(slots=True, eq=False)
class Draft:
    """Rules in the making, sorted by home; `rule` is the position in the catalogue."""

    home: Array  # [n_rules]
    trigger: Array
    action: Array
    rule: Array
    intent: Array
    after: Array  # [n_rules]  the rule that it follows from; itself where it starts from an intent
    copies: Array  # [n_rules]  1 where it repeats the relation of `after` with another device


@dataclass(frozen=True, eq=False)
class RuleSampler:
    """Draws device pairs and relations for homes; `popularity` [n_relations] weights the relations."""

    households: Households
    catalogue: Catalogue
    popularity: Floats
    rng: np.random.Generator

    @cached_property
    def wish(self) -> Floats:
        """[n_intents, n_types, n_types]: how much an intent wants any rule between two types."""
        cat, n = self.catalogue, len(self.catalogue.types)
        weight = cat.appeal * self.popularity[cat.relation]
        pair = cat.trigger_type * n + cat.action_type
        wish = np.stack([np.bincount(pair, row, n * n).reshape(n, n) for row in weight])
        offered = np.bincount(pair, minlength=n * n).reshape(n, n) > 0
        return np.where(offered, np.maximum(wish, SELDOM * wish.max(axis=(1, 2), keepdims=True)), 0.0)

    @cached_property
    def eager(self) -> Floats:
        """[n_devices + 1]: running sums of how readily each device starts a rule, given what its home wants."""
        households = self.households
        by_type = self.wish.sum(axis=2)  # [n_intents, n_types]
        by_type = by_type / by_type.sum(axis=1, keepdims=True)
        of_any = np.array(INTENT_USE) @ by_type
        wants = MAIN * by_type[:, None] + SECOND * by_type[None] + (1 - MAIN - SECOND) * of_any  # [main, second, type]
        home = households.device_home
        return accumulate(
            households.busy * wants[households.intent[home], households.second_intent[home], households.device_type]
        )

    def pairs(self, home: Array, into: Array | None = None) -> tuple[Array, Array, Array]:
        """A trigger device, an action device and an intent for each of these homes; `into` may name the latter."""
        households, rng = self.households, self.rng
        start, wish = households.start, self.wish
        trigger = pick_along(self.eager, start[home], start[home + 1], rng)
        serves = rng.random(len(home))
        zone_intent = np.where(
            households.zone[trigger] != ANYWHERE,
            households.zone_intent[households.zone[trigger]],
            households.intent[home],
        )
        intent = np.where(serves < RULE_INTENT[0], zone_intent, households.intent[home])
        anything = rng.choice(len(INTENTS), len(home), p=INTENT_USE)
        intent = np.where(serves < sum(RULE_INTENT), intent, anything)
        action = np.full(len(home), -1)
        for part in _parts(start[home + 1] - start[home]):
            action[part] = self._actors(
                home[part], trigger[part], wish[intent[part], households.device_type[trigger[part]]]
            )
        if into is not None:
            action = np.where((into >= 0) & (trigger != into), into, action)
        return trigger, action, intent

    def _actors(self, home: Array, trigger: Array, wish: Floats) -> Array:
        """A device for each trigger to act on; `wish` [n, n_types] is how much each type is wanted."""
        households = self.households
        start = households.start
        chooser, device, end = flatten_runs(start[home], start[home + 1])
        own, zone = trigger[chooser], households.zone[device]
        near = (zone == households.zone[own]) | (zone == ANYWHERE)
        weight = households.busy[device] * wish[chooser, households.device_type[device]]
        weight *= np.where(device == own, ITSELF, 1.0) * np.where(near, SAME_ZONE, 1.0)
        found = pick(weight, np.concatenate([[0], end[:-1]]), end, self.rng)
        return np.where(found >= 0, device[found], -1)

    def siblings(self, device: Array, near_to: Array) -> Array:
        """Another device of the same home and type for each, rather in the zone of `near_to`; -1 if there is none."""
        households = self.households
        key = households.device_home[device] * households.n_types + households.device_type[device]
        chooser, other, end = flatten_runs(households.type_start[key], households.type_start[key + 1])
        near = households.zone[other] == households.zone[near_to][chooser]
        weight = np.where(other == device[chooser], 0.0, np.where(near, SAME_ZONE, 1.0))
        found = pick(weight, np.concatenate([[0], end[:-1]]), end, self.rng)
        return np.where(found >= 0, other[found], -1)

    def rules(self, trigger: Array, action: Array, intent: Array) -> Array:
        """A rule of the catalogue for each device pair, as its intent would have it."""
        households, cat = self.households, self.catalogue
        weight = cat.appeal * self.popularity[cat.relation]
        among = np.repeat(np.arange(households.n_types**2), np.diff(cat.pair_start))
        # Shares within each pair of types: sums over pairs that are far apart in weight would lose the small ones.
        total = accumulate(np.concatenate([row / np.bincount(among, row)[among] for row in weight]))
        pair = households.device_type[trigger] * households.n_types + households.device_type[action]
        shift = intent * len(cat.relation)
        return pick_along(total, shift + cat.pair_start[pair], shift + cat.pair_start[pair + 1], self.rng) - shift

    def companions(self, rule: Array) -> Array:
        """Another rule between the same devices for each; the same one where the catalogue has no other."""
        cat = self.catalogue
        weight = cat.companion * np.sqrt(self.popularity[cat.relation[cat.companion_rule]])
        found = pick(weight, cat.companion_start[rule], cat.companion_start[rule + 1], self.rng)
        return np.where(found >= 0, cat.companion_rule[found], rule)


def draft(sampler: RuleSampler, n_rules: Array, cloud: Array) -> Draft:
    """Devices for so many rules per home, relations still open; the first rule of homes in `cloud` acts on Cloud."""
    households, rng = sampler.households, sampler.rng
    home = np.repeat(np.arange(households.n_homes), n_rules)
    first = np.cumsum(n_rules) - n_rules
    follows = rng.random(len(home)) < FOLLOWS
    follows[first] = False
    after = np.maximum.accumulate(np.where(follows, 0, np.arange(len(home))))
    into = np.full(len(home), -1)
    into[first[cloud]] = households.start[cloud]  # Cloud is the first type, so the first device
    seeds = np.flatnonzero(~follows)
    trigger, action, intent = (np.zeros(len(home), dtype=np.int64) for _ in range(3))
    trigger[seeds], action[seeds], intent[seeds] = sampler.pairs(home[seeds], into[seeds])
    trigger, action, intent = trigger[after], action[after], intent[after]

    kind = np.where(follows, rng.choice(3, len(home), p=KINDS), COMPANION)
    copies = np.zeros(len(home), dtype=np.int64)
    for which, column, other in ((MORE_ACTORS, action, trigger), (MORE_TRIGGERS, trigger, action)):
        rows = np.flatnonzero(kind == which)
        sibling = sampler.siblings(column[rows], other[rows])
        rows, sibling = rows[sibling >= 0], sibling[sibling >= 0]
        column[rows] = sibling
        copies[rows] = 1
    return Draft(home, trigger, action, np.full(len(home), -1), intent, after, copies)


def relate(sampler: RuleSampler, draft: Draft) -> Array:
    """[n_rules]: a rule of the catalogue for every pair of a draft; followers take theirs from the rule before."""
    rule = np.empty(len(draft.home), dtype=np.int64)
    seeds = draft.after == np.arange(len(rule))
    rule[seeds] = sampler.rules(draft.trigger[seeds], draft.action[seeds], draft.intent[seeds])
    rule = rule[draft.after]
    follows = ~seeds & (draft.copies == 0)
    rule[follows] = sampler.companions(rule[follows])
    return rule


def _parts(n_options: Array) -> list[slice]:
    """Runs of choosers that have about OPTIONS_AT_ONCE options together."""
    block = np.cumsum(n_options) // OPTIONS_AT_ONCE
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(n_options)]
    return [slice(a, b) for a, b in pairwise(edges)]


def rule_capacity(households: Households, catalogue: Catalogue) -> Array:
    """[n_homes]: how many different rules a home could have."""
    n = households.n_types
    offered = np.diff(catalogue.pair_start).reshape(n, n)
    alone = np.bincount(catalogue.trigger_type[catalogue.alone], minlength=n)
    owned = households.owned()
    rules: Array = np.einsum("ht,tu,hu->h", owned, offered, owned) - owned @ (np.diagonal(offered) - alone)
    return rules


def fit_to_capacity(n_rules: Array, capacity: Array) -> Array:
    """The same numbers of rules, swapped between homes with several so that they fit what the homes could have.

    A home keeps its number unless it exceeds a third of its capacity: those swap with the homes of largest capacity.
    """
    several = np.flatnonzero(n_rules >= 2)
    crowded = several[n_rules[several] > np.maximum(capacity[several] // 3, 1)]
    if not len(crowded):
        return n_rules
    largest = several[np.argsort(-capacity[several], kind="stable")[: 2 * len(crowded)]]
    pool = np.union1d(crowded, largest)
    result = n_rules.copy()
    result[pool[np.argsort(capacity[pool], kind="stable")]] = np.sort(n_rules[pool])
    excess = np.maximum(result - capacity, 0)  # only with a handful of homes
    result -= excess
    order = np.argsort(result - capacity, kind="stable")
    before = np.cumsum((capacity - result)[order]) - (capacity - result)[order]
    result[order] += np.clip(excess.sum() - before, 0, (capacity - result)[order])
    return result
