"""What lists and their rows are called: by what differs from the defaults, so that the usual case has a short name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.results.key import as_json
from benchmarks.results.results import Result
from benchmarks.runs.settings import data_options, method_parameters, split_options
from datasets.common.errors import DataError
from datasets.common.files import Json


def title_of(result: Result) -> str:
    """Data, options of data and split that are not the defaults, size, track, split and protocol."""
    key = result.key
    size = f"{result.counts['homes']:,} homes" if "homes" in result.counts else key.fingerprint
    curves = f", fitted without validation rules for curves every {key.curves}" if key.curves else ""
    return f"{data_of(result)}, {size}, {key.track}, {split_of(result)}, {key.protocol}{curves}"


def data_of(result: Result) -> str:
    """The data set with those of its options that are not the defaults."""
    return f"{result.key.data}{_bracketed(changed_options(result))}"


def split_of(result: Result) -> str:
    """How rules are hidden, with those of the split's options that are not the defaults."""
    carved, how = result.key.split, str(result.key.split["split"])
    # The seed is the run's and `validation` is on with curves only.
    hidden = "split", "seed", "validation"
    return how + _bracketed(_changed(carved, lambda: split_options(how, {}), hidden=hidden))


def changed_options(result: Result) -> list[str]:
    """The options of the data that are not the defaults, but for the number of homes, which is shown anyway."""
    key = result.key
    return _changed(key.data_options, lambda: data_options(key.data, {}), hidden=("homes",))


def whole_options(result: Result) -> dict[str, Json]:
    """All options of its data; one that did not exist when it was run has its default, which changes nothing."""
    key = result.key
    return _usual(lambda: data_options(key.data, {})) | key.data_options


def _changed(values: Mapping[str, Json], defaults: Callable[[], dict[str, object]], hidden: Sequence[str]) -> list[str]:
    """What differs from the defaults; everything, where the defaults are not known here."""
    usual = _usual(defaults)
    return [
        f"{name}={value}"
        for name, value in values.items()
        if name not in hidden and (name not in usual or usual[name] != value)
    ]


def _usual(defaults: Callable[[], dict[str, object]]) -> dict[str, Json]:
    try:
        return {name: as_json(value, name) for name, value in defaults().items()}
    except DataError:  # results of a data set that this process has not imported
        return {}


def _bracketed(shown: Sequence[str]) -> str:
    return f" ({', '.join(shown)})" if shown else ""


def labels_of(runs: Sequence[Result]) -> list[str]:
    """The method of each run, with those of its parameters that are not the defaults.

    Where the defaults are not known here: with those that differ between the runs of this method.
    """
    sets: dict[str, list[Mapping[str, Json]]] = {}
    for run in runs:
        sets.setdefault(run.key.method, []).append(run.key.parameters)
    usual = {method: _defaults(method) for method in sets}
    labels = []
    for run in runs:
        own, defaults = run.key.parameters, usual[run.key.method]
        compared = sets[run.key.method] if defaults is None else [defaults]
        differing = [
            f"{name}={value}"
            for name, value in own.items()
            if any(name not in other or other[name] != value for other in compared)
        ]
        differing += [f"without {name}" for name in defaults or () if name not in own]  # of a version that had none
        labels.append(f"{run.key.method} ({', '.join(differing)})" if differing else run.key.method)
    return labels


def _defaults(method: str) -> dict[str, Json] | None:
    """The parameters of a method that nobody has set; None for a method that this process cannot import."""
    try:
        return {name: as_json(value, name) for name, value in method_parameters(method, {}).items()}
    except (DataError, ImportError, TypeError):  # a TypeError where a parameter has no default
        return None
