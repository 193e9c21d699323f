"""The rules of an automation: each of its triggers with each action that this trigger leads to.

A branch of `choose` or `if` that asks for trigger ids (`condition: trigger`, or a template that compares trigger.id)
belongs to those triggers only, and the rest (`default`, `else`) to the others. After `wait_for_trigger` the awaited
triggers are those that act. Other conditions are not in the data and narrow nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from fedrule.homeassistant.installation import Automation, items, mapping, text
from fedrule.homeassistant.translation.actions import Effect, is_call, read_action
from fedrule.homeassistant.translation.devices import Devices
from fedrule.homeassistant.translation.templates import (
    expression,
    more_variables,
    split,
    with_values,
    without_brackets,
)
from fedrule.homeassistant.translation.triggers import Trigger, read_triggers
from fedrule.homeassistant.translation.vocabulary import vocabulary

NESTING = 60  # choices in choices
RULES = 5_000  # of one automation; people have a few
ITEMS = 50  # that a loop goes through
WALKED = 20 * RULES  # with those that occur again
EQUALS = re.compile(r"trigger\.id\s*==\s*(?:'([^']*)'|\"([^\"]*)\")")
COMPARED = re.compile(r"trigger\.id\s*(?:[=!]=\s*('[^']*'|\"[^\"]*\")|(?:not\s+)?in\s*[\[(]([^\])]*)[\])])")
TURNED = re.compile(r"('[^']*'|\"[^\"]*\")\s*[=!]=\s*trigger\.id")
AMONG = re.compile(r"trigger\.id\s+in\s*[\[(]([^\])]*)[\])]")
QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


class AutomationRule(NamedTuple):
    """One rule, its devices by id (`translation.devices` says which ids there are)."""

    trigger: str
    trigger_state: str
    action: str
    action_device: str


class Outcome(NamedTuple):
    """The rules that an automation gave, and if it gave none, why."""

    automation: Automation
    rules: tuple[AutomationRule, ...]
    reason: str = ""  # empty if there are rules


def read_automation(automation: Automation, devices: Devices) -> Outcome:
    """The rules of one automation; never an error, whatever its configuration is."""
    if automation.problem:
        return Outcome(automation, (), automation.problem)
    config = automation.config
    reasons: list[str] = []
    for_triggers = more_variables(config.get("trigger_variables"), {})
    section = with_values(config.get("triggers", config.get("trigger")), for_triggers)
    triggers = read_triggers(section, devices, reasons)
    walk = _Walk(triggers, devices, reasons, more_variables(config.get("variables"), for_triggers))
    before = devices.unresolved.copy()
    found = walk.rules(config.get("actions", config.get("action")), config.get("conditions", config.get("condition")))
    rules = tuple(islice(dict.fromkeys(islice(found, WALKED)), RULES))
    if rules:
        return Outcome(automation, rules)
    if not items(section):
        return Outcome(automation, (), "it has no trigger")
    if not any(trigger.starts for trigger in triggers):
        return Outcome(automation, (), "; ".join(dict.fromkeys(reasons)) or "its triggers are switched off")
    if not walk.calls:
        return Outcome(automation, (), "it does nothing to a device")
    new = devices.unresolved - before
    why = "; ".join(new) or "; ".join(dict.fromkeys(reasons)) or "no trigger leads to its actions"
    return Outcome(automation, (), why)


class _Narrowed(NamedTuple):
    """The triggers that a condition lets pass, and whether it is about triggers only."""

    triggers: frozenset[int]
    pure: bool


class _Walk:
    """The steps of one automation."""

    def __init__(
        self, triggers: list[Trigger], devices: Devices, reasons: list[str], variables: Mapping[str, object]
    ) -> None:
        self.triggers = triggers
        self.devices = devices
        self.reasons = reasons
        self.variables = variables
        self.calls = 0

    def rules(self, actions: object, conditions: object) -> Iterator[AutomationRule]:
        every = frozenset(range(len(self.triggers)))
        allowed = self._narrowed(conditions, every, NESTING).triggers
        for active, effect in self._steps(actions, allowed, NESTING):
            found = [start for number in sorted(active) for start in self.triggers[number].starts]
            if effect.triggering:
                found = [start for start in found if _acts_on(effect.triggering, start.device)]
                self.devices.unresolved["a template chooses the entity"] += not found
            for start in found:
                state = _mirrored(start.state, effect) if effect.mirrors else start.state
                if state:
                    yield AutomationRule(start.device, state, effect.action, effect.device or start.device)

    def _steps(self, section: object, active: frozenset[int], nesting: int) -> Iterator[tuple[frozenset[int], Effect]]:
        if nesting == 0:
            self.reasons.append("its steps are nested too deeply")
            return
        for step in items(section):
            if isinstance(step, list):
                yield from self._steps(step, active, nesting - 1)
            elif isinstance(step, str):  # a template as a condition
                active = self._narrowed(step, active, nesting).triggers
            elif isinstance(step, Mapping) and step.get("enabled") is not False:
                if "stop" in step:
                    return
                self.variables = more_variables(step.get("variables"), self.variables)
                if "wait_for_trigger" in step:
                    active = self._awaited(step["wait_for_trigger"]) or active
                elif "condition" in step or set(step) & {"and", "or", "not"}:
                    active = self._narrowed(step, active, nesting).triggers
                else:
                    yield from self._step(step, active, nesting - 1)

    def _step(
        self, step: Mapping[str, object], active: frozenset[int], nesting: int
    ) -> Iterator[tuple[frozenset[int], Effect]]:
        if "choose" in step:
            rest = active
            for option in map(mapping, items(step["choose"])):
                if option.get("enabled") is False:
                    continue
                let = self._narrowed(option.get("conditions", option.get("condition")), active, nesting)
                yield from self._steps(option.get("sequence"), let.triggers, nesting)
                rest -= let.triggers if let.pure else frozenset()
            yield from self._steps(step.get("default"), rest, nesting)
        elif "if" in step:
            let = self._narrowed(step["if"], active, nesting)
            yield from self._steps(step.get("then"), let.triggers, nesting)
            yield from self._steps(step.get("else"), active - let.triggers if let.pure else active, nesting)
        elif "repeat" in step:
            yield from self._repeated(mapping(step["repeat"]), active, nesting)
        elif "parallel" in step:
            yield from self._steps(step["parallel"], active, nesting)
        elif "sequence" in step and not is_call(step):
            yield from self._steps(step["sequence"], active, nesting)
        elif is_call(step):
            self.calls += 1
            for effect in read_action(mapping(with_values(step, self.variables)), self.devices):
                yield active, effect

    def _repeated(
        self, repeat: Mapping[str, object], active: frozenset[int], nesting: int
    ) -> Iterator[tuple[frozenset[int], Effect]]:
        """The steps of a loop, once for each item of a list that it goes through; of loops in loops only the outer."""
        before = self.variables
        listed = with_values(repeat.get("for_each"), before)
        for item in listed[:ITEMS] if isinstance(listed, list) and "repeat" not in before else [None]:
            self.variables = {**before, "repeat": {"item": item}}
            yield from self._steps(repeat.get("sequence"), active, nesting)
        self.variables = before

    def _awaited(self, section: object) -> frozenset[int]:
        """The triggers of `wait_for_trigger`, added to those of the automation."""
        found = [each for each in read_triggers(section, self.devices, []) if each.starts]
        first = len(self.triggers)
        self.triggers += [Trigger("", trigger.starts) for trigger in found]  # no condition asks for them
        return frozenset(range(first, len(self.triggers)))

    def _narrowed(self, condition: object, active: frozenset[int], nesting: int) -> _Narrowed:
        """Which of the active triggers a condition, or a list of them, lets pass."""
        if nesting == 0 or condition is None:
            return _Narrowed(active, False)
        if isinstance(condition, list):
            return self._all(condition, active, nesting)
        if isinstance(condition, str):
            return self._template(condition, active)
        about = mapping(condition)
        kind = about.get("condition")
        if about.get("enabled") is False:
            return _Narrowed(active, False)
        if isinstance(kind, list) or (isinstance(kind, str) and "{" in kind):
            return self._narrowed(kind, active, nesting - 1)
        for word in ("and", "or", "not"):
            if word in about or kind == word:
                parts = items(about.get("conditions", about.get(word)))
                return self._joined(word, parts, active, nesting - 1)
        if kind == "trigger":
            return self._by_id({str(id_) for each in items(about.get("id")) for id_ in items(each)}, active)
        if kind == "template":
            return self._template(text(about.get("value_template")), active)
        return _Narrowed(active, False)

    def _joined(self, word: str, parts: list[object], active: frozenset[int], nesting: int) -> _Narrowed:
        if word == "and":
            return self._all(parts, active, nesting)
        each = [self._narrowed(part, active, nesting) for part in parts]
        if not each or (word == "not" and not all(part.pure for part in each)):
            return _Narrowed(active, False)
        either = frozenset().union(*(part.triggers for part in each))
        pure = all(part.pure for part in each)
        return _Narrowed(active - either if word == "not" else either, pure)

    def _all(self, parts: list[object], active: frozenset[int], nesting: int) -> _Narrowed:
        pure = bool(parts)
        for part in parts:
            let = self._narrowed(part, active, nesting - 1)
            active = let.triggers
            pure &= let.pure
        return _Narrowed(active, pure)

    def _template(self, template: str, active: frozenset[int]) -> _Narrowed:
        """`{{ trigger.id == 'x' }}`, perhaps with more; anything else narrows nothing."""
        if (computed := expression(template)) and not re.search(r"\b(if|else)\b", computed):
            return self._expression(computed, active, NESTING)
        ids = {one or other for one, other in EQUALS.findall(template)}
        for listed in AMONG.findall(template):
            ids |= {one or other for one, other in QUOTED.findall(listed)}
        rest = re.sub(r"[\s{}]", "", EQUALS.sub("", AMONG.sub("", template)))
        only_ids = not rest.replace("or", "")
        joined = not only_ids and re.search(r"\bor\b", template)  # true for other triggers too
        if not ids or joined or re.search(r"\bnot\b", template):
            return _Narrowed(active, False)
        let = self._by_id(ids, active)
        return _Narrowed(let.triggers, let.pure and only_ids)

    def _expression(self, computed: str, active: frozenset[int], nesting: int) -> _Narrowed:
        """Comparisons of trigger.id, joined by `or`, `and` and `not`, in the order in which Jinja joins them."""
        computed = without_brackets(computed)
        if "trigger.id" not in computed or not nesting:
            return _Narrowed(active, False)
        if len(either := split(computed, "or")) > 1:
            each = [self._expression(part, active, nesting - 1) for part in either]
            union = frozenset().union(*(part.triggers for part in each))
            return _Narrowed(union, all(part.pure for part in each))
        if len(both := split(computed, "and")) > 1:
            each = [self._expression(part, active, nesting - 1) for part in both]
            common = active.intersection(*(part.triggers for part in each))
            return _Narrowed(common, all(part.pure for part in each))
        if negated := re.match(r"not\b", computed):
            let = self._expression(computed[negated.end() :], active, nesting - 1)
            return _Narrowed(active - let.triggers if let.pure else active, let.pure)
        if not (COMPARED.fullmatch(computed) or TURNED.fullmatch(computed)):
            return _Narrowed(active, False)
        let = self._by_id({one or other for one, other in QUOTED.findall(computed)}, active)
        other_than = re.search(r"!=|\bnot\s+in\b", QUOTED.sub("", computed))
        return _Narrowed(active - let.triggers, let.pure) if other_than and let.pure else let

    def _by_id(self, ids: set[str], active: frozenset[int]) -> _Narrowed:
        """The triggers with these ids; all of them where an id is chosen by a template."""
        if any("{" in id_ for id_ in ids):
            return _Narrowed(active, False)
        return _Narrowed(frozenset(number for number in active if self.triggers[number].id in ids), True)


def _acts_on(domain: str, device: str) -> bool:
    """Whether a service of a domain acts on a device that triggered."""
    own = re.split("[.@]", device)[0]
    return own in (domain, "group") or (domain == "homeassistant" and own in vocabulary().switched_domains)


def _mirrored(state: str, effect: Effect) -> str:
    """The state at which an action happens that follows its trigger; empty if it does not happen at this one."""
    own = {"turn_on": "state:on", "turn_off": "state:off"}.get(effect.action, state)
    if state == "state:changed":
        return own
    return "" if state in ("state:on", "state:off") and state != own else state
