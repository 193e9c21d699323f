"""The rules of an automation: each of its triggers with each action that this trigger leads to.

A branch of `choose` or `if` that asks for trigger ids (`condition: trigger`, or a template that compares trigger.id) or
for the state of the entity whose state is the trigger belongs to those triggers only, and the rest (`default`, `else`)
to the others. After `wait_for_trigger` the awaited triggers are those that act. Other conditions are not in the data
and narrow nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from fedrule.homeassistant.installation import Automation, items, mapping, text, texts
from fedrule.homeassistant.translation.actions import Effect, is_call, read_action
from fedrule.homeassistant.translation.devices import Devices
from fedrule.homeassistant.translation.templates import (
    expression,
    is_template,
    more_variables,
    split,
    with_values,
    without_brackets,
)
from fedrule.homeassistant.translation.triggers import Start, Trigger, read_triggers
from fedrule.homeassistant.translation.vocabulary import state_word, vocabulary

Part = TypeVar("Part")

NESTING = 60  # choices in choices
WAITS = frozenset(("delay", "wait_template", "wait_for_trigger"))
RULES = 5_000  # of one automation; people have a few
ITEMS = 50  # that a loop goes through
WALKED = 20 * RULES  # with those that occur again
EQUALS = re.compile(r"trigger\.id\s*==\s*(?:'([^']*)'|\"([^\"]*)\")")
LITERAL = r"(?:'[^']*'|\"[^\"]*\")"
ABOUT = r"trigger\.(?P<of>id|to_state\.state)"
COMPARED = re.compile(
    rf"{ABOUT}\s*(?:[=!]=\s*{LITERAL}|(?:not\s+)?in\s*[\[(]\s*{LITERAL}(?:\s*,\s*{LITERAL})*\s*[\])])"
)
TURNED = re.compile(rf"{LITERAL}\s*[=!]=\s*{ABOUT}")
IS_STATE = re.compile(rf"is_state\(\s*{LITERAL}\s*,\s*{LITERAL}\s*\)|states\(\s*{LITERAL}\s*\)\s*==\s*{LITERAL}")
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


class _Cause(NamedTuple):
    """One way in which an automation starts."""

    trigger: int
    place: int  # among those of the trigger
    start: Start


Causes = frozenset[_Cause]


class _Split(NamedTuple):
    """The causes at which a condition may hold, and those at which it may not; where it is not told, one is in both."""

    yes: Causes
    no: Causes


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
        allowed = self._narrowed(conditions, every, NESTING).yes or every
        for active, effect in self._steps(actions, allowed, NESTING):
            found = [cause.start for cause in sorted(active)]
            if effect.triggering:
                found = [start for start in found if _acts_on(effect.triggering, start.device)]
                self.devices.unresolved["a template chooses the entity"] += not found
            for start in found:
                state = _mirrored(start.state, effect) if effect.mirrors else start.state
                if state:
                    yield AutomationRule(start.device, state, effect.action, effect.device or start.device)

    def _causes(self, first: int) -> Causes:
        """Those of the triggers from a number on."""
        numbered = enumerate(self.triggers[first:], first)
        return frozenset(_Cause(n, place, each) for n, trigger in numbered for place, each in enumerate(trigger.starts))

    def _steps(self, section: object, active: Causes, nesting: int) -> Iterator[tuple[Causes, Effect]]:
        if nesting == 0:
            self.reasons.append("its steps are nested too deeply")
            return
        for step in items(section):
            if isinstance(step, list):
                yield from self._steps(step, active, nesting - 1)
            elif isinstance(step, str):  # a template as a condition
                active = self._narrowed(step, active, nesting).yes
            elif isinstance(step, Mapping) and step.get("enabled") is not False:
                if "stop" in step:
                    return
                self.variables = more_variables(step.get("variables"), self.variables)
                self.waited |= bool(step.keys() & WAITS)
                if "wait_for_trigger" in step:
                    active = self._awaited(step["wait_for_trigger"]) or active
                elif "condition" in step or step.keys() & {"and", "or", "not"}:
                    active = self._narrowed(step, active, nesting).yes
                else:
                    yield from self._step(step, active, nesting - 1)

    def _step(self, step: Mapping[str, object], active: Causes, nesting: int) -> Iterator[tuple[Causes, Effect]]:
        if "choose" in step:
            options = [
                (each.get("conditions", each.get("condition")), each.get("sequence"))
                for each in map(mapping, items(step["choose"]))
                if each.get("enabled") is not False
            ]
            yield from self._branches(options, step.get("default"), active, nesting)
        elif "if" in step:
            yield from self._branches([(step["if"], step.get("then"))], step.get("else"), active, nesting)
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

    def _branches(
        self, options: list[tuple[object, object]], otherwise: object, active: Causes, nesting: int
    ) -> Iterator[tuple[Causes, Effect]]:
        """The first option whose condition holds, or else the rest."""
        before = after = self.waited
        for condition, sequence in options:
            self.waited = before
            let = self._narrowed(condition, active, nesting)
            yield from self._steps(sequence, let.yes, nesting)
            active = let.no
            after |= self.waited
        self.waited = before
        yield from self._steps(otherwise, active, nesting)
        self.waited |= after

    def _repeated(self, repeat: Mapping[str, object], active: Causes, nesting: int) -> Iterator[tuple[Causes, Effect]]:
        """The steps of a loop, once for each item of a list that it goes through; of loops in loops only the outer."""
        before = self.variables
        listed = with_values(repeat.get("for_each"), before)
        for item in listed[:ITEMS] if isinstance(listed, list) and "repeat" not in before else [None]:
            self.variables = {**before, "repeat": {"item": item}}
            yield from self._steps(repeat.get("sequence"), active, nesting)
        self.variables = before

    def _awaited(self, section: object) -> Causes:
        """The triggers of `wait_for_trigger`, added to those of the automation."""
        found = [each for each in read_triggers(section, self.devices, []) if each.starts]
        first = len(self.triggers)
        self.triggers += [Trigger("", trigger.starts) for trigger in found]  # no condition asks for them
        return self._causes(first)

    def _narrowed(self, condition: object, active: Causes, nesting: int) -> _Split:
        """At which of the active causes a condition, or a list of them, holds."""
        if nesting == 0 or condition is None:
            return _Split(active, active)
        if isinstance(condition, list):
            return _all(condition, active, lambda part, left: self._narrowed(part, left, nesting - 1))
        if isinstance(condition, str):
            return self._template(condition, active)
        about = mapping(condition)
        kind = about.get("condition")
        if about.get("enabled") is False:
            return _Split(active, active)
        if isinstance(kind, list) or (isinstance(kind, str) and "{" in kind):
            return self._narrowed(kind, active, nesting - 1)
        for word in ("and", "or", "not"):
            if word in about or kind == word:
                parts = items(about.get("conditions", about.get(word)))
                if word == "and":
                    return self._narrowed(parts, active, nesting - 1)
                either = _any(parts, active, lambda part, left: self._narrowed(part, left, nesting - 1))
                return _Split(either.no, either.yes) if word == "not" and parts else either
        if kind == "trigger":
            return self._by_id({str(id_) for each in items(about.get("id")) for id_ in items(each)}, active)
        if kind == "template":
            return self._template(text(about.get("value_template")), active)
        if kind == "state" and not about.keys() & {"for", "attribute"} and len(texts(about.get("entity_id"))) == 1:
            return self._by_state(texts(about.get("entity_id"))[0], items(about.get("state")), active)
        return _Split(active, active)

    def _template(self, template: str, active: Causes) -> _Split:
        """`{{ trigger.id == 'x' }}`, perhaps with more; anything else narrows nothing."""
        if (computed := expression(template)) and not re.search(r"\b(if|else)\b", computed):
            return self._expression(computed, active, NESTING)
        ids = {one or other for one, other in EQUALS.findall(template)}
        for listed in AMONG.findall(template):
            ids |= {one or other for one, other in QUOTED.findall(listed)}
        if not ids or re.search(r"\b(or|not)\b", template):  # true for other triggers too
            return _Split(active, active)
        return _Split(self._by_id(ids, active).yes, active)

    def _expression(self, computed: str, active: Causes, nesting: int) -> _Split:
        """Comparisons, joined by `or`, `and` and `not` in the order in which Jinja joins them."""
        computed = without_brackets(computed)
        if not nesting or not ("trigger." in computed or "state" in computed):
            return _Split(active, active)
        if len(parts := split(computed, "or")) > 1:
            return _any(parts, active, lambda part, left: self._expression(part, left, nesting - 1))
        if len(parts := split(computed, "and")) > 1:
            return _all(parts, active, lambda part, left: self._expression(part, left, nesting - 1))
        if negated := re.match(r"not\b", computed):
            let = self._expression(computed[negated.end() :], active, nesting - 1)
            return _Split(let.no, let.yes)
        quoted = [one or other for one, other in QUOTED.findall(computed)]
        if IS_STATE.fullmatch(computed) and len(quoted) == 2:
            return self._by_state(quoted[0], quoted[1:], active)
        compared = COMPARED.fullmatch(computed) or TURNED.fullmatch(computed)
        if not compared:
            return _Split(active, active)
        let = self._by_id(set(quoted), active) if compared["of"] == "id" else self._by_state("", quoted, active)
        other_than = re.search(r"!=|\bnot\s+in\b", QUOTED.sub("", computed))
        return _Split(let.no, let.yes) if other_than else let

    def _by_id(self, ids: set[str], active: Causes) -> _Split:
        """The triggers with these ids; all of them where an id is chosen by a template."""
        if any("{" in id_ for id_ in ids):
            return _Split(active, active)
        yes = frozenset(cause for cause in active if self.triggers[cause.trigger].id in ids)
        return _Split(yes, active - yes)

    def _by_state(self, entity: str, states: Sequence[object], active: Causes) -> _Split:
        """At which causes an entity, or if empty the one that triggered, is in one of these states.

        Told only of a cause that is a state of that same entity, and of another than the one that triggered only before
        the automation waits.
        """
        words = {state_word(state) for state in states}
        if not words or any(map(is_template, states)) or (entity and self.waited):
            return _Split(active, active)
        yes: set[_Cause] = set()
        no: set[_Cause] = set()
        for cause in active:
            device, state = cause.start
            if device != (entity or device) or not state.startswith("state:"):
                yes.add(cause)
                no.add(cause)
            elif state == "state:changed":
                yes.update(cause._replace(start=Start(device, word)) for word in words)
                no.add(cause._replace(start=Start(device, _opposite(device, words))))
            elif state in words:
                yes.add(cause)
                no |= {cause} if state == "state:other" else set()  # of two states without a word of their own
            else:
                no.add(cause)
        return _Split(frozenset(yes), frozenset(no))


def _all(parts: Sequence[Part], active: Causes, read: Callable[[Part, Causes], _Split]) -> _Split:
    """Where all parts hold; each is asked only where those before it may hold."""
    no: Causes = frozenset()
    for part in parts:
        let = read(part, active)
        active, no = let.yes, no | let.no
    return _Split(active, no)


def _any(parts: Sequence[Part], active: Causes, read: Callable[[Part, Causes], _Split]) -> _Split:
    """Where a part holds; each is asked only where those before it may not. Of no parts nothing is told."""
    yes: Causes = frozenset()
    left = active
    for part in parts:
        let = read(part, left)
        yes, left = yes | let.yes, let.no
    return _Split(yes, left) if parts else _Split(active, active)


def _opposite(device: str, words: set[str]) -> str:
    """The state of a device that is not in one of these: known where there are but two."""
    other = {"state:on": "state:off", "state:off": "state:on"}.get(next(iter(words)), "")
    two = device.partition(".")[0] in ("binary_sensor", "input_boolean", "light", "switch")
    return other if two and other and len(words) == 1 else "state:changed"


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
