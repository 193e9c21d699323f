"""The rules of an automation: each of its triggers with each action that this trigger leads to.

A branch of `choose` or `if` that asks for trigger ids (`condition: trigger`, or a template that compares trigger.id) or
for the state of the entity whose state is the trigger belongs to those triggers only, and the rest (`default`, `else`)
to the others. After `wait_for_trigger` the awaited triggers are those that act, and after `stop` none that leads to it.
Other conditions are not in the data and narrow nothing.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from fedrule.homeassistant.installation import Automation, items, mapping
from fedrule.homeassistant.translation.actions import Effect, is_call, read_action
from fedrule.homeassistant.translation.conditions import Cause, Causes, split_causes
from fedrule.homeassistant.translation.devices import Devices
from fedrule.homeassistant.translation.templates import more_variables, with_values
from fedrule.homeassistant.translation.triggers import Trigger, read_triggers
from fedrule.homeassistant.translation.vocabulary import vocabulary

NESTING = 60  # choices in choices
WAITS = frozenset(("delay", "wait_template", "wait_for_trigger"))
RULES = 5_000  # of one automation; people have a few
ITEMS = 50  # that a loop goes through
WALKED = 20 * RULES  # with those that occur again
Steps = Generator[tuple[Causes, Effect], None, Causes]  # what each step does, and at the end the causes that go on


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


class _Walk:
    """The steps of one automation."""

    def __init__(
        self, triggers: list[Trigger], devices: Devices, reasons: list[str], variables: Mapping[str, object]
    ) -> None:
        self.triggers = triggers
        self.devices = devices
        self.reasons = reasons
        self.variables = variables
        self.waited = False  # since the start: states may be others by now
        self.calls = 0

    def rules(self, actions: object, conditions: object) -> Iterator[AutomationRule]:
        every = self._causes(0)
        allowed = split_causes(conditions, every, waited=False).yes or every
        for active, effect in self._steps(actions, allowed, NESTING):
            found = [cause.start for cause in sorted(active)]
            if effect.triggering:
                found = [start for start in found if _acts_on(effect.triggering, start.device)]
                if not found:
                    self.devices.unresolved["a template chooses the entity"] += 1
            for start in found:
                state = _mirrored(start.state, effect) if effect.mirrors else start.state
                if state:
                    yield AutomationRule(start.device, state, effect.action, effect.device or start.device)

    def _causes(self, first: int) -> Causes:
        """Those of the triggers from a number on."""
        return frozenset(
            Cause(number, place, start, trigger.id)
            for number, trigger in enumerate(self.triggers[first:], first)
            for place, start in enumerate(trigger.starts)
        )

    def _steps(self, section: object, active: Causes, nesting: int) -> Steps:
        """A sequence. Its variables end with it; the causes that are returned go on: all but those that it stops."""
        if nesting == 0:
            self.reasons.append("its steps are nested too deeply")
            return active
        before = self.variables
        after = yield from self._sequence(section, active, nesting)
        self.variables = before
        return after

    def _sequence(self, section: object, given: Causes, nesting: int) -> Steps:
        active = given
        left: Causes = frozenset()  # by a condition that is a step: it ends this sequence, and not the automation
        stopped = False
        for step in items(section):
            about = mapping(step)
            if about.get("enabled") is False:
                continue
            if "stop" in about:
                return left
            if isinstance(step, str) or "condition" in about or about.keys() & {"and", "or", "not"}:
                let = split_causes(step, active, waited=self.waited)
                active, left = let.yes, left | let.no
            elif "wait_for_trigger" in about:
                active = self._awaited(about["wait_for_trigger"]) or active
                self.waited = True
            else:
                after = yield from self._step(step, active, nesting - 1)
                stopped |= after != active
                active = after
        # As they came where nothing stops: a condition may have told more of them, which holds for the sequence only.
        return active | left if stopped else given

    def _step(self, given: object, active: Causes, nesting: int) -> Steps:
        if isinstance(given, list):
            return (yield from self._steps(given, active, nesting))
        step = mapping(given)
        self.variables = more_variables(step.get("variables"), self.variables)
        self.waited |= bool(step.keys() & WAITS)
        if "choose" in step:
            options = [
                (each.get("conditions", each.get("condition")), each.get("sequence"))
                for each in map(mapping, items(step["choose"]))
                if each.get("enabled") is not False
            ]
            return (yield from self._branches(options, step.get("default"), active, nesting))
        if "if" in step:
            return (yield from self._branches([(step["if"], step.get("then"))], step.get("else"), active, nesting))
        if "repeat" in step:
            return (yield from self._repeated(mapping(step["repeat"]), active, nesting))
        if "parallel" in step:
            return (yield from self._parallel(items(step["parallel"]), active, nesting))
        if "sequence" in step and not is_call(step):
            return (yield from self._steps(step["sequence"], active, nesting))
        if is_call(step):
            self.calls += 1
            for effect in read_action(mapping(with_values(step, self.variables)), self.devices):
                yield active, effect
        return active

    def _branches(self, options: list[tuple[object, object]], otherwise: object, given: Causes, nesting: int) -> Steps:
        """The first option whose condition holds, or else the rest."""
        before = after = self.waited
        active, going_on, stopped = given, frozenset[Cause](), False
        for condition, sequence in [*options, (None, otherwise)]:
            self.waited = before
            let = split_causes(condition, active, waited=before)
            through = yield from self._steps(sequence, let.yes, nesting)
            going_on |= through
            stopped |= through != let.yes
            active = let.no
            after |= self.waited
        self.waited = after
        return going_on if stopped else given

    def _repeated(self, repeat: Mapping[str, object], given: Causes, nesting: int) -> Steps:
        """The steps of a loop, once for each item of a list that it goes through; of loops in loops only the outer."""
        before, active = self.variables, given
        listed = with_values(repeat.get("for_each"), before)
        for item in listed[:ITEMS] if isinstance(listed, list) and "repeat" not in before else [None]:
            self.variables = {**before, "repeat": {"item": item}}
            active = yield from self._steps(repeat.get("sequence"), active, nesting)
        self.variables = before
        return given if "while" in repeat else active  # which may not be entered at all

    def _parallel(self, parts: list[object], given: Causes, nesting: int) -> Steps:
        """Steps at the same time: what stops in one of them does not keep the others from starting."""
        going_on = given
        for part in parts:
            after = yield from self._steps(part, given, nesting)
            going_on = after if after != given else going_on
        return going_on

    def _awaited(self, section: object) -> Causes:
        """The triggers of `wait_for_trigger`, added to those of the automation."""
        found = [each for each in read_triggers(section, self.devices, []) if each.starts]
        first = len(self.triggers)
        self.triggers += [Trigger("", trigger.starts) for trigger in found]  # no condition asks for them
        return self._causes(first)


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
