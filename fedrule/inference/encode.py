"""Homes in the numbers of a model's vocabulary; types and relations that it does not know are refused or ignored."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np

from datasets.common.errors import DataError
from datasets.common.errors import unknown as unknown_name
from datasets.homes import Array, Homes, Rules, Words
from fedrule.inference.request import BadHome, HomeRequest, Id, RequestDevice, RequestRule
from fedrule.models.card import Card

Unknown: TypeAlias = Literal["refuse", "ignore"]
REMEDY = "leave it out, or ignore what is unknown"
# They bound the work of "did you mean" for a client that sends many bad words.
FEW_LETTERS, FEW_WORDS, LONGEST_WORD = 4, 100, 60


NOTHING: Array = np.zeros(0, dtype=np.int64)


class Graph(NamedTuple):
    """Devices, rules and words of one home, or of many one after the other; no rule or word twice."""

    device_type: Array  # [n_devices]
    device_start: Array  # [n_homes + 1]  home h owns devices device_start[h] to device_start[h + 1]
    trigger: Array  # [n_rules]  a device
    action: Array  # [n_rules]  a device
    relation: Array  # [n_rules]
    word_device: Array = NOTHING  # [n_words]  a device, sorted
    word: Array = NOTHING  # [n_words]  numbers that count within a home; empty where no words are known

    @classmethod
    def of(cls, homes: Homes) -> Graph:
        """Homes whose vocabularies are the model's."""
        rules = homes.rules
        words = (NOTHING, NOTHING) if homes.words is None else (homes.words.device, homes.words.word)
        return cls(homes.device_type, homes.device_start, rules.trigger, rules.action, rules.relation, *words)


class EncodedHome(NamedTuple):
    """A graph of one home, its devices in the order of the graph, and a sentence for each thing that was ignored."""

    graph: Graph
    devices: Sequence[RequestDevice]
    ignored: tuple[str, ...]


class Names(Protocol):
    """Something that numbers types and relations, such as the card of a model."""

    @property
    def types(self) -> Sequence[str]: ...

    @property
    def relations(self) -> Sequence[tuple[str, str]]: ...


class HomeEncoder:
    """Encodes requests with the vocabulary of one model."""

    def __init__(self, names: Names) -> None:
        self._types = {name: number for number, name in enumerate(names.types)}
        self._relations = {tuple(relation): number for number, relation in enumerate(names.relations)}

    def encode(self, home: HomeRequest, unknown: Unknown = "refuse") -> EncodedHome:
        """The home as a graph.

        With `ignore`, devices of unknown types are left out with their rules, and so are rules of unknown relations.
        Repeated rules count once.
        """
        check_unknown(unknown)
        _refuse_inconsistent(home)
        ignored: list[str] = []
        devices: list[RequestDevice] = []
        for at, device in enumerate(home.devices):
            if device.type in self._types:
                devices.append(device)
            elif unknown == "refuse":
                raise BadHome("unknown_type", f"devices[{at}].type", _unknown_word("type", device.type, self._types))
            else:
                ignored.append(f"device {device.id}: unknown type {device.type!r}")
        place = {device.id: at for at, device in enumerate(devices)}
        rules: dict[tuple[int, int, int], None] = {}  # in order, each once
        for at, rule in enumerate(home.rules):
            trigger, action = place.get(rule.trigger), place.get(rule.action_device)
            relation = self._relations.get((rule.trigger_state, rule.action))
            if relation is None and unknown == "refuse":
                raise BadHome("unknown_relation", f"rules[{at}]", self._unknown_relation(rule))
            if relation is not None and trigger is not None and action is not None:
                rules[trigger, action, relation] = None
            else:
                why = "unknown relation" if relation is None else "one of its devices is ignored"
                ignored.append(f"rule {at + 1}, {rule.trigger_state!r} -> {rule.action!r}: {why}")
        types = np.array([self._types[device.type] for device in devices], dtype=np.int64)
        columns = np.array(list(rules), dtype=np.int64).reshape(-1, 3).T
        word_device, word = self._words(home, place)
        graph = Graph(types, np.array([0, len(types)]), *columns)._replace(word_device=word_device, word=word)
        return EncodedHome(graph, devices, tuple(ignored))

    @staticmethod
    def _words(home: HomeRequest, place: Mapping[Id, int]) -> tuple[Array, Array]:
        """Devices and words, of those that have a place; what is unknown to the model counts among a word's devices."""
        words = home.device_words()
        if not any(words):
            return NOTHING, NOTHING
        known = [(place[device.id], own) for device, own in zip(home.devices, words, strict=True) if device.id in place]
        columns = np.array([(at, word) for at, own in known for word in own], dtype=np.int64).reshape(-1, 2).T
        return columns[0], columns[1]

    def _unknown_relation(self, rule: RequestRule) -> str:
        states, actions = (dict.fromkeys(pair[side] for pair in self._relations) for side in (0, 1))
        if rule.trigger_state not in states:
            return _unknown_word("trigger state", rule.trigger_state, states)
        if rule.action not in actions:
            return _unknown_word("action", rule.action, actions)
        return f"the model does not know {rule.trigger_state!r} and {rule.action!r} in one rule; {REMEDY}"


def check_unknown(choice: str) -> None:
    """Raise unless it says what to do with unknown types and relations."""
    if choice not in get_args(Unknown):
        raise unknown_name("value of unknown", choice, get_args(Unknown))


def _refuse_inconsistent(home: HomeRequest) -> None:
    if not home.devices:
        raise BadHome("no_devices", "devices", "a home needs at least one device")
    first: dict[Id, int] = {}
    for at, device in enumerate(home.devices):
        if first.setdefault(device.id, at) != at:
            same = f"{device.id!r} is also the id of devices[{first[device.id]}]; ids must be unique"
            raise BadHome("duplicate_device", f"devices[{at}].id", same)
    for at, rule in enumerate(home.rules):
        for end, id_ in (("trigger", rule.trigger), ("action_device", rule.action_device)):
            if id_ not in first:
                lacks = f"the home has no device {id_!r}; add it to devices, or leave the rule out"
                raise BadHome("missing_device", f"rules[{at}].{end}", lacks)


def _unknown_word(kind: str, word: str, known: Iterable[str]) -> str:
    similar = [each for each in known if abs(len(each) - len(word)) <= FEW_LETTERS][:FEW_WORDS]
    near = difflib.get_close_matches(word, similar, n=1, cutoff=0.6) if len(word) <= LONGEST_WORD else []
    return f"the model does not know the {kind} {word!r}; " + (f"did you mean {near[0]!r}?" if near else REMEDY)


class KnownHomes(NamedTuple):
    """Homes in a model's vocabulary, and the device of the given homes that each of theirs is."""

    homes: Homes
    device_start: Array  # [n_homes + 1]  of `homes`, computed once
    rule_start: Array  # [n_homes + 1]
    device: Array  # [n_devices of `homes`]
    ignored_devices: int
    ignored_rules: int

    def slice(self, first: int, last: int) -> Homes:
        """Homes first to last - 1; faster than `Homes.subset`, because they are consecutive."""
        homes, rules = self.homes, self.homes.rules
        devices = slice(self.device_start[first], self.device_start[last])
        some = slice(self.rule_start[first], self.rule_start[last])
        return replace(
            homes,
            users=homes.users[first:last],
            device_home=homes.device_home[devices] - first,
            device_type=homes.device_type[devices],
            device_ids=homes.device_ids[devices],
            rules=Rules(
                rules.home[some] - first,
                rules.trigger[some] - devices.start,
                rules.action[some] - devices.start,
                rules.relation[some],
            ),
            words=_words_between(homes, devices),
        )


def _words_between(homes: Homes, devices: slice) -> Words | None:
    """The words of consecutive devices, found by two searches."""
    if homes.words is None:
        return None
    entries = slice(*np.searchsorted(homes.words.device, [devices.start, devices.stop]))
    return Words(homes.words.device[entries] - devices.start, homes.words.word[entries])


def known_homes(homes: Homes, card: Card) -> KnownHomes:
    """All homes, without devices and rules that the model does not know."""
    types = positions(homes.types, card.types)[homes.device_type]
    relation = positions(homes.relations, card.relations)[homes.rules.relation]
    kept = types >= 0
    place = np.cumsum(kept) - 1
    rules = homes.rules
    usable = (relation >= 0) & kept[rules.trigger] & kept[rules.action]
    known = replace(
        homes,
        types=card.types,
        relations=card.relations,
        device_home=homes.device_home[kept],
        device_type=types[kept],
        device_ids=homes.device_ids[kept],
        rules=Rules(rules.home[usable], place[rules.trigger[usable]], place[rules.action[usable]], relation[usable]),
        provenance=homes.provenance.derived(),
        words=homes.words_of(np.flatnonzero(kept)),
    )
    ignored = int(np.count_nonzero(~kept)), int(np.count_nonzero(~usable))
    return KnownHomes(known, known.device_start, known.rule_start, np.flatnonzero(kept), *ignored)


def refuse_unknown(homes: Homes, card: Card) -> None:
    """Raise for types or relations in use that the model does not know."""
    used: dict[str, tuple[Sequence[Hashable], set[Any]]] = {
        "type": ([homes.types[number] for number in np.unique(homes.device_type)], set(card.types)),
        "relation": ([homes.relations[number] for number in np.unique(homes.rules.relation)], set(card.relations)),
    }
    for kind, (words, known) in used.items():
        if strange := [str(word) for word in words if word not in known]:
            more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            raise DataError(
                f"{homes.name}: the model does not know the {kind} {', '.join(strange[:3])}{more}; ignore what is "
                "unknown (unknown='ignore', on the command line --ignore-unknown), or train on homes that have it"
            )


def positions(words: Sequence[Hashable], known: Sequence[Hashable]) -> Array:
    """The position of each word among the known ones; -1 if it is unknown."""
    place = {word: number for number, word in enumerate(known)}
    return np.array([place.get(word, -1) for word in words], dtype=np.int64)
