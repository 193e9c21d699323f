"""What fitting took with different numbers of homes.

Read from what `benchmarks/speed/test_fit.py` has measured (and `test_federated_speed.py` for single rounds); where that
is missing, from runs on wyze-synthetic by the same code with the same settings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.results.compare import refuse_mixed
from benchmarks.results.results import Result
from benchmarks.results.speeds import Speed
from reports.output_types import sources_of
from reports.material import Material
from reports.measured import circumstances, comparable, files_of, number_of
from reports.selection import places

COMMAND = "pytest benchmarks/ --benchmark-only --scale default"
FIT, ROUND = "benchmarks/speed/test_fit.py::", "benchmarks/speed/test_federated.py::test_growth_of_a_fedrule_round"
ONE_ROUND = "fedrule, 1 round"
DATA = "wyze-synthetic"
BRIEF = 0.01  # seconds; what a machine does besides weighs as much


@dataclass(frozen=True, slots=True)
class Point:
    """What a method took for so many homes."""

    homes: int
    seconds: float
    megabytes: float

    def of(self, what: str) -> float:
        """Seconds or megabytes; NaN where it is nothing that a logarithm can be taken of."""
        value = self.seconds if what == "seconds" else self.megabytes
        return value if 0 < value < math.inf else math.nan


@dataclass(frozen=True, slots=True)
class Growth:
    """Lines, and where they come from."""

    lines: dict[str, list[Point]]  # by method; homes grow
    sources: tuple[str, ...]
    command: str
    notes: tuple[str, ...]


def growth(material: Material) -> Growth | None:
    """Of the measurements, else of the runs; None where no method has two sizes."""
    return _of_speeds(material.speeds) or _of_runs(material)


def tenfold(line: Sequence[Point], what: str) -> float:
    """The factor per ten times the homes, from the smallest to the largest size; NaN where there are no two."""
    known = [(point.homes, point.of(what)) for point in line if not math.isnan(point.of(what))]
    if len(known) < 2:
        return math.nan
    (few, small), (many, large) = known[0], known[-1]
    return float((large / small) ** (1 / math.log10(many / few)))


def fits(lines: Mapping[str, list[Point]]) -> dict[str, list[Point]]:
    """Without that of single rounds, whose sizes and times are no fits'."""
    return {label: line for label, line in lines.items() if label != ONE_ROUND}


def _of_speeds(speeds: Iterable[Speed]) -> Growth | None:
    kept = comparable([speed for speed in speeds if speed.fullname.startswith((FIT, ROUND))], "homes")
    lines: dict[str, list[Point]] = {}
    for speed in kept:
        label = ONE_ROUND if speed.fullname.startswith(ROUND) else str(speed.params.get("name", speed.name))
        point = Point(int(number_of(speed, "homes")), speed.seconds_min, number_of(speed, "peak_megabytes"))
        lines.setdefault(label, []).append(point)
    if not any(len(line) > 1 for line in lines.values()):
        return None
    notes = [circumstances(kept), "Memory is that of a fresh process, all imports included."]
    sizes = {label: max(point.homes for point in line) for label, line in fits(lines).items()}
    largest = max(sizes.values(), default=0)
    if short := sorted(label for label, size in sizes.items() if size < largest):
        notes.append(f"Not measured with {largest:,} homes, where they may take too long: {', '.join(short)}.")
    return _growth(lines, files_of(kept), COMMAND, notes)


def _of_runs(material: Material) -> Growth | None:
    """The default settings of each method; what is compared differs in nothing but the homes."""
    alike: dict[str, dict[tuple[str, str], dict[int, list[Result]]]] = {}
    for place in places([run for run in material.runs if run.key.data == DATA and run.seconds.get("fit", 0) > 0]):
        runs = [run for run in place.runs if material.is_default(run)] if place.homes else []
        refuse_mixed(runs)
        for run in runs:
            options = sorted((name, value) for name, value in run.key.data_options.items() if name != "homes")
            setting = f"{options} {run.key.track} {run.key.split['split']} {run.key.curves} {run.threads}"
            sizes = alike.setdefault(setting, {}).setdefault((run.key.method, run.code), {})
            sizes.setdefault(place.homes or 0, []).append(run)
    groups = [
        {who: sizes for who, sizes in sorted(each.items()) if len(sizes) > 1} for _, each in sorted(alike.items())
    ]
    best = max(groups, key=lambda each: sum(map(len, each.values())), default={})
    # Of a method that was edited in between, the code that was run on most sizes.
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
    notes = [
        f"Of runs on {DATA}, the median over seeds. They may have been made beside other work or on other machines; "
        f"`{COMMAND}` measures it properly."
    ]
    return _growth(lines, sources_of(used), "python -m benchmarks run default", notes)


def _growth(lines: dict[str, list[Point]], sources: tuple[str, ...], command: str, notes: list[str]) -> Growth:
    ordered = {label: sorted(lines[label], key=lambda point: point.homes) for label in sorted(lines)}
    said = {
        "Sizes less than ten times apart, so the factor is extrapolated": _is_narrow,
        f"With times under {1000 * BRIEF:g} ms, which are too short to mean much": _is_brief,
    }
    for words, is_so in said.items():
        if named := [label for label, line in ordered.items() if is_so(line)]:
            notes = [*notes, f"{words}: {', '.join(named) if len(named) < len(ordered) else 'all lines'}."]
    return Growth(ordered, sources, command, tuple(notes))


def _is_narrow(line: Sequence[Point]) -> bool:
    """Whether a factor per ten times the homes goes beyond what was measured; a single size has no factor."""
    return 1 < line[-1].homes / line[0].homes < 10


def _is_brief(line: Sequence[Point]) -> bool:
    return any(point.seconds < BRIEF for point in line)
