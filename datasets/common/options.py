"""Options and configuration: values from files, Python and the command line, checked against type annotations.

Built on pydantic. Numbers, booleans and texts are never converted into each other. A list is accepted for a tuple, a
table for a dataclass, a numpy scalar for a Python number, and "inf", "-inf" or "nan" (which JSON lacks) for a float.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError, SchemaValidator, core_schema

from datasets.common.errors import DataError, unknown

Target: TypeAlias = Callable[..., object]  # a function with keyword-only options, or a dataclass

SCALARS = {
    "int": "int (a whole number)",
    "float": "float (a number)",
    "bool": "bool (true or false)",
    "str": "str (a text)",
    "none": "none",
}
CONTAINERS = {"model_type": "a table", "dataclass_type": "a table", "dict_type": "a mapping"} | dict.fromkeys(
    ("list_type", "tuple_type", "named_tuple_type", "iterable_type"), "a list"
)
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class Config(BaseModel):
    """Base of configuration models: immutable, unknown keys are errors. Made from a file's content by `read`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def read(kind: Any, value: object, *, where: str) -> Any:
    """The value as the type annotation `kind` declares it; `where` is the place that an error names."""
    try:
        return _validator(kind).validate_python(_python_value(value))
    except ValidationError as error:
        raise _data_error(error.errors()[0], where) from None


def read_text(annotation: object, text: str, *, where: str) -> object:
    """A text of the command line as the annotation declares it; the entries of a tuple are separated by commas."""
    validator = _validator(annotation)
    for meaning in _meanings(text):
        try:
            return validator.validate_python(meaning)
        except ValidationError:
            continue
    return read(annotation, text, where=where)


def read_options(
    target: Target, given: Mapping[str, object], *, where: str, without: Iterable[str] = ()
) -> dict[str, object]:
    """The given options of a function, or parameters of a dataclass, as declared; those in `without` are unknown."""
    known = options_of(target)
    for name in given:
        _refuse_unknown_option(target, name, where, known.keys() - set(without))
    return {
        name: read(known[name].annotation, value, where=_place(target, where) + name) for name, value in given.items()
    }


def complete(
    target: Target, given: Mapping[str, object], *, where: str, without: Iterable[str] = ()
) -> dict[str, object]:
    """All options of a function, or parameters of a dataclass, as declared: those given, and defaults for the rest."""
    values = read_options(target, given, where=where, without=without)
    known = {name: option for name, option in options_of(target).items() if name not in without}
    if dataclasses.is_dataclass(target):
        built = target(**values)  # runs its own checks
        values = {name: getattr(built, name) for name in known}
    else:
        values = {name: option.default for name, option in known.items()} | values
    place = _place(target, where)
    return {name: read(option.annotation, values[name], where=place + name) for name, option in known.items()}


def read_assignments(target: Target, assignments: Iterable[str], *, where: str) -> dict[str, object]:
    """Options from texts such as "homes=1000"; "columns.user=household" sets one entry of a mapping."""
    known, options = options_of(target), dict[str, Any]()
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise DataError(f"{assignment!r}: write KEY=VALUE, e.g. seed=1")
        name, dot, entry = key.partition(".")
        _refuse_unknown_option(target, name, where, known)
        place = _place(target, where) + key
        if dot and not _takes_mapping(known[name].annotation):
            raise DataError(f"{place}: {name} has no entries; write {name}=VALUE")
        if dot:
            options[name] = {**(options.get(name) or {}), entry: text}
        else:
            options[name] = read_text(known[name].annotation, text, where=place)
    return options


@cache
def options_of(target: Target) -> Mapping[str, inspect.Parameter]:
    """The keyword-only parameters of a function, or all parameters of a dataclass, with evaluated annotations."""
    if dataclasses.is_dataclass(target):
        hints = typing.get_type_hints(target)
        parameters = inspect.signature(target).parameters.values()
        return types.MappingProxyType({p.name: p.replace(annotation=hints[p.name]) for p in parameters})
    parameters = inspect.signature(target, eval_str=True).parameters.values()
    return types.MappingProxyType({p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY})


def spell_option(option: inspect.Parameter) -> str:
    """An option with its type and default, as the command line lists it."""
    if _takes_mapping(option.annotation):
        return f"{option.name}.ENTRY: text"
    names = (getattr(kind, "__name__", str(kind)).replace("NoneType", "none") for kind in _members(option.annotation))
    kinds = " or ".join("text" if name == "str" else name for name in names)
    default = "" if option.default is option.empty else f" = {str(option.default).lower()}"
    return f"{option.name}: {kinds}{default}"


def _place(target: Target, where: str) -> str:
    return f"{where}." if dataclasses.is_dataclass(target) else f"{where} "


def _refuse_unknown_option(target: Target, name: str, where: str, known: Iterable[str]) -> None:
    if name not in known:
        raise unknown(f"{'parameter' if dataclasses.is_dataclass(target) else 'option'} of {where}", name, known)


def _members(annotation: object) -> tuple[object, ...]:
    """The types of a union, or the one type."""
    is_union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
    return typing.get_args(annotation) if is_union else (annotation,)


def _takes_mapping(annotation: object) -> bool:
    kinds = [typing.get_origin(kind) or kind for kind in _members(annotation)]
    return any(isinstance(kind, type) and issubclass(kind, Mapping) for kind in kinds)


def _meanings(text: str) -> Iterator[object]:
    """What a text may mean, in order of preference."""
    if text.lower() == "none":
        yield None
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    parsers: list[Callable[[str], object]] = [lambda entry: BOOLEANS[entry.lower()], int, float, str]
    for parse in parsers:
        with suppress(KeyError, ValueError):
            yield parse(text)
        with suppress(KeyError, ValueError):
            yield [parse(entry) for entry in entries]


def _python_value(value: Any) -> Any:
    """The value with Python numbers in place of numpy scalars."""
    if isinstance(value, dict):
        return {key: _python_value(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_python_value(entry) for entry in value)
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0 else value


@cache
def _validator(kind: Any) -> SchemaValidator:
    if isinstance(kind, str) or kind is inspect.Parameter.empty:
        return SchemaValidator(core_schema.any_schema())
    allowed = ConfigDict(arbitrary_types_allowed=True)
    try:
        own_config = inspect.isclass(kind) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind))
        schema = TypeAdapter(kind, config=None if own_config else allowed).core_schema
    except PydanticUserError:  # an annotation that pydantic cannot check
        schema = core_schema.any_schema()
    return SchemaValidator(_strict(schema))


def _strict(schema: Any) -> Any:
    """A schema that converts no scalars, accepts lists for tuples, and whose errors say what was expected."""
    if isinstance(schema, list):
        return [_strict(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):  # fields by name
        return {name: _strict(field) for name, field in schema.items()}
    kept = ("config", "default", "expected", "metadata")
    changed: Any = {key: value if key in kept else _strict(value) for key, value in schema.items()}
    if kind in SCALARS:
        changed["strict"] = True
    if kind == "float":
        changed = core_schema.no_info_before_validator_function(_json_float, changed)
    if kind in ("model", "dataclass"):
        # pydantic would use a model's own validator, which is strict about lists: so only its fields are validated.
        inner = changed["schema"] if kind == "model" else changed
        changed = core_schema.no_info_wrap_validator_function(partial(_read_table, schema["cls"]), inner)
    expected, choices = _expected(schema)
    if expected and (kind in ("literal", "union", "nullable", "is-instance") or kind in SCALARS):
        changed = core_schema.custom_error_schema(
            changed, "expected", custom_error_message=expected, custom_error_context={"choices": choices}
        )
    return changed if "ref" not in schema else {**changed, "ref": schema["ref"]}


def _expected(schema: Any) -> tuple[str, list[str]]:
    """What a schema accepts, in words, and the texts of a literal; no words if it is too complicated for a phrase."""
    kind = schema["type"]
    if kind in ("union", "nullable"):
        members = schema["choices"] if kind == "union" else [schema["schema"], {"type": "none"}]
        words, choices = zip(*(_expected(member) for member in members), strict=True)
        return " or ".join(words) if all(words) else "", [choice for each in choices for choice in each]
    if kind == "literal":
        return " or ".join(map(repr, schema["expected"])), [str(choice) for choice in schema["expected"]]
    if kind == "is-instance":
        return schema["cls"].__name__, []
    if kind in ("list", "tuple"):
        entry = schema.get("items_schema", {"type": "any"})
        entry = entry[0] if isinstance(entry, list) else entry
        of = _expected(entry)[0]
        return f"a list of {of}" if of else "a list" if entry["type"] == "any" else "", []
    if kind == "dict":
        parts = {schema.get(key, {}).get("type", "any") for key in ("keys_schema", "values_schema")}
        phrases = {"str": "a mapping of texts to texts (KEY.ENTRY=TEXT)", "any": "a mapping"}
        return phrases.get(parts.pop(), "") if len(parts) == 1 else "", []
    bounds = [f" {words} {schema[key]}" for key, words in (("ge", "of at least"), ("gt", "above")) if key in schema]
    return SCALARS.get(kind, "") + "".join(bounds), []


def _read_table(cls: type, value: object, validate: Callable[[object], Any]) -> object:
    """An instance of a model or dataclass from a table, with an error for unknown keys."""
    if isinstance(value, cls):
        return value
    fields = getattr(cls, "model_fields", None) or getattr(cls, "__dataclass_fields__", {})
    for key in value if isinstance(value, Mapping) else ():
        if key not in fields:
            raise PydanticCustomError("unknown_key", "{key}", {"key": str(key), "known": sorted(fields)})
    made = validate(value)
    return cls.model_construct(made[2], **made[0]) if issubclass(cls, BaseModel) else made


def _json_float(value: object) -> object:
    return float(value) if value in ("inf", "-inf", "nan") and isinstance(value, str) else value


def _data_error(error: ErrorDetails, where: str) -> DataError:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    parts = [part for part in error["loc"] if not str(part).startswith("function-")]
    name = parts.pop() if kind == "missing" else ""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
    place = f"{where}: {path}" if path else where
    shown = repr(value) if len(repr(value)) <= 100 else repr(value)[:97] + "..."
    if kind == "missing":
        return DataError(f"{place}: {name} is missing")
    if kind == "unknown_key":
        return unknown(f"key of {place}", context["key"], context["known"])
    if kind == "value_error":  # of a model's or dataclass's own check
        return DataError(f"{place}: {context['error']}")
    if kind == "expected" and context["choices"] and isinstance(value, str):
        return unknown(f"value of {place}", value, context["choices"])
    if kind == "expected":
        return DataError(f"{place}={shown}: expected {error['msg']}")
    if kind in CONTAINERS:
        return DataError(f"{place}={shown}: expected {CONTAINERS[kind]}")
    return DataError(f"{place} {re.sub('^[A-Z][a-z]+ should', 'must', error['msg'])}, got {shown}")
