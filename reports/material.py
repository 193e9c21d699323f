"""All that reports are made of: what a folder of results holds, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.results.examples import Example, load_examples
from benchmarks.results.leaderboard import Board, boards
from benchmarks.results.portraits import Portrait, load_portraits
from benchmarks.results.results import Result, load_runs, results_folder
from benchmarks.results.speeds import Speed, load_speeds
from reports.studies import Study, load_studies


@dataclass(frozen=True, eq=False)
class Material:
    """Read once; every figure and table is a function of it."""

    runs: tuple[Result, ...] = ()
    failed: tuple[Result, ...] = ()
    portraits: tuple[Portrait, ...] = ()  # of data sets
    examples: tuple[Example, ...] = ()  # one home, one rule left out, what each method would recommend
    speeds: tuple[Speed, ...] = ()  # what `pytest benchmarks/` measured
    studies: tuple[Study, ...] = ()  # what `python -m benchmarks tune` tried
    unreadable: tuple[tuple[str, str], ...] = ()  # file, and why it is not used

    @classmethod
    def read(cls, folder: Path | str | None = None) -> Material:
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
