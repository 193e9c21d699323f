"""A suite is a TOML file: which methods on which data with which seeds. An unknown key is an error.

description = "..."
methods = ["all", { name = "mf", solver = "bpr" }]   # "all" is every method that can run here
seeds = 5                                            # 0 to 4, or a list
protocols = ["ranking", "paper"]
track = "types"
split = "holdout"
split_options = { fraction = 0.2 }
curves = 10                                          # measure the model every 10 rounds, see `benchmarks.runs.history`

[[data]]                                             # once for each data set
name = "wyze-synthetic"
options = { homes = 500 }
path = "..."                                         # where its files are, if not under $FEDRULE_DATA
optional = true                                      # left out, with a word, where its files are missing
track = "instances"                                  # and any of the settings above, for this data set only
example = ["graphrule", "mf"]                        # methods to compare on one home, see `benchmarks.results.examples`
"""

from __future__ import annotations

import logging
import tomllib
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from baselines.registry import missing_extra, names
from benchmarks.evaluation.evaluate import PROTOCOLS
from benchmarks.runs.experiment import SEEDS, Experiment, make_experiment, make_source
from datasets.common.errors import DataError, unknown
from datasets.registry import get as get_data
from datasets.registry import where

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parents[1] / "suites"
SETTINGS: dict[str, type | types.UnionType] = {
    "methods": list | str,
    "seeds": list | int,
    "protocols": list,
    "track": str,
    "split": str,
    "split_options": dict,
    "curves": int,
}
OF_SUITE: dict[str, type | types.UnionType] = {"description": str, "data": list, **SETTINGS}
OF_DATA: dict[str, type | types.UnionType] = {
    "name": str,
    "options": dict,
    "path": str,
    "optional": bool,
    "example": list,
    **SETTINGS,
}

Table: TypeAlias = Mapping[str, object]
Given: TypeAlias = Mapping[str, Table]  # method -> parameters


def suites() -> dict[str, Path]:
    """The suites that come with the project, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def read_suite(
    suite: str,
    *,
    given: Given | None = None,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    curves: int | None = None,
) -> list[Experiment]:
    """The runs of a suite, named or given by its path; data by data, so that each is loaded once.

    `given` has parameters of methods, which go before those of the file; `methods`, `seeds` and `curves`
    replace the file's.
    """
    found: list[Experiment] = []
    for entry, settings, place in _entries(suite):
        if methods is not None:
            settings["methods"] = list(methods)
        if seeds is not None:
            settings["seeds"] = list(seeds)
        if curves is not None:
            settings["curves"] = curves
        for asked in _experiments(entry, settings, given or {}, place):
            if asked not in found:  # named twice, e.g. once more with what are its defaults: the same run
                found.append(asked)
    return found


def read_examples(suite: str) -> list[list[Experiment]]:
    """The examples of a suite, each the methods to compare on one home: track types, the first seed of the data set.

    Methods whose optional package is missing are left out, with a word; so is an example that is left without any.
    """
    found: list[list[Experiment]] = []
    for entry, settings, place in _entries(suite):
        if "example" not in entry:
            continue
        seed = _seeds(settings.get("seeds", len(SEEDS)), place)[0]
        methods = [each for each in _list(entry, "example", place) if not _without(_name(each))]
        once = {"track": "types", "seeds": [seed], "methods": methods, "protocols": [PROTOCOLS[0]]}
        example = _experiments(entry, once, {}, f"{place}, example") if methods else []
        if example and example not in found:
            found.append(example)
    return found


def _entries(suite: str) -> Iterator[tuple[Table, dict[str, object], str]]:
    """Each data set of a suite with its settings, and its place for errors."""
    path, content = _content(suite)
    for entry in _list(content, "data", f"{path}"):
        if not isinstance(entry, dict):
            raise DataError(f"{path}: data sets are tables, written [[data]]")
        place = f"{path}, data {entry.get('name', '')!r}"
        _check(entry, OF_DATA, place)
        settings = {name: entry.get(name, content.get(name)) for name in SETTINGS}
        yield entry, {name: value for name, value in settings.items() if value is not None}, place


def _content(suite: str) -> tuple[Path, Table]:
    path = suites().get(suite, Path(suite))
    if not path.is_file():
        if path.suffix == ".toml":
            raise DataError(f"{path}: there is no such file")
        raise unknown("suite", suite, suites())
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from None
    if isinstance(content.get("data"), dict):
        raise DataError(f"{path}: data sets are tables, written [[data]] and not [data]")
    _check(content, OF_SUITE, str(path))
    if not content.get("data"):
        raise DataError(f"{path}: name at least one data set, under [[data]]")
    return path, content


def _experiments(entry: Table, settings: Table, given: Given, place: str) -> list[Experiment]:
    """The runs on one data set, seed by seed so that the first complete table is there soon."""
    if "name" not in entry:
        raise DataError(f"{place}: say which data set, name = ...")
    name, path = str(entry["name"]), entry.get("path")
    options, track = _table(entry, "options", place), str(settings.get("track", "types"))
    homes = make_source(name, options=options, track=track, path=None if path is None else str(path))
    if entry.get("optional", False) and get_data(name).files:
        try:
            where(get_data(name), homes.path)
        except DataError as error:
            log.info("left out: %s", error)
            return []
    protocols = [str(protocol) for protocol in _list(settings, "protocols", place, PROTOCOLS)]
    if not protocols:
        raise DataError(f"{place}: nothing to run: protocols is empty; name one of {', '.join(PROTOCOLS)}")
    return [
        make_experiment(
            method,
            homes,
            parameters=parameters,
            split=str(settings.get("split", "holdout")),
            options=_table(settings, "split_options", place),
            seed=seed,
            protocols=protocols,
            curves=_whole(settings, "curves", place),
        )
        for seed in _seeds(settings.get("seeds", len(SEEDS)), place)
        for method, parameters in _methods(settings.get("methods", "all"), given, place)
    ]


def _methods(asked: object, given: Given, place: str) -> list[tuple[str, Table]]:
    """Name and parameters of each method asked for; "all" leaves out those whose optional package is missing."""
    found: list[tuple[str, Table]] = []
    for entry in asked if isinstance(asked, list) else [asked]:
        if entry == "all":
            found += [(name, {}) for name in names() if not _without(name)]
        elif isinstance(entry, dict) and "name" in entry:
            found.append((str(entry["name"]), {key: value for key, value in entry.items() if key != "name"}))
        elif isinstance(entry, str):
            found.append((entry, {}))
        else:
            raise DataError(f'{place}: a method is written "mf" or {{ name = "mf", solver = "bpr" }}, not {entry}')
    if not found:
        raise DataError(f'{place}: nothing to run: no method is named; write "all" for every method')
    return [(name, {**parameters, **given.get(name, {})}) for name, parameters in found]


def _without(name: str) -> bool:
    """Whether a method's optional package is missing, which is said."""
    extra = missing_extra(name)
    if extra:
        log.info('left out: %s needs the extra %s: pip install "fedrule[%s]"', name, extra, extra)
    return bool(extra)


def _name(method: object) -> str:
    """The name of a method as a suite writes it."""
    return str(method.get("name", "")) if isinstance(method, dict) else str(method)


def _seeds(asked: object, place: str) -> list[int]:
    seeds = list(range(asked)) if type(asked) is int else asked  # True is no number
    if not isinstance(seeds, list) or not seeds or any(type(seed) is not int or seed < 0 for seed in seeds):
        raise DataError(f"{place}: seeds = {asked}: give how many, or a list of whole numbers from 0 on")
    return seeds


def _check(table: Table, known: Mapping[str, type | types.UnionType], place: str) -> None:
    for key, value in table.items():
        if key not in known:
            raise unknown(f"key in {place}:", key, known)
        if not isinstance(value, known[key]):
            expected = getattr(known[key], "__name__", str(known[key]))
            raise DataError(f"{place}: {key} = {value!r}: expected {expected}")


def _list(table: Table, key: str, place: str, default: Sequence[object] = ()) -> list[object]:
    value = table.get(key, list(default))
    assert isinstance(value, list), place  # `_check` has seen it
    return value


def _whole(table: Table, key: str, place: str) -> int:
    value = table.get(key, 0)
    assert isinstance(value, int), place
    return value


def _table(table: Table, key: str, place: str) -> Table:
    value = table.get(key, {})
    assert isinstance(value, dict), place
    return value
