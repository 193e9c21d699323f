"""KEY=VALUE from the command line, turned into what a function's signature asks for."""

from __future__ import annotations

import dataclasses
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from datasets.common.errors import DataError, unknown

NUMBERS: dict[object, type] = {int: numbers.Integral, float: numbers.Real}
WORDS: dict[object, str] = {
    int: "int (a whole number)",
    float: "float (a number)",
    bool: "bool (true or false)",
    str: "str (a text)",
    types.NoneType: "none",
    Mapping[str, str]: "a mapping of texts to texts (KEY.ENTRY=TEXT)",
}
YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_options(function: Callable[..., object], assignments: Sequence[str], *, of: str) -> dict[str, object]:
    """Keyword options of `function` from texts such as "homes=1000"; `of` is what messages call it."""
    parameters = inspect.signature(function, eval_str=True).parameters
    known = {p.name: p.annotation for p in parameters.values() if p.kind is p.KEYWORD_ONLY}
    options: dict[str, object] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise DataError(f"{assignment!r}: options are written KEY=VALUE, e.g. seed=1")
        name, dot, entry = key.partition(".")
        if name not in known:
            raise unknown(f"option of {of}", name, known)
        if dot and not _takes_mapping(known[name]):
            raise DataError(f"{of} {key}: {name} has no entries; write {name}=VALUE")
        if dot:  # columns.user=household fills one entry of a mapping
            options[name] = {**typing.cast("Mapping[str, str]", options.get(name) or {}), entry: text}
        else:
            options[name] = parse_value(text, known[name], f"{of} {key}")
    return options


def parse_parameter(method: type, name: str, text: str, *, of: str) -> object:
    """What a text means for a parameter of a method, which is a dataclass; `of` is what messages call it."""
    hints = typing.get_type_hints(method)
    known = [field.name for field in dataclasses.fields(method)]
    if name not in known:
        raise unknown(f"parameter of {of}", name, known)
    return parse_value(text, hints[name], f"{of}.{name}")


def parse_value(text: str, annotation: object, where: str) -> object:
    """A text as int, float, bool, None or str, whichever the annotation allows first, or as one of its literals.

    The entries of a tuple are written with commas.
    """
    if typing.get_origin(annotation) is typing.Literal:
        choices = {str(choice): choice for choice in typing.get_args(annotation)}
        if text not in choices:
            raise unknown(f"value of {where}", text, choices)
        return choices[text]
    if typing.get_origin(annotation) is tuple:
        entry = typing.get_args(annotation)[0]
        return tuple(parse_value(part.strip(), entry, where) for part in text.split(",") if part.strip())
    allowed = _allowed(annotation)
    if types.NoneType in allowed and text.lower() == "none":
        return None
    if bool in allowed and text.lower() in YES_NO:
        return YES_NO[text.lower()]
    for kind in (int, float):
        if kind in allowed:
            try:
                return kind(text)
            except ValueError:
                continue
    if str in allowed:
        return text
    raise DataError(f"{where}={text!r}: expected {_expected(annotation)}")


def refuse_wrong_type(value: object, annotation: object, where: str) -> None:
    """Raise unless the value is what the annotation asks for; what this does not know it lets pass."""
    if not any(_is_a(value, kind) for kind in _allowed(annotation)):
        raise DataError(f"{where}={value!r}: expected {_expected(annotation)}")


def spell_option(option: inspect.Parameter) -> str:
    """An option with its kind and its default, in the words of the command line."""
    if _takes_mapping(option.annotation):
        return f"{option.name}.ENTRY: text"
    names = (getattr(kind, "__name__", str(kind)).replace("NoneType", "none") for kind in _allowed(option.annotation))
    kinds = " or ".join("text" if name == "str" else name for name in names)
    default = "" if option.default is option.empty else f" = {str(option.default).lower()}"
    return f"{option.name}: {kinds}{default}"


def _is_a(value: object, kind: object) -> bool:
    if kind is None or kind is types.NoneType:
        return value is None
    if kind in NUMBERS:  # numpy's numbers are as good as Python's; True is none
        return isinstance(value, NUMBERS[kind]) and not isinstance(value, bool | np.bool_)
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    arguments, origin = typing.get_args(kind), typing.get_origin(kind) or kind
    if origin is Mapping and isinstance(value, Mapping):
        entries = [part for entry in value.items() for part in zip(entry, arguments, strict=False)]
        return all(_is_a(part, asked) for part, asked in entries)
    return isinstance(value, origin) if isinstance(origin, type) and origin is not inspect.Parameter.empty else True


def _expected(annotation: object) -> str:
    return " or ".join(WORDS.get(kind, getattr(kind, "__name__", str(kind))) for kind in _allowed(annotation))


def _allowed(annotation: object) -> tuple[object, ...]:
    is_union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
    return typing.get_args(annotation) if is_union else (annotation,)


def _takes_mapping(annotation: object) -> bool:
    kinds = [typing.get_origin(kind) or kind for kind in _allowed(annotation)]
    return any(isinstance(kind, type) and issubclass(kind, Mapping) for kind in kinds)
