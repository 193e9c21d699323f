"""Time and memory of fitting, by number of homes, and of inference for one home (the paper's last figure).

Fitting is from what benchmarks/speed/test_fit.py has measured, and test_federated.py for single rounds; where that is
missing, from runs on wyze-synthetic by the same code with the same settings. Inference is from measurements of
pytest-benchmark in the group "inference". Each is about homes of one size:

    extra_info = {"method": "fedrule", "devices": 8, "milliseconds_p50": 1.9, "milliseconds_p95": 2.4, "megabytes": 0.7}

and at least one is about many homes: `"megabytes of homes"` is a list with the memory of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from benchmarks.results.compare import refuse_mixed
from benchmarks.results.formulations import (
    FEATURES,
    FEDERATED,
    GRAPH,
    KNOWLEDGE_GRAPH,
    NON_PERSONALIZED,
    USER_ITEM,
)
from benchmarks.results.speeds import Speed
from benchmarks.results.status import SIGN, sign_of
from benchmarks.results.store import Result
from datasets.common.errors import counted
from reports.boards import FAMILIES
from reports.drawing.curves import Floats
from reports.drawing.layout import Block, Layout, Panel, fitted
from reports.drawing.styles import COLOURS, FAINT, INK, Dash, LineStyle, line_styles
from reports.inputs import Inputs, comparable, extra_number, finite_or_nan, group_runs, measured_on, speed_files
from reports.outputs import RUN, About, Drawing, Missing, run_files
from reports.text.formats import short_number

COMMAND = "pytest benchmarks/ --benchmark-only --scale default"
FIT = "benchmarks/speed/test_fit.py::test_fit"
ROUND = "benchmarks/speed/test_federated.py::test_growth_of_a_fedrule_round"
ONE_ROUND = "fedrule, 1 round"
DATA = "wyze-synthetic"
BRIEF = 0.01  # seconds; shorter times are mostly noise
HEADINGS = {
    USER_ITEM: "User-item and non-personalized methods",
    NON_PERSONALIZED: "User-item and non-personalized methods",
    KNOWLEDGE_GRAPH: "Knowledge-graph and feature methods, centralized",
    FEATURES: "Knowledge-graph and feature methods, centralized",
    GRAPH: "Graph methods, centralized",
    FEDERATED: "Federated methods",
}
OTHERS = "Other methods"
MAX_LABELS = 10  # per panel
LINE = 0.065  # from label to label, as a part of a panel's height
NAMES = 0.4  # of a panel's width, for the labels at the ends of lines
WHAT = {"seconds": "seconds to fit", "megabytes": "peak memory, MB"}
SAID = {"seconds": "the time", "megabytes": "the memory"}

# Inference.
GROUP = "inference"
MAX_MILLISECONDS, MAX_MEGABYTES = 500, 10  # most users got recommendations with less, section 4.6
INFERENCE_COMMAND = "pytest benchmarks/speed/test_inference.py --benchmark-only"
OF_HOMES = "megabytes of homes"
PAPER = f"The paper's limits of {MAX_MILLISECONDS} ms and {MAX_MEGABYTES} MB are of its own server and data."
NOT_RUN = "the inference benchmark has not been run"
BARS = 30
MARK: Dash = (0, (5, 2))
COLUMNS = ("devices", "milliseconds_p50", "milliseconds_p95")


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


def tenfold_factor(line: Sequence[Point], what: str) -> float:
    """The factor per ten times the homes, from the smallest to the largest size; NaN where there are no two."""
    known = _known(line, what)
    if len(known) < 2:
        return math.nan
    (few, small), (many, large) = known[0], known[-1]
    return float((large / small) ** (1 / math.log10(many / few)))


def _known(line: Iterable[Point], what: str) -> list[tuple[int, float]]:
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
    return _scaling_lines(lines, speed_files(kept), COMMAND, notes)


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
    return _scaling_lines(lines, run_files(used), RUN, notes)


def _scaling_lines(
    lines: dict[str, list[Point]], sources: tuple[str, ...], command: str, notes: list[str]
) -> ScalingLines:
    ordered = {label: sorted(lines[label], key=lambda point: point.homes) for label in sorted(lines)}
    narrow = [label for label, line in ordered.items() if 1 < line[-1].homes / line[0].homes < 10]
    brief = [label for label, line in ordered.items() if any(point.seconds < BRIEF for point in line)]
    warnings = {
        "Sizes less than ten times apart, so the factor is extrapolated": narrow,
        f"With times below {1000 * BRIEF:g} ms, which are mostly noise": brief,
    }
    for warning, labels in warnings.items():
        if labels:
            notes = [*notes, f"{warning}: {', '.join(labels) if len(labels) < len(ordered) else 'all lines'}."]
    return ScalingLines(ordered, sources, command, tuple(notes))


def scaling(inputs: Inputs) -> Drawing:
    """Seconds and memory against homes, on logarithmic axes."""
    found = _of_speeds(inputs.speeds) or _of_runs(inputs)
    if found is None:  # no method has two sizes
        raise Missing("no method was timed with different numbers of homes", COMMAND)
    styles = line_styles({label: _method(label) for label in found.lines})
    points = [point for line in found.lines.values() for point in line]
    sizes = sorted({point.homes for point in points})
    values = {what: [value for _, value in _known(points, what)] for what in WHAT}
    shown = [what for what in WHAT if values[what]]
    blocks = []
    for heading, labels in _families(found.lines):
        lines = {label: found.lines[label] for label in labels}
        panel = partial(_panel, lines=lines, styles=styles, sizes=sizes)
        blocks.append(Block(heading, tuple(Panel(partial(panel, what=what, values=values[what])) for what in shown)))
    note = "x: factor per ten times the homes, from the smallest to the largest size. All panels have the same axes."
    layout = Layout(tuple(blocks), note=note, columns=max(len(shown), 1), height=2.4, left=0.75)
    return Drawing(layout, About(_caption(found.lines), found.sources, found.command, found.notes))


def _method(label: str) -> str:
    return "fedrule" if label == ONE_ROUND else label


def _families(labels: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Headings with their lines, at most MAX_LABELS each."""
    of = {method: HEADINGS.get(family, OTHERS) for family, methods in FAMILIES.items() for method in methods}
    found: dict[str, list[str]] = {heading: [] for heading in (*HEADINGS.values(), OTHERS)}
    for label in labels:
        found[of.get(_method(label), OTHERS)].append(label)
    return [
        (f"{heading}, continued" if first else heading, members[first : first + MAX_LABELS])
        for heading, members in found.items()
        for first in range(0, len(members), MAX_LABELS)
    ]


def _panel(
    axes: Axes,
    *,
    lines: Mapping[str, Sequence[Point]],
    styles: Mapping[str, LineStyle],
    sizes: Sequence[int],
    what: str,
    values: Sequence[float],
) -> None:
    axes.set(xscale="log", yscale="log", ylabel=WHAT[what])
    axes.set_xlabel("homes", labelpad=1)
    decades = max(math.log10(sizes[-1] / sizes[0]), 0.3)
    names = sizes[-1] * 10 ** (0.06 * decades)
    axes.set_xlim(sizes[0] / 10 ** (0.06 * decades), names * 10 ** (1.12 * decades * NAMES / (1 - NAMES)))
    axes.set_ylim(min(values) / 1.5, max(values) * 1.5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,g}" if v < 1e4 else f"{v / 1e3:,.0f}k"))
        axis.set_minor_locator(NullLocator())
    axes.set_xticks(_legible(sizes, decades))
    steps = (1,) if max(values) > 100 * min(values) else (1, 2, 5)
    axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=9))
    ends = []
    for label, line in lines.items():
        if known := _known(line, what):
            style = styles[label]
            axes.plot(*zip(*known, strict=True), color=style.colour, linestyle=style.dash, marker=style.marker or "o")
            ends.append((known[-1][1], label, known[-1][0]))
    low, high = np.log(axes.get_ylim())
    heights = _apart([(math.log(value) - low) / (high - low) for value, _, _ in sorted(ends)])
    room = NAMES * float(axes.get_window_extent().width / axes.figure.dpi)
    for height, (value, label, homes) in zip(heights, sorted(ends), strict=True):
        factor = tenfold_factor(lines[label], what)
        text, size = fitted(label if math.isnan(factor) else f"{label} x{short_number(factor)}", room)
        y = float(np.exp(low + height * (high - low)))
        axes.plot([homes, names], [value, y], color=FAINT, linestyle=(0, (1, 2)), linewidth=0.7)
        axes.text(names, y, f" {text}", va="center", fontsize=min(size, 7.5), color=INK)


def _legible(sizes: Sequence[int], decades: float) -> list[int]:
    """The sizes whose tick labels do not touch."""
    kept: list[int] = []
    for size in sizes:
        if not kept or math.log10(size / kept[-1]) > 0.2 * decades:
            kept.append(size)
    return kept


def _apart(heights: Sequence[float]) -> list[float]:
    """The heights, lowest first, moved until labels do not touch, within the panel."""
    moved: list[float] = []
    for number, height in enumerate(heights):
        above = LINE * (len(heights) - number - 1)
        moved.append(min(max(height, moved[-1] + LINE if moved else 0.02), 0.98 - above))
    return moved


def _caption(lines: Mapping[str, list[Point]]) -> str:
    """The methods that grow least and most, each with its sizes; single rounds apart."""
    said, one_round = [], []
    for what, name in SAID.items():
        factors = {label: tenfold_factor(line, what) for label, line in lines.items()}
        known = sorted((factors[label], label) for label in fits(lines) if not math.isnan(factors[label]))
        ends = dict.fromkeys(known[:1] + known[-1:])
        grows = [f"{short_number(factor)} ({label}, {_sizes(lines[label], what)})" for factor, label in ends]
        if grows:
            said.append(f"{name} to fit grows by a factor of {' to '.join(grows)}")
        if not math.isnan(factor := factors.get(ONE_ROUND, math.nan)):
            one_round.append(f"{name} grows by a factor of {short_number(factor)} ({_sizes(lines[ONE_ROUND], what)})")
    sentences = [f"Per ten times the homes, {'; '.join(said)}."] if said else []
    if one_round:
        sentences.append(f"For a single round of fedrule, per ten times the homes, {' and '.join(one_round)}.")
    return " ".join(sentences) or "No line has two sizes to compare."


def _sizes(line: Sequence[Point], what: str) -> str:
    known = _known(line, what)
    return f"{known[0][0]:,} to {known[-1][0]:,} homes"


def delay(inputs: Inputs) -> Drawing:
    """Milliseconds against devices, a line per method, up to the 95th percentile."""
    measured = [speed for speed in inputs.speeds if speed.group == GROUP]
    timed = [speed for speed in measured if all(extra_number(speed, name) > 0 for name in COLUMNS)]
    kept = comparable(timed, "devices")
    if not kept:
        raise Missing(NOT_RUN, INFERENCE_COMMAND)
    by_method: dict[str, list[Speed]] = {}
    for speed in kept:
        by_method.setdefault(str(speed.extra_info.get("method", speed.name)), []).append(speed)
    lines = {method: _delays(by_method[method]) for method in sorted(by_method)}
    styles = line_styles({method: method for method in lines})
    note = f"Line: median; band: up to the 95th percentile; dashed: {MAX_MILLISECONDS} ms, the paper's limit."
    panel = Panel(partial(_delay_panel, lines=lines, styles=styles))
    layout = Layout((Block("", (panel,)),), styles, note, columns=1, height=3.0, left=0.7)
    caption = " ".join(_delay_caption(method, line) for method, line in lines.items())
    return Drawing(layout, About(caption, speed_files(kept), INFERENCE_COMMAND, (*measured_on(kept), PAPER)))


def memory(inputs: Inputs) -> Drawing:
    """A histogram of homes by megabytes."""
    known = [speed for speed in inputs.speeds if speed.group == GROUP and len(_of_homes(speed))]
    if not known:
        raise Missing(NOT_RUN, INFERENCE_COMMAND)
    chosen = max(known, key=lambda speed: (len(_of_homes(speed)), speed.made, speed.fullname))
    values = np.sort(_of_homes(chosen))
    within = int(np.count_nonzero(values < MAX_MEGABYTES))
    method = chosen.extra_info.get("method")
    caption = (
        f"Recommending{f' by {method}' if method else ''} takes less than {MAX_MEGABYTES} MB for {within:,} of "
        f"{len(values):,} homes; half of them need at most {_short(float(np.median(values)))} MB, the largest "
        f"{_short(float(values[-1]))} MB."
    )
    note = f"Dashed: {MAX_MEGABYTES} MB, the paper's limit."
    panel = Panel(partial(_memory_panel, values=values))
    layout = Layout((Block("", (panel,)),), {}, note, columns=1, height=2.6, left=0.75)
    return Drawing(layout, About(caption, speed_files([chosen]), INFERENCE_COMMAND, (*measured_on([chosen]), PAPER)))


def _delays(speeds: Sequence[Speed]) -> Floats:
    """[n_sizes, 3]: COLUMNS by size of home."""
    rows = [[extra_number(speed, name) for name in COLUMNS] for speed in speeds]
    return np.array(sorted(rows, key=lambda row: row[0]), dtype=np.float64)


def _of_homes(speed: Speed) -> Floats:
    listed = speed.extra_info.get(OF_HOMES)
    values = np.array([finite_or_nan(value) for value in listed] if isinstance(listed, list) else [], dtype=np.float64)
    return values[values >= 0]  # without NaN


def _delay_caption(method: str, line: Floats) -> str:
    (few, least, _), (many, most, _) = line[0], line[-1]
    slowest = float(line[:, 1:].max())
    text = f"{method} takes {_short(least)} ms with {counted(int(few), 'device')}"
    if len(line) > 1:
        text += f" and {_short(most)} ms with {counted(int(many), 'device')}"
    if slowest < MAX_MILLISECONDS:
        times = MAX_MILLISECONDS / slowest
        return f"{text}; the 95th percentile is at least {times:,.3g} times faster than {MAX_MILLISECONDS} ms."
    above = [int(row[0]) for row in line if row[1:].max() >= MAX_MILLISECONDS]
    return f"{text}; homes with {min(above):,} devices or more can take longer than {MAX_MILLISECONDS} ms."


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _delay_panel(axes: Axes, *, lines: dict[str, Floats], styles: dict[str, LineStyle]) -> None:
    for method, line in lines.items():
        style, (devices, middle, high) = styles[method], line.T
        axes.plot(devices, middle, color=style.colour, linestyle=style.dash, marker=style.marker or "o")
        axes.fill_between(devices, middle, high, color=style.colour, alpha=0.15, linewidth=0)
    axes.axhline(MAX_MILLISECONDS, color=INK, linestyle=MARK, linewidth=1)
    axes.set_yscale("log")
    lowest = min(float(line[:, 1].min()) for line in lines.values())
    highest = max(float(line[:, 1:].max()) for line in lines.values())
    axes.set_ylim(min(lowest, MAX_MILLISECONDS) / 1.5, max(highest, MAX_MILLISECONDS) * 1.5)
    axes.yaxis.set_major_locator(LogLocator(numticks=9))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlim(left=0)
    axes.set_xlabel("devices of the home", labelpad=1)
    axes.set_ylabel("milliseconds, lower is better")


def _memory_panel(axes: Axes, *, values: Floats) -> None:
    most = max(float(values[-1]), MAX_MEGABYTES) * 1.05
    axes.hist(values, bins=np.linspace(0, most, BARS + 1).tolist(), color=COLOURS["fedgnn"])
    axes.axvline(MAX_MEGABYTES, color=INK, linestyle=MARK, linewidth=1)
    axes.set_xlim(0, most)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("megabytes per home", labelpad=1)
    axes.set_ylabel("homes")
