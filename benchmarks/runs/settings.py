"""Settings of methods and data sets from TOML files and the command line, complete and of the right type.

The key of a result holds every parameter, so the same setting must always be written the same: 1 for a float is 1.0,
and a default that was not given is there.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping

from baselines.registry import get, names
from datasets.common.errors import DataError, unknown
from datasets.common.options import parse_parameter
from datasets.registry import get as get_data
from datasets.splits import SPLITS


def method_parameters(method: str, given: Mapping[str, object]) -> dict[str, object]:
    """All parameters of a method: those given, of the type its dataclass declares, and its defaults for the rest."""
    cls = get(method)
    hints = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    for parameter in given:
        if parameter not in {field.name for field in fields}:
            raise unknown(f"parameter of {method}", parameter, [field.name for field in fields])
    checked = {name: of_type(value, hints[name], f"{method}.{name}") for name, value in given.items()}
    built = cls(**checked)  # the method's own checks, and its defaults
    return {
        field.name: of_type(getattr(built, field.name), hints[field.name], f"{method}.{field.name}") for field in fields
    }


def data_options(data: str, given: Mapping[str, object]) -> dict[str, object]:
    """All options of a data set, defaults included."""
    return _complete(get_data(data).options, given, data)


def split_options(how: str, given: Mapping[str, object]) -> dict[str, object]:
    """All options of a split, defaults included, but for the seed."""
    if how not in SPLITS:
        raise unknown("split", how, SPLITS)
    options = {
        name: option
        for name, option in inspect.signature(SPLITS[how], eval_str=True).parameters.items()
        if name not in ("homes", "seed", "validation")  # runs carve validation themselves
    }
    return _complete(options, given, how)


def _complete(options: Mapping[str, inspect.Parameter], given: Mapping[str, object], where: str) -> dict[str, object]:
    """Every option of a function, those not given as it declares them; all of the declared type."""
    for option in given:
        if option not in options:
            raise unknown(f"option of {where}", option, options)
    full = {name: option.default for name, option in options.items()} | dict(given)
    return {name: of_type(value, options[name].annotation, f"{where} {name}") for name, value in full.items()}


def assignments(texts: list[str]) -> dict[str, dict[str, object]]:
    """Method -> parameters from texts such as "mf.factors=64"."""
    found: dict[str, dict[str, object]] = {}
    for text in texts:
        target, equals, value = text.partition("=")
        method, dot, parameter = target.partition(".")
        if not (equals and dot and parameter):
            raise DataError(f"--set {text}: write METHOD.PARAMETER=VALUE, e.g. mf.factors=64")
        if method not in names():
            raise unknown("method", method, names())
        found.setdefault(method, {})[parameter] = parse_parameter(get(method), parameter, value, of=method)
    return found


def of_type(value: object, annotation: object, where: str) -> object:
    """A value as a parameter of this type holds it, or an error that names the parameter."""
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        if value not in typing.get_args(annotation):
            raise unknown(f"value of {where}", str(value), [str(choice) for choice in typing.get_args(annotation)])
        return value
    if origin is tuple and isinstance(value, list | tuple):
        entry = typing.get_args(annotation)[0]
        return tuple(of_type(part, entry, where) for part in value)
    allowed = typing.get_args(annotation) if origin in (types.UnionType, typing.Union) else (annotation,)
    for kind in allowed[1:] and allowed:  # of several types, one that needs more than a look at the value's class
        if typing.get_origin(kind) is tuple and isinstance(value, list | tuple):
            return of_type(value, kind, where)
        if typing.get_origin(kind) is typing.Literal and value in typing.get_args(kind):
            return value
    plain = [kind for kind in allowed if kind in (bool, int, float, str, types.NoneType)]
    if not plain or type(value) in plain:
        return value
    if float in plain and (type(value) is int or value in ("inf", "-inf", "nan")):  # JSON has these as text only
        return float(str(value))
    expected = " or ".join(kind.__name__ for kind in plain)
    raise DataError(f"{where} = {value!r}: expected {expected}")
