"""JSON files among the results beside the runs: dataset summaries, examples, and the studies of `tune`.

    data/<hash>.json             what a data set holds in numbers, and one home of it (the paper's figure 1)
    examples/<hash>.json         one home with one rule left out, and what each method recommends to it
    tuning/<method>-<hash>.json  the trials of one method's parameters

A summary is named by the hash of the data set and its options; the fingerprints inside say whether the data is still
the same. `benchmarks.runs.dataset_summary`, `benchmarks.runs.examples` and `benchmarks.tune` make them. A record is a
dataclass of plain values; the same record gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from pydantic import BeforeValidator

from datasets.common.errors import DataError
from datasets.common.files import Json, write_json
from datasets.common.options import read

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SUMMARIES, EXAMPLES, STUDIES = "data", "examples", "tuning"  # folders of the results
SUMMARY_FORMAT = 2  # goes up when a summary of the same data would look different
EXAMPLE_FORMAT = 3  # goes up when an example by the same methods would look different
STUDY_FORMAT = 4  # goes up when a trial with the same parameters would look different
LONGEST_EXAMPLE = 20  # entries of an example's list

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class OwnedDevice:
    """A device of a home."""

    id: int | str
    type: str


@dataclass(frozen=True, slots=True)
class TypedRule:
    """A rule between entity types: what a user-item model calls an item."""

    trigger_type: str
    trigger_state: str
    action: str
    action_type: str

    def __str__(self) -> str:
        return f"({self.trigger_type}, {self.trigger_state}, {self.action}, {self.action_type})"


@dataclass(frozen=True, slots=True)
class HomeRule:
    """A rule between devices of a home."""

    trigger: OwnedDevice
    trigger_state: str
    action: str
    action_device: OwnedDevice


def as_json(value: object, where: str) -> Json:
    """A value as JSON stores it: tuples become lists; paths, NaN and infinity become text."""
    if isinstance(value, Mapping):
        return {str(name): as_json(entry, f"{where}.{name}") for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry, where) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    raise DataError(f"{where}: {type(value).__name__} cannot be stored in a result; use numbers, text or lists")


def hash_of(about: Mapping[str, object]) -> str:
    """16 hex digits that name the file of the record about this."""
    text = json.dumps(as_json(about, "record"), sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_record(path: Path, record: DataclassInstance, format: int) -> Path:
    """Store a record, marked with its format; its file."""
    content: Any = as_json(asdict(record), type(record).__name__)
    write_json(path, {"format": format, **content})
    return path


def read_record(path: Path, kind: type[R], format: int, why: str = "") -> R:
    """The record of a file; a ValueError where it cannot be used; `why` says why an older one cannot."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"it cannot be read: {error}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError("it has no format")
    found = content.pop("format")
    if found != format:
        newer = isinstance(found, int) and found > format
        age, reason = ("a newer", "") if newer else ("an older", f"; {why}" if why else "")
        raise ValueError(f"made by {age} version (format {found}, this version reads {format}{reason}): run it again")
    record: R = read(kind, content, where=kind.__name__)
    return record


def read_records(folder: Path, kind: type[R], format: int) -> tuple[list[R], list[tuple[str, str]]]:
    """The records of a folder in the order of their names; file and reason of each that cannot be used."""
    found: list[R] = []
    problems: list[tuple[str, str]] = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(read_record(path, kind, format))
        except ValueError as error:
            problems.append((f"{folder.name}/{path.name}", str(error)))
    return found, problems


def _whole_keys(value: object) -> object:
    """JSON has keys as text."""
    return {int(name): entry for name, entry in value.items()} if isinstance(value, dict) else value


Histogram: TypeAlias = Annotated[dict[int, int], BeforeValidator(_whole_keys)]  # value -> homes with it


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A home in the excerpt of the user-item matrix."""

    user: int | str
    has: tuple[bool, ...]  # [n_items]
    rules: int  # of the home in all, including those without a column here


@dataclass(frozen=True, slots=True)
class ExampleHome:
    """A home as a graph, and an excerpt of the user-item matrix around its row."""

    user: int | str
    devices: tuple[OwnedDevice, ...]
    rules: tuple[HomeRule, ...]
    items: tuple[TypedRule, ...]
    rows: tuple[MatrixRow, ...]  # the example home first


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number of `datasets.describe` beside the published one."""

    name: str
    ours: float
    published: float | None  # None where none is published
    verdict: str = ""  # of made-up data: "met" or "off"; empty where there is nothing to compare with


@dataclass(frozen=True, slots=True)
class EntityType:
    """An entity type and how often it is used."""

    name: str
    devices: int
    homes: int
    as_trigger: int  # rules
    as_action: int  # rules


@dataclass(frozen=True, slots=True)
class RelationUse:
    """A trigger-action pair and how often it is used."""

    trigger_state: str
    action: str
    rules: int
    homes: int


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """All that reports show of a data set; counts are of the track `instances`, where every device is a node."""

    data: str
    options: dict[str, object]  # all of them
    fingerprints: dict[str, str]  # of the homes in the tracks "types" and "instances"
    statistics: tuple[Statistic, ...]
    source: str  # of the published numbers; empty where there are none
    notes: tuple[str, ...]  # of the data set itself, e.g. how it differs from the paper's
    fidelity: tuple[Statistic, ...]  # of synthetic data against what it imitates; empty for real data
    rules_per_home: Histogram
    devices_per_home: Histogram
    types: tuple[EntityType, ...]  # most devices first
    relations: tuple[RelationUse, ...]  # most rules first
    example: ExampleHome | None  # None where no home has a rule

    @property
    def file(self) -> str:
        """The name of its file."""
        return summary_file(self.data, self.options)


def summary_file(data: str, options: dict[str, object]) -> str:
    """The name of the summary of a data set with these options, defaults included."""
    return hash_of({"data": data, "options": options}) + ".json"


def load_summaries(results: Path) -> tuple[list[DatasetSummary], list[tuple[str, str]]]:
    """The summaries among results; name and reason of each file that cannot be used."""
    found, problems = read_records(results / SUMMARIES, DatasetSummary, SUMMARY_FORMAT)
    return sorted(found, key=lambda each: (each.data, each.file)), problems


@dataclass(frozen=True, slots=True)
class Entry:
    """A recommended rule."""

    trigger_type: str
    trigger_id: int | str | None  # None for a type of which the home has no device
    trigger_state: str
    action: str
    action_type: str
    action_id: int | str | None
    probability: float
    owned: bool  # the home has the devices for it
    seen: bool  # some home has this typed rule in training
    hidden: bool  # it is the rule that was left out


@dataclass(frozen=True, slots=True)
class RankedList:
    """The top of a list, its length, and the rank of the hidden rule."""

    rank: float | None  # None where the hidden rule is not in the list or has no score
    candidates: int
    top: tuple[Entry, ...]  # 20, or fewer where fewer have a score


@dataclass(frozen=True, slots=True)
class MethodLists:
    """What one method recommends."""

    method: str
    parameters: dict[str, object]  # all of them
    formulation: str  # "items": from all items; "graph": between the home's own devices
    calibrated: bool  # probabilities were fitted on validation data, since the scores are not log-odds
    seen: RankedList  # of typed rules that occur in training: the filter of the leaderboard
    every: RankedList  # of all candidates
    warnings: tuple[str, ...]  # what went wrong in its training


@dataclass(frozen=True, slots=True)
class Example:
    """A home, the rule that was left out, and the lists of the methods."""

    data: str
    options: dict[str, object]  # all of them
    fingerprint: str  # of the homes in the track `types`
    seed: int
    codes: dict[str, str]  # method -> hash of its code
    user: int | str
    devices: tuple[OwnedDevice, ...]
    known: tuple[HomeRule, ...]
    hidden: HomeRule
    homes_with_hidden: int  # other homes that have the typed rule
    methods: tuple[MethodLists, ...]

    @property
    def file(self) -> str:
        """The name of its file."""
        methods = [(each.method, each.parameters) for each in self.methods]
        return example_file(self.data, self.options, self.fingerprint, self.seed, methods)


def example_file(data: str, options: object, fingerprint: str, seed: int, methods: Sequence[tuple[str, object]]) -> str:
    """The name of an example, from its data, seed, and methods with their parameters."""
    about = {"data": data, "options": options, "fingerprint": fingerprint, "seed": seed, "methods": methods}
    return hash_of(about) + ".json"


def load_examples(results: Path) -> tuple[list[Example], list[tuple[str, str]]]:
    """The examples among results; name and reason of each file that cannot be used."""
    return read_records(results / EXAMPLES, Example, EXAMPLE_FORMAT)


@dataclass(frozen=True, slots=True)
class Trial:
    """One choice of parameters and its score on validation data."""

    parameters: dict[str, object]  # none for the defaults
    value: float | None  # the mean over data sets and seeds; None if it failed
    values: list[float]  # of each data set and seed
    seconds: float
    error: str = ""
    commit: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)  # of fits that diverged or refused many updates
    code: str = ""  # hash of the code that made it, as in a result

    @property
    def trusted(self) -> bool:
        """Whether it may be chosen: it did not fail, and no fit of it went wrong."""
        return self.value is not None and math.isfinite(self.value) and not self.warnings


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The defaults and the best trial of a study on splits that no trial has seen."""

    defaults: Trial
    best: Trial

    @property
    def trials(self) -> tuple[Trial, Trial]:
        """Both."""
        return self.defaults, self.best

    @property
    def confirmed(self) -> bool:
        """Whether the best trial is better there too."""
        return self.best.trusted and (not self.defaults.trusted or (self.best.value or 0) > (self.defaults.value or 0))


@dataclass(frozen=True, slots=True)
class Study:
    """Trials of one method's settings on validation rules; all but its results decides the name of its file."""

    method: str
    fixed: dict[str, object]  # parameters that were set and not varied
    seeds: tuple[int, ...]  # of the splits and fits
    confirm_seeds: tuple[int, ...]
    seed: int  # of the choices
    space: dict[str, tuple[object, ...]]  # parameter -> its range
    defaults: dict[str, object]  # all parameters
    data: tuple[dict[str, object], ...]  # data, options, track, split, split_options, fingerprint and metric of each
    metric: str
    trials: tuple[Trial, ...] = ()  # those without parameters are of the defaults
    confirmation: Confirmation | None = None

    @property
    def file(self) -> str:
        """The name of its file."""
        about = {name: value for name, value in asdict(self).items() if name not in ("trials", "confirmation")}
        return f"{self.method}-{hash_of(about)}.json"

    @property
    def data_names(self) -> str:
        """The data sets, separated by commas, with their track where it is not that of types."""
        tracks = ("" if source["track"] == "types" else f" ({source['track']})" for source in self.data)
        return ", ".join(f"{source['data']}{track}" for source, track in zip(self.data, tracks, strict=True))

    @property
    def answered(self) -> list[Trial]:
        """The trials that may be chosen, best first; the earlier of equal ones before the later."""
        return sorted((trial for trial in self.trials if trial.trusted), key=lambda trial: -(trial.value or 0.0))

    @property
    def of_defaults(self) -> Trial | None:
        """The trial of the method's defaults; None where it failed, went wrong or is not there."""
        return next((trial for trial in self.answered if not trial.parameters), None)


def load_studies(results: Path) -> tuple[list[Study], list[tuple[str, str]]]:
    """The studies among results by method and file; name and reason of each file that cannot be used."""
    found, problems = read_records(results / STUDIES, Study, STUDY_FORMAT)
    return sorted(found, key=lambda study: (study.method, study.data_names, study.file)), problems
