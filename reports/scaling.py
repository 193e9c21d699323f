"""Time, memory and quality of methods by number of homes: lines of points, for figures and a table.

Time and memory are from what benchmarks/speed/test_fit.py has measured, and test_federated.py for single rounds; where
that is missing, from runs on wyze-synthetic by the same code with the same settings. Quality is from the rankings of
such runs, whatever their code: an edit that makes a method faster starts no new line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from benchmarks.results.compare import refuse_mixed
from benchmarks.results.leaderboard import Board
from benchmarks.results.speeds import Speed
from benchmarks.results.status import SIGN, sign_of
from benchmarks.results.store import Result
from datasets.common.errors import DataError
from reports import boards
from reports.inputs import Inputs, comparable, extra_number, group_runs, measured_on, speed_files
from reports.outputs import Missing, run_files
from reports.places import NO_COMPETITORS

COMMAND = "pytest benchmarks/ --benchmark-only --scale default"
RUN_SIZES = "python -m benchmarks run sizes"
FIT = "benchmarks/speed/test_fit.py::test_fit"
ROUND = "benchmarks/speed/test_federated.py::test_growth_of_a_fedrule_round"
ONE_ROUND = "fedrule, 1 round"
DATA = "wyze-synthetic"
BRIEF = 0.01  # seconds; shorter times are mostly noise
SIZES = (1_000, 10_000, 76_218)  # of the suite `sizes`; the last is the number of homes of the paper


class Point(NamedTuple):
    """The cost of a method for so many homes."""

    homes: int
    seconds: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class ScalingLines:
    """Lines and their sources."""

    lines: dict[str, list[Point]]  # by method, by growing number of homes
    sources: tuple[str, ...]
    command: str
    notes: tuple[str, ...]
    statistic: str  # what a point is of its repeats


def without_probes(found: ScalingLines) -> ScalingLines:
    """Without random order and probes of the data, which learn nothing; all where there is nothing else."""
    kept = {label: line for label, line in found.lines.items() if label not in NO_COMPETITORS}
    gone = sorted(found.lines.keys() - kept.keys())
    if not kept or not gone:
        return found
    return replace(found, lines=kept, notes=(*found.notes, f"Not drawn, since they learn nothing: {', '.join(gone)}."))


def tenfold_factor(line: Sequence[Point], what: str) -> float:
    """The factor per ten times the homes, from the smallest to the largest size; NaN where they are too close."""
    known = known_values(line, what)
    if len(known) < 2 or known[-1][0] < 10 * known[0][0]:  # an extrapolated factor would be mostly noise
        return math.nan
    (few, small), (many, large) = known[0], known[-1]
    return float((large / small) ** (1 / math.log10(many / few)))


def known_values(line: Iterable[Point], what: str) -> list[tuple[int, float]]:
    """Homes with their seconds or megabytes, where these have a logarithm."""
    return [(point.homes, value) for point in line if 0 < (value := getattr(point, what)) < math.inf]


def fits(lines: Mapping[str, list[Point]]) -> dict[str, list[Point]]:
    """Without single rounds, which are not comparable with fits."""
    return {label: line for label, line in lines.items() if label != ONE_ROUND}


def _of_speeds(speeds: Iterable[Speed]) -> ScalingLines | None:
    kept = comparable([speed for speed in speeds if speed.fullname.startswith((FIT, ROUND))], "homes")
    lines: dict[str, list[Point]] = {}
    for speed in kept:
        label = ONE_ROUND if speed.fullname.startswith(ROUND) else str(speed.params.get("name", speed.name))
        point = Point(int(extra_number(speed, "homes")), speed.seconds_min, extra_number(speed, "peak_megabytes"))
        lines.setdefault(label, []).append(point)
    if not any(len(line) > 1 for line in lines.values()):
        return None
    notes = [*measured_on(kept), "Memory is that of a fresh process, imports included."]
    sizes = {label: max(point.homes for point in line) for label, line in fits(lines).items()}
    largest = max(sizes.values(), default=0)
    if short := sorted(label for label, size in sizes.items() if size < largest):
        notes.append(f"Not measured with {largest:,} homes, which would take too long: {', '.join(short)}.")
    return _scaling_lines(lines, speed_files(kept), COMMAND, notes, "Times: of the fastest fit, of one to three.")


def _of_runs(inputs: Inputs) -> ScalingLines | None:
    """Methods with their defaults; runs that are compared differ in the number of homes only."""
    equal: dict[str, dict[tuple[str, str], dict[int, list[Result]]]] = {}
    for group in group_runs([run for run in inputs.runs if run.key.data == DATA and run.seconds.get("fit", 0) > 0]):
        runs = [run for run in group.runs if inputs.is_default(run)] if group.homes else []
        refuse_mixed(runs)
        for run in runs:
            options = sorted((name, value) for name, value in run.key.data_options.items() if name != "homes")
            setting = f"{options} {run.key.track} {run.key.split['split']} {run.key.curves} {run.threads}"
            sizes = equal.setdefault(setting, {}).setdefault((run.key.method, run.code), {})
            sizes.setdefault(group.homes or 0, []).append(run)
    groups = [{who: sizes for who, sizes in sorted(equal[each].items()) if len(sizes) > 1} for each in sorted(equal)]
    best = max(groups, key=lambda each: sum(map(len, each.values())), default={})
    # Of a method that was edited in between, the code with the most sizes.
    chosen = {who[0]: sizes for who, sizes in sorted(best.items(), key=lambda each: (len(each[1]), each[0]))}
    if not chosen:
        return None
    lines = {
        method: [
            Point(homes, median(r.seconds["fit"] for r in runs), median(r.memory.get("fit", math.nan) for r in runs))
            for homes, runs in sizes.items()
        ]
        for method, sizes in chosen.items()
    }
    used = [run for sizes in chosen.values() for runs in sizes.values() for run in runs]
    note = f"From runs on {DATA}, median over seeds, maybe on a busy machine or on several machines; `{COMMAND}` "
    wrong = sorted({run.key.method for run in used if sign_of([run])})
    notes = [f"{note}measures it properly."]
    notes += [f"{SIGN} Seeds diverged, refused many updates or stopped early: {', '.join(wrong)}."] if wrong else []
    return _scaling_lines(lines, run_files(used), RUN_SIZES, notes, "Times and memory: median over seeds.")


def _scaling_lines(
    lines: dict[str, list[Point]], sources: tuple[str, ...], command: str, notes: list[str], statistic: str
) -> ScalingLines:
    ordered = {label: sorted(lines[label], key=lambda point: point.homes) for label in sorted(lines)}
    narrow = [label for label, line in ordered.items() if 1 < line[-1].homes / line[0].homes < 10]
    brief = [label for label, line in ordered.items() if any(point.seconds < BRIEF for point in line)]
    warnings = {
        "Sizes less than ten times apart, so without a factor": narrow,
        f"With times below {1000 * BRIEF:g} ms, which are mostly noise": brief,
    }
    for warning, labels in warnings.items():
        if labels:
            notes = [*notes, f"{warning}: {', '.join(labels) if len(labels) < len(ordered) else 'all lines'}."]
    return ScalingLines(ordered, sources, command, tuple(notes), statistic)


def fit_lines(inputs: Inputs) -> ScalingLines:
    """Time and memory by method; missing where no method has two sizes."""
    found = _of_speeds(inputs.speeds) or _of_runs(inputs)
    if found is None:
        raise Missing("no method was timed with different numbers of homes", COMMAND)
    return found


class Quality(NamedTuple):
    """The reciprocal rank of a method for so many homes, with its interval."""

    homes: int
    value: float
    low: float
    high: float
    sign: str = ""  # where the training of some seed went wrong


@dataclass(frozen=True, slots=True)
class QualityLines:
    """Lines by method, and the boards that they are of, one for each size."""

    lines: dict[str, list[Quality]]  # by growing number of homes; at least one has two sizes
    boards: tuple[Board, ...]
    notes: tuple[str, ...]

    @property
    def sizes(self) -> list[int]:
        """The numbers of homes."""
        return [board.runs[0][1].counts["homes"] for board in self.boards]

    @property
    def sources(self) -> tuple[str, ...]:
        """The files of its runs."""
        return run_files([run for board in self.boards for _, run in board.runs])


def quality_lines(inputs: Inputs) -> QualityLines:
    """The rankings of methods with their defaults, by number of homes; missing where no method has two sizes."""
    groups: dict[str, dict[int, Board]] = {}
    for board in inputs.boards:
        run = board.runs[0][1]
        key, homes = run.key, run.counts.get("homes")
        if key.data != DATA or board.protocol != "ranking" or key.curves or not homes:
            continue
        options = sorted((name, value) for name, value in key.data_options.items() if name != "homes")
        setting = f"{options} {key.track} {board.split} {board.headline}"
        sizes = groups.setdefault(setting, {})
        if homes not in sizes or len(board.methods()) > len(sizes[homes].methods()):
            sizes[homes] = board
    found = [_quality(inputs, groups[setting]) for setting in sorted(groups, reverse=True)]  # types before instances
    best = max(found, key=lambda each: sum(len(line) for line in each.lines.values() if len(line) > 1), default=None)
    if best is None or not any(len(line) > 1 for line in best.lines.values()):
        there = ", ".join(f"{homes:,}" for homes in sorted({homes for sizes in groups.values() for homes in sizes}))
        only = f"; there are runs with {there} homes" if there else ""
        raise Missing(f"no method was ranked on {DATA} at more than one size{only}", RUN_SIZES)
    return best


def _quality(inputs: Inputs, sizes: Mapping[int, Board]) -> QualityLines:
    lines: dict[str, list[Quality]] = {}
    used: dict[int, Board] = {}
    notes = []
    for homes, board in sorted(sizes.items()):
        try:
            ranking = boards.ranked_board(inputs, board, board.headline)
        except DataError as error:  # its tables are gone, or are not of the same hidden rules
            notes.append(f"Left out: {board.title}: {error}")
            continue
        used[homes] = board
        for row in ranking.table.to_dict("records"):
            runs = boards.runs_of(board, row["method"])
            value = float(row[ranking.metric])
            if inputs.is_default(runs[0]) and math.isfinite(value):
                ends = float(row["low"]), float(row["high"])
                point = Quality(homes, value, *ends, boards.row_sign(board, row["method"]))
                lines.setdefault(runs[0].key.method, []).append(point)
    if absent := [f"{homes:,}" for homes in SIZES if homes not in sizes]:
        notes.append(f"Not run with {' and '.join(absent)} homes: `{RUN_SIZES}` does.")
    for homes in used:
        lacking = sorted(method for method, line in lines.items() if homes not in {point.homes for point in line})
        if lacking:
            notes.append(f"Not run with {homes:,} homes: {', '.join(lacking)}.")
    return QualityLines({method: lines[method] for method in sorted(lines)}, tuple(used.values()), tuple(notes))
