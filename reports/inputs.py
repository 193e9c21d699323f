"""The inputs of a report: the files in a folder of results, and nothing else; and the runs that suit a figure best.

Runs are grouped by data set with its options, track and split. Real data is preferred to synthetic data, then data with
its defaults to data with options, then what more of the wanted methods were run on, then more homes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.results.audits import Audit, load_audits
from benchmarks.results.compare import refuse_mixed
from benchmarks.results.leaderboard import Board, boards, changed_options
from benchmarks.results.published import shown_results
from benchmarks.results.records import DatasetSummary, Example, Study, load_examples, load_studies, load_summaries
from benchmarks.results.speeds import SPEED, Speed, load_speeds
from benchmarks.results.store import Result, load_runs
from reports.sweeps import SUBJECTS, Subject, swept

OF_A_RUN = ("seed", "validation")  # options of a split that belong to the run and its curves


@dataclass(frozen=True, eq=False)
class Inputs:
    """Read once; every figure and table is a function of it."""

    runs: tuple[Result, ...] = ()
    failed: tuple[Result, ...] = ()
    summaries: tuple[DatasetSummary, ...] = ()  # of data sets
    examples: tuple[Example, ...] = ()  # one home with one rule hidden, and what each method recommends
    speeds: tuple[Speed, ...] = ()  # what `pytest benchmarks/` measured
    studies: tuple[Study, ...] = ()  # what `python -m benchmarks tune` tried
    audits: tuple[Audit, ...] = ()  # what `python -m fedrule audit` found
    unreadable: tuple[tuple[str, str], ...] = ()  # file, and why it is not used

    @classmethod
    def read(cls, folder: Path | str | None = None) -> Inputs:
        """All files of the folder; those that cannot be used are listed in `unreadable`."""
        place = shown_results(folder)
        runs = load_runs(place)
        summaries, bad_summaries = load_summaries(place)
        examples, bad_examples = load_examples(place)
        speeds, bad_speeds = load_speeds(place)
        studies, bad_studies = load_studies(place)
        audits, bad_audits = load_audits(place)
        unreadable = (*runs.unreadable, *bad_summaries, *bad_examples, *bad_speeds, *bad_studies, *bad_audits)
        found = tuple(summaries), tuple(examples), tuple(speeds), tuple(studies), tuple(audits)
        return cls(runs.finished, runs.failed, *found, unreadable)

    @cached_property
    def ranked_runs(self) -> tuple[Result, ...]:
        """The runs that are compared as methods: without those of sweeps, see `reports.sweeps`."""
        return tuple(run for run in self.runs if run.key.hash not in self._swept)

    @cached_property
    def _swept(self) -> dict[str, Subject]:
        return swept(self.runs)

    def swept_note(self, wanted: Callable[[Result], bool]) -> str:
        """How many of the wanted runs leaderboards leave out since they vary one subject; empty where none."""
        left_out = [run for run in self.runs if run.key.hash in self._swept and wanted(run)]
        varied = Counter(self._swept[run.key.hash].name for run in left_out)
        parts = [f"{each.name} ({varied[each.name]}, see {each.output})" for each in SUBJECTS if varied[each.name]]
        return f"Runs that vary one subject with all else equal are left out: {', '.join(parts)}." if parts else ""

    @cached_property
    def boards(self) -> tuple[Board, ...]:
        """The leaderboards."""
        return tuple(boards(self.ranked_runs))

    @cached_property
    def _labels(self) -> dict[str, str]:
        return {run.key.hash: label for board in boards(self.runs) for label, run in board.runs}

    def label(self, run: Result) -> str:
        """The method as the leaderboard names it: with the settings that are not the defaults."""
        return self._labels[run.key.hash]

    def is_default(self, run: Result) -> bool:
        """Whether all settings of its method are the defaults."""
        return self.label(run) == run.key.method


@dataclass(frozen=True, slots=True)
class Role:
    """The data that a figure of the paper is about."""

    name: str
    title: str
    data: tuple[str, ...]  # the first of these that has runs
    track: str = "types"


WYZE = Role("wyze", "Smart homes", ("wyze", "wyze-synthetic"))
IFTTT = Role("ifttt", "IFTTT recipes", ("ifttt-fedrule", "ifttt-synthetic"))
INSTANCES = Role("instances", "Several devices of one type", ("wyze", "wyze-synthetic", "home-assistant"), "instances")
ROLES = (WYZE, IFTTT, INSTANCES)
# Every data set and track, for tables of their own.
PLACES = (
    WYZE,
    Role("ifttt-fedrule", "IFTTT recipes", ("ifttt-fedrule",)),
    Role("ifttt-synthetic", "Synthetic recipes", ("ifttt-synthetic",)),
    Role("home-assistant", "Home Assistant", ("home-assistant",)),
    Role("wyze-instances", "Smart homes, single devices", ("wyze", "wyze-synthetic"), "instances"),
    Role("home-assistant-instances", "Home Assistant, single devices", ("home-assistant",), "instances"),
)
OVERVIEW = (WYZE, IFTTT, *(role for role in PLACES[1:] if not set(role.data) & set(IFTTT.data)))  # recipes once


@dataclass(frozen=True, slots=True, eq=False)
class RunGroup:
    """Runs on the same data, evaluated on the same hidden rules."""

    runs: tuple[Result, ...]

    @property
    def data(self) -> str:
        """The name of the data set."""
        return self.runs[0].key.data

    @property
    def homes(self) -> int | None:
        """How many there are; None where it was not recorded."""
        return self.runs[0].counts.get("homes")

    @property
    def methods(self) -> int:
        """How many there are."""
        return len({run.key.method for run in self.runs})

    def board(self, protocol: str) -> Board:
        """The runs by a protocol, without those that have curves; an error where their data differs."""
        refuse_mixed(self.runs)
        (board,) = boards([run for run in self.runs if run.key.protocol == protocol and not run.key.curves])
        return board


def group_runs(runs: Sequence[Result]) -> list[RunGroup]:
    """Runs by data set, track and split, whatever the fingerprint of the data."""
    found: dict[tuple[str, ...], list[Result]] = {}
    for run in runs:
        split = {name: value for name, value in run.key.split.items() if name not in OF_A_RUN}
        options, split_text = (json.dumps(each, sort_keys=True) for each in (run.overrides.data_options, split))
        found.setdefault((run.key.data, options, run.key.track, split_text), []).append(run)
    return [RunGroup(tuple(each)) for _, each in sorted(found.items())]


def is_ranking(run: Result) -> bool:
    """Whether it was evaluated by the protocol `ranking` and fitted to all training rules."""
    return run.key.protocol == "ranking" and not run.key.curves


def select_runs(role: Role, inputs: Inputs, wanted: Callable[[Result], bool]) -> RunGroup | None:
    """The group of wanted runs that suits a role best; None where there is none. Only the split `holdout` counts.

    An error where its runs were given different data: a table or figure never mixes them.
    """
    fitting = [
        RunGroup(runs)
        for group in group_runs(inputs.ranked_runs)
        if group.data in role.data
        and group.runs[0].key.track == role.track
        and group.runs[0].key.split["split"] == "holdout"
        and (runs := tuple(run for run in group.runs if wanted(run)))
    ]
    if not fitting:
        return None

    def order(group: RunGroup) -> tuple[int, int, int, int]:
        changed = len(changed_options(group.runs[0]))
        return role.data.index(group.data), changed, -group.methods, -(group.homes or 0)

    best = min(fitting, key=order)
    refuse_mixed(best.runs)
    return best


def comparable(speeds: Iterable[Speed], size: str) -> list[Speed]:
    """Measurements of one scale and machine, that with the most sizes, then the newest; `size` is in `extra_info`.

    Times of different machines cannot be compared.
    """
    groups: dict[tuple[str, str], list[Speed]] = {}
    for speed in speeds:
        if extra_number(speed, size) > 0:
            groups.setdefault((speed.scale, speed.machine), []).append(speed)
    sizes = {which: len({extra_number(speed, size) for speed in group}) for which, group in groups.items()}
    newest = {which: max(speed.made for speed in group) for which, group in groups.items()}
    return groups[max(groups, key=lambda which: (sizes[which], newest[which], which))] if groups else []


def extra_number(speed: Speed, name: str) -> float:
    """A number of its `extra_info`; NaN where it is missing or not finite."""
    return finite_or_nan(speed.extra_info.get(name))


def finite_or_nan(value: object) -> float:
    """The value as a number; NaN where it is not a finite one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else math.nan  # type: ignore[arg-type]


def speed_files(speeds: Iterable[Speed]) -> tuple[str, ...]:
    """The files of these measurements, below the folder of results."""
    return tuple(sorted({f"{SPEED}/{speed.file}" for speed in speeds}))


def measured_on(speeds: Iterable[Speed]) -> tuple[str, ...]:
    """Notes on where comparable measurements were made, and on a small scale."""
    first = next(iter(speeds))
    notes = f"Measured at scale {first.scale or 'unknown'} on {first.machine or 'an unknown machine'}."
    small = "A small run, to show that it works: `pytest benchmarks/ --benchmark-only` measures larger sizes."
    return (notes, small) if first.scale == "smoke" else (notes,)
