"""A home in the words of a request as numbers of a model's vocabulary; what does not fit is refused or left out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from datasets.common.errors import unknown as unknown_name
from datasets.view import Relation
from fedrule.inference.asked_home import AskedHome, Automated, BadHome, Id, Owned
from fedrule.inference.graph import Graph

Unknown: TypeAlias = Literal["refuse", "ignore"]
REMEDY = "leave it out, or let what is unknown be ignored"
FEW_LETTERS, FEW_WORDS, LONGEST = 4, 100, 60  # what a guess at a word is made from


class NumberedHome(NamedTuple):
    """A graph of one home, its devices in the order of the graph, and what was left out, a sentence each."""

    graph: Graph
    devices: Sequence[Owned]
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """The number of each word."""

    types: Mapping[str, int]
    relations: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, types: Sequence[str], relations: Sequence[Relation]) -> Numbers:
        numbers = {(relation.trigger, relation.action): number for number, relation in enumerate(relations)}
        return cls({word: number for number, word in enumerate(types)}, numbers)

    def numbered(self, home: AskedHome, unknown: Unknown = "refuse") -> NumberedHome:
        """The home as a graph.

        With `ignore`, devices of types that the model never saw are left out, and so are their rules and rules of
        relations that it never saw. Rules that stand twice count once.
        """
        refuse_other_ways(unknown)
        _refuse_impossible(home)
        ignored: list[str] = []
        devices = self._devices(home, unknown, ignored)
        place = {device.id: at for at, device in enumerate(devices)}
        rules = dict.fromkeys(self._rules(home, place, unknown, ignored))  # in order, each once
        kinds = np.array([self.types[device.type] for device in devices], dtype=np.int64)
        columns = np.array(list(rules), dtype=np.int64).reshape(-1, 3).T
        return NumberedHome(Graph(kinds, np.array([0, len(kinds)]), *columns), devices, tuple(ignored))

    def _devices(self, home: AskedHome, unknown: Unknown, ignored: list[str]) -> list[Owned]:
        devices = []
        for at, device in enumerate(home.devices):
            if device.type in self.types:
                devices.append(device)
            elif unknown == "refuse":
                raise BadHome("unknown_type", f"devices[{at}].type", _never_saw("type", device.type, self.types))
            else:
                ignored.append(f"device {device.id}: the model never saw the type {device.type!r}")
        return devices

    def _rules(
        self, home: AskedHome, place: Mapping[Id, int], unknown: Unknown, ignored: list[str]
    ) -> Iterator[tuple[int, int, int]]:
        for at, rule in enumerate(home.rules):
            trigger, action = place.get(rule.trigger), place.get(rule.action_device)
            relation = self.relations.get((rule.trigger_state, rule.action))
            if relation is None and unknown == "refuse":
                raise BadHome("unknown_relation", f"rules[{at}]", self._never_saw_relation(rule))
            if relation is not None and trigger is not None and action is not None:
                yield trigger, action, relation
            else:
                why = "the model never saw its relation" if relation is None else "a device of it is left out"
                ignored.append(f"rule {rule.trigger_state!r} -> {rule.action!r} (number {at + 1}): {why}")

    def _never_saw_relation(self, rule: Automated) -> str:
        states, acts = (dict.fromkeys(pair[side] for pair in self.relations) for side in (0, 1))
        if rule.trigger_state not in states:
            return _never_saw("trigger state", rule.trigger_state, states)
        if rule.action not in acts:
            return _never_saw("action", rule.action, acts)
        return f"the model never saw {rule.trigger_state!r} and {rule.action!r} in one rule; {REMEDY}"


def refuse_other_ways(way: str) -> None:
    """An error where it is neither to refuse nor to ignore what a model never saw."""
    if way not in get_args(Unknown):
        raise unknown_name("way with what is unknown", way, get_args(Unknown))


def _refuse_impossible(home: AskedHome) -> None:
    """What no model could answer."""
    if not home.devices:
        raise BadHome("no_devices", "devices", "a home needs at least one device")
    first: dict[Id, int] = {}
    for at, device in enumerate(home.devices):
        if first.setdefault(device.id, at) != at:
            same = f"{device.id!r} is the id of devices[{first[device.id]}] too; give each device an id of its own"
            raise BadHome("duplicate_device", f"devices[{at}].id", same)
    for at, rule in enumerate(home.rules):
        for end, id_ in (("trigger", rule.trigger), ("action_device", rule.action_device)):
            if id_ not in first:
                lacks = f"the home has no device {id_!r}; add it to devices, or leave the rule out"
                raise BadHome("missing_device", f"rules[{at}].{end}", lacks)


def _never_saw(kind: str, word: str, known: Iterable[str]) -> str:
    """With the nearest known word, looked for among few: whoever sends many wrong words is not to keep us busy."""
    similar = [each for each in known if abs(len(each) - len(word)) <= FEW_LETTERS][:FEW_WORDS]
    near = difflib.get_close_matches(word, similar, n=1, cutoff=0.6) if len(word) <= LONGEST else []
    guess = f"; did you mean {near[0]!r}?" if near else f"; {REMEDY}"
    return f"the model never saw the {kind} {word!r}{guess}"
