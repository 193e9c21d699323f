"""Every feature of evidence from its definition, for one candidate and rule by rule, by the names of the features."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from datasets import Homes
from fedrule.evidence.counts import OF_ALL_HOMES
from fedrule.evidence.features import NAMES, WORD
from tests.support.strategies import triples, words_by_device


class Row(NamedTuple):
    """A rule, or a candidate, by the names that patterns use."""

    home: int
    trigger: int
    action: int
    relation: int
    trigger_type: int
    action_type: int
    state: str
    act: str

    def agrees(self, other: Row, pattern: tuple[str, ...]) -> bool:
        return all(getattr(self, name) == getattr(other, name) for name in pattern)

    @property
    def typed(self) -> tuple[int, int, int]:
        return self.trigger_type, self.action_type, self.relation


def rows(some: Homes, home: int | None = None) -> list[Row]:
    """All rules, or those of one home."""
    return [row(some, rule) for rule in triples(some.rules) if home in (None, rule[0])]


def row(some: Homes, rule: tuple[int, int, int, int]) -> Row:
    home, trigger, action, relation = rule
    types = (int(some.device_type[device]) for device in (trigger, action))
    return Row(home, trigger, action, relation, *types, *some.relations[relation])


class Rooms:
    """The words of a home's devices; a word that all devices have says nothing."""

    def __init__(self, some: Homes, home: int) -> None:
        words = words_by_device(some)
        self.devices = np.flatnonzero(some.device_home == home).tolist()
        self.words = {device: set(words[device]) if words else set() for device in self.devices}

    @property
    def any(self) -> bool:
        return any(self.words.values())

    def rarity(self, word: int) -> float:
        """log(devices / devices with the word), in steps of 1 / 4096 so that all sums are exact."""
        having = sum(word in own for own in self.words.values())
        return round(math.log(len(self.devices) / having) * 4096) / 4096

    def common(self, one: int, other: int) -> list[float]:
        return [self.rarity(word) for word in self.words[one] & self.words[other]]

    def shared(self, one: int, other: int) -> float:
        return sum(self.common(one, other))

    def cosine(self, one: int, other: int) -> float:
        both = self.shared(one, other)
        return both / math.sqrt(self.shared(one, one) * self.shared(other, other)) if both else 0.0

    def log_share(self, rules: list[Row]) -> float:
        """Of rules between two devices that both have words, how many share one."""
        named = [r for r in rules if r.trigger != r.action and self.named(r.trigger) and self.named(r.action)]
        return math.log((sum(self.shared(r.trigger, r.action) > 0 for r in named) + 0.5) / (len(named) + 1.5))

    def named(self, device: int) -> bool:
        return self.shared(device, device) > 0


class PlainEvidence:
    """Training homes; `features` of a candidate with all homes but those left out counted."""

    def __init__(self, train: Homes) -> None:
        self.train, self.rules = train, rows(train)
        self.rooms = [Rooms(train, home) for home in range(train.n_homes)]

    def features(self, context: Homes, candidate: tuple[int, int, int, int], *, left_out: bool) -> dict[str, float]:
        """With `left_out` no count over homes has the candidate's own."""
        asked = row(context, candidate)
        known = rows(context, asked.home)
        counted = [h for h in range(self.train.n_homes) if not (left_out and h == asked.home)]
        rules = [rule for rule in self.rules if rule.home in counted]
        return (
            counts_of_home(context, known, asked)
            | self.shares(asked, counted, rules)
            | {"goes with the home's rules": self.ease(known, asked, left_out=left_out)}
            | companions(known, asked, rules)
            | paths(context, known, asked)
            | self.room_shares(asked, rules)
            | (rooms(context, known, asked) if self.knows_words else NO_ROOMS)
        )

    def shares(self, asked: Row, counted: list[int], rules: list[Row]) -> dict[str, float]:
        """How many homes have such a rule, of those that could."""
        wanted = {
            "both": {asked.trigger_type, asked.action_type},
            "trigger": {asked.trigger_type},
            "action": {asked.action_type},
            "all": set(),
        }
        could = {whom: sum(types <= owned(self.train, h) for h in counted) for whom, types in wanted.items()}
        have = {
            pattern: len({rule.home for rule in rules if rule.agrees(asked, pattern)}) for pattern, _ in OF_ALL_HOMES
        }
        found = {
            f"share of homes, same {', '.join(pattern)}": math.log((have[pattern] + 0.3) / (could[whom] + 3))
            for pattern, whom in OF_ALL_HOMES
        }
        typed = have["trigger_type", "action_type", "relation"]
        more = {"homes with the typed rule": typed, "homes that own both types": could["both"]}
        return found | {name: math.log1p(count) for name, count in more.items()}

    def ease(self, known: list[Row], asked: Row, *, left_out: bool, penalty: float = 30, dropout: float = 0.5) -> float:
        """5 x the score of EASE / (share of homes that own both types) ** 0.25, with a matrix inverted for each."""
        items = sorted({rule.typed for rule in self.rules})
        if asked.typed not in items:
            return 0.0
        have = np.zeros((self.train.n_homes, len(items)))
        for rule in self.rules:
            have[rule.home, items.index(rule.typed)] = 1.0
        gram = have.T @ have
        gram += np.diag(np.diag(gram) * dropout / (1 - dropout) + penalty)
        if left_out:  # what dropout adds to the diagonal stays
            gram -= np.outer(have[asked.home], have[asked.home])
        inverse = np.linalg.inv(gram)
        j = items.index(asked.typed)
        others = {items.index(rule.typed) for rule in known if rule.typed in items} - {j}
        score = sum(-inverse[k, j] / inverse[j, j] for k in others)
        able = [h for h in range(self.train.n_homes) if set(asked.typed[:2]) <= owned(self.train, h)]
        return float(5 * score / (len(able) / self.train.n_homes) ** 0.25)

    @cached_property
    def knows_words(self) -> bool:
        """Whether a rule of training is between two devices that have words."""
        return any(self.is_named(rule) for rule in self.rules)

    def is_named(self, rule: Row) -> bool:
        named = self.rooms[rule.home].named
        return rule.trigger != rule.action and named(rule.trigger) and named(rule.action)

    def is_shared(self, rule: Row) -> bool:
        return self.is_named(rule) and self.rooms[rule.home].shared(rule.trigger, rule.action) > 0

    def room_shares(self, asked: Row, rules: list[Row]) -> dict[str, float]:
        """Of the homes with such a rule between devices that have words, how many have one in one room."""
        patterns = {
            "rules of these types": ("trigger_type", "action_type"),
            "the typed rule": ("trigger_type", "action_type", "relation"),
        }
        found = {}
        for name, pattern in patterns.items():
            alike = [rule for rule in rules if rule.agrees(asked, pattern)]
            named, shared = ({r.home for r in alike if counts(r)} for counts in (self.is_named, self.is_shared))
            found[f"{WORD}share of homes that keep {name} in one room"] = math.log(
                (len(shared) + 0.5) / (len(named) + 2)
            )
        return found


def owned(some: Homes, home: int) -> set[int]:
    return set(some.device_type[some.device_home == home].tolist())


SAME = "rules of the home, same "
PATTERNS = [name.removeprefix(SAME) for name in NAMES if name.startswith(SAME)]


def counts_of_home(context: Homes, known: list[Row], asked: Row) -> dict[str, float]:
    """Rules of the home that agree with the candidate, and devices."""
    counted = {
        f"{SAME}{names}": sum(rule.agrees(asked, tuple(names.split(", "))) for rule in known) for names in PATTERNS
    }
    counted |= {
        "rules of the home": len(known),
        "rules that act on the trigger": sum(rule.action == asked.trigger for rule in known),
        "rules that the action triggers": sum(rule.trigger == asked.action for rule in known),
        "rules from the action to the trigger": sum(
            (rule.trigger, rule.action) == (asked.action, asked.trigger) for rule in known
        ),
    }
    types = context.device_type[context.device_home == asked.home].tolist()
    devices = {
        "devices": len(types),
        "devices of the trigger's type": types.count(asked.trigger_type),
        "devices of the action's type": types.count(asked.action_type),
    }
    return (
        {name: math.log1p(count) for name, count in counted.items()}
        | {name: math.log(count) for name, count in devices.items()}
        | {"acts on itself": float(asked.trigger == asked.action)}
    )


def companions(known: list[Row], asked: Row, rules: list[Row]) -> dict[str, float]:
    """The largest share of homes in which the relation stands beside one that the devices have already.

    Of both devices it is a share of homes with devices of such types, with that of all homes as three more of them.
    """
    in_common = {
        "trigger": ("home", "trigger"),
        "action": ("home", "action"),
        "trigger and action": ("home", "trigger", "action"),
    }
    found = {}
    for name, columns in in_common.items():
        best = 0.0
        for relation in {rule.relation for rule in known if rule.agrees(asked, columns)} - {asked.relation}:
            both, have = homes_with_both(rules, relation, asked.relation, columns)
            share = both / (have + 3)
            if name == "trigger and action":
                alike = [rule for rule in rules if rule.agrees(asked, ("trigger_type", "action_type"))]
                both, have = homes_with_both(alike, relation, asked.relation, columns)
                share = (both + 3 * share) / (have + 3)
            best = max(best, share)
        found[f"goes with a relation of {'the ' if ' ' not in name else ''}{name}"] = math.log1p(20 * best)
    return found


def homes_with_both(rules: list[Row], known: int, relation: int, columns: tuple[str, ...]) -> tuple[int, int]:
    """How many homes have both relations with these columns in common, and how many have the known one."""
    have = {rule.home for rule in rules if rule.relation == known}
    both = {
        one.home
        for one, other in product(rules, rules)
        if (one.relation, other.relation) == (known, relation) and one.agrees(other, columns)
    }
    return len(both), len(have)


def paths(context: Homes, known: list[Row], asked: Row) -> dict[str, float]:
    """From the trigger to the action by walking over all devices."""
    acts = {(rule.trigger, rule.action) for rule in known}
    devices, i, j = range(context.n_devices), asked.trigger, asked.action
    three = [(k, m) for k, m in product(devices, devices) if {(i, k), (m, k), (m, j)} <= acts]
    out = sum((i, k) in acts for k in devices)
    mean = sum(1 / out / sum((m, k) in acts for m in devices) for k, _ in three)
    found = {
        "paths by one device": sum({(i, k), (k, j)} <= acts for k in devices),
        "paths acted on by one device": sum({(k, i), (k, j)} <= acts for k in devices),
        "paths act on one device": sum({(i, k), (j, k)} <= acts for k in devices),
        "paths by three rules": len(three),
        "paths by three rules, in the mean": 5 * mean,
    }
    return {name: math.log1p(count) for name, count in found.items()}


def rooms(context: Homes, known: list[Row], asked: Row) -> dict[str, float]:
    """What the words of the home's devices say."""
    home, i, j = Rooms(context, asked.home), asked.trigger, asked.action
    if not home.any:
        return NO_ROOMS
    shared, types = home.shared(i, j), context.device_type
    others = [device for device in home.devices if device not in (i, j)]

    def how_near(device: int, kind: int, compared: Callable[[float], bool]) -> float:
        return math.log1p(sum(compared(home.shared(device, each)) for each in others if types[each] == kind))

    does = [r for r in known if r.trigger == i and r.action != j and home.shared(r.action, j) > 0]
    acted_on = [r for r in known if r.action == j and r.trigger != i and home.shared(r.trigger, i) > 0]

    def many(some: list[Row], *pattern: str) -> float:
        return math.log1p(sum(rule.agrees(asked, pattern) for rule in some))

    share = home.log_share(known)
    alike = [rule for rule in known if rule.agrees(asked, ("trigger_type", "action_type"))]
    found = {
        "share of the home's rules of these types in one room": home.log_share(alike),
        "the trigger has one": float(home.named(i)),
        "the action has one": float(home.named(j)),
        "rarity of all that are shared": shared / 3,
        "rarity of the rarest that is shared": max(home.common(i, j), default=0.0) / 3,
        "cosine": home.cosine(i, j),
        "devices of the action's type nearer to the trigger": how_near(i, asked.action_type, lambda s: s > shared),
        "devices of the action's type as near to the trigger": how_near(i, asked.action_type, lambda s: s == shared),
        "devices of the trigger's type nearer to the action": how_near(j, asked.trigger_type, lambda s: s > shared),
        "devices of the trigger's type as near to the action": how_near(j, asked.trigger_type, lambda s: s == shared),
        "rules of the trigger in the room of the action": many(does),
        "largest cosine of the action and what the trigger acts on": max(
            (home.cosine(r.action, j) for r in does), default=0.0
        ),
        "rules on the action from the room of the trigger": many(acted_on),
        "largest cosine of the trigger and what acts on the action": max(
            (home.cosine(r.trigger, i) for r in acted_on), default=0.0
        ),
        "share of the home's rules in one room": share,
        "the same, where trigger and action share one": share if shared > 0 else 0.0,
        "rules of the trigger in the room of the action, same state": many(does, "state"),
        "rules of the trigger in the room of the action, same relation": many(does, "relation"),
        "rules on the action from the room of the trigger, same relation": many(acted_on, "relation"),
    }
    return {f"{WORD}{name}": value for name, value in found.items()}


# Where no device has a word; what other homes keep in one room is known all the same.
NO_ROOMS = {name: 0.0 for name in NAMES if name.startswith(WORD) and not name.startswith(f"{WORD}share of homes")}
