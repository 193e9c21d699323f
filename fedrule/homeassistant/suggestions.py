"""The list for a home: rules that its devices can carry out, each with a sentence, a reason and an automation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedrule.homeassistant.home import InstalledHome
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.automation import WrittenAutomation


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One line of the list."""

    rule: AutomationRule
    text: str  # e.g. "When *Front door* opens, turn on *Hall light*"; names between asterisks
    why: str  # e.g. "63 of the 131 homes with a ContactSensor and a Light that it learned from have this rule"
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
