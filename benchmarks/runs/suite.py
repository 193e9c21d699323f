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
path = "..."                                         # of its files, if not under $FEDRULE_DATA
optional = true                                      # skipped, with a message, where its files are missing
track = "instances"                                  # and any of the settings above, for this data set only
example = ["graphrule", "mf"]                        # methods to compare on one home, see `benchmarks.runs.examples`
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from baselines.registry import missing_extra, names
from benchmarks.evaluation import PROTOCOLS
from benchmarks.runs.experiment import (
    SEEDS,
    Experiment,
    Settings,
    Source,
    SplitSource,
    make_experiment,
    make_source,
    split_options,
)
from datasets.common.errors import DataError, install_hint, unknown
from datasets.common.options import Config, read
from datasets.registry import get as get_data
from datasets.registry import where

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parents[1] / "suites"


class Defaults(Config):
    """What a suite says for all of its data sets, and a data set for itself."""

    methods: str | list[object] = "all"  # each as `_method` reads it
    seeds: int | list[int] = len(SEEDS)
    protocols: list[str] = Field(default_factory=lambda: list(PROTOCOLS))
    track: str = "types"
    split: str = "holdout"
    split_options: dict[str, object] = Field(default_factory=dict)
    curves: int = 0


class SuiteFile(Defaults):
    """The content of a suite."""

    description: str = ""
    data: list[dict[str, object]] = Field(default_factory=list)


class DataEntry(Defaults):
    """A data set of a suite."""

    name: str
    options: dict[str, object] = Field(default_factory=dict)
    path: str | None = None
    optional: bool = False
    example: list[object] = Field(default_factory=list)


def suites() -> dict[str, Path]:
    """The suites that come with the project, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def read_suite(
    suite: str,
    *,
    given: Mapping[str, Settings] | None = None,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    curves: int | None = None,
) -> list[Experiment]:
    """The runs of a suite, named or given by its path; data by data, so that each is loaded once.

    `given` has parameters of methods, which override those of the file; `methods`, `seeds` and `curves` replace the
    file's.
    """
    replaced = {"methods": methods and list(methods), "seeds": seeds and list(seeds), "curves": curves}
    found: list[Experiment] = []
    for entry, place in _entries(suite):
        entry = entry.model_copy(update={name: value for name, value in replaced.items() if value is not None})
        for experiment in _experiments(entry, given or {}, place, suite=Path(suite).stem):
            if experiment not in found:  # named twice, e.g. once more with its defaults spelled out: the same run
                found.append(experiment)
    return found


def read_examples(suite: str) -> list[list[Experiment]]:
    """The examples of a suite, each the methods to compare on one home: track types, the first seed of the data set.

    Methods whose optional package is missing are skipped, with a message; so is an example without any method left.
    """
    found: list[list[Experiment]] = []
    for entry, place in _entries(suite):
        methods = [each for each in entry.example if not _is_missing(_method(each, place)[0])]
        once = {"track": "types", "seeds": _seeds(entry.seeds, place)[:1], "methods": methods, "curves": 0}
        once |= {"protocols": [PROTOCOLS[0]], "split": "holdout", "split_options": {}}
        entry = entry.model_copy(update=once)
        example = _experiments(entry, {}, f"{place}, example", suite=Path(suite).stem) if methods else []
        if example and example not in found:
            found.append(example)
    return found


def read_data(suite: str) -> list[SplitSource]:
    """The homes of a suite and how it splits them, each once; without optional ones whose files are missing."""
    found: list[SplitSource] = []
    for entry, _ in _entries(suite):
        homes = _source(entry)
        if homes is not None:
            each = SplitSource(homes, entry.split, split_options(entry.split, entry.split_options))
            found += [each] if each not in found else []
    if not found:
        raise DataError(f"{suite}: the files of all of its data sets are missing")
    return found


def _entries(suite: str) -> Iterator[tuple[DataEntry, str]]:
    """Each data set of a suite with its settings, and its place for errors."""
    path = suites().get(suite, Path(suite))
    if not path.is_file():
        if path.suffix == ".toml":
            raise DataError(f"{path}: no such file")
        raise unknown("suite", suite, suites())
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from None
    if not isinstance(content.get("data", []), list) or not all(isinstance(e, dict) for e in content.get("data", [])):
        raise DataError(f"{path}: data sets are tables, written [[data]]")
    shared: SuiteFile = read(SuiteFile, content, where=str(path))
    if not shared.data:
        raise DataError(f"{path}: name at least one data set, under [[data]]")
    for given in shared.data:
        place = f"{path}, data {given.get('name', '')!r}"
        _refuse_misplaced(given, place)
        entry: DataEntry = read(DataEntry, given, where=place)
        inherited = (Defaults.model_fields.keys() & shared.model_fields_set) - entry.model_fields_set
        yield entry.model_copy(update={name: getattr(shared, name) for name in inherited}), place


def _refuse_misplaced(given: Mapping[str, object], place: str) -> None:
    """An error for options of the data set that stand beside its name, where settings of the suite belong."""
    if not isinstance(name := given.get("name"), str):
        return
    for key in given.keys() - DataEntry.model_fields.keys():
        if key in get_data(name).options:
            value = str(given[key]).lower() if isinstance(given[key], bool) else repr(given[key])
            raise DataError(f"{place}: {key} is an option of the data set; write options = {{ {key} = {value} }}")


def _experiments(entry: DataEntry, given: Mapping[str, Settings], place: str, *, suite: str) -> list[Experiment]:
    """The runs on one data set, seed by seed so that the first complete table is there soon."""
    homes = _source(entry)
    if homes is None:
        return []
    if not entry.protocols:
        raise DataError(f"{place}: protocols is empty; name one of {', '.join(PROTOCOLS)}")
    methods = _methods(entry.methods, given, place)  # once: what each needs is read from its files
    return [
        make_experiment(
            method,
            homes,
            parameters=parameters,
            split=entry.split,
            options=entry.split_options,
            seed=seed,
            protocols=entry.protocols,
            curves=entry.curves,
            suite=suite,
        )
        for seed in _seeds(entry.seeds, place)
        for method, parameters in methods
    ]


def _source(entry: DataEntry) -> Source | None:
    """The homes of a data set; None, with a message, where it is optional and its files are missing."""
    homes = make_source(entry.name, options=entry.options, track=entry.track, path=entry.path)
    if entry.optional and get_data(entry.name).files:
        try:
            where(get_data(entry.name), homes.path, entry.options)
        except DataError as error:
            log.info("skipped: %s", error)
            return None
    return homes


def _methods(entries: str | list[object], given: Mapping[str, Settings], place: str) -> list[tuple[str, Settings]]:
    """Name and parameters of each method; "all" skips those whose optional package is missing."""
    found: list[tuple[str, Settings]] = []
    for entry in entries if isinstance(entries, list) else [entries]:
        if entry == "all":
            found += [(name, {}) for name in names() if not _is_missing(name)]
        else:
            found.append(_method(entry, place))
    if not found:
        raise DataError(f'{place}: methods is empty; write "all" for every method')
    return [(name, {**parameters, **given.get(name, {})}) for name, parameters in found]


def _method(entry: object, place: str) -> tuple[str, Settings]:
    """Name and parameters of "mf" or { name = "mf", solver = "bpr" }."""
    if isinstance(entry, str):
        return entry, {}
    if not isinstance(entry, dict) or "name" not in entry:
        raise DataError(f'{place}: a method is written "mf" or {{ name = "mf", solver = "bpr" }}, got {entry}')
    return str(entry["name"]), {name: value for name, value in entry.items() if name != "name"}


def _is_missing(name: str) -> bool:
    """Whether a method's optional package is missing, which is logged."""
    extra = missing_extra(name)
    if extra:
        log.info("skipped: %s needs %s", name, install_hint(extra))
    return bool(extra)


def _seeds(seeds: int | list[int], place: str) -> list[int]:
    found = list(range(seeds)) if isinstance(seeds, int) else seeds
    if not found or min(found) < 0:
        raise DataError(f"{place}: seeds must be their number or a list of whole numbers, 0 or more; got {seeds}")
    return found
