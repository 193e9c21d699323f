"""One run, spelled out: which method with which settings on which homes, split how, measured how.

A result's key holds every setting, so the same setting is always written the same: all values have their declared type
(1 for a float is 1.0), and defaults are filled in.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from baselines.registry import fewest_parameters, get, names
from benchmarks import evaluation
from benchmarks.evaluation import PROTOCOLS
from benchmarks.results.records import as_json
from benchmarks.results.store import Key, Overrides, Result
from benchmarks.runs.source_hash import source_hash
from datasets import Homes, load
from datasets.common.errors import DataError, unknown
from datasets.common.options import complete, read_assignments
from datasets.homes import Array
from datasets.registry import get as get_data
from datasets.splits import SPLITS

TRACKS = ("types", "instances")
SEEDS = (0, 1, 2, 3, 4)

EVALUATION = Path(evaluation.__file__).parent
# Split, fit, calibration and curves. What these two import is among the files of the evaluation or decides no number.
FIT = {Path(__file__).with_name(name) for name in ("run.py", "history.py")}

Settings: TypeAlias = Mapping[str, object]


def method_parameters(method: str, given: Settings) -> dict[str, object]:
    """All parameters of a method, defaults included."""
    return complete(get(method), given, where=method)


def data_options(data: str, given: Settings) -> dict[str, object]:
    """All options of a data set, defaults included."""
    return complete(get_data(data).load, given, where=data)


def split_options(split: str, given: Settings) -> dict[str, object]:
    """All options of a split, defaults included, except what a run decides itself."""
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    return complete(SPLITS[split], given, where=split, without=("seed", "validation"))


def assignments(texts: Iterable[str]) -> dict[str, dict[str, object]]:
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


@dataclass(frozen=True, slots=True)
class Source:
    """Which homes: a data set, its options and the track."""

    data: str
    options: dict[str, object]  # all of them
    track: str = "types"
    path: Path | None = None  # of its files, if not under $FEDRULE_DATA; the fingerprint identifies their content

    def load(self) -> Homes:
        """The homes as methods see them; cached for the next run of this process."""
        return _loaded(*self._place())

    def fingerprint(self) -> str:
        """The fingerprint of the homes."""
        return _fingerprint(*self._place())

    def _place(self) -> tuple[str, str, str, Path | None, str]:
        options = json.dumps(as_json(self.options, self.data), sort_keys=True)
        return self.data, options, self.track, self.path, os.environ.get("FEDRULE_DATA", "")


def make_source(data: str, *, options: Settings, track: str = "types", path: Path | str | None = None) -> Source:
    """A source with checked names and options."""
    if track not in TRACKS:
        raise unknown("track", track, TRACKS)
    return Source(data, data_options(data, options), track, None if path is None else Path(path))


def users_of(run: Result) -> Array | None:
    """The users of all homes of the data that a run was made on; None where this data is not here."""
    try:
        options = run.key.data_options | run.overrides.data_options
        source = make_source(run.key.data, options=options, track=run.key.track)
        return source.load().users if source.fingerprint() == run.key.fingerprint else None
    except DataError:
        return None


@dataclass(frozen=True, slots=True)
class SplitSource:
    """Homes, and how some of their rules are hidden."""

    source: Source
    split: str
    split_options: dict[str, object]  # all of them


IN_FINGERPRINT = ("words",)  # options of data that decide nothing beyond its fingerprint; older keys have none


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
        return code_hash(get(self.method))

    @property
    def overrides(self) -> Overrides:
        """What differs from the defaults of now; of the parameters without those that follow from others."""
        given = fewest_parameters(get(self.method), self.parameters) if self.parameters else {}  # other tools have none
        return Overrides(
            _settings(given, self.method),
            _differing(self.source.options, lambda: data_options(self.source.data, {}), self.source.data),
            _differing(self.split_options, lambda: split_options(self.split, {}), self.split),
        )

    def keys(self, fingerprint: str) -> dict[str, Key]:
        """Protocol -> the key of its result on homes with this fingerprint."""
        split: dict[str, object] = {"split": self.split, "seed": self.seed, **self.split_options}
        split["validation"] = self.curves > 0
        parameters, source = _settings(self.parameters, self.method), self.source
        options = {name: value for name, value in source.options.items() if name not in IN_FINGERPRINT}
        data = source.data, _settings(options, source.data), fingerprint, source.track
        how = _settings(split, self.split)
        return {
            protocol: Key(self.method, parameters, *data, how, protocol, self.seed, self.curves)
            for protocol in self.protocols
        }

    def only(self, protocols: Sequence[str]) -> Experiment:
        """The same with some of its protocols."""
        return replace(self, protocols=tuple(protocols))

    def __str__(self) -> str:
        return f"{self.method} on {self.source.data} ({self.source.track}, {self.split}), seed {self.seed}"


def make_experiment(
    method: str,
    source: Source,
    *,
    parameters: Settings,
    split: str = "holdout",
    options: Settings,
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


def _differing(values: Settings, defaults: Callable[[], Settings], where: str) -> dict[str, object]:
    """The values that are not the defaults; all of them where some have no default."""
    try:
        usual = _settings(defaults(), where)
    except (DataError, TypeError):
        usual = {}
    return {
        name: value for name, value in _settings(values, where).items() if name not in usual or usual[name] != value
    }


def _settings(values: Settings, where: str) -> dict[str, object]:
    return {name: as_json(value, f"{where} {name}") for name, value in values.items()}


def code_hash(method: type) -> str:
    """12 hex digits that change with the files of a method and of the evaluation, ours that these import, and FIT.

    Comments and docstrings do not count. Empty where the method has no file, as in a notebook.
    """
    try:
        return source_hash([Path(inspect.getfile(method)), *sorted(EVALUATION.glob("*.py"))], FIT).digest
    except (OSError, TypeError, SyntaxError):
        return ""


@lru_cache(maxsize=4)
def _loaded(data: str, options: str, track: str, path: Path | None, root: str) -> Homes:
    if track == "types":
        return _loaded(data, options, "instances", path, root).merged_types()
    return load(data, path=path, **json.loads(options))


@lru_cache(maxsize=64)
def _fingerprint(data: str, options: str, track: str, path: Path | None, root: str) -> str:
    return _loaded(data, options, track, path, root).fingerprint
