"""Quality against epsilon of differential privacy: a panel for each method, a line for each number of homes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from benchmarks.results.store import Result
from reports.drawing.layout import Block, Layout, Panel
from reports.drawing.styles import MARKERS, SPARE, LineStyle
from reports.inputs import Inputs, is_ranking
from reports.outputs import About, Drawing, Missing, run_files
from reports.text.formats import seed_count

COMMAND = "python -m benchmarks run privacy"
METRIC = "mrr"
FREE = 0.99  # of the quality without privacy: what epsilon costs is then within the noise of seeds
# What private runs have other values of than the run without privacy that they are compared with.
OF_PRIVACY = ("epsilon", "delta", "counts_share", "sampling")


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A method with one setting on one number of homes."""

    method: str
    homes: int
    level: float  # without privacy
    points: tuple[tuple[float, float], ...]  # epsilon and quality, by falling epsilon
    runs: tuple[Result, ...]

    @property
    def free(self) -> float:
        """The smallest epsilon down to which privacy costs at most 1 %; infinite where there is none."""
        found = math.inf
        for epsilon, quality in self.points:
            if not quality >= FREE * self.level:
                break
            found = epsilon
        return found


def _setting(run: Result) -> str:
    """All that private runs and the one without privacy share, and seeds: method, parameters, data and split."""
    parameters = {name: value for name, value in run.key.parameters.items() if name not in OF_PRIVACY}
    split = {name: value for name, value in run.key.split.items() if name != "seed"}
    return json.dumps([run.key.method, parameters, run.key.data, run.key.data_options, run.key.track, split])


def lines(runs: Sequence[Result]) -> list[Line]:
    """Of all settings that were run with privacy and without; by method and number of homes."""
    settings: dict[str, dict[float, list[Result]]] = {}
    for run in runs:
        if is_ranking(run) and isinstance(epsilon := run.key.parameters.get("epsilon"), int | float):
            settings.setdefault(_setting(run), {}).setdefault(float(epsilon), []).append(run)
    found = []
    for by_epsilon in settings.values():
        if 0 in by_epsilon and len(by_epsilon) > 1:
            first = by_epsilon[0][0]
            points = tuple((epsilon, _mean(by_epsilon[epsilon])) for epsilon in sorted(by_epsilon, reverse=True)[:-1])
            used = tuple(run for some in by_epsilon.values() for run in some)
            found.append(Line(first.key.method, first.counts.get("homes", 0), _mean(by_epsilon[0]), points, used))
    return sorted(found, key=lambda line: (line.method, line.homes, line.level))


def _mean(runs: Sequence[Result]) -> float:
    values = [run.summary.get(METRIC, math.nan) for run in runs]
    return sum(values) / len(values)


def by_epsilon(inputs: Inputs) -> Drawing:
    """Mean reciprocal rank against epsilon, with the level without privacy."""
    found = lines(inputs.runs)
    if not found:
        raise Missing("no method was run with several epsilon and without privacy", COMMAND)
    sizes = sorted({line.homes for line in found})
    styles = {
        f"{size:,} homes": LineStyle(SPARE[number % len(SPARE)], marker=MARKERS[number % len(MARKERS)])
        for number, size in enumerate(sizes)
    }
    panels: list[Panel] = []
    for method in dict.fromkeys(line.method for line in found):
        some = [line for line in found if line.method == method]
        panels.append(Panel(partial(_panel, shown=some, styles=styles, first=not panels), title=method))
    seeds = seed_count(len(line.runs) // (len(line.points) + 1) for line in found)
    note = f"Dashed: the same method and options without privacy. Mean over seeds: {seeds}."
    layout = Layout((Block("Quality against epsilon, for all homes", tuple(panels)),), styles, note, columns=3)
    used = [run for line in found for run in line.runs]
    return Drawing(layout, About(_caption(found, sizes[-1]), run_files(used), COMMAND))


def _panel(axes: Axes, *, shown: Sequence[Line], styles: Mapping[str, LineStyle], first: bool) -> None:
    for line in shown:
        style = styles[f"{line.homes:,} homes"]
        axes.plot(*zip(*line.points, strict=True), **style.line)
        axes.axhline(line.level, color=style.colour, linestyle=(0, (4, 3)), linewidth=0.9)
    axes.set(xscale="log", xlabel="epsilon, from little privacy to much")
    ticks = sorted({epsilon for line in shown for epsilon, _ in line.points})
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.invert_xaxis()
    axes.set_ylim(bottom=0)
    if first:
        axes.set_ylabel("mean reciprocal rank")


def _caption(found: Sequence[Line], largest: int) -> str:
    """What privacy costs with the most homes."""
    said = []
    for line in found:
        if line.homes == largest:
            (epsilon, least), free = line.points[-1], line.free
            costs = f"at epsilon {epsilon:g} {1 - least / line.level:.0%}" if line.level else "all"
            down = "at no epsilon that was tried" if free == math.inf else f"down to epsilon {free:g}"
            said.append(f"{line.method} ({line.level:.3f} without privacy) within 1% {down}, {costs} worse")
    return f"With {largest:,} homes: {'; '.join(said)}."
