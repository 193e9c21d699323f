"""A home in the words of a request as numbers of a model's vocabulary; what does not fit is refused or left out."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.common.errors import unknown as unknown_name
from datasets.homes import Array, Homes, Mask, Relation, Rules
from fedrule.inference.request import BadHome, HomeRequest, Id, RequestDevice, RequestRule
from fedrule.models.card import Card

# --- Homes as numbers of a model's vocabulary, what a search is given, and what it gives back.

Scores: TypeAlias = npt.NDArray[np.float32]
Matrix: TypeAlias = npt.NDArray[np.float64]
Floats: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float64]

RUN = 32  # scores of which only the highest is looked at first


class Graph(NamedTuple):
    """Devices and rules of one home, or of many one after the other; no rule twice."""

    device_type: Array  # [n_devices]
    device_start: Array  # [n_homes + 1]  home h owns devices device_start[h] to device_start[h + 1]
    trigger: Array  # [n_rules]  a device
    action: Array  # [n_rules]  a device
    relation: Array  # [n_rules]

    @classmethod
    def of(cls, homes: Homes) -> Graph:
        """Homes whose vocabularies are the model's."""
        rules = homes.rules
        return cls(homes.device_type, homes.device_start, rules.trigger, rules.action, rules.relation)


class TopK(NamedTuple):
    """The best candidates of each home, home after home, best first; equal scores in the order of devices."""

    home: Array
    trigger: Array
    action: Array
    relation: Array
    score: Scores

    def take(self, which: Array | Mask) -> TopK:
        """Some of them, in that order."""
        home, trigger, action, relation, score = self
        return TopK(home[which], trigger[which], action[which], relation[which], score[which])

    @classmethod
    def concatenate(cls, parts: Sequence[TopK]) -> TopK:
        """One part after the other, of which there is at least one."""
        home, trigger, action, relation, score = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(home, trigger, action, relation, score)


def no_candidates() -> TopK:
    """Where homes have no candidate at all."""
    none = np.zeros(0, dtype=np.int64)
    return TopK(none, none, none, none, none.astype(np.float32))


class Search(Protocol):
    """Finds what homes lack, among the rules that are valid."""

    def one(self, graph: Graph, k: int) -> TopK:
        """The best `k` of a graph of one home; as fast as it can be."""

    def many(self, homes: Homes, k: int) -> TopK:
        """The best `k` of each of these homes, in the model's vocabulary; memory grows with the homes given."""


def best_of_each(score: Scores, start: Array, k: int) -> Array:
    """Positions of the `k` highest scores of each home, home after home, highest first, equal ones in order.

    The scores of home h are those from start[h] to start[h + 1]. Homes with about as many are laid into one table, so
    that nothing loops over homes.
    """
    many = np.diff(start)
    size = np.frexp(many.astype(np.float64))[1]  # homes of one table differ by less than a factor of 2
    kept = [np.zeros(0, dtype=np.int64)]
    for each in np.unique(size[many > 0]).tolist():
        homes = np.flatnonzero(size == each)
        width = int(many[homes].max())
        place = start[homes][:, None] + np.arange(width)
        inside = np.arange(width) < many[homes][:, None]
        table = np.where(inside, score[np.minimum(place, len(score) - 1)], -np.inf)
        if width > k:
            least = np.partition(table, width - k, axis=1)[:, width - k, None]
            inside &= table >= least
        kept.append(place[inside & (table > -np.inf)])
    positions = np.sort(np.concatenate(kept))
    home = np.searchsorted(start, positions, side="right") - 1
    order = np.lexsort((positions, -score[positions], home))
    rank = np.arange(len(home)) - np.searchsorted(home, home)
    return positions[order[rank < k]]


def not_below(score: Floats, k: int, error: float) -> Array:
    """Positions of all scores that may be among the `k` highest, where two may be wrong by `error` together."""
    least = max(_low(score, k) - error, float(np.finfo(score.dtype).min))  # minus infinity is never among them
    return np.flatnonzero(score >= score.dtype.type(least))


def _low(score: Floats, k: int) -> float:
    """No more than the k-th highest score, and mostly little less: found among the highest of short runs."""
    whole = len(score) // RUN
    if whole < 4 * k:
        return float(np.partition(score, len(score) - k)[len(score) - k]) if len(score) > k else -np.inf
    highest = score[: whole * RUN].reshape(whole, RUN).max(axis=1)
    return float(np.partition(highest, whole - k)[whole - k])


Unknown: TypeAlias = Literal["refuse", "ignore"]
REMEDY = "leave it out, or let what is unknown be ignored"
FEW_LETTERS, FEW_WORDS, LONGEST = 4, 100, 60  # what a guess at a word is made from


class EncodedHome(NamedTuple):
    """A graph of one home, its devices in the order of the graph, and what was left out, a sentence each."""

    graph: Graph
    devices: Sequence[RequestDevice]
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HomeEncoder:
    """The number of each word."""

    types: Mapping[str, int]
    relations: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, types: Sequence[str], relations: Sequence[Relation]) -> HomeEncoder:
        numbers = {(relation.trigger, relation.action): number for number, relation in enumerate(relations)}
        return cls({word: number for number, word in enumerate(types)}, numbers)

    def numbered(self, home: HomeRequest, unknown: Unknown = "refuse") -> EncodedHome:
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
        return EncodedHome(Graph(kinds, np.array([0, len(kinds)]), *columns), devices, tuple(ignored))

    def _devices(self, home: HomeRequest, unknown: Unknown, ignored: list[str]) -> list[RequestDevice]:
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
        self, home: HomeRequest, place: Mapping[Id, int], unknown: Unknown, ignored: list[str]
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

    def _never_saw_relation(self, rule: RequestRule) -> str:
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


def _refuse_impossible(home: HomeRequest) -> None:
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


# --- The part of homes that a model knows: devices of its types and rules of its relations, in its numbers.


class KnownHomes(NamedTuple):
    """Homes in a model's vocabulary, and the device of the given homes that each of theirs is."""

    homes: Homes
    device_start: Array  # [n_homes + 1]  of `homes`, worked out once
    rule_start: Array  # [n_homes + 1]
    device: Array  # [n_devices of `homes`]
    ignored_devices: int
    ignored_rules: int

    def run(self, first: int, last: int) -> Homes:
        """The homes from one number to before another; where they stand next to each other, this is quick."""
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
        )


def known_homes(homes: Homes, card: Card) -> KnownHomes:
    """All homes stay; devices and rules that the model never saw are left out and counted."""
    kind = numbers_of(homes.types, card.types)[homes.device_type]
    relation = numbers_of(homes.relations, card.relations)[homes.rules.relation]
    kept = kind >= 0
    place = np.cumsum(kept) - 1
    rules = homes.rules
    usable = (relation >= 0) & kept[rules.trigger] & kept[rules.action]
    part = replace(
        homes,
        types=card.types,
        relations=card.relations,
        device_home=homes.device_home[kept],
        device_type=kind[kept],
        device_ids=homes.device_ids[kept],
        rules=Rules(rules.home[usable], place[rules.trigger[usable]], place[rules.action[usable]], relation[usable]),
        provenance=homes.provenance.derived(),
    )
    lost = int(np.count_nonzero(~kept)), int(np.count_nonzero(~usable))
    return KnownHomes(part, part.device_start, part.rule_start, np.flatnonzero(kept), *lost)


def refuse_unknown(homes: Homes, card: Card) -> None:
    """An error for words of homes that are in use and that the model never saw."""
    used: dict[str, tuple[Sequence[Hashable], set[Any]]] = {
        "type": ([homes.types[number] for number in np.unique(homes.device_type)], set(card.types)),
        "relation": ([homes.relations[number] for number in np.unique(homes.rules.relation)], set(card.relations)),
    }
    for kind, (words, known) in used.items():
        if strange := [str(word) for word in words if word not in known]:
            more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            raise DataError(
                f"{homes.name}: the model never saw the {kind} {', '.join(strange[:3])}{more}; let what is unknown be "
                "ignored (unknown='ignore', on the command line --ignore-unknown), or train on homes that have it"
            )


def numbers_of(words: Sequence[Hashable], known: Sequence[Hashable]) -> Array:
    """The place of each word among the known ones, -1 without one."""
    place = {word: number for number, word in enumerate(known)}
    return np.array([place.get(word, -1) for word in words], dtype=np.int64)
