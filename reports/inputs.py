"""The inputs of a report: the files in a folder of results, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.results.leaderboard import Board, boards
from benchmarks.results.records import DatasetSummary, Example, Study, load_examples, load_studies, load_summaries
from benchmarks.results.speeds import SPEED, Speed, load_speeds
from benchmarks.results.store import Result, load_runs, results_folder


@dataclass(frozen=True, eq=False)
class Inputs:
    """Read once; every figure and table is a function of it."""

    runs: tuple[Result, ...] = ()
    failed: tuple[Result, ...] = ()
    summaries: tuple[DatasetSummary, ...] = ()  # of data sets
    examples: tuple[Example, ...] = ()  # one home with one rule hidden, and what each method recommends
    speeds: tuple[Speed, ...] = ()  # what `pytest benchmarks/` measured
    studies: tuple[Study, ...] = ()  # what `python -m benchmarks tune` tried
    unreadable: tuple[tuple[str, str], ...] = ()  # file, and why it is not used

    @classmethod
    def read(cls, folder: Path | str | None = None) -> Inputs:
        """All files of the folder; those that cannot be used are listed in `unreadable`."""
        place = results_folder(folder)
        runs = load_runs(place)
        summaries, bad_summaries = load_summaries(place)
        examples, bad_examples = load_examples(place)
        speeds, bad_speeds = load_speeds(place)
        studies, bad_studies = load_studies(place)
        unreadable = (*runs.unreadable, *bad_summaries, *bad_examples, *bad_speeds, *bad_studies)
        found = tuple(summaries), tuple(examples), tuple(speeds), tuple(studies)
        return cls(runs.finished, runs.failed, *found, unreadable)

    @cached_property
    def boards(self) -> tuple[Board, ...]:
        """The leaderboards of all runs."""
        return tuple(boards(self.runs))

    @cached_property
    def _labels(self) -> dict[str, str]:
        return {run.key.hash: label for board in self.boards for label, run in board.runs}

    def label(self, run: Result) -> str:
        """The method as the leaderboard names it: with the settings that are not the defaults."""
        return self._labels[run.key.hash]

    def is_default(self, run: Result) -> bool:
        """Whether all settings of its method are the defaults."""
        return self.label(run) == run.key.method


def comparable(speeds: Iterable[Speed], size: str) -> list[Speed]:
    """Measurements of one scale and machine, that with the most sizes, then the newest; `size` is in `extra_info`.

    Times of different machines cannot be compared.
    """
    groups: dict[tuple[str, str], list[Speed]] = {}
    for speed in speeds:
        if extra_number(speed, size) > 0:
            groups.setdefault((speed.scale, speed.machine), []).append(speed)

    def rank(which: tuple[str, str]) -> tuple[int, str, tuple[str, str]]:
        group = groups[which]
        return len({extra_number(speed, size) for speed in group}), max(speed.made for speed in group), which

    return groups[max(groups, key=rank)] if groups else []


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
