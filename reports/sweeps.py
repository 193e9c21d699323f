"""Runs that vary the options of one subject, with all else equal: privacy, attacks and defences, simulated faults.

They have outputs of their own. In a leaderboard every value would be one more method, so that these are left out there,
unless all of their options are the defaults. A run that nothing can be compared with is no part of a sweep.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from benchmarks.results.store import Result


@dataclass(frozen=True, slots=True)
class Subject:
    """What is varied."""

    name: str
    output: str  # of the report that shows it
    options: tuple[str, ...]  # of methods
    none: Mapping[str, object]  # the values without it; an option that a method lacks counts as without it

    def is_none(self, run: Result) -> bool:
        """Whether a run is without privacy, attacks and defences, or faults."""
        return all(run.key.parameters.get(name, value) == value for name, value in self.none.items())

    def all_else(self, run: Result) -> str:
        """The method, all other options, data, split without its seed, and protocol."""
        key = run.key
        parameters = {name: value for name, value in key.parameters.items() if name not in self.options}
        split = {name: value for name, value in key.split.items() if name != "seed"}
        place = key.data, key.data_options, key.fingerprint, key.track, split, key.protocol, key.curves
        return json.dumps([key.method, parameters, *place], sort_keys=True)


PRIVACY = Subject(
    "epsilon",
    "cost-of-privacy",
    ("epsilon", "delta", "counts_share", "sampling"),  # the others follow from epsilon, or are given with it only
    {"epsilon": 0.0},
)
ATTACKS = Subject(
    "attacks and defences",
    "robustness",
    (
        *("attack", "attackers", "attack_scale"),
        *("aggregation", "trim", "assumed_attackers", "norm_bound", "norm_relative"),
    ),
    {"attack": "none", "aggregation": "mean", "norm_bound": 0.0},
)
FAULTS = Subject(
    "simulated faults",
    "faults",
    ("drop_out", "late", "corrupted"),
    {"drop_out": 0.0, "late": 0.0, "corrupted": 0.0},
)
SUBJECTS = (PRIVACY, ATTACKS, FAULTS)


@dataclass(frozen=True, eq=False)
class Sweep:
    """Runs that are equal but for the options of a subject and the seed, some of them without it."""

    subject: Subject
    runs: tuple[Result, ...]

    @cached_property
    def without(self) -> tuple[Result, ...]:
        """The runs that the others are compared with."""
        return tuple(run for run in self.runs if self.subject.is_none(run))

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.runs[0].key.method

    @property
    def homes(self) -> int:
        """How many the data has."""
        return self.runs[0].counts.get("homes", 0)


def sweeps(runs: Sequence[Result], subject: Subject) -> Iterator[Sweep]:
    """All that have runs without the subject and runs with it."""
    found: dict[str, list[Result]] = {}
    for run in runs:
        if any(name in run.key.parameters for name in subject.none):
            found.setdefault(subject.all_else(run), []).append(run)
    for some in found.values():
        sweep = Sweep(subject, tuple(some))
        if 0 < len(sweep.without) < len(some):
            yield sweep


def swept(runs: Sequence[Result]) -> dict[str, Subject]:
    """By the hash of its key, each run of a sweep that has other options than the defaults."""
    return {
        run.key.hash: subject
        for subject in SUBJECTS
        for sweep in sweeps(runs, subject)
        for run in sweep.runs
        if run.overrides.parameters
    }
