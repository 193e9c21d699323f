"""All that reports are made of: what a folder of results holds, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.results.dataset_summary import Portrait, load_portraits
from benchmarks.results.examples import Example, load_examples
from benchmarks.results.leaderboard import Board, boards
from benchmarks.results.speeds import SPEED, Speed, load_speeds
from benchmarks.results.store import Result, load_runs, results_folder
from benchmarks.tune import Trial
from datasets.common.files import Json

# --- What `python -m benchmarks tune` has kept: which settings of a method were tried, and how well each did.
#
# <results>/tuning/<method>-<hash>.json

FOLDER = "tuning"  # of the results
STRANGE = "not a study of `python -m benchmarks tune`"


@dataclass(frozen=True, slots=True)
class Study:
    """Trials of one method's settings on validation rules."""

    method: str
    data: tuple[str, ...]  # that the settings were tried on
    split: str
    seeds: tuple[int, ...]
    metric: str
    fixed: dict[str, Json]  # parameters that were set and not varied
    varied: tuple[str, ...]  # names of parameters
    defaults: dict[str, Json]  # all parameters
    trials: tuple[Trial, ...]  # those without parameters are of the defaults
    file: str  # below the folder of studies

    @property
    def answered(self) -> list[Trial]:
        """The trials that did not fail, best first; the earlier of equal ones before the later."""
        there = [trial for trial in self.trials if trial.value is not None and math.isfinite(trial.value)]
        return sorted(there, key=lambda trial: -(trial.value or 0.0))

    @property
    def of_defaults(self) -> Trial | None:
        """The trial of the method's defaults; None where it failed or is not there."""
        return next((trial for trial in self.answered if not trial.parameters), None)


def load_studies(results: Path) -> tuple[list[Study], list[tuple[str, str]]]:
    """The studies among results by method and file; name and reason of each file that is none, which is left alone."""
    found: list[Study] = []
    problems: list[tuple[str, str]] = []
    for path in sorted((results / FOLDER).glob("*.json")):
        try:
            found.append(_study(path))
        except KeyError as error:
            problems.append((f"{FOLDER}/{path.name}", f"{STRANGE}: it has no {error}"))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            problems.append((f"{FOLDER}/{path.name}", f"{STRANGE}: {error}"))
    return sorted(found, key=lambda study: (study.method, study.data, study.file)), problems


def _study(path: Path) -> Study:
    content = json.loads(path.read_text("utf-8"))
    key, trials = content["key"], tuple(Trial(**trial) for trial in content["trials"])
    for trial in trials:
        if not isinstance(trial.parameters, dict) or not isinstance(trial.value, float | int | None):
            raise ValueError(f"a trial with the value {trial.value!r} and the parameters {trial.parameters!r:.60}")
    return Study(
        method=str(key["method"]),
        data=tuple(str(source["data"]) for source in key["data"]),
        split=str(key["split"]),
        seeds=tuple(int(seed) for seed in key["seeds"]),
        metric=str(key["metric"]),
        fixed=dict(key["fixed"]),
        varied=tuple(map(str, key["space"])),
        defaults=dict(key["defaults"]),
        trials=trials,
        file=path.name,
    )


@dataclass(frozen=True, eq=False)
class Inputs:
    """Read once; every figure and table is a function of it."""

    runs: tuple[Result, ...] = ()
    failed: tuple[Result, ...] = ()
    portraits: tuple[Portrait, ...] = ()  # of data sets
    examples: tuple[Example, ...] = ()  # one home, one rule left out, what each method would recommend
    speeds: tuple[Speed, ...] = ()  # what `pytest benchmarks/` measured
    studies: tuple[Study, ...] = ()  # what `python -m benchmarks tune` tried
    unreadable: tuple[tuple[str, str], ...] = ()  # file, and why it is not used

    @classmethod
    def read(cls, folder: Path | str | None = None) -> Inputs:
        """What is in the folder; files that cannot be used are named and left alone."""
        place = results_folder(folder)
        runs = load_runs(place)
        portraits, bad_portraits = load_portraits(place)
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
