"""Examples on disk: one home with one rule left out, and the list of each method (the paper's qualitative comparison).

One JSON file each, in the folder `examples` of the results. `benchmarks.runs.examples` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results.records import HomeRule, OwnedDevice, hash_of, read_records

FOLDER = "examples"  # of the results
FORMAT = 2  # goes up when an example by the same methods would look different
LONGEST = 20  # entries of a list


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


def example_file(
    data: str,
    options: Mapping[str, object],
    fingerprint: str,
    seed: int,
    methods: Sequence[tuple[str, Mapping[str, object]]],
) -> str:
    """The name of an example, from its data, seed, and methods with their parameters."""
    about = {"data": data, "options": options, "fingerprint": fingerprint, "seed": seed, "methods": methods}
    return hash_of(about) + ".json"


def load_examples(results: Path) -> tuple[list[Example], list[tuple[str, str]]]:
    """The examples among results; name and reason of each file that cannot be used."""
    return read_records(results / FOLDER, Example, FORMAT)
