"""What smart-home devices can notice and do: entity types, trigger states, actions, and what people want from them.

The types are those of the paper's Table 1 and of the public Wyze data; the states and actions extend the examples
given there with what such devices are sold to do. `use` is how often people reach for a thing, relative to others of
its kind; `serves` are the intents it suits.
"""

from __future__ import annotations

from typing import NamedTuple

INTENTS = ("security", "lighting", "comfort", "energy", "safety", "routine")
INTENT_USE = (0.30, 0.24, 0.13, 0.12, 0.06, 0.15)  # how common each is as the main wish of a home


class Feature(NamedTuple):
    """A trigger state or an action, and which entity types have it."""

    name: str
    use: float
    serves: str
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
