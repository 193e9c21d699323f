"""Clients that attack the federation: simulated, to measure what a defence is worth. No deployment has these options.

Attackers are the same homes in every round. What one of them sends in place of its update u = Delta_k, with scale s:

- sign-flip: -s u, away from what it learned
- scale: s u, its own home in place of everybody's
- noise: a random direction of length s |u|
- label-flip: u, learned from examples in which rules and non-rules are swapped
- promote: s u, learned from its own rules and one more, the promoted rule, between all of its devices of the two types
  (Bagdasaryan et al. 2020, AISTATS, "How to backdoor federated learning"): it shall be in everybody's list. Where a
  score counts homes (fedrank), attackers also claim the rule in their counts. A home adds at most 1 to a count.

What one of them keeps for the next round is that of an honest client, so that its own state never gives it away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from datasets.common.errors import DataError, unknown
from datasets.common.random import KeyedRandom
from datasets.homes import Array, Homes, Mask, Rules
from datasets.private_counts import owned_types
from datasets.valid import ValidRules
from fedrule.federated.cohort import Purpose
from fedrule.federated.optimizers import Precise

Attacks: TypeAlias = Literal["none", "sign-flip", "scale", "noise", "label-flip", "promote"]

SCALES: dict[str, float] = {"none": 0.0, "label-flip": 1.0}  # where it cannot be set: nothing is sent, or u itself
SCALE = 10.0  # of the others
AUTOMATIC = "auto"  # the promoted rule is chosen
MEASURED = 500  # homes whose lists show how high the promoted rule is, at most


@dataclass(frozen=True, slots=True)
class AttackOptions:
    """What attackers do, and how many there are."""

    attack: Attacks = "none"
    attackers: float = 0.0  # share of the homes with rules
    scale: float = 0.0  # s; 0: nobody attacks
    promoted: str = ""  # the rule whose rank is measured, which attack promote promotes; auto: chosen; "": none

    def __post_init__(self) -> None:
        if self.attack not in get_args(Attacks):
            raise unknown("attack", self.attack, get_args(Attacks))
        if not 0 <= self.attackers <= 1:
            raise DataError(f"attackers must be in [0, 1], got {self.attackers}")
        if self.attack not in SCALES and not 0 < self.scale < math.inf:
            raise DataError(f"attack_scale must be positive and finite, got {self.scale}")
        if (self.attack == "none") != (self.attackers == 0):
            raise DataError(
                f"attack {self.attack} with attackers {self.attackers:g} has no effect; give both or neither"
            )
        if self.attack in SCALES and self.scale != SCALES[self.attack]:
            raise DataError(f"attack_scale has no effect with attack {self.attack}")
        if self.attack == "promote" and not self.promoted:
            raise DataError("attack promote needs the rule to promote; set promoted, e.g. auto")

    @property
    def used(self) -> bool:
        """Whether there is anything to attack or to measure."""
        return self.attack != "none" or bool(self.promoted)

    def begin(self, homes: Homes, seed: int) -> Attackers:
        """The attackers among these homes, always the same for a seed."""
        with_rules = np.unique(homes.rules.home)
        drawn = KeyedRandom(seed, 0, with_rules).stream(Purpose.ATTACKERS).random(np.arange(len(with_rules)))
        attacks = np.zeros(homes.n_homes, dtype=np.bool_)
        attacks[with_rules[np.argsort(drawn, kind="stable")[: round(self.attackers * len(with_rules))]]] = True
        promoted = promoted_rule(homes, self.promoted) if self.promoted else None
        return Attackers(self.attack, self.scale, seed, attacks, promoted)


@dataclass(frozen=True, slots=True)
class TypedRule:
    """A rule between devices of two types."""

    trigger_type: int
    action_type: int
    relation: int


@dataclass(frozen=True, slots=True, eq=False)
class Attackers:
    """The homes that attack, and how."""

    attack: Attacks
    scale: float
    seed: int
    attacks: Mask  # [n_homes]
    promoted: TypedRule | None

    @property
    def change_updates(self) -> bool:
        """Whether they send something else than what they learned."""
        return self.attack in ("sign-flip", "scale", "noise", "promote")

    @property
    def flipped(self) -> Array | None:
        """The homes whose examples are swapped."""
        return np.flatnonzero(self.attacks) if self.attack == "label-flip" else None

    def poisoned(self, homes: Homes) -> Homes:
        """The homes as attackers pretend them to be."""
        if self.attack != "promote" or self.promoted is None:
            return homes
        return with_rule(homes, self.promoted, self.attacks)

    def measured_homes(self, homes: Homes) -> Array:
        """Honest homes that own both types of the promoted rule and lack it: at most MEASURED, drawn by the seed."""
        rule = self.promoted
        if rule is None:
            return np.zeros(0, dtype=np.int64)
        trigger_type, relation, action_type = homes.typed()
        has = np.zeros(homes.n_homes, dtype=np.bool_)
        same = (trigger_type == rule.trigger_type) & (action_type == rule.action_type) & (relation == rule.relation)
        has[homes.rules.home[same]] = True
        could = np.unique(instances(homes, rule, ~self.attacks & ~has).home)
        drawn = KeyedRandom(self.seed, 1, could).stream(Purpose.ATTACKERS).random(np.arange(len(could)))
        return np.sort(could[np.argsort(drawn, kind="stable")[:MEASURED]])

    def sent(self, update: Precise, number: int, client: int) -> Precise:
        """What a client sends in a round in place of its update; that of an honest one stays as it is."""
        if not self.attacks[client]:
            return update
        match self.attack:
            case "sign-flip":
                return -self.scale * update
            case "scale" | "promote":
                return self.scale * update
            case "noise":
                noise = np.random.default_rng([self.seed, number, client]).standard_normal(len(update))
                return self.scale * float(np.linalg.norm(update)) / float(np.linalg.norm(noise)) * noise
            case _:
                return update


def rule_names(homes: Homes, valid: ValidRules) -> list[str]:
    """Of the valid rules, as option `promoted` takes them: "ContactSensor: Open -> Light: Power On"."""
    relations = homes.relations
    return [
        f"{homes.types[trigger]}: {relations[relation].trigger} -> {homes.types[action]}: {relations[relation].action}"
        for trigger, action, relation in zip(*(column.tolist() for column in valid.typed()), strict=True)
    ]


def promoted_rule(homes: Homes, name: str) -> TypedRule:
    """The valid rule of this name.

    The automatic choice is one that few have and many could have: of the rules between two types that are in the lower
    quarter by the number of homes that have them, that whose types most homes own; among equals the first.
    """
    valid = ValidRules.of(homes)
    trigger, action, _ = valid.typed()
    if name != AUTOMATIC:
        names = rule_names(homes, valid)
        if name not in names:
            raise unknown("promoted rule", name, names)
        return _typed(valid, names.index(name))
    between = np.flatnonzero(trigger != action)
    if not len(between):
        raise DataError(f"{homes.name}: no rule between devices of two types that could be promoted; set promoted")
    trigger_type, of_rule, action_type = homes.typed()
    number = valid.number(trigger_type, action_type, of_rule)
    having = np.bincount(np.unique(homes.rules.home * len(valid) + number) % len(valid), minlength=len(valid))
    owns = np.asarray(owned_types(homes).todense()) > 0
    rare = between[having[between] <= np.quantile(having[between], 0.25)]
    owners = np.array([np.count_nonzero(owns[:, trigger[i]] & owns[:, action[i]]) for i in rare])
    return _typed(valid, int(rare[np.argmax(owners)]))


def _typed(valid: ValidRules, number: int) -> TypedRule:
    trigger, action, relation = valid.typed()
    return TypedRule(int(trigger[number]), int(action[number]), int(relation[number]))


def instances(homes: Homes, rule: TypedRule, chosen: Mask) -> Rules:
    """The rule between all devices of its types in the chosen homes, of which no device acts on itself."""
    devices = np.flatnonzero(chosen[homes.device_home])
    triggers, actions = (devices[homes.device_type[devices] == kind] for kind in (rule.trigger_type, rule.action_type))
    first, end = (np.searchsorted(homes.device_home[actions], homes.device_home[triggers], side=s) for s in SIDES)
    trigger = np.repeat(triggers, end - first)
    within = np.arange(len(trigger)) - np.repeat(np.cumsum(end - first) - (end - first), end - first)
    action = actions[np.repeat(first, end - first) + within]
    apart = trigger != action
    trigger, action = trigger[apart], action[apart]
    return Rules(homes.device_home[trigger], trigger, action, np.full(len(trigger), rule.relation))


SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


def with_rule(homes: Homes, rule: TypedRule, chosen: Mask) -> Homes:
    """The homes, of which the chosen ones have this rule between all of their devices of its types, an automation."""
    rules, added = homes.rules, instances(homes, rule, chosen)
    keys = [each.keys(homes.n_devices, len(homes.relations)) for each in (rules, added)]
    added = added.take(~np.isin(keys[1], keys[0]))
    group = None
    if rules.group is not None:  # a number of its own in each home
        last = np.full(homes.n_homes, -1)
        np.maximum.at(last, rules.home, rules.group)
        group = np.concatenate([rules.group, last[added.home] + 1])
    names = ("home", "trigger", "action", "relation")
    home, trigger, action, relation = (np.concatenate([getattr(rules, n), getattr(added, n)]) for n in names)
    joined = Rules(home, trigger, action, relation, group).by_home()
    return replace(homes, rules=joined, provenance=homes.provenance.derived())
