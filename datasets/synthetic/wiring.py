"""How the rules of a synthetic home are drawn: some start from an intent of a zone, others follow from a rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from datasets.homes import Array
from datasets.synthetic.catalogue import INTENT_USE, INTENTS, Catalogue
from datasets.synthetic.draws import Floats, accumulate, flatten_runs, pick, pick_along
from datasets.synthetic.households import ANYWHERE, Households

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
