"""What smart-home devices can do, and the rules that are possible between them.

The types are those of the paper's Table 1 and of the public Wyze data; the trigger states and actions extend the
examples given there with what such devices are sold to do.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
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


ROLES = {
    "Camera": Role(4.0, 4.0),
    "ChimeSensor": Role(3.0, 0.7),
    "ClimateSensor": Role(4.0, 0),
    "Cloud": Role(1.0, 3.0),
    "ContactSensor": Role(6.0, 0),
    "Irrigation": Role(0.5, 2.0),
    "LeakSensor": Role(4.0, 0),
    "Light": Role(0.3, 5.0),
    "LightStrip": Role(0.3, 4.0),
    "Lock": Role(2.5, 2.5),
    "MeshLight": Role(0.3, 5.0),
    "MotionSensor": Role(6.0, 0),
    "OutdoorCamera": Role(3.0, 3.0),
    "OutdoorPlug": Role(0.3, 3.0),
    "Plug": Role(0.4, 4.0),
    "RobotVacuum": Role(0.8, 2.0),
    "Switch": Role(4.0, 1.5),
    "Thermostat": Role(1.2, 3.0),
}
LAMPS = "Light MeshLight LightStrip"
SOCKETS = "Plug OutdoorPlug"
CAMERAS = "Camera OutdoorCamera"
SENSORS = "ContactSensor MotionSensor ChimeSensor ClimateSensor LeakSensor"
POWERED = f"{LAMPS} {SOCKETS} Switch"
OUTDOOR = ("OutdoorCamera", "OutdoorPlug", "Irrigation")  # these stand in the garden, whatever the rooms are

STATES = (
    Feature("Open", 9.0, "security lighting routine", "ContactSensor", "Close"),
    Feature("Close", 4.0, "energy lighting routine", "ContactSensor", "Open"),
    Feature("Being Open", 1.6, "security safety energy", "ContactSensor", "Being Closed"),
    Feature("Being Closed", 0.5, "energy", "ContactSensor", "Being Open"),
    Feature("Motion Detected", 10.0, "security lighting", f"MotionSensor {CAMERAS}", "Motion Cleared"),
    Feature("Motion Cleared", 3.0, "energy lighting", "MotionSensor", "Motion Detected"),
    Feature("Being Off", 1.2, "energy", f"MotionSensor {POWERED} {CAMERAS}", "Being On"),
    Feature("Being On", 0.6, "energy safety", f"{POWERED} {CAMERAS}", "Being Off"),
    Feature("Person Detected", 5.0, "security", CAMERAS),
    Feature("Vehicle Detected", 1.0, "security routine", CAMERAS),
    Feature("Pet Detected", 0.6, "routine comfort", "Camera"),
    Feature("Package Detected", 0.7, "routine", "Camera"),
    Feature("Face Detected", 0.4, "routine security", "Camera"),
    Feature("Sound Detected", 2.0, "security", CAMERAS),
    Feature("Smoke Detected", 1.2, "safety", "Camera"),
    Feature("CO Detected", 0.6, "safety", "Camera"),
    Feature("Doorbell Pressed", 2.0, "routine security", "ChimeSensor Camera"),
    Feature("Chime Played", 0.4, "routine", "ChimeSensor"),
    Feature("Locked", 2.2, "energy security", "Lock", "Unlocked"),
    Feature("Unlocked", 3.2, "lighting routine", "Lock", "Locked"),
    Feature("Left Unlocked", 0.6, "security safety", "Lock"),
    Feature("Turned On", 1.6, "lighting routine", f"{POWERED} {CAMERAS}", "Turned Off"),
    Feature("Turned Off", 1.1, "energy routine", f"{POWERED} {CAMERAS}", "Turned On"),
    Feature("Button Pressed", 3.0, "routine lighting", "Switch", "Button Held"),
    Feature("Button Pressed Twice", 1.2, "routine comfort", "Switch"),
    Feature("Button Held", 0.8, "energy routine", "Switch", "Button Pressed"),
    Feature("Power Above", 0.4, "energy safety", SOCKETS, "Power Below"),
    Feature("Power Below", 0.2, "energy", SOCKETS, "Power Above"),
    Feature("Temperature Above", 2.0, "comfort energy", "ClimateSensor Thermostat", "Temperature Below"),
    Feature("Temperature Below", 1.7, "comfort safety", "ClimateSensor Thermostat", "Temperature Above"),
    Feature("Humidity Above", 0.9, "comfort", "ClimateSensor Thermostat", "Humidity Below"),
    Feature("Humidity Below", 0.5, "comfort", "ClimateSensor", "Humidity Above"),
    Feature("Mode Changed", 0.4, "energy comfort", "Thermostat"),
    Feature("Set To Away", 0.6, "energy security", "Thermostat", "Set To Home"),
    Feature("Set To Home", 0.5, "routine comfort", "Thermostat", "Set To Away"),
    Feature("Leak Detected", 3.0, "safety", "LeakSensor", "Leak Cleared"),
    Feature("Leak Cleared", 0.5, "safety", "LeakSensor", "Leak Detected"),
    Feature("Cleaning Started", 0.7, "routine", "RobotVacuum", "Cleaning Finished"),
    Feature("Cleaning Finished", 0.9, "routine energy", "RobotVacuum", "Cleaning Started"),
    Feature("Vacuum Stuck", 0.3, "routine safety", "RobotVacuum"),
    Feature("Watering Started", 0.6, "routine", "Irrigation", "Watering Finished"),
    Feature("Watering Finished", 0.5, "routine energy", "Irrigation", "Watering Started"),
    Feature("Time Reached", 3.0, "routine energy", "Cloud"),
    Feature("Sunset", 2.0, "lighting security", "Cloud", "Sunrise"),
    Feature("Sunrise", 1.0, "energy lighting", "Cloud", "Sunset"),
    Feature("Condition Met", 0.6, "comfort routine", f"{POWERED} {CAMERAS} {SENSORS} Lock Thermostat"),
)

ACTIONS = (
    Feature("Power On", 10.0, "lighting routine security", f"{POWERED} {CAMERAS}", "Power Off"),
    Feature("Power Off", 7.0, "energy lighting", f"{POWERED} {CAMERAS}", "Power On"),
    Feature("Power Toggle", 0.7, "routine", POWERED),
    Feature("Power On For A While", 1.4, "lighting energy", POWERED),
    Feature("Change Brightness", 4.0, "lighting comfort", f"{LAMPS} Switch"),
    Feature("Change Color Temperature", 1.0, "comfort", LAMPS),
    Feature("Change Color", 1.3, "lighting comfort safety", "MeshLight LightStrip"),
    Feature("Start Light Effect", 0.6, "comfort", "MeshLight LightStrip", "Stop Light Effect"),
    Feature("Stop Light Effect", 0.2, "energy", "MeshLight LightStrip", "Start Light Effect"),
    Feature("Vacation Mode On", 0.2, "security", SOCKETS, "Vacation Mode Off"),
    Feature("Vacation Mode Off", 0.1, "routine", SOCKETS, "Vacation Mode On"),
    Feature("Motion Alarm On", 4.5, "security", CAMERAS, "Motion Alarm Off"),
    Feature("Motion Alarm Off", 2.4, "routine comfort", CAMERAS, "Motion Alarm On"),
    Feature("Sound Alarm On", 0.8, "security safety", "Camera", "Sound Alarm Off"),
    Feature("Sound Alarm Off", 0.5, "routine", "Camera", "Sound Alarm On"),
    Feature("Alarm Action", 3.0, "security", CAMERAS),
    Feature("Siren On", 1.5, "security safety", CAMERAS, "Siren Off"),
    Feature("Siren Off", 0.4, "routine", CAMERAS, "Siren On"),
    Feature("Notifications", 4.0, "security safety", CAMERAS, "Notifications Off"),
    Feature("Notifications Off", 1.4, "comfort routine", CAMERAS, "Notifications"),
    Feature("Record Video", 4.0, "security", CAMERAS),
    Feature("Take Snapshot", 0.8, "security routine", "Camera"),
    Feature("Spotlight On", 0.9, "security lighting", CAMERAS, "Spotlight Off"),
    Feature("Spotlight Off", 0.4, "energy", CAMERAS, "Spotlight On"),
    Feature("Night Vision On", 0.6, "security", "Camera", "Night Vision Off"),
    Feature("Night Vision Off", 0.3, "routine", "Camera", "Night Vision On"),
    Feature("Turn To Waypoint", 0.5, "security", "Camera"),
    Feature("Motion Tracking On", 0.3, "security", "Camera", "Motion Tracking Off"),
    Feature("Motion Tracking Off", 0.2, "comfort", "Camera", "Motion Tracking On"),
    Feature("Lock", 2.4, "security", "Lock", "Unlock"),
    Feature("Unlock", 0.7, "routine", "Lock", "Lock"),
    Feature("Set Temperature", 2.0, "comfort energy", "Thermostat"),
    Feature("Set Mode Heat", 0.6, "comfort", "Thermostat", "Set Mode Cool"),
    Feature("Set Mode Cool", 0.7, "comfort", "Thermostat", "Set Mode Heat"),
    Feature("Set Mode Off", 0.9, "energy safety", "Thermostat"),
    Feature("Fan On", 0.7, "comfort", "Thermostat", "Fan Auto"),
    Feature("Fan Auto", 0.4, "energy", "Thermostat", "Fan On"),
    Feature("Switch To Away", 0.8, "energy security", "Thermostat", "Switch To Home"),
    Feature("Switch To Home", 0.7, "comfort routine", "Thermostat", "Switch To Away"),
    Feature("Start Cleaning", 2.0, "routine", "RobotVacuum", "Return To Dock"),
    Feature("Pause Cleaning", 0.5, "comfort", "RobotVacuum"),
    Feature("Return To Dock", 0.7, "routine comfort", "RobotVacuum", "Start Cleaning"),
    Feature("Start Watering", 1.2, "routine", "Irrigation", "Stop Watering"),
    Feature("Stop Watering", 1.0, "energy safety", "Irrigation", "Start Watering"),
    Feature("Push Notification", 9.0, "security safety routine", "Cloud"),
    Feature("Turn Rule On", 0.6, "routine security", "Cloud", "Turn Rule Off"),
    Feature("Turn Rule Off", 0.5, "routine energy", "Cloud", "Turn Rule On"),
    Feature("Play Chime", 1.5, "routine security", "ChimeSensor"),
)

# Features that end something; with an opposite and not listed here, a feature starts something.
ENDS = frozenset(
    {"Close", "Being Closed", "Motion Cleared", "Being Off", "Locked", "Turned Off", "Button Held", "Power Below"}
    | {"Set To Away", "Leak Cleared", "Cleaning Finished", "Watering Finished", "Sunrise"}
    | {"Power Off", "Stop Light Effect", "Vacation Mode On", "Motion Alarm Off", "Sound Alarm Off", "Siren Off"}
    | {"Notifications Off", "Spotlight Off", "Night Vision Off", "Motion Tracking Off", "Lock", "Fan Auto"}
    | {"Switch To Away", "Return To Dock", "Stop Watering", "Turn Rule Off"}
)

# What a device in such a state need not be told: these make no rule of a device with itself.
ALREADY_SO = frozenset(
    {(f"{what} Detected", "Power On") for what in ("Motion", "Person", "Vehicle", "Pet", "Package", "Face")}
    | {(f"{what} Detected", "Power On") for what in ("Sound", "Smoke", "CO")}
    | {("Doorbell Pressed", "Power On"), ("Condition Met", "Power Toggle")}
    | {("Turned On", "Power On"), ("Being On", "Power On"), ("Turned Off", "Power Off"), ("Being Off", "Power Off")}
    | {("Turned On", "Power On For A While"), ("Locked", "Lock"), ("Unlocked", "Unlock")}
    | {("Set To Away", "Switch To Away"), ("Set To Home", "Switch To Home"), ("Chime Played", "Play Chime")}
    | {("Cleaning Started", "Start Cleaning"), ("Cleaning Finished", "Return To Dock")}
    | {("Watering Started", "Start Watering"), ("Watering Finished", "Stop Watering")}
)

PROFILES = (
    Profile(
        "cameras", 0.27, "security", {"Camera": 9, "OutdoorCamera": 3, "ChimeSensor": 0.5, "Light": 1, "Plug": 0.8}
    ),
    Profile(
        "security kit",
        0.24,
        "security safety",
        {"ContactSensor": 6, "MotionSensor": 3, "Camera": 5, "Lock": 2, "ChimeSensor": 1, "LeakSensor": 0.8}
        | {"OutdoorCamera": 1, "Light": 1},
    ),
    Profile(
        "lighting",
        0.22,
        "lighting routine",
        {"Light": 7, "MeshLight": 3, "LightStrip": 2, "Switch": 2, "MotionSensor": 3, "Plug": 1.5, "Camera": 1}
        | {"ContactSensor": 1},
    ),
    Profile(
        "plugs",
        0.13,
        "energy routine",
        {"Plug": 7, "OutdoorPlug": 3, "Thermostat": 1.2, "MotionSensor": 1, "ContactSensor": 1, "Camera": 1.5}
        | {"Switch": 0.7, "Light": 1},
    ),
    Profile(
        "climate",
        0.08,
        "comfort energy",
        {"Thermostat": 4, "ClimateSensor": 4, "Plug": 2, "ContactSensor": 2, "Light": 1, "RobotVacuum": 1, "Camera": 1}
        | {"LeakSensor": 0.7},
    ),
    Profile(
        "house and garden",
        0.06,
        "routine safety",
        {"Irrigation": 2, "OutdoorPlug": 3, "RobotVacuum": 2, "LeakSensor": 2, "OutdoorCamera": 2, "Lock": 1}
        | {"Light": 1, "Camera": 1.5},
    ),
)


def direction(feature: Feature) -> int:
    """1 if it starts something, -1 if it ends something, 0 if neither."""
    return 0 if not feature.opposite else -1 if feature.name in ENDS else 1


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
        self.alone = (self.trigger == self.actor) & ~_already_so()[self.state, self.action]
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


def _already_so() -> Mask:
    return np.array([[(state.name, action.name) in ALREADY_SO for action in ACTIONS] for state in STATES])


def _uses(features: tuple[Feature, ...], types: tuple[str, ...]) -> Floats:
    """[n_types, n_features]: how a type's triggering (or acting) is shared out among its own features."""
    use = np.array([[f.use if t in f.types.split() else 0.0 for f in features] for t in types])
    shares: Floats = use / np.maximum(use.sum(axis=1, keepdims=True), 1e-9)
    return shares


def _directions(features: tuple[Feature, ...]) -> Array:
    return np.array([direction(feature) for feature in features])


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
