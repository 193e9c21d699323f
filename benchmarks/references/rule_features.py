"""Features of candidates in plain Python, one candidate of one home after the other.

What `recrules` and `takg` compute for all homes at once: paths by walking along them, and repeats, conflicts and
similarities by looking at every rule of the home. Written from the descriptions in fedrule/evidence/rule_paths.py and
fedrule/methods/features/takg.py, and not from their code.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from datasets.homes import Homes, Relation, Rules
from fedrule.evidence.label_words import are_opposite, words


class TypedRule(NamedTuple):
    """What homes have in common; entity types by name."""

    trigger_type: str
    relation: Relation
    action_type: str


class PlainRule(NamedTuple):
    """A rule, or a candidate, between devices of one home."""

    trigger: int
    action: int
    typed: TypedRule


class PlainHome(NamedTuple):
    """One home as plain values."""

    types: frozenset[str]  # that it owns
    rules: tuple[PlainRule, ...]

    @property
    def typed(self) -> set[TypedRule]:
        return {rule.typed for rule in self.rules}


def plain_homes(homes: Homes) -> list[PlainHome]:
    """These homes in their order."""
    owned: list[set[str]] = [set() for _ in range(homes.n_homes)]
    for home, kind in zip(homes.device_home.tolist(), homes.device_type.tolist(), strict=True):
        owned[home].add(homes.types[kind])
    rules: list[list[PlainRule]] = [[] for _ in range(homes.n_homes)]
    for home, rule in zip(homes.rules.home.tolist(), plain_rules(homes, homes.rules), strict=True):
        rules[home].append(rule)
    return [PlainHome(frozenset(some), tuple(own)) for some, own in zip(owned, rules, strict=True)]


def plain_rules(homes: Homes, rules: Rules) -> list[PlainRule]:
    """Rules or candidates of these homes as plain values."""
    kind = [homes.types[number] for number in homes.device_type.tolist()]
    columns = zip(rules.trigger.tolist(), rules.relation.tolist(), rules.action.tolist(), strict=True)
    return [PlainRule(i, j, TypedRule(kind[i], homes.relations[r], kind[j])) for i, r, j in columns]


# The class of a rule, by kind.
CLASSES: dict[str, Callable[[TypedRule], object]] = {
    "trigger type": lambda rule: rule.trigger_type,
    "action type": lambda rule: rule.action_type,
    "types": lambda rule: (rule.trigger_type, rule.action_type),
    "state": lambda rule: rule.relation.trigger,
    "act": lambda rule: rule.relation.action,
    "relation": lambda rule: rule.relation,
    "trigger": lambda rule: (rule.trigger_type, rule.relation.trigger),
    "action": lambda rule: (rule.action_type, rule.relation.action),
}
# Of these, the classes are words of a label that other labels have as well.
LABELS: dict[str, Callable[[TypedRule], str]] = {
    "trigger type word": lambda rule: rule.trigger_type,
    "action type word": lambda rule: rule.action_type,
    "state word": lambda rule: rule.relation.trigger,
    "act word": lambda rule: rule.relation.action,
}


class PlainPaths:
    """The graph of homes, rules, types and classes, as lists of neighbours."""

    def __init__(self, homes: Homes) -> None:
        # By the kinds of two nodes and one node: its neighbours of the other kind.
        self.edges: dict[tuple[str, str], dict[object, list[object]]] = defaultdict(lambda: defaultdict(list))
        counted = plain_homes(homes)
        for number, home in enumerate(counted):
            for rule in home.typed:
                self._join("home", number, "rule", rule)
            for kind in home.types:
                self._join("home", number, "type", kind)
        self.rules = {rule for home in counted for rule in home.typed}
        for kind, classes in CLASSES.items():
            for rule in self.rules:
                self._join("rule", rule, kind, classes(rule))
        types, states, acts = homes.types, {r.trigger for r in homes.relations}, {r.action for r in homes.relations}
        labels = {"trigger type word": types, "action type word": types, "state word": states, "act word": acts}
        for kind, label in LABELS.items():
            several = _words_of_several(labels[kind])
            for rule in self.rules:
                for word in several & {*words(label(rule))}:
                    self._join("rule", rule, kind, word)

    def _join(self, kind: str, node: object, other_kind: str, other: object) -> None:
        self.edges[kind, other_kind][node].append(other)
        self.edges[other_kind, kind][other].append(node)

    def follow(self, home: PlainHome, path: Sequence[str]) -> tuple[Counter[object], dict[object, float]]:
        """The paths from a home, whose first step is its own: their number, and the probability of a random walk.

        Both by where they end, step by step.
        """
        first: list[object] = [*(home.typed & self.rules)] if path[1] == "rule" else [*home.types]
        number = Counter(first)
        chance = {node: 1 / len(first) for node in first}
        for step in pairwise(path[1:]):
            next_number: Counter[object] = Counter()
            next_chance: dict[object, float] = defaultdict(float)
            for node, many in number.items():
                reached = self.edges[step][node]
                for other in reached:
                    next_number[other] += many
                    next_chance[other] += chance[node] / len(reached)
            number, chance = next_number, next_chance
        return number, chance

    def features(
        self, home: PlainHome, candidates: Sequence[PlainRule], paths: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """For each candidate the numbers of all paths, then their random walks."""
        found = [self.follow(home, path) for path in paths]
        return [
            [float(number[c.typed]) for number, _ in found] + [chance.get(c.typed, 0.0) for _, chance in found]
            for c in candidates
        ]


def _words_of_several(labels: Iterable[str]) -> set[str]:
    """Words that more than one label has."""
    many = Counter(word for label in labels for word in set(words(label)))
    return {word for word, count in many.items() if count > 1}


Agrees = Callable[[PlainRule, PlainRule], bool]
AGREES: dict[str, Agrees] = {
    "home": lambda rule, candidate: True,  # noqa: ARG005  all rules are of the candidate's home
    "trigger": lambda rule, candidate: rule.trigger == candidate.trigger,
    "action": lambda rule, candidate: rule.action == candidate.action,
    "trigger_type": lambda rule, candidate: rule.typed.trigger_type == candidate.typed.trigger_type,
    "action_type": lambda rule, candidate: rule.typed.action_type == candidate.typed.action_type,
    "relation": lambda rule, candidate: rule.typed.relation == candidate.typed.relation,
    "state": lambda rule, candidate: rule.typed.relation.trigger == candidate.typed.relation.trigger,
    "act": lambda rule, candidate: rule.typed.relation.action == candidate.typed.relation.action,
    "trigger half": lambda rule, candidate: _half(rule.typed, 0) == _half(candidate.typed, 0),
    "action half": lambda rule, candidate: _half(rule.typed, 1) == _half(candidate.typed, 1),
}


def _half(rule: TypedRule, side: int) -> tuple[str, str]:
    """Type and state of the trigger (0), or type and act of the action (1)."""
    return (rule.trigger_type if side == 0 else rule.action_type), rule.relation[side]


def agreeing_rules(
    home: PlainHome, candidate: PlainRule, pattern: Sequence[str], *, opposite: Sequence[str] = ()
) -> int:
    """Rules of the home that agree with the candidate in a pattern, but have the opposite of its state or act."""
    return sum(
        all(
            _opposite(rule, candidate, column) if column in opposite else AGREES[column](rule, candidate)
            for column in {*pattern, *opposite}
        )
        for rule in home.rules
    )


def _opposite(rule: PlainRule, candidate: PlainRule, column: str) -> bool:
    side = 0 if column == "state" else 1
    one, other = (frozenset(words(each.typed.relation[side])) for each in (rule, candidate))
    return are_opposite(one, other)


class PlainSimilarity:
    """How similar triggers, and actions, are: the cosine of how many homes have a rule from or to each other half."""

    def __init__(self, homes: Homes) -> None:
        self.rows: tuple[dict[tuple[str, str], Counter[tuple[str, str]]], ...] = (
            defaultdict(Counter),
            defaultdict(Counter),
        )
        for home in plain_homes(homes):
            for rule in home.typed:
                trigger, action = _half(rule, 0), _half(rule, 1)
                self.rows[0][trigger][action] += 1
                self.rows[1][action][trigger] += 1

    def cosine(self, one: tuple[str, str], other: tuple[str, str], side: int) -> float:
        """0 for a half that no counted home has."""
        a, b = self.rows[side].get(one), self.rows[side].get(other)
        if a is None or b is None:
            return 0.0
        length = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
        return sum(a[each] * b[each] for each in a) / length

    def largest(self, home: PlainHome, candidate: PlainRule, half: str, pattern: Sequence[str]) -> float:
        """To those rules of the home that agree with the candidate in the pattern; 0 without one."""
        side = 0 if half == "trigger half" else 1
        wanted = _half(candidate.typed, side)
        similar = [
            self.cosine(_half(rule.typed, side), wanted, side)
            for rule in home.rules
            if all(AGREES[column](rule, candidate) for column in pattern)
        ]
        return max(similar, default=0.0)
