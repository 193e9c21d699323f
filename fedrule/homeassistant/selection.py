"""What of a model's recommendations a person wants to read: the policy of the list, line by line.

selection = Selection(10, rules, switched_off, room, words, write)
for candidate in recommendations:  # best first
    selection.consider(candidate)
selection.lines, selection.left_out()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.automation import NotWritable, WrittenAutomation
from fedrule.inference.output import Recommendation, Support

Write: TypeAlias = Callable[[Recommendation], WrittenAutomation | NotWritable]
Chosen: TypeAlias = tuple[Recommendation, WrittenAutomation]

MIN_HOMES = 3  # that have a rule; what fewer have is their own affair and no advice
SIMILAR = 5  # rules of the same kind that are folded into a line
PER_DEVICE = 3  # lines that one device triggers, and lines that act on it
# Triggers that every home has. They fit everything, so that lines of theirs are limited to a share of the list.
EVERYWHERE = frozenset(("Clock", "Sun", "System"))
EVERYWHERE_SHARE = 10  # one line in ten for each of them
# What a sensor of a room says is about that room: its lamps, not those of another one. In 261 real homes 75 % of the
# rules between motion sensors and lights share a word of their names, 67 % of those between contact sensors and lights.
OF_A_ROOM = frozenset(("MotionSensor", "ContactSensor", "LightSensor", "ClimateSensor"))
IN_A_ROOM = frozenset(("Light", "Switch", "Fan", "MediaPlayer", "Cover", "Thermostat", "Humidifier", "Scene"))

# Types of many kinds: that others have a rule of a binary sensor with a cover says nothing about a firmware update and
# a garage door. Such a trigger must have something to do with the device: a rule, a room, a word of their names.
OF_MANY_KINDS = frozenset(("BinarySensor", "Sensor", "Other", "Device", "Group"))
TELLING = frozenset(("Notification", "Speech"))  # about anything
WITHOUT_EFFECT = frozenset(("Event", "Automation"))  # nothing happens in the home by these alone
REPEATED = frozenset(("script_run", "scene_activate", "trigger"))  # not at an event and at its opposite

# Where an action takes a device. Two rules with the same trigger and device contradict each other where these differ.
DIRECTION = {
    **dict.fromkeys(("turn_on", "set_brightness", "set_color", "set_effect", "set_speed", "increase_speed"), "on"),
    **dict.fromkeys(("turn_off",), "off"),
    **dict.fromkeys(("toggle",), "the other way"),
    **dict.fromkeys(("open", "open_tilt"), "open"),
    **dict.fromkeys(("close", "close_tilt"), "closed"),
    **dict.fromkeys(("set_position", "set_tilt"), "part way"),
    **dict.fromkeys(("lock",), "locked"),
    **dict.fromkeys(("unlock",), "unlocked"),
    **dict.fromkeys(("arm", "arm_away", "arm_home", "arm_night"), "armed"),
    **dict.fromkeys(("disarm",), "disarmed"),
    **dict.fromkeys(("play", "play_media", "start"), "playing"),
    **dict.fromkeys(("pause", "stop", "cancel", "finish"), "stopped"),
    **dict.fromkeys(("return_to_base", "dock"), "docked"),
}
_OPPOSITE = (
    ("state:on", "state:off"),
    ("state:open", "state:closed"),
    ("state:home", "state:not_home"),
    ("state:locked", "state:unlocked"),
    ("sun:sunrise", "sun:sunset"),
    ("zone:enter", "zone:leave"),
    ("numeric:above", "numeric:below"),
)
OPPOSITE = dict(_OPPOSITE) | {other: state for state, other in _OPPOSITE}


@dataclass
class Selection:
    """Goes through candidates, best first, and keeps those that a person wants to read.

    A candidate is left out if the home has it, if it contradicts a rule of the home or of the list, if it differs from
    one only by who is notified, or if there are enough lines of its kind: of the clock, of one device, of one room's
    sensor with another room's lamp. Candidates with the same trigger state and action between devices of the same
    types are one line, the best of them, and the others are folded into it.
    """

    k: int
    rules: Iterable[AutomationRule]  # of the home
    switched_off: Iterable[AutomationRule]
    room: Mapping[str, str]  # of each device that has one
    words: Mapping[str, Set[int]]  # that names share, of each device that has any
    write: Write
    without: Set[str] = frozenset()
    inside: Set[str] | None = None  # devices of which a rule must have one; None: any
    lines: list[list[Chosen]] = field(default_factory=list)  # a line with those that are folded into it

    def __post_init__(self) -> None:
        self._known = frozenset(self.rules)
        self._off = frozenset(self.switched_off)
        self._linked = {frozenset((rule.trigger, rule.action_device)) for rule in self._known}
        self._directions: dict[tuple[str, str, str], set[str]] = {}  # by trigger, state and device
        self._told: set[tuple[str, str]] = set()  # triggers with their states that somebody is notified of
        for rule in self._known:
            self._remember(rule)
        self._of_kind: dict[tuple[str, str, str, str], list[Chosen]] = {}
        self._per_device: Counter[tuple[str, str]] = Counter()
        self._everywhere: Counter[str] = Counter()
        self._pairs: set[tuple[str, str]] = set()  # trigger and device of what is in the list
        self._left_out: list[tuple[int, str]] = []  # how many lines there were, and the reason

    def consider(self, candidate: Recommendation) -> None:
        """Put a candidate into the list or leave it out."""
        written = self._written(candidate)
        if isinstance(written, str):
            self._left_out.append((len(self.lines), written))

    def left_out(self) -> Counter[str]:
        """How many candidates before the last line were left out, by reason, the commonest first."""
        counted = Counter(reason for lines, reason in self._left_out if lines < max(self.k, 1))
        return Counter(dict(counted.most_common()))

    def _written(self, candidate: Recommendation) -> WrittenAutomation | str:
        """The automation of a candidate that is taken, or the reason why it is not."""
        rule, why = rule_of(candidate), candidate.why
        reason = self._unwanted(rule, why) or self._conflict(rule, why)
        if reason:
            return reason
        kind = (why.trigger_type, rule.trigger_state, rule.action, why.action_type)
        line = self._of_kind.get(kind)
        if line is None:
            reason = self._crowded(rule, why)
        elif len(line) > SIMILAR:
            reason = "of a kind that is in the list with enough devices"
        elif self._tied(rule_of(line[0][0])) and not self._tied(rule):
            reason = "of a kind that is in the list with devices that belong together"
        if reason:
            return reason
        written = self.write(candidate)
        if isinstance(written, NotWritable):  # counted for all devices together
            return written.reason.replace(rule.trigger, "the device").replace(rule.action_device, "the device")
        if written.id in self.without:
            return "dismissed"
        if line is None:
            self._of_kind[kind] = line = []
            self.lines.append(line)
            self._per_device.update((("from", rule.trigger), ("to", rule.action_device)))
            self._everywhere[why.trigger_type] += 1
        line.append((candidate, written))
        self._pairs.add((rule.trigger, rule.action_device))
        self._remember(rule, notifies=why.action_type == "Notification")
        return written

    def _unwanted(self, rule: AutomationRule, why: Support) -> str:
        """Not for this home, whatever else is in the list."""
        if self.inside is not None and not {rule.trigger, rule.action_device} & self.inside:
            return "in other areas"
        if rule in self._off:
            return "in an automation of the home that is switched off"
        if why.homes_with_both and why.homes_with_rule < MIN_HOMES:
            return f"fewer than {MIN_HOMES} homes have it"
        if why.action_type in WITHOUT_EFFECT:
            return "an event or an automation of the home, which does nothing by itself"
        if why.trigger_type in OF_MANY_KINDS and why.action_type not in TELLING and not self._tied(rule):
            return "from a sensor of any kind to a device that it has nothing to do with"
        local = why.trigger_type in OF_A_ROOM and why.action_type in IN_A_ROOM
        if local and self._in_two_rooms(rule) and not self._linked_by_rule(rule):
            return "from a sensor of one room to a device of another"
        return ""

    def _in_two_rooms(self, rule: AutomationRule) -> bool:
        """By the areas of both devices, or else by the words of their names, where both have some."""
        here, there = (self.room.get(id_, "") for id_ in (rule.trigger, rule.action_device))
        if here and there:
            return here != there
        words, others = (self.words.get(id_, frozenset()) for id_ in (rule.trigger, rule.action_device))
        return bool(words and others and not words & others)

    def _linked_by_rule(self, rule: AutomationRule) -> bool:
        return frozenset((rule.trigger, rule.action_device)) in self._linked

    def _tied(self, rule: AutomationRule) -> bool:
        """Whether the two devices have something in common: a rule of the home, a room, or a word of their names."""
        here = self.room.get(rule.trigger, "")
        shared = self.words.get(rule.trigger, frozenset()) & self.words.get(rule.action_device, frozenset())
        return bool(shared or (here and here == self.room.get(rule.action_device)) or self._linked_by_rule(rule))

    def _conflict(self, rule: AutomationRule, why: Support) -> str:
        """Against a rule of the home or of the list."""
        if rule.trigger == rule.action_device and rule.action in DIRECTION:
            return "a device that acts on itself at once"
        if (rule.action_device, rule.trigger) in self._pairs:
            return "the other way round of a line"
        if why.action_type == "Notification" and (rule.trigger, rule.trigger_state) in self._told:
            return "differs from another only by who is notified"
        direction = _direction(rule.action)
        there = self._directions.get((rule.trigger, rule.trigger_state, rule.action_device), set())
        if direction and direction in there:
            return "nearly the same as a rule of the home or of the list"
        if direction and there:
            return "contradicts a rule of the home or of the list"
        other = OPPOSITE.get(rule.trigger_state, "")
        if direction and direction in self._directions.get((rule.trigger, other, rule.action_device), set()):
            return "does the same as another rule at the opposite event"
        return ""

    def _crowded(self, rule: AutomationRule, why: Support) -> str:
        """A new line of a kind that there are enough of."""
        if why.trigger_type in EVERYWHERE:
            if self._everywhere[why.trigger_type] >= max(1, self.k // EVERYWHERE_SHARE):
                return "more at set times, at sunrise or sunset, or when Home Assistant starts"
        elif self._per_device["from", rule.trigger] >= PER_DEVICE:
            return "more with the same trigger"
        if self._per_device["to", rule.action_device] >= PER_DEVICE:
            return "more that act on the same device"
        return ""

    def _remember(self, rule: AutomationRule, *, notifies: bool | None = None) -> None:
        if notifies or (notifies is None and rule.action == "notify"):
            self._told.add((rule.trigger, rule.trigger_state))
        if direction := _direction(rule.action):
            key = (rule.trigger, rule.trigger_state, rule.action_device)
            self._directions.setdefault(key, set()).add(direction)


def _direction(action: str) -> str:
    """Where it takes a device; empty for an action that goes with any other."""
    return action if action in REPEATED else DIRECTION.get(action, "")


def rule_of(candidate: Recommendation) -> AutomationRule:
    """A recommendation as a rule of a home."""
    trigger, device = str(candidate.trigger), str(candidate.action_device)
    return AutomationRule(trigger, candidate.trigger_state, candidate.action, device)
