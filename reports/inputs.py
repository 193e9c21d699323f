"""All that reports are made of: what a folder of results holds, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.results.dataset_summary import DatasetSummary, load_summaries
from benchmarks.results.examples import Example, load_examples
from benchmarks.results.leaderboard import Board, boards
from benchmarks.results.speeds import SPEED, Speed, load_speeds
from benchmarks.results.store import Result, load_runs, results_folder
from benchmarks.results.tuning import Study, load_studies


@dataclass(frozen=True, eq=False)
class Inputs:
    """Read once; every figure and table is a function of it."""

    runs: tuple[Result, ...] = ()
    failed: tuple[Result, ...] = ()
    portraits: tuple[DatasetSummary, ...] = ()  # of data sets
    examples: tuple[Example, ...] = ()  # one home, one rule left out, what each method would recommend
    speeds: tuple[Speed, ...] = ()  # what `pytest benchmarks/` measured
    studies: tuple[Study, ...] = ()  # what `python -m benchmarks tune` tried
    unreadable: tuple[tuple[str, str], ...] = ()  # file, and why it is not used

    @classmethod
    def read(cls, folder: Path | str | None = None) -> Inputs:
        """What is in the folder; files that cannot be used are named and left alone."""
        place = results_folder(folder)
        runs = load_runs(place)
        portraits, bad_portraits = load_summaries(place)
        examples, bad_examples = load_examples(place)
        speeds, bad_speeds = load_speeds(place)
        studies, bad_studies = load_studies(place)
        return cls(
            runs.finished,
            runs.failed,
            tuple(portraits),
            tuple(examples),
            tuple(speeds),
            tuple(studies),
            (*runs.unreadable, *bad_portraits, *bad_examples, *bad_speeds, *bad_studies),
        )

    @cached_property
    def boards(self) -> tuple[Board, ...]:
        """The lists of all runs."""
        return tuple(boards(self.runs))

    @cached_property
    def _labels(self) -> dict[str, str]:
        return {run.key.hash: label for board in self.boards for label, run in board.runs}

    def label(self, run: Result) -> str:
        """The method as the leaderboard names it: with those of its settings that are not the defaults."""
        return self._labels[run.key.hash]

    def is_default(self, run: Result) -> bool:
        """Whether nobody has changed a setting of its method."""
        return self.label(run) == run.key.method


# --- Measurements of pytest-benchmark that may stand beside each other: those of one machine and one scale.


def comparable(speeds: Iterable[Speed], size: str) -> list[Speed]:
    """Those of the scale and machine with most sizes, then of the newest; `size` names a number of `extra_info`.

    Times of different machines say nothing beside each other.
    """
    groups: dict[tuple[str, str], list[Speed]] = {}
    for speed in speeds:
        if extra_number(speed, size) > 0:
            groups.setdefault((speed.scale, speed.machine), []).append(speed)

    def rank(place: tuple[str, str]) -> tuple[int, str, tuple[str, str]]:
        group = groups[place]
        return len({extra_number(speed, size) for speed in group}), max(speed.made for speed in group), place

    return groups[max(groups, key=rank)] if groups else []


def extra_number(speed: Speed, name: str) -> float:
    """A number of its `extra_info`; NaN where there is none, or an infinite one."""
    return finite_or_nan(speed.extra_info.get(name))


def finite_or_nan(value: object) -> float:
    """NaN where it is none, or an infinite one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else math.nan  # type: ignore[arg-type]


def speed_files(speeds: Iterable[Speed]) -> tuple[str, ...]:
    """The files of these measurements in the folder of the results, each once."""
    return tuple(sorted({f"{SPEED}/{speed.file}" for speed in speeds}))


def measured_on(speeds: Iterable[Speed]) -> str:
    """Where comparable measurements were made, as a note."""
    first = next(iter(speeds))
    return f"Measured at scale {first.scale or 'unknown'} on {first.machine or 'an unknown machine'}."
