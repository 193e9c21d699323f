"""What a template says without being run: values of variables, the entity that triggered, parts of a condition."""

from __future__ import annotations

import re
from collections.abc import Mapping

LONGEST_TEMPLATE = 10_000  # characters of a template that are read
NESTING = 20  # of lists and mappings in a step
LARGEST = 500  # lists, mappings and hundreds of characters in the value of a variable: they may contain each other
EXPRESSION = re.compile(r"\{\{-?((?:(?!\{\{|\}\}).)*?)-?\}\}", re.DOTALL)
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
LITERAL = r"(?:'[^'\n]*'|\"[^\"\n]*\")"
QUOTED = re.compile(LITERAL)
TRIGGERING = re.compile(r"trigger\.(?:to_state\.|from_state\.)?entity_id")
PIECE = re.compile(r"'[^']*'|\"[^\"]*\"|[()\[\]{}]|\w+|.", re.DOTALL)


def is_template(value: object) -> bool:
    """Whether a value is text that the server would compute."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def expression(template: str) -> str:
    """What stands between the braces of `{{ ... }}`; empty if the template is more than that."""
    found = EXPRESSION.fullmatch(template.strip()) if len(template) <= LONGEST_TEMPLATE else None
    return found[1].strip() if found else ""


def is_triggering_entity(value: object) -> bool:
    """Whether a target is the entity that triggered: `{{ trigger.entity_id }}`."""
    if isinstance(value, list):
        return len(value) == 1 and is_triggering_entity(value[0])
    return isinstance(value, str) and bool(TRIGGERING.fullmatch(expression(value)))


def quoted(computed: str) -> list[str]:
    """The texts in quotes, without these."""
    return [literal[1:-1] for literal in QUOTED.findall(computed)]


def without_quoted(computed: str) -> str:
    """What is left of an expression without its texts."""
    return QUOTED.sub("", computed)


def with_values(value: object, variables: Mapping[str, object], nesting: int = NESTING) -> object:
    """A part of an automation with the values of variables put in; templates that compute anything are left as is.

    `{{ lamps }}` becomes the value itself, which may be a list; `{{ base ~ '/' ~ name }}` and `{{ base }}/x` texts.
    """
    if not variables or not nesting:
        return value
    if isinstance(value, str):
        return _filled(value, variables) if "{{" in value and len(value) <= LONGEST_TEMPLATE else value
    if isinstance(value, Mapping):
        return {key: with_values(each, variables, nesting - 1) for key, each in value.items()}
    if isinstance(value, list):
        return [with_values(each, variables, nesting - 1) for each in value]
    return value


def more_variables(given: object, known: Mapping[str, object]) -> dict[str, object]:
    """The variables of a step and those before it; each may use the ones that stand above it."""
    found = dict(known)
    for name, value in given.items() if isinstance(given, Mapping) else ():
        made = with_values(value, found)
        found[str(name)] = made if _is_small(made) else value
    return found


def _is_small(value: object) -> bool:
    parts, left = [value], LARGEST
    while parts and left > 0:
        part = parts.pop()
        left -= 1 + (len(part) // 100 if isinstance(part, str) else 0)
        if isinstance(part, Mapping):
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return left > 0


def _filled(template: str, variables: Mapping[str, object]) -> object:
    name = expression(template)
    if NAME.fullmatch(name):
        value = _value(name, variables)
        return template if value is None else value
    return EXPRESSION.sub(lambda found: _joined(found[1], variables) or found[0], template)


def _value(name: str, variables: Mapping[str, object]) -> object:
    """The value of `name` or of `name.part`; None if it is not known."""
    value: object = variables
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _joined(computed: str, variables: Mapping[str, object]) -> str:
    """The text that an expression of quoted texts and variables joined by ~ gives; empty if it is anything else."""
    texts = []
    for part in map(str.strip, split(computed, "~")):
        value = part[1:-1] if QUOTED.fullmatch(part) else _value(part, variables)
        if not isinstance(value, (str, int)) or isinstance(value, bool) or is_template(value):
            return ""
        texts.append(str(value))
    return "".join(texts)


def split(computed: str, word: str) -> list[str]:
    """The parts of an expression between a word, such as `and`; not where it stands in brackets or quotes."""
    parts: list[list[str]] = [[]]
    depth = 0
    for piece in PIECE.findall(computed):
        depth += (piece in ("(", "[", "{")) - (piece in (")", "]", "}"))
        if piece == word and depth == 0:
            parts.append([])
        else:
            parts[-1].append(piece)
    return ["".join(part) for part in parts]


def without_brackets(computed: str) -> str:
    """An expression without round brackets around all of it."""
    computed = computed.strip()
    while computed.startswith("(") and computed.endswith(")"):
        depth = 0
        pieces = PIECE.findall(computed)
        for piece in pieces[:-1]:
            depth += (piece == "(") - (piece == ")")
            if depth == 0:
                return computed
        computed = computed[1:-1].strip()
    return computed
