"""At which triggers of an automation a condition can hold.

A condition on the trigger's id, or on the state of the entity whose state is the trigger, is told by the trigger. Any
other may hold or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from fedrule.homeassistant.installation import items, mapping, text, texts
from fedrule.homeassistant.translation.templates import (
    LITERAL,
    expression,
    is_template,
    quoted,
    split,
    without_brackets,
    without_quoted,
)
from fedrule.homeassistant.translation.triggers import Start
from fedrule.homeassistant.translation.vocabulary import state_word

Part = TypeVar("Part")

NESTING = 60  # conditions in conditions
ABOUT = r"trigger\.(?P<of>id|to_state\.state)"
COMPARED = re.compile(
    rf"{ABOUT}\s*(?:[=!]=\s*{LITERAL}|(?:not\s+)?in\s*[\[(]\s*{LITERAL}(?:\s*,\s*{LITERAL})*\s*[\])])"
)
TURNED = re.compile(rf"{LITERAL}\s*[=!]=\s*{ABOUT}")
IS_STATE = re.compile(rf"is_state\(\s*{LITERAL}\s*,\s*{LITERAL}\s*\)|states\(\s*{LITERAL}\s*\)\s*==\s*{LITERAL}")
NEGATED = re.compile(r"!=|\bnot\s+in\b")


class Cause(NamedTuple):
    """One way in which an automation starts."""

    trigger: int
    place: int  # among those of the trigger
    start: Start
    id: str  # of the trigger


Causes = frozenset[Cause]


class Split(NamedTuple):
    """The causes at which a condition may hold, and those at which it may not; one that does not tell is in both."""

    yes: Causes
    no: Causes


def split_causes(condition: object, active: Causes, *, waited: bool, nesting: int = NESTING) -> Split:
    """At which of the active causes a condition, or a list of them, holds.

    waited: since the start, so that the states of entities may be others by now
    """

    def below(part: object, left: Causes) -> Split:
        return split_causes(part, left, waited=waited, nesting=nesting - 1)

    if nesting == 0 or condition is None:
        return Split(active, active)
    if isinstance(condition, list):
        return _all(condition, active, below)
    if isinstance(condition, str):
        return _template(condition, active, waited)
    about = mapping(condition)
    kind = about.get("condition")
    if about.get("enabled") is False:
        return Split(active, active)
    if isinstance(kind, list) or (isinstance(kind, str) and "{" in kind):
        return below(kind, active)
    for word in ("and", "or", "not"):
        if word in about or kind == word:
            parts = items(about.get("conditions", about.get(word)))
            if word == "and":
                return below(parts, active)
            either = _any(parts, active, below)
            return Split(either.no, either.yes) if word == "not" and parts else either
    if kind == "trigger":
        return _by_id({str(id_) for each in items(about.get("id")) for id_ in items(each)}, active)
    if kind == "template":
        return _template(text(about.get("value_template")), active, waited)
    if kind == "state" and not about.keys() & {"for", "attribute"} and len(texts(about.get("entity_id"))) == 1:
        return _by_state(texts(about.get("entity_id"))[0], items(about.get("state")), active, waited)
    return Split(active, active)


def _template(template: str, active: Causes, waited: bool) -> Split:
    """`{{ trigger.id == 'x' }}`, perhaps with more; anything else narrows nothing."""
    if (computed := expression(template)) and not re.search(r"\b(if|else)\b", computed):
        return _expression(computed, active, waited, NESTING)
    found = [each for each in COMPARED.finditer(template) if each["of"] == "id" and not NEGATED.search(each[0])]
    if not found or re.search(r"\b(or|not)\b", template):  # true for other triggers too
        return Split(active, active)
    return Split(_by_id({id_ for each in found for id_ in quoted(each[0])}, active).yes, active)


def _expression(computed: str, active: Causes, waited: bool, nesting: int) -> Split:
    """Comparisons, joined by `or`, `and` and `not` in the order in which Jinja joins them."""

    def below(part: str, left: Causes) -> Split:
        return _expression(part, left, waited, nesting - 1)

    computed = without_brackets(computed)
    if not nesting or not ("trigger." in computed or "state" in computed):
        return Split(active, active)
    if len(parts := split(computed, "or")) > 1:
        return _any(parts, active, below)
    if len(parts := split(computed, "and")) > 1:
        return _all(parts, active, below)
    if negated := re.match(r"not\b", computed):
        let = below(computed[negated.end() :], active)
        return Split(let.no, let.yes)
    values = quoted(computed)
    if IS_STATE.fullmatch(computed) and len(values) == 2:
        return _by_state(values[0], values[1:], active, waited)
    compared = COMPARED.fullmatch(computed) or TURNED.fullmatch(computed)
    if not compared:
        return Split(active, active)
    let = _by_id(set(values), active) if compared["of"] == "id" else _by_state("", values, active, waited)
    return Split(let.no, let.yes) if NEGATED.search(without_quoted(computed)) else let


def _by_id(ids: set[str], active: Causes) -> Split:
    """The triggers with these ids; all of them where an id is chosen by a template."""
    if any("{" in id_ for id_ in ids):
        return Split(active, active)
    yes = frozenset(cause for cause in active if cause.id in ids)
    return Split(yes, active - yes)


def _by_state(entity: str, states: Sequence[object], active: Causes, waited: bool) -> Split:
    """At which causes an entity, or if empty the one that triggered, is in one of these states.

    Told only of a cause that is a state of that same entity, and of another than the one that triggered only before
    the automation waits.
    """
    words = {state_word(state) for state in states}
    if not words or any(map(is_template, states)) or (entity and waited):
        return Split(active, active)
    yes: set[Cause] = set()
    no: set[Cause] = set()
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
    return Split(frozenset(yes), frozenset(no))


def _all(parts: Sequence[Part], active: Causes, read: Callable[[Part, Causes], Split]) -> Split:
    """Where all parts hold; each is asked only where those before it may hold."""
    no: Causes = frozenset()
    for part in parts:
        let = read(part, active)
        active, no = let.yes, no | let.no
    return Split(active, no)


def _any(parts: Sequence[Part], active: Causes, read: Callable[[Part, Causes], Split]) -> Split:
    """Where a part holds; each is asked only where those before it may not. Of no parts nothing is told."""
    yes: Causes = frozenset()
    left = active
    for part in parts:
        let = read(part, left)
        yes, left = yes | let.yes, let.no
    return Split(yes, left) if parts else Split(active, active)


def _opposite(device: str, words: set[str]) -> str:
    """The state of a device that is not in one of these: known where there are but two."""
    other = {"state:on": "state:off", "state:off": "state:on"}.get(next(iter(words)), "")
    two = device.partition(".")[0] in ("binary_sensor", "input_boolean", "light", "switch")
    return other if two and other and len(words) == 1 else "state:changed"
