"""The list for a home: rules that its devices can carry out, each with a sentence, a reason and an automation.

suggestions = suggest(Recommender.load("model.safetensors"), read_home(read_folder("/config")), k=10)
for line in suggestions.lines:
    ...  # line.text, line.why, line.written.config

The model says what to recommend and in which order, `selection.py` what of it is in the list; here it gets its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from datasets.common.errors import DataError
from fedrule.homeassistant.home import InstalledHome, rooms
from fedrule.homeassistant.selection import IN_EVERY_HOME, Chosen, Selection, rule_of
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.automation import AutomationWriter, NotWritable, WrittenAutomation
from fedrule.inference.output import Recommendation, Support
from fedrule.inference.request import display_names
from fedrule.inference.sentences import sentence, without_marks

if TYPE_CHECKING:
    from fedrule.inference.recommender import Recommender

Values: TypeAlias = Literal["guess", "skip"]

FIRST, MORE = 500, 4  # least candidates that are looked at, and how many times as many if they are too few
MOST = 20_000  # candidates: a large home has millions, and what is that far down is no advice


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One line of the list."""

    rule: AutomationRule
    text: str  # e.g. "When *Front door* opens, turn on *Hall light*"; names between asterisks
    why: str  # e.g. "63 of the 131 homes with a contact sensor and a light have it"
    homes_with_rule: int
    homes_with_both: int
    written: WrittenAutomation
    similar: tuple[Suggestion, ...] = ()  # the same rule with other devices, folded into this line


@dataclass(frozen=True, slots=True)
class Suggestions:
    """The list of a home, best first."""

    home: InstalledHome
    lines: tuple[Suggestion, ...]
    left_out: Mapping[str, int]  # candidates that were better than the last line, by why they are not in the list


def suggest(
    recommender: Recommender,
    home: InstalledHome,
    k: int = 10,
    *,
    values: Values = "guess",  # of rules that need a value which the home has to choose; skip leaves them out
    area: str = "",  # only rules with a device there
    without: Set[str] = frozenset(),  # ids of automations that are not to be recommended
) -> Suggestions:
    """The `k` best lines for a home; fewer where there are fewer."""
    writer, request = AutomationWriter(home), home.request()
    wording = Wording(home)

    def write(candidate: Recommendation) -> WrittenAutomation | NotWritable:
        text, why = wording.text(candidate), wording.why(candidate)
        return writer.write(rule_of(candidate), text=text, why=why, values=values)

    inside = devices_in(home, area) if area else None
    in_room = {device.id: device.room for device in home.devices}
    words = {
        str(device.id): frozenset(some) for device, some in zip(request.devices, request.device_words(), strict=True)
    }
    wanted = min(max(FIRST, len(request.devices)), MOST)  # many devices have many rules of one kind
    while True:
        found = recommender.recommend(request, wanted, unknown="ignore", inside=inside).rules if request.devices else ()
        known = home.rules, home.rules_switched_off, in_room, words
        selection = Selection(k, *known, write, without=without)
        for candidate in found:
            selection.consider(candidate)
        if len(selection.lines) >= k or len(found) < wanted or wanted == MOST:
            break
        wanted = min(MORE * wanted, MOST)
    lines = tuple(wording.line(first, similar) for first, *similar in selection.lines)
    return Suggestions(home, lines, selection.left_out())


def devices_in(home: InstalledHome, area: str) -> frozenset[str]:
    """The devices of an area by its name, or with that word in their names; at least one."""
    wanted = area.strip().casefold()
    found = frozenset(
        device.id
        for device in home.devices
        if wanted in (device.room.casefold(), *re.split(r"\W+", device.name.casefold()))
    )
    if not found:
        known = rooms(home)
        there = f"the areas with devices are {', '.join(known)}" if known else "no device of this home has an area"
        raise DataError(f"--area {area}: no device is there, or has that word in its name; {there}")
    return found


class Wording:
    """Sentences and reasons with the names of a home."""

    def __init__(self, home: InstalledHome) -> None:
        devices = home.request().devices
        self.names = dict(zip((str(device.id) for device in devices), display_names(devices), strict=True))
        self.devices = {device.id: device for device in home.devices}
        self.between: dict[frozenset[str], AutomationRule] = {}
        for rule in home.rules:
            self.between.setdefault(frozenset((rule.trigger, rule.action_device)), rule)

    def text(self, candidate: Recommendation) -> str:
        """Its sentence."""
        text = _without_clock(candidate.text, candidate.why.trigger_type)
        # It is written with a delay: at once, it would undo what was just done.
        return text.replace("* turns on,", "* has been on for a while,") if _undoes_itself(candidate) else text

    def rule(self, rule: AutomationRule) -> str:
        """The sentence of a rule of the home."""
        trigger, device = (self.names[id_] for id_ in (rule.trigger, rule.action_device))
        kind = self.devices[rule.trigger].type
        return _without_clock(sentence(trigger, rule.trigger_state, rule.action, device, trigger_type=kind), kind)

    def why(self, candidate: Recommendation) -> str:
        """How many homes have it, whether it stays in a room, and a rule of the home that it goes with."""
        parts = [homes_text(candidate.why)]
        trigger, action = (self.devices[str(id_)] for id_ in (candidate.trigger, candidate.action_device))
        if trigger.room and trigger.room == action.room and trigger.id != action.id:
            parts.append(f"Both are in {trigger.room}.")
        rule = self.between.get(frozenset((trigger.id, action.id)))
        if rule is not None:
            parts.append(f"You have: {without_marks(self.rule(rule))}.")
        return " ".join(parts)

    def line(self, chosen: Chosen, similar: Iterable[Chosen] = ()) -> Suggestion:
        candidate, written = chosen
        return Suggestion(
            rule_of(candidate),
            self.text(candidate),
            self.why(candidate),
            candidate.why.homes_with_rule,
            candidate.why.homes_with_both,
            written,
            tuple(self.line(each) for each in similar),
        )


def _undoes_itself(candidate: Recommendation) -> bool:
    return candidate.trigger == candidate.action_device and candidate.action == "turn_off"


def _without_clock(text: str, trigger_type: str) -> str:
    """At sunset (*Sun*), ...: the clock and the sun are not named, as every home has one."""
    return re.sub(r" \(\*[^*]*\*\)", "", text, count=1) if trigger_type in IN_EVERY_HOME else text


def homes_text(why: Support) -> str:
    """E.g. "63 of the 131 homes with a contact sensor and a light have it."."""
    if not why.homes_with_both:
        return "How many homes have it is not known."
    kinds = [
        _in_words(kind) for kind in dict.fromkeys((why.trigger_type, why.action_type)) if kind not in IN_EVERY_HOME
    ]
    owners = f"homes with {' and '.join(kinds)}" if kinds else "homes"
    return f"{why.homes_with_rule:,} of the {why.homes_with_both:,} {owners} have it."


def _in_words(kind: str) -> str:
    """ContactSensor: a contact sensor."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()
    return f"{'an' if words[:1] in 'aeiou' else 'a'} {words}"
