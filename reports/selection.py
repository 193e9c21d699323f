"""Where runs were made: a data set with its options, a track and a split. The paper's figures each ask for one.

Real data goes before synthetic data, then data as it comes before data with options, then what more of the wanted
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

CARVED = ("seed", "validation")  # of a split: belong to a run and to curves


@dataclass(frozen=True, slots=True)
class Role:
    """What a figure of the paper is about."""

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
    """Runs that have been given the same data and asked for the same hidden rules."""

    runs: tuple[Result, ...]

    @property
    def data(self) -> str:
        """The name of the data set."""
        return self.runs[0].key.data

    @property
    def homes(self) -> int | None:
        """How many there are; None where it was not kept."""
        return self.runs[0].counts.get("homes")

    def board(self, protocol: str) -> Board:
        """The list of the runs by a protocol that were made without curves; an error where their data differs."""
        refuse_mixed(self.runs)
        (board,) = boards([run for run in self.runs if run.key.protocol == protocol and not run.key.curves])
        return board


def group_runs(runs: Sequence[Result]) -> list[RunGroup]:
    """Runs sorted by where they were made, whatever the data was like at that time."""
    found: dict[tuple[str, ...], list[Result]] = {}
    for run in runs:
        split = {name: value for name, value in run.key.split.items() if name not in CARVED}
        where = run.key.data, _text(run.overrides.data_options), run.key.track, _text(split)
        found.setdefault(where, []).append(run)
    return [RunGroup(tuple(each)) for _, each in sorted(found.items())]


def select_runs(role: Role, inputs: Inputs, wanted: Callable[[Result], bool]) -> RunGroup | None:
    """The place that suits a role best, with its wanted runs; None where nothing was run. Only `holdout` counts.

    An error where its runs were given different data: a table or figure never mixes them.
    """
    fitting = [
        RunGroup(runs)
        for place in group_runs(inputs.runs)
        if place.data in role.data
        and place.runs[0].key.track == role.track
        and place.runs[0].key.split["split"] == "holdout"
        and (runs := tuple(run for run in place.runs if wanted(run)))
    ]
    if not fitting:
        return None
    best = min(fitting, key=lambda place: _order(role, place))
    refuse_mixed(best.runs)
    return best


def _order(role: Role, place: RunGroup) -> tuple[int, int, int, int]:
    methods = {run.key.method for run in place.runs}
    return role.data.index(place.data), len(changed_options(place.runs[0])), -len(methods), -(place.homes or 0)


def _text(values: object) -> str:
    return json.dumps(values, sort_keys=True)
