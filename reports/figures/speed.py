"""Time and memory of inference for one home (the paper's last figure).

They are from measurements of pytest-benchmark in the group "inference". Each is about homes of one size:

    extra_info = {"method": "fedrule", "devices": 8, "milliseconds_p50": 1.9, "milliseconds_p95": 2.4, "megabytes": 0.7}

and at least one is about many homes: `"megabytes of homes"` is a list with the memory of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from benchmarks.results.speeds import Speed
from datasets.common.errors import counted
from reports.drawing.curves import Floats
from reports.drawing.layout import Block, Layout, Panel
from reports.drawing.styles import COLOURS, INK, Dash, LineStyle, line_styles
from reports.inputs import Inputs, comparable, extra_number, finite_or_nan, measured_on, speed_files
from reports.outputs import About, Drawing, Missing

GROUP = "inference"
MAX_MILLISECONDS, MAX_MEGABYTES = 500, 10  # most users got recommendations with less, section 4.6
INFERENCE_COMMAND = "pytest benchmarks/speed/test_inference.py --benchmark-only"
OF_HOMES = "megabytes of homes"
PAPER = f"The paper's limits of {MAX_MILLISECONDS} ms and {MAX_MEGABYTES} MB are of its own server and data."
NOT_RUN = "the inference benchmark has not been run"
BARS = 30
MARK: Dash = (0, (5, 2))
COLUMNS = ("devices", "milliseconds_p50", "milliseconds_p95")


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
