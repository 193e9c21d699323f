"""What smart-home devices can do, and the rules that are possible between them.

The tables are in catalogue.toml. Types are those of the paper's Table 1 and of the public Wyze data; states and actions
extend the examples given there with what such devices are sold to do.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datasets.homes import Array, Mask, Relation
from datasets.synthetic.draws import Floats, flatten_runs

INTENTS = ("security", "lighting", "comfort", "energy", "safety", "routine")
INTENT_USE = (0.30, 0.24, 0.13, 0.12, 0.06, 0.15)  # how common each is as the main wish of a home


class Feature(NamedTuple):
    """A trigger state or an action, and which entity types have it."""

    name: str
    use: float  # how often people use it, relative to others
    serves: str  # the intents that it suits
    types: str
    opposite: str = ""


class Role(NamedTuple):
    """How readily people let a type start a rule, and how readily they let it act."""

    triggers: float
    acts: float


class Profile(NamedTuple):
    """A way homes come to own things: a kit, a hobby, a starter set."""

    name: str
    share: float
    intents: str  # what such a home mostly wants
    owns: dict[str, float]


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def _features(kind: str) -> tuple[Feature, ...]:
    groups = {f"@{name}": types for name, types in _TABLES["groups"].items()}
    rows = _TABLES[kind].items()
    return tuple(
        Feature(name, **row | {"types": " ".join(groups.get(t, t) for t in row["types"].split())}) for name, row in rows
    )


STATES, ACTIONS = _features("states"), _features("actions")
ROLES = {name: Role(*role) for name, role in _TABLES["roles"].items()}
PROFILES = tuple(Profile(**profile) for profile in _TABLES["profiles"])
ENDS = frozenset(_TABLES["ends"])
ALREADY_SO = frozenset((state, action) for state, action in _TABLES["already_so"])
OUTDOOR = ("OutdoorCamera", "OutdoorPlug", "Irrigation")  # these stand in the garden, whatever the rooms are


def having(features: tuple[Feature, ...], entity_type: str) -> list[int]:
    """The positions of the features that an entity type has."""
    return [i for i, feature in enumerate(features) if entity_type in feature.types.split()]


FOREIGN = 0.18  # how well a state or action suits an intent that it does not serve; one that it serves counts 1
CONTRARY = 0.25  # how often what starts makes something end, relative to making something start
TASTE = 0.7  # spread (in logs) of how much a rule is liked for no reason that the tables give
UNDO, SAME_STATE, SAME_ACTION, OTHER = 15.0, 2.5, 1.5, 0.4  # how much a rule asks for another of the same devices


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """Typed rules <trigger type, relation, action type>, sorted by the two types."""

    types: tuple[str, ...]  # Cloud, if any, comes first; the others by name
    relations: tuple[Relation, ...]  # the likeliest first
    trigger_type: Array  # [n_typed]
    action_type: Array  # [n_typed]
    relation: Array  # [n_typed]
    alone: Mask  # [n_typed]  makes sense for a device with itself
    appeal: Floats  # [n_intents, n_typed]  how much each intent asks for it
    likely: Floats  # [n_typed]  roughly how often it is wanted and possible
    companion: Floats  # [n_companions]  how much a rule asks for another of the same devices
    companion_rule: Array  # [n_companions]  that other rule
    companion_start: Array  # [n_typed + 1]

    def __post_init__(self) -> None:
        for column in fields(self):  # a catalogue is shared by all who ask for it again, so nobody may write to it
            if isinstance(values := getattr(self, column.name), np.ndarray):
                values.flags.writeable = False

    @property
    def pair_start(self) -> Array:
        """[n_types ** 2 + 1]: the typed rules of each (trigger type, action type)."""
        n = len(self.types)
        return np.searchsorted(self.trigger_type * n + self.action_type, np.arange(n * n + 1)).astype(np.int64)


class _Possible:
    """Every rule that some two types could carry out, with its likelihood."""

    def __init__(self, types: tuple[str, ...]) -> None:
        rows = [
            (t, s, a, u)
            for t, trigger in enumerate(types)
            for u, actor in enumerate(types)
            for s in having(STATES, trigger)
            for a in having(ACTIONS, actor)
            if (trigger, actor) != ("Cloud", "Cloud")
        ]
        self.trigger, self.state, self.action, self.actor = np.array(rows, dtype=np.int64).T
        self.relation = self.state * len(ACTIONS) + self.action
        already_so = np.array([[(state.name, action.name) in ALREADY_SO for action in ACTIONS] for state in STATES])
        self.alone = (self.trigger == self.actor) & ~already_so[self.state, self.action]
        rng = np.random.default_rng(11_163)  # tastes belong to the catalogue: the same for every seed of homes
        taste = np.exp(TASTE * rng.standard_normal(len(rows)))
        contrary = _directions(STATES)[self.state] * _directions(ACTIONS)[self.action] < 0
        use = _uses(STATES, types)[self.trigger, self.state] * _uses(ACTIONS, types)[self.actor, self.action]
        use *= np.array([ROLES[t].triggers for t in types])[self.trigger] * taste * np.where(contrary, CONTRARY, 1.0)
        use *= np.array([ROLES[t].acts for t in types])[self.actor]
        self.appeal = _serves(STATES)[:, self.state] * _serves(ACTIONS)[:, self.action] * use
        owned = ownership(types)
        self.likely = np.array(INTENT_USE) @ self.appeal * owned[self.trigger] * owned[self.actor]

    def needed(self) -> Array:
        """What must not be left out: some rule from every type to every acting type, and of each with itself."""
        alone = np.flatnonzero(self.alone)
        between = self.trigger * (self.actor.max() + 1) + self.actor
        return np.union1d(_best(self.likely, between), alone[_best(self.likely[alone], self.trigger[alone])])


@lru_cache(maxsize=4)
def catalogue(types: tuple[str, ...], n_relations: int, n_typed: int, *, every_feature: bool) -> Catalogue:
    """The `n_typed` likeliest rules over `n_relations` relations that are likely and work between many types.

    With `every_feature` each state and each action of these types occurs. Always the same catalogue: nothing random.
    """
    types = tuple(sorted(types, key=lambda name: (name != "Cloud", name)))
    possible = _Possible(types)
    likely, relation, needed = possible.likely, possible.relation, possible.needed()
    size = len(STATES) * len(ACTIONS)
    mass, breadth = np.bincount(relation, likely, size), np.bincount(relation, minlength=size).astype(float)
    features = np.concatenate([_best(likely, possible.state), _best(likely, possible.action)])
    must = np.concatenate([needed, features]) if every_feature else needed
    relations = _top(mass * breadth, n_relations, np.unique(relation[must]))
    relations = relations[np.argsort(-mass[relations], kind="stable")]
    offered = np.isin(relation, relations)
    inside = np.flatnonzero(offered)
    must = np.union1d(inside[_best(likely[inside], relation[inside])], needed)
    kept = _top(np.where(offered, likely, -1.0), n_typed, must)
    kept = kept[np.argsort(possible.trigger[kept] * len(types) + possible.actor[kept], kind="stable")]
    number = np.full(size, -1)
    number[relations] = np.arange(len(relations))
    weight, other, start = _companions(possible, kept)
    return Catalogue(
        types,
        tuple(Relation(STATES[p // len(ACTIONS)].name, ACTIONS[p % len(ACTIONS)].name) for p in relations.tolist()),
        possible.trigger[kept],
        possible.actor[kept],
        number[relation[kept]],
        possible.alone[kept],
        possible.appeal[:, kept],
        likely[kept],
        weight,
        other,
        start,
    )


def ownership(types: tuple[str, ...]) -> Floats:
    """[n_types]: roughly how common each type is, over all profiles."""
    owned = np.array([sum(p.share * p.owns.get(t, 0.0) / sum(p.owns.values()) for p in PROFILES) for t in types])
    return np.where(np.array(types) == "Cloud", 0.1, owned)


def _companions(possible: _Possible, kept: Array) -> tuple[Floats, Array, Array]:
    """For each rule the others between the same types, weighed by how they complement it.

    Open -> Power On asks for Close -> Power Off most of all, then for another action on the same state.
    """
    pair = possible.trigger[kept] * (possible.actor.max() + 1) + possible.actor[kept]
    left, right = np.searchsorted(pair, pair, side="left"), np.searchsorted(pair, pair, side="right")
    owner, other, end = flatten_runs(left, right)
    state, action = possible.state[kept], possible.action[kept]
    undone = (_opposites(STATES)[state][owner] == state[other]) & (_opposites(ACTIONS)[action][owner] == action[other])
    same_state, same_action = state[owner] == state[other], action[owner] == action[other]
    weight = np.select([owner == other, undone, same_state, same_action], [0.0, UNDO, SAME_STATE, SAME_ACTION], OTHER)
    liked = np.array(INTENT_USE) @ possible.appeal[:, kept]
    return weight * np.sqrt(liked)[other], other, np.concatenate([[0], end]).astype(np.int64)


def _uses(features: tuple[Feature, ...], types: tuple[str, ...]) -> Floats:
    """[n_types, n_features]: how a type's triggering (or acting) is shared out among its own features."""
    use = np.array([[f.use if t in f.types.split() else 0.0 for f in features] for t in types])
    shares: Floats = use / np.maximum(use.sum(axis=1, keepdims=True), 1e-9)
    return shares


def _directions(features: tuple[Feature, ...]) -> Array:
    """[n_features]: 1 if it starts something, -1 if it ends something, 0 if neither."""
    return np.array([0 if not feature.opposite else -1 if feature.name in ENDS else 1 for feature in features])


def _opposites(features: tuple[Feature, ...]) -> Array:
    position = {feature.name: i for i, feature in enumerate(features)}
    return np.array([position.get(feature.opposite, -1) for feature in features])


def _serves(features: tuple[Feature, ...]) -> Floats:
    return np.array([[1.0 if intent in f.serves.split() else FOREIGN for f in features] for intent in INTENTS])


def _best(weight: Floats, group: Array) -> Array:
    """The position of the largest weight of each group."""
    order = np.lexsort((-weight, group))
    return order[np.unique(group[order], return_index=True)[1]]


def _top(weight: Floats, n: int, needed: Array) -> Array:
    """The n positions of the largest weights, those that are needed among them."""
    raised = weight.copy()
    raised[needed] += weight.max() + 1
    return np.argsort(-raised, kind="stable")[:n]
