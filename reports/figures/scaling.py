"""Time, memory and quality by number of homes: a panel per family, in which the lines of the others are grey."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from benchmarks.results.formulations import (
    FEATURES,
    FEDERATED,
    GRAPH,
    KNOWLEDGE_GRAPH,
    NON_PERSONALIZED,
    OTHER,
    PROBE,
    USER_ITEM,
)
from reports import boards
from reports.boards import FAMILIES
from reports.drawing.layout import Block, Layout, Panel, fitted
from reports.drawing.styles import FAINT, FAMILY_STYLES, LineStyle, legend, line_styles
from reports.inputs import Inputs
from reports.outputs import About, Drawing
from reports.scaling import (
    DATA,
    ONE_ROUND,
    RUN_SIZES,
    Point,
    Quality,
    QualityLines,
    fit_lines,
    fits,
    known_values,
    quality_lines,
    tenfold_factor,
    without_probes,
)
from reports.text.formats import short_number

HEADINGS = {
    USER_ITEM: "User-item, non-personalized",
    NON_PERSONALIZED: "User-item, non-personalized",
    PROBE: "User-item, non-personalized",
    KNOWLEDGE_GRAPH: "Knowledge graph, features",
    FEATURES: "Knowledge graph, features",
    GRAPH: "Graph",
    FEDERATED: "Federated",
}
OTHERS = "Other methods"
MAX_LABELS = 13  # per panel
LINE = 0.065  # from label to label, as a part of a panel's height
NAMES = 0.4  # of a panel's width, for the labels at the ends of lines
GREY = "#dcdcdc"  # lines of other families
AXIS_LABELS = {"seconds": "seconds to fit", "megabytes": "peak memory, MB"}
QUANTITIES = {"seconds": "the time", "megabytes": "the memory"}


def scaling(inputs: Inputs, what: str = "seconds") -> Drawing:
    """Seconds of a fit against homes, on logarithmic axes."""
    found = without_probes(fit_lines(inputs))
    styles = line_styles({label: _method(label) for label in found.lines})
    points = [point for line in found.lines.values() for point in line]
    sizes = sorted({point.homes for point in points})
    values = [value for _, value in known_values(points, what)]
    panels = [
        Panel(
            partial(_panel, lines=found.lines, named=labels, styles=styles, sizes=sizes, what=what, values=values),
            title,
        )
        for title, labels in _families(found.lines)
    ]
    growth = "x: factor per ten times the homes, from the smallest to the largest size. Grey: the other methods."
    note = f"{found.statistic} {growth}"
    layout = Layout((Block("", tuple(panels)),), note=note, columns=min(len(panels), 2), height=2.6, left=0.75)
    return Drawing(layout, About(_caption(found.lines, what), found.sources, found.command, found.notes))


def scaling_memory(inputs: Inputs) -> Drawing:
    """Memory of a fit against homes, on logarithmic axes."""
    return scaling(inputs, "megabytes")


def quality(inputs: Inputs) -> Drawing:
    """Reciprocal rank against homes: the best method of each family, the others grey."""
    found = quality_lines(inputs)
    family_of = {run.key.method: boards.family_of(run) for board in found.boards for _, run in board.runs}
    best = _best_of_each_family(found.lines, family_of)
    panel = Panel(partial(_quality_panel, lines=found.lines, best=best))
    styles = legend(best.values())
    seeds = "; ".join(
        f"{homes:,} homes: {boards.seeds_of(board)}" for homes, board in zip(found.sizes, found.boards, strict=True)
    )
    note = (
        f"In colour: the best method of each family; grey: the others. Bar: "
        f"{boards.interval_name(found.boards)}. {seeds}."
    )
    status = boards.boards_note(found.boards)
    note += f" Hollow: see {status}" if status else ""
    layout = Layout((Block("", (panel,)),), styles, note, columns=1, height=3.4, left=0.75)
    caption = " ".join(filter(None, [_quality_caption(found, best), status]))
    return Drawing(layout, About(caption, found.sources, RUN_SIZES, found.notes))


def _best_of_each_family(lines: Mapping[str, Sequence[Quality]], family_of: Mapping[str, str]) -> dict[str, str]:
    """Method -> family: of each family the method with most sizes, and of these the best at its largest size."""
    best: dict[str, str] = {}
    ordered = sorted(lines, key=lambda method: (-len(lines[method]), -lines[method][-1].value, method))
    for method in ordered:
        family = family_of.get(method, OTHER)
        if family != PROBE and family not in best.values() and len(lines[method]) > 1:
            best[method] = family
    return best


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
    named: Sequence[str],
    styles: Mapping[str, LineStyle],
    sizes: Sequence[int],
    what: str,
    values: Sequence[float],
) -> None:
    axes.set(yscale="log", ylabel=AXIS_LABELS[what])
    names = _homes_axis(axes, sizes)
    axes.set_ylim(min(values, default=1.0) / 1.5, max(values, default=1.0) * 1.5)
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    axes.yaxis.set_minor_locator(NullLocator())
    steps = (1,) if max(values, default=1.0) > 100 * min(values, default=1.0) else (1, 2, 5)
    axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=9))
    ends = []
    for label, line in lines.items():
        if not (known := known_values(line, what)):
            continue
        if label not in named:
            axes.plot(*zip(*known, strict=True), color=GREY, linewidth=0.9, zorder=1)
            continue
        style = styles[label]
        axes.plot(*zip(*known, strict=True), color=style.colour, linestyle=style.dash, marker=style.marker or "o")
        factor = tenfold_factor(line, what)
        text = label if math.isnan(factor) else f"{label} x{short_number(factor)}"
        ends.append((known[-1][1], text, known[-1][0], style.colour))
    _name_ends(axes, ends, names)


def _homes_axis(axes: Axes, sizes: Sequence[int]) -> float:
    """A logarithmic axis with room for names; where they begin."""
    axes.set_xscale("log")
    axes.set_xlabel("homes", labelpad=1)
    decades = max(math.log10(sizes[-1] / sizes[0]), 0.3)
    names = sizes[-1] * 10 ** (0.06 * decades)
    axes.set_xlim(sizes[0] / 10 ** (0.06 * decades), names * 10 ** (1.12 * decades * NAMES / (1 - NAMES)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(_legible(sizes, decades))
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    return float(names)


def _name_ends(axes: Axes, ends: Sequence[tuple[float, str, float, str]], names: float) -> None:
    """The names of lines beside their last points (value, name, homes, colour), one below the other."""
    logarithmic = axes.get_yscale() == "log"
    scale, back = (np.log, np.exp) if logarithmic else (np.asarray, np.asarray)
    low, high = scale(axes.get_ylim())
    heights = _apart([(float(scale(value)) - low) / (high - low) for value, *_ in sorted(ends)])
    room = NAMES * float(axes.get_window_extent().width / axes.figure.dpi)
    for height, (value, text, homes, colour) in zip(heights, sorted(ends), strict=True):
        short, size = fitted(text, room)
        y = float(back(low + height * (high - low)))
        axes.plot([homes, names], [value, y], color=FAINT, linestyle=(0, (1, 2)), linewidth=0.7)
        axes.text(names, y, f" {short}", va="center", fontsize=min(size, 7.5), color=colour)


def _short(value: float, _: object = None) -> str:
    return f"{value:,g}" if value < 1e4 else f"{value / 1e3:,.0f}k"


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


def _quality_panel(axes: Axes, *, lines: Mapping[str, Sequence[Quality]], best: Mapping[str, str]) -> None:
    sizes = sorted({point.homes for line in lines.values() for point in line})
    names = _homes_axis(axes, sizes)
    every = [value for line in lines.values() for point in line for value in (point.low, point.value, point.high)]
    finite = [value for value in every if math.isfinite(value)]
    axes.set_ylim(0, 1.08 * max(finite, default=1.0) or 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.set_ylabel("mean reciprocal rank")
    for method, line in lines.items():
        if method not in best:
            axes.plot([p.homes for p in line], [p.value for p in line], color=GREY, linewidth=0.9, marker=".", zorder=1)
    ends = []
    for number, (method, family) in enumerate(best.items()):
        style, line = FAMILY_STYLES[family], lines[method]
        shift = 1 + 0.012 * (number - (len(best) - 1) / 2)  # so that bars of equal sizes stand beside each other
        homes = [point.homes * shift for point in line]
        axes.plot(homes, [point.value for point in line], color=style.colour, linewidth=1.4, zorder=2)
        for x, point in zip(homes, line, strict=True):
            axes.plot([x, x], [point.low, point.high], color=style.colour, linewidth=1.1, zorder=2)
            axes.plot(x, point.value, **(style.hollow_dot if point.sign else style.dot), zorder=3)
        ends.append((line[-1].value, f"{method} {line[-1].value:.3f}{line[-1].sign}", line[-1].homes, style.colour))
    _name_ends(axes, ends, names)


def _quality_caption(found: QualityLines, best: Mapping[str, str]) -> str:
    """How the best of each family changes from its fewest to its most homes."""
    said = []
    for method, family in best.items():
        first, last = found.lines[method][0], found.lines[method][-1]
        begin, end = (f"{each.value:.3f}{each.sign} with {each.homes:,}" for each in (first, last))
        said.append(f"{method} ({family}) goes from {begin} homes to {end}")
    return f"MRR on {DATA} by number of homes: {'; '.join(said)}."


def _caption(lines: Mapping[str, list[Point]], what: str) -> str:
    """The methods that grow least and most, each with its sizes; single rounds apart."""
    factors = {label: tenfold_factor(line, what) for label, line in lines.items()}
    known = sorted((factors[label], label) for label in fits(lines) if not math.isnan(factors[label]))
    ends = dict.fromkeys(known[:1] + known[-1:])
    grows = [f"{short_number(factor)} ({label}, {_sizes(lines[label], what)})" for factor, label in ends]
    cost = QUANTITIES[what]
    said = [f"Per ten times the homes, {cost} to fit grows by a factor of {' to '.join(grows)}."] if grows else []
    if not math.isnan(factor := factors.get(ONE_ROUND, math.nan)):
        grown = f"{short_number(factor)} ({_sizes(lines[ONE_ROUND], what)})"
        said.append(f"For a single round of fedrule, per ten times the homes, {cost} grows by a factor of {grown}.")
    return " ".join(said) or "No line has sizes that are ten times apart to compare."


def _sizes(line: Sequence[Point], what: str) -> str:
    known = known_values(line, what)
    return f"{known[0][0]:,} to {known[-1][0]:,} homes"
