"""A rule as an automation of Home Assistant.

writer = AutomationWriter(home)
written = writer.write(rule, text="When *Front door* opens, turn on *Hall light*", why="63 of 131 homes have it")
print(to_yaml([written]))

What is written is read back as the same rule. Values that the home has to choose are guessed and said to be guesses.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from datasets.common.errors import DataError, install_hint
from fedrule.homeassistant.home import InstalledHome
from fedrule.homeassistant.installation import printable
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.actions import write_action
from fedrule.homeassistant.writing.tables import HomeLookup, Part, Unwritable
from fedrule.homeassistant.writing.triggers import write_trigger
from fedrule.inference.sentences import without_marks

NEW_KEYS = (2024, 10)  # the first version whose own editor writes `triggers:` and `action: light.turn_on`
ALIAS = 200  # characters


@dataclass(frozen=True, slots=True)
class WrittenAutomation:
    """An automation that the server takes as it is."""

    config: Mapping[str, object]  # id, alias, description, triggers, conditions, actions, mode; keys of the version
    guesses: tuple[str, ...] = ()  # one sentence for each value that the home has to choose
    warnings: tuple[str, ...] = ()  # one sentence for each thing to look at before it is switched on

    @property
    def id(self) -> str:
        """The same for the same rule."""
        return str(self.config["id"])

    @property
    def alias(self) -> str:
        """What it does, in a sentence."""
        return str(self.config.get("alias", ""))


class NotWritable(NamedTuple):
    """Why a rule cannot be written for this home."""

    reason: str


class AutomationWriter:
    """Writes rules between devices of one home."""

    def __init__(self, home: InstalledHome) -> None:
        self._lookup = HomeLookup(home)
        found = re.match(r"(\d+)\.(\d+)", home.installation.version)
        # Every version takes the old keys, so they are the ones for a version that is not known.
        self.new_keys = found is not None and (int(found[1]), int(found[2])) >= NEW_KEYS

    def write(
        self, rule: AutomationRule, *, text: str, why: str, values: Literal["guess", "skip"] = "guess"
    ) -> WrittenAutomation | NotWritable:
        """The automation of a rule.

        text: the sentence, names between asterisks
        why: goes into the description
        values: "skip" writes only what needs no value that the home has to choose
        """
        try:
            _refuse_loops(rule)
            trigger, action = write_trigger(rule, self._lookup), write_action(rule, self._lookup)
        except Unwritable as error:
            return NotWritable(str(error))
        guessed = [*trigger.guesses, *action.guesses]
        if guessed and values == "skip":
            return NotWritable(f"it needs a value that you choose ({guessed[0].kind})")
        guesses = tuple(dict.fromkeys(map(str, guessed)))
        config = self._config(rule, trigger, action, text=text, why=why, guesses=guesses)
        return WrittenAutomation(config, guesses, tuple(dict.fromkeys(action.warnings)))

    def _config(
        self, rule: AutomationRule, trigger: Part, action: Part, *, text: str, why: str, guesses: tuple[str, ...]
    ) -> dict[str, object]:
        id_ = f"fedrule_{hashlib.blake2b(chr(0).join(rule).encode(errors='replace'), digest_size=6).hexdigest()}"
        alias = _line(without_marks(text))[:ALIAS].strip()
        notes = [f"Recommended by fedrule: {_line(why)}" if why.strip() else "Recommended by fedrule", *guesses]
        description = " ".join(each if each.endswith((".", "!", "?")) else f"{each}." for each in notes)
        head: dict[str, object] = {"id": id_, "alias": alias or id_, "description": description}
        # Changes may follow each other while a slow device still acts: the last one counts.
        mode = "restart" if rule.trigger_state == "state:changed" else "single"
        if self.new_keys:
            rows = {"triggers": _renamed(trigger, "platform", "trigger"), "conditions": []}
            return head | rows | {"actions": _renamed(action, "service", "action"), "mode": mode}
        return head | {"trigger": [trigger.config], "condition": [], "action": [action.config], "mode": mode}


def _renamed(part: Part, old: str, new: str) -> list[object]:
    return [{new if key == old else key: value for key, value in part.config.items()}]


def _line(text: str) -> str:
    return " ".join(printable(text).split())


def _refuse_loops(rule: AutomationRule) -> None:
    """What an automation does must not start it again, or be what has just happened."""
    if rule.trigger == rule.action_device and rule.trigger != "system":
        switched = {"turn_on": "state:on", "turn_off": "state:off"}
        if switched.get(rule.action) == rule.trigger_state:
            raise Unwritable("it is so already when the trigger happens")
        if rule.trigger_state == "state:changed" or rule.action == "toggle":
            raise Unwritable("it would start itself again and again")
    if rule.trigger_state == "notification" and rule.action == "notify":
        raise Unwritable("it would start itself again and again")


def to_yaml(automations: Iterable[WrittenAutomation]) -> str:
    """The list as it goes into automations.yaml, with guesses and warnings as comments above each item."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise DataError(f"writing YAML needs {install_hint('hass')}") from None

    class Dumper(yaml.SafeDumper):
        """Lists are indented below their key, values are not referred to by anchors."""

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
            super().increase_indent(flow, False)

        def represent_str(self, value: str) -> yaml.ScalarNode:
            """Quotes what an older or stricter parser might take as a number, a time or a boolean."""
            quoted = re.fullmatch(r"[\d:.,_+-]+|[yYnN]", value)
            return self.represent_scalar("tag:yaml.org,2002:str", value, style="'" if quoted else None)

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
            return True

    Dumper.add_representer(str, Dumper.represent_str)
    lines = []
    for automation in automations:
        lines += [f"# {_line(each)}\n" for each in automation.warnings]
        lines += [f"# {_line(each)}\n" for each in automation.guesses]
        item = [dict(automation.config)]
        lines.append(yaml.dump(item, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100))
    return "".join(lines) or "[]\n"
