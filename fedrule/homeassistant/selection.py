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

from fedrule.homeassistant.translation.devices import GENERIC
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.automation import NotWritable, WrittenAutomation
from fedrule.inference.output import Recommendation, Support

Write: TypeAlias = Callable[[Recommendation], WrittenAutomation | NotWritable]
Chosen: TypeAlias = tuple[Recommendation, WrittenAutomation]

MIN_HOMES, MIN_SHARE = 3, 0.03  # that have a rule, and of those with both types; what fewer have is no advice
SIMILAR = 5  # rules of the same kind that are folded into a line
PER_DEVICE = 3  # lines that one device triggers, and lines that act on it
# Triggers that every home has. They fit everything, so that lines of theirs are limited to a share of the list.
IN_EVERY_HOME = frozenset(("Clock", "Sun", "System"))
IN_EVERY_HOME_SHARE = 10  # one line in ten for each of them
# What a sensor of a room says is about that room: its lamps, not those of another one.
ROOM_SENSORS = frozenset(("MotionSensor", "ContactSensor", "LightSensor", "ClimateSensor"))
ROOM_DEVICES = frozenset(("Light", "Switch", "Fan", "MediaPlayer", "Cover", "Thermostat", "Humidifier", "Scene"))

# Types of many kinds: that others have a rule of a binary sensor with a cover says nothing about a firmware update and
# a garage door. Such a trigger must have something to do with the device: a rule, a room, a word of their names.
OF_MANY_KINDS = frozenset((*GENERIC, "Device"))
# So must one that people switch themselves, for what they like.
SWITCHED = frozenset(("InputBoolean", "InputSelect", "Light", "Switch"))
MESSAGES = frozenset(("Notification", "Speech"))  # may be about anything
WITHOUT_EFFECT = frozenset(("Event", "Automation"))  # nothing happens in the home by these alone
REPEATED = frozenset(("script_run", "scene_activate", "trigger"))  # not at an event and at its opposite

TOGGLED = "the other way"
# Where an action takes a device. Two rules with the same trigger and device contradict each other where these differ.
DIRECTION = {
    **dict.fromkeys(("turn_on", "set_brightness", "set_color", "set_effect", "set_speed", "set_temperature"), "on"),
    "turn_off": "off",
    "toggle": TOGGLED,
    **dict.fromkeys(("open", "open_tilt"), "open"),
    **dict.fromkeys(("close", "close_tilt"), "closed"),
    **dict.fromkeys(("set_position", "set_tilt"), "part way"),
    "lock": "locked",
    "unlock": "unlocked",
    **dict.fromkeys(("arm", "arm_away", "arm_home", "arm_night"), "armed"),
    "disarm": "disarmed",
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
DIRECTIONS = REPEATED | set(DIRECTION.values())
OPPOSITE = dict(_OPPOSITE) | {other: state for state, other in _OPPOSITE}


@dataclass
class Selection:
    """Goes through candidates, best first, and keeps those that a person wants to read.

    A candidate is left out if the home has it, if it contradicts a rule of the home or of the list, if it differs from
    one only by who is notified, if its devices have nothing to do with each other, or if there are enough lines of the
    clock or of one device. Candidates with the same trigger state and action between devices of the same types are one
    line, the best of them, and the others are folded into it.
    """

    k: int
    rules: Iterable[AutomationRule]  # of the home
    switched_off: Iterable[AutomationRule]
    room: Mapping[str, str]  # of each device that has one
    words: Mapping[str, Set[int]]  # that names share, of each device that has any
    write: Write
    without: Set[str] = frozenset()
    lines: list[list[Chosen]] = field(default_factory=list)  # a line with those that are folded into it

    def __post_init__(self) -> None:
        self._rules, self._off = frozenset(self.rules), frozenset(self.switched_off)
        self._linked = {frozenset((rule.trigger, rule.action_device)) for rule in self._rules}
        # Where rules of the home and of the list take a device, by trigger and device and then by trigger state.
        self._directions: dict[tuple[str, str], dict[str, set[str]]] = {}
        self._notified: set[tuple[str, str]] = set()  # triggers with their states that somebody is notified of
        for rule in self._rules | self._off:
            self._remember(rule, _direction(rule.action))
        self._of_kind: dict[tuple[str, str, str, str], list[Chosen]] = {}
        self._per_device: Counter[tuple[str, str]] = Counter()
        self._in_every_home: Counter[str] = Counter()
        self._pairs: set[tuple[str, str]] = set()  # trigger and device of what is in the list
        self._of_type: dict[tuple[str, str, str], str] = {}  # where the list takes a type of device at an event
        self._left_out: Counter[str] = Counter()

    def consider(self, candidate: Recommendation) -> None:
        """Put a candidate into the list or leave it out; once there are `k` lines, it can only be folded into one."""
        rule, why = rule_of(candidate), candidate.why
        kind = (why.trigger_type, rule.trigger_state, rule.action, why.action_type)
        line = self._of_kind.get(kind)
        full = len(self.lines) >= self.k
        if line is None and full:
            return
        reason = self._unwanted(rule, why) or self._conflict(rule, why)
        if not reason:
            reason = self._crowded(rule, why) if line is None else self._unfolded(rule, line)
        written = NotWritable(reason) if reason else self.write(candidate)
        if isinstance(written, WrittenAutomation) and written.id in self.without:
            written = NotWritable("dismissed")
        if isinstance(written, NotWritable):
            if not full:
                self._left_out[written.reason] += 1
            return
        if line is None:
            self._of_kind[kind] = line = []
            self.lines.append(line)
            self._per_device.update((("from", rule.trigger), ("to", rule.action_device)))
            self._in_every_home[why.trigger_type] += 1
        line.append((candidate, written))
        self._pairs.add((rule.trigger, rule.action_device))
        if direction := _direction(rule.action):
            self._of_type.setdefault((rule.trigger, rule.trigger_state, why.action_type), direction)
        # A value is guessed, the same at both events: a line is not repeated at the opposite one whatever it does.
        self._remember(rule, direction or rule.action)

    def left_out(self) -> Counter[str]:
        """How many candidates better than the last line were left out, by reason, the commonest first."""
        return Counter(dict(self._left_out.most_common()))

    def _unwanted(self, rule: AutomationRule, why: Support) -> str:
        """Not for this home, whatever else is in the list."""
        linked = self._linked_by_rule(rule)
        if rule in self._off:
            return "in an automation of the home that is switched off"
        if why.homes_with_both and why.homes_with_rule < MIN_HOMES:
            return f"fewer than {MIN_HOMES} homes have it"
        if not linked and why.homes_with_rule < MIN_SHARE * why.homes_with_both:
            return f"fewer than {MIN_SHARE:.0%} of the homes that could have it"
        if why.action_type in WITHOUT_EFFECT:
            return "an event or an automation of the home, which does nothing by itself"
        if rule.trigger_state == "state:changed" and DIRECTION.get(rule.action, TOGGLED) != TOGGLED:
            return "the same whatever the trigger changes to"
        loose = why.trigger_type in OF_MANY_KINDS or why.trigger_type in SWITCHED
        if loose and why.action_type not in MESSAGES and not self._tied(rule):
            return "between devices that have nothing to do with each other"
        if rule.trigger == rule.action_device:
            if rule.action in DIRECTION and (rule.trigger_state, rule.action) != ("state:on", "turn_off"):
                return "a device that acts on itself, other than by switching off after a while"
        elif not linked and _inverts(rule):
            return "switches a device the other way than its trigger"
        local = why.trigger_type in ROOM_SENSORS and why.action_type in ROOM_DEVICES
        if local and self._in_two_rooms(rule) and not linked:
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
        same = rule.trigger == rule.action_device or (here and here == self.room.get(rule.action_device))
        return bool(same or shared or self._linked_by_rule(rule))

    def _conflict(self, rule: AutomationRule, why: Support) -> str:
        """Against a rule of the home or of the list."""
        if (rule.action_device, rule.trigger) in self._pairs and rule.trigger != rule.action_device:
            return "the other way round of a line"
        if why.action_type == "Notification" and (rule.trigger, rule.trigger_state) in self._notified:
            return "differs from another only by who is notified"
        at_opposite = (rule.trigger, OPPOSITE.get(rule.trigger_state, ""))
        if why.action_type == "Notification" and why.trigger_type in OF_MANY_KINDS and at_opposite in self._notified:
            return "does the same as another rule at the opposite event"
        by_state = self._directions.get((rule.trigger, rule.action_device), {})
        direction = _direction(rule.action)
        if direction and direction != self._of_type.get((rule.trigger, rule.trigger_state, why.action_type), direction):
            return "contradicts a line for other devices of the same type"
        if direction:
            there = set().union(*(by_state[state] for state in by_state if _overlap(state, rule.trigger_state)))
            if direction in there:
                return "nearly the same as a rule of the home or of the list"
            if there & DIRECTIONS:
                return "contradicts a rule of the home or of the list"
        if (direction or rule.action) in by_state.get(OPPOSITE.get(rule.trigger_state, ""), ()):
            return "does the same as another rule at the opposite event"
        return ""

    def _unfolded(self, rule: AutomationRule, line: list[Chosen]) -> str:
        """A rule of the kind of a line that does not belong to it."""
        if len(line) > SIMILAR:
            return "of a kind that is in the list with enough devices"
        if self._tied(rule_of(line[0][0])) and not self._tied(rule):
            return "of a kind that is in the list with devices that belong together"
        return ""

    def _crowded(self, rule: AutomationRule, why: Support) -> str:
        """A new line of a kind that there are enough of."""
        if why.trigger_type in IN_EVERY_HOME:
            if self._in_every_home[why.trigger_type] >= max(1, self.k // IN_EVERY_HOME_SHARE):
                return "more at set times, at sunrise or sunset, or when Home Assistant starts"
        elif self._per_device["from", rule.trigger] >= PER_DEVICE:
            return "more with the same trigger"
        if self._per_device["to", rule.action_device] >= PER_DEVICE:
            return "more that act on the same device"
        return ""

    def _remember(self, rule: AutomationRule, direction: str) -> None:
        if rule.action == "notify":
            self._notified.add((rule.trigger, rule.trigger_state))
        elif direction:
            by_state = self._directions.setdefault((rule.trigger, rule.action_device), {})
            by_state.setdefault(rule.trigger_state, set()).add(direction)


def _direction(action: str) -> str:
    """Where it takes a device; empty for an action that goes with any other."""
    return action if action in REPEATED else DIRECTION.get(action, "")


def _inverts(rule: AutomationRule) -> bool:
    """Whether something turns on at what turns another off, or the other way: few such rules are meant in general."""
    return (rule.trigger_state, DIRECTION.get(rule.action)) in (("state:on", "off"), ("state:off", "on"))


def _overlap(state: str, other: str) -> bool:
    """Whether both can happen at the same moment: a device that turns on has changed."""
    return state == other or "state:changed" in (state, other)


def rule_of(candidate: Recommendation) -> AutomationRule:
    """A recommendation as a rule of a home."""
    trigger, device = str(candidate.trigger), str(candidate.action_device)
    return AutomationRule(trigger, candidate.trigger_state, candidate.action, device)
