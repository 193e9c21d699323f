"""Quality against epsilon of differential privacy: a panel for each method, a line for each number of homes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from benchmarks.results.leaderboard import interval_scope
from reports.drawing.layout import Block, Layout, Panel
from reports.drawing.styles import MARKERS, SPARE, LineStyle
from reports.epsilons import EpsilonLine, epsilon_lines
from reports.inputs import Inputs
from reports.outputs import About, Drawing, Missing, run_files
from reports.text.formats import seed_count

COMMAND = "python -m benchmarks run privacy"
DASHED = (0, (4, 3))
NONE = 2.0  # the place of runs without privacy, in the largest epsilon
MARGIN = 1.25  # beside the first and the last place


def by_epsilon(inputs: Inputs) -> Drawing:
    """Mean reciprocal rank against epsilon, with the level without privacy."""
    found = epsilon_lines(inputs.runs)
    if not found:
        raise Missing("no method was run with several epsilon and without privacy", COMMAND)
    sizes = sorted({line.homes for line in found})
    styles = {
        f"{size:,} homes": LineStyle(SPARE[number % len(SPARE)], marker=MARKERS[number % len(MARKERS)])
        for number, size in enumerate(sizes)
    }
    epsilons = sorted({cost.epsilon for line in found for cost in line.costs}, reverse=True)
    top = max(value for line in found for value in (line.level, *(cost.quality for cost in line.costs)))
    panels: list[Panel] = []
    for method in dict.fromkeys(line.method for line in found):
        some = [line for line in found if line.method == method]
        panels.append(Panel(partial(_panel, shown=some, styles=styles, epsilons=epsilons, top=top), title=method))
    note = (
        "Marker at none, dashed line: the same options without privacy. Other markers: mean over seeds "
        f"({_seeds(found)}); bar: 95 % interval of the difference from the dashed line, paired by home, "
        f"{interval_scope(line.seeds for line in found)}. Epsilon falls from left to right, on a log scale: further "
        "right is more privacy."
    )
    layout = Layout((Block("", tuple(panels)),), styles, note, columns=min(len(panels), 3), height=2.6, left=0.75)
    used = [run for line in found for run in line.runs]
    return Drawing(layout, About(_caption(found, sizes[-1]), run_files(used), COMMAND))


def _panel(
    axes: Axes,
    *,
    shown: Sequence[EpsilonLine],
    styles: Mapping[str, LineStyle],
    epsilons: Sequence[float],
    top: float,
) -> None:
    none = NONE * epsilons[0]
    for line in shown:
        style = styles[f"{line.homes:,} homes"]
        axes.plot(*zip(*line.points, strict=True), **style.line)
        axes.plot(none, line.level, **style.dot)
        axes.axhline(line.level, color=style.colour, linestyle=DASHED, linewidth=0.9)
        for cost in line.costs:
            if math.isfinite(cost.low):
                ends = [line.level + cost.low, line.level + cost.high]
                axes.plot([cost.epsilon] * 2, ends, color=style.colour, linewidth=1.2, solid_capstyle="butt")
    axes.set(xscale="log", xlabel="epsilon", ylabel="mean reciprocal rank")
    axes.xaxis.set_major_locator(FixedLocator([none, *epsilons]))
    axes.xaxis.set_major_formatter(FixedFormatter(["none", *(f"{epsilon:g}" for epsilon in epsilons)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(none * MARGIN, epsilons[-1] / MARGIN)
    axes.set_ylim(0, 1.06 * top if top else 1)


def _seeds(found: Sequence[EpsilonLine]) -> str:
    """How many each line has; once where all have the same."""
    if len({line.seeds for line in found}) == 1:
        return seed_count(line.seeds for line in found)
    by_count: dict[int, list[str]] = {}
    for line in found:
        by_count.setdefault(line.seeds, []).append(f"{line.method} {line.homes:,}")
    return "; ".join(f"{seed_count([many])}: {', '.join(names)}" for many, names in sorted(by_count.items()))


def _caption(found: Sequence[EpsilonLine], largest: int) -> str:
    """What privacy costs with the most homes."""
    said = []
    for line in found:
        if line.homes == largest:
            costs = [f"{cost.quality:.3f} at epsilon {cost.epsilon:g}" for cost in line.costs]
            said.append(f"{line.method} has {line.level:.3f} without privacy, {', '.join(costs)}")
    return f"Mean reciprocal rank with {largest:,} homes: {'; '.join(said)}."
