"""One run, spelled out: which method with which settings on which homes, split how, measured how."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from baselines.registry import code_of, get, names
from benchmarks.evaluation.evaluate import PROTOCOLS
from benchmarks.results.store import Key, Overrides, as_json
from datasets import Homes, load
from datasets.common.errors import DataError, unknown
from datasets.common.files import Json
from datasets.common.options import read_assignments
from datasets.registry import get as get_data
from datasets.splits import SPLITS

# --- Settings of methods and data sets from TOML files and the command line, complete and of the right type.
#
# The key of a result holds every parameter, so the same setting must always be written the same: 1 for a float is 1.0,
# and a default that was not given is there.


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
        found.setdefault(method, {}).update(read_assignments(get(method), [f"{parameter}={value}"], where=method))
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


Settings: TypeAlias = Mapping[str, object]

TRACKS = ("types", "instances")
SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Source:
    """Which homes: a data set, its options and the track."""

    data: str
    options: dict[str, object]  # all of them
    track: str = "types"
    path: Path | None = None  # where its files are, if not under $FEDRULE_DATA; the fingerprint says what they hold

    def load(self) -> Homes:
        """The homes as methods see them; kept for the next run of this process."""
        return _loaded(*self._place())

    def fingerprint(self) -> str:
        """That of the homes, worked out once."""
        return _fingerprint(*self._place())

    def _place(self) -> tuple[str, str, str, Path | None, str]:
        options = json.dumps(as_json(self.options, self.data), sort_keys=True)
        return self.data, options, self.track, self.path, os.environ.get("FEDRULE_DATA", "")


def make_source(
    data: str, *, options: Mapping[str, object], track: str = "types", path: Path | str | None = None
) -> Source:
    """A source with checked names and options."""
    if track not in TRACKS:
        raise unknown("track", track, TRACKS)
    return Source(data, data_options(data, options), track, None if path is None else Path(path))


@dataclass(frozen=True, slots=True)
class Experiment:
    """All that decides the numbers of one fit and its evaluation."""

    method: str
    parameters: dict[str, object]  # all of them
    source: Source
    split: str
    split_options: dict[str, object]  # all of them
    seed: int  # decides the split and what the method draws
    protocols: tuple[str, ...]
    curves: int = 0  # measure the model every so many rounds, fitted without validation rules; 0: never
    suite: str = field(default="", compare=False)  # that it is part of; decides no number

    @property
    def code(self) -> str:
        """Hash of the code as it is now; a result of other code is not a result of this experiment."""
        return code_of(get(self.method))

    @property
    def overrides(self) -> Overrides:
        """What differs from the defaults of now."""
        return Overrides(
            _differing(self.parameters, lambda: method_parameters(self.method, {}), self.method),
            _differing(self.source.options, lambda: data_options(self.source.data, {}), self.source.data),
            _differing(self.split_options, lambda: split_options(self.split, {}), self.split),
        )

    def keys(self, fingerprint: str) -> dict[str, Key]:
        """Protocol -> the key of its result on homes with this fingerprint."""
        split: dict[str, object] = {"split": self.split, "seed": self.seed, **self.split_options}
        split["validation"] = self.curves > 0
        keys = {}
        for protocol in self.protocols:
            keys[protocol] = Key(
                self.method,
                _settings(self.parameters, self.method),
                self.source.data,
                _settings(self.source.options, self.source.data),
                fingerprint,
                self.source.track,
                _settings(split, self.split),
                protocol,
                self.seed,
                self.curves,
            )
        return keys

    def only(self, protocols: Sequence[str]) -> Experiment:
        """The same with some of its protocols."""
        return replace(self, protocols=tuple(protocols))

    def __str__(self) -> str:
        return f"{self.method} on {self.source.data} ({self.source.track}, {self.split}), seed {self.seed}"


def make_experiment(
    method: str,
    source: Source,
    *,
    parameters: Mapping[str, object],
    split: str = "holdout",
    options: Mapping[str, object],
    seed: int = 0,
    protocols: Sequence[str] = PROTOCOLS,
    curves: int = 0,
    suite: str = "",
) -> Experiment:
    """An experiment with checked names and settings."""
    for protocol in protocols:
        if protocol not in PROTOCOLS:
            raise unknown("protocol", protocol, PROTOCOLS)
    if not protocols:
        raise DataError(f"{method}: no protocol; name one of {', '.join(PROTOCOLS)}")
    if seed < 0:
        raise DataError(f"{method}: seed must be 0 or more, got {seed}")
    refuse_bad_interval("curves", curves)
    full = method_parameters(method, parameters)
    return Experiment(method, full, source, split, split_options(split, options), seed, tuple(protocols), curves, suite)


def refuse_bad_interval(name: str, every: int) -> None:
    """An error unless it is a number of rounds."""
    if type(every) is not int or every < 0:  # bool is an int
        raise DataError(f"{name} must be a number of rounds (1, 2, ...) or 0 for never, got {every!r}")


def _differing(
    values: Mapping[str, object], defaults: Callable[[], Mapping[str, object]], where: str
) -> dict[str, Json]:
    """The values that are not the defaults; all of them where some have no default."""
    try:
        usual = _settings(defaults(), where)
    except (DataError, TypeError):
        usual = {}
    return {
        name: value for name, value in _settings(values, where).items() if name not in usual or usual[name] != value
    }


def _settings(values: Settings, where: str) -> dict[str, Json]:
    return {name: as_json(value, f"{where} {name}") for name, value in values.items()}


@lru_cache(maxsize=4)
def _loaded(data: str, options: str, track: str, path: Path | None, root: str) -> Homes:
    if track == "types":
        return _loaded(data, options, "instances", path, root).merged_types()
    return load(data, path=path, **json.loads(options))


@lru_cache(maxsize=64)
def _fingerprint(data: str, options: str, track: str, path: Path | None, root: str) -> str:
    return _loaded(data, options, track, path, root).fingerprint
