"""Data selection: runs grouped by data set with its options, track and split, and the group that suits a figure best.

Real data is preferred to synthetic data, then data with its defaults to data with options, then what more of the wanted
methods were run on, then more homes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.results.compare import refuse_mixed
from benchmarks.results.leaderboard import Board, boards, changed_options
from benchmarks.results.store import Result
from reports.inputs import Inputs

OF_A_RUN = ("seed", "validation")  # options of a split that belong to the run and its curves


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
        place = run.key.data, _text(run.overrides.data_options), run.key.track, _text(split)
        found.setdefault(place, []).append(run)
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
        for group in group_runs(inputs.runs)
        if group.data in role.data
        and group.runs[0].key.track == role.track
        and group.runs[0].key.split["split"] == "holdout"
        and (runs := tuple(run for run in group.runs if wanted(run)))
    ]
    if not fitting:
        return None
    best = min(fitting, key=lambda group: _order(role, group))
    refuse_mixed(best.runs)
    return best


def _order(role: Role, group: RunGroup) -> tuple[int, int, int, int]:
    methods = {run.key.method for run in group.runs}
    return role.data.index(group.data), len(changed_options(group.runs[0])), -len(methods), -(group.homes or 0)


def _text(values: object) -> str:
    return json.dumps(values, sort_keys=True)
