"""Dataset summaries on disk: what a data set holds in numbers, and one home of it (the paper's figure 1).

One JSON file for each data set and its options, in the folder `data` of the results, named by the hash of both. The
fingerprints inside say whether the data is still the same. `benchmarks.runs.dataset_summary` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from benchmarks.results.records import HomeRule, OwnedDevice, TypedRule, hash_of, read_records

FOLDER = "data"  # of the results
FORMAT = 2  # goes up when a summary of the same data would look different


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
    found, problems = read_records(results / FOLDER, DatasetSummary, FORMAT)
    return sorted(found, key=lambda each: (each.data, each.file)), problems
