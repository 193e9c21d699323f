"""One home in both formulations (the paper's figure 1), and the distribution of home sizes.

The graph of the home is drawn in inches: devices in two columns, rules as labelled edges. Each edge has its own lane
between the columns, so that no label covers another; an edge that ends in the column where it begins turns around
at the far side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyBboxPatch, PathPatch, Polygon, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.results.records import SUMMARIES, DatasetSummary, ExampleHome, OwnedDevice, TypedRule
from datasets.common.errors import counted
from reports.drawing.layout import Block, Layout, Panel, fitted
from reports.drawing.styles import FAINT, INK, LineStyle, line_styles
from reports.inputs import WYZE, Inputs
from reports.outputs import BUILD, About, Drawing, Missing

THIS, RECOMMENDED = "#0072B2", "#D55E00"  # colours of the home and its rules, and of recommendations
# Inches.
BADGE, NODE, NODE_TALL, GAP, LANE, CHANNEL, IDLE = 0.085, 0.84, 0.28, 0.12, 0.45, 0.28, 0.62
TURN = 0.165  # half the distance between the two parts of an edge that turns around
HEAD = 0.09  # of an arrow
OTHER, SEPARATOR = "#b5b5b5", "#e6e6e6"  # colours of other homes, and of the lines between rows
MAX_EDGES = 9  # that are rules of the home
ROW, COLUMN, HEADS = 0.31, 0.22, 0.34  # inches
MAX_DATA = 6  # data sets in the figure of home sizes


@dataclass(frozen=True, slots=True)
class Edge:
    """A rule of the home, or a recommendation."""

    trigger: int  # device, by position
    action: int
    words: tuple[str, str]
    mark: str  # the number of its row in the matrix, "?" for a recommendation, empty where it has no row

    @property
    def recommended(self) -> bool:
        """Whether the home does not have it."""
        return self.mark == "?"


def example_home(inputs: Inputs) -> Drawing:
    """Part of the user-item matrix around one home, and the graph of this home."""
    summary = _preferred(inputs.summaries)
    if summary is None or summary.example is None:
        raise Missing("no data set with rules has been summarized", BUILD)
    home = summary.example
    edges = _edges(home)
    tall = max(HEADS + ROW * (len(home.items) + 1), LANE * len(edges) + IDLE)
    panels = (
        Panel(partial(_matrix, home=home), "User-item matrix: a rule is an item"),
        Panel(partial(draw_graph, names=_device_names(home.devices), edges=edges), "Graph: a rule is an edge"),
    )
    note = (
        "Left: a row is a rule, a column a home; filled: the home has it; ?: may be recommended; x: needs a device "
        "that the home lacks. Right: numbers refer to rows; dashed: a recommendation."
    )
    layout = Layout((Block("", panels),), note=note, columns=2, height=tall, left=0.15)
    about = About(_caption(summary, home, edges), (f"{SUMMARIES}/{summary.file}",), BUILD, _notes(home, edges))
    return Drawing(layout, about)


def home_counts(inputs: Inputs) -> Drawing:
    """Devices and rules per home of each data set, the largest version of it."""
    homes = {each.file: sum(each.devices_per_home.values()) for each in inputs.summaries}
    largest: dict[str, DatasetSummary] = {}
    for summary in sorted(inputs.summaries, key=lambda each: (-homes[each.file], each.file)):
        largest.setdefault(summary.data, summary)
    shown = sorted(largest.values(), key=lambda each: (-homes[each.file], each.data))[:MAX_DATA]
    if not shown:
        raise Missing("no data set has been summarized", BUILD)
    styles = line_styles({summary.data: summary.data for summary in shown})
    counts = {
        "devices per home": {each.data: each.devices_per_home for each in shown},
        "rules per home": {each.data: each.rules_per_home for each in shown},
    }
    panels = tuple(Panel(partial(_panel, counts=each, styles=styles), title) for title, each in counts.items())
    note = "Line: share of homes of at most this size. Farther right: larger homes."
    layout = Layout((Block("", panels),), styles, note, columns=2, height=2.4, left=0.7)
    sizes = [(each.data, _median(each.devices_per_home), _median(each.rules_per_home)) for each in shown]
    medians = [f"{data} {devices:,} devices and {rules:,} rules" for data, devices, rules in sizes]
    sources = tuple(sorted(f"{SUMMARIES}/{summary.file}" for summary in shown))
    return Drawing(layout, About(f"The median home has: {'; '.join(medians)}.", sources, BUILD))


def draw_graph(axes: Axes, *, names: Sequence[str], edges: Sequence[Edge]) -> None:
    """Devices that mostly trigger on the left, those that mostly act on the right, those without rules below."""
    wide, tall = in_inches(axes)
    right = _on_the_right(edges)
    idle = [name for number, name in enumerate(names) if number not in right]
    below = IDLE if idle else 0.0
    height, ordered = _placed(edges, right, tall, below)
    lane = (tall - below) / max(len(ordered), 1)
    for number, (edge, ports) in enumerate(zip(ordered, _ports(ordered, height), strict=True)):
        sides = right[edge.trigger], right[edge.action]
        _draw_edge(axes, edge, tall - (number + 0.5) * lane, ports, sides, wide)
    for number, y in height.items():
        _node(axes, wide - NODE if right[number] else 0.0, y, names[number], THIS)
    fitting = int((wide + GAP / 2) // (NODE + GAP / 2))
    for number, name in enumerate(idle[:fitting]):
        _node(axes, number * (NODE + GAP / 2), NODE_TALL / 2, name, FAINT)
    if idle:
        more = f" (and {len(idle) - fitting} more)" if len(idle) > fitting else ""
        axes.text(0, NODE_TALL + 0.08, f"without a rule here{more}:", fontsize=7.5, color=INK, style="italic")


def _on_the_right(edges: Sequence[Edge]) -> dict[int, bool]:
    """Device -> whether it is in the right column; devices that do both equally often go where there are fewer."""
    balance: dict[int, int] = {}
    for edge in edges:
        balance[edge.trigger] = balance.get(edge.trigger, 0) + 1
        balance[edge.action] = balance.get(edge.action, 0) - 1
    right = {number: value < 0 for number, value in balance.items() if value}
    for number in sorted(balance.keys() - right.keys()):
        right[number] = sum(right.values()) * 2 < len(right)
    return right


def _placed(
    edges: Sequence[Edge], right: dict[int, bool], tall: float, below: float
) -> tuple[dict[int, float], list[Edge]]:
    """The height of each device, and the edges from top to bottom: near each other, to have few crossings."""
    lane = (tall - below) / max(len(edges), 1)
    height = {number: -float(number) for number in sorted(right)}
    ordered = list(edges)
    for _ in range(4):
        ordered.sort(key=lambda edge: (-height[edge.trigger] - height[edge.action], edge.trigger, edge.action))
        lanes = {number: [n for n, e in enumerate(ordered) if number in (e.trigger, e.action)] for number in right}
        height = {number: tall - (float(np.mean(each)) + 0.5) * lane for number, each in lanes.items()}
        for side in (False, True):
            column = sorted((n for n in height if right[n] == side), key=lambda n: (-height[n], n))
            gap = min(NODE_TALL + GAP, (tall - below) / max(len(column), 1))
            for n, number in enumerate(column):  # below the one above, with room for those below
                lowest = below + (len(column) - n - 0.5) * gap
                above = height[column[n - 1]] - gap if n else tall - NODE_TALL / 2
                height[number] = max(min(height[number], above), lowest)
    return height, ordered


def _ports(ordered: Sequence[Edge], height: dict[int, float]) -> list[tuple[float, float]]:
    """Where each edge leaves its trigger and reaches its action, in the order of the lanes."""
    ends = [device for edge in ordered for device in (edge.trigger, edge.action)]
    port = []
    for number, device in enumerate(ends):
        many, above = ends.count(device), ends[:number].count(device)
        apart = min(0.07, 0.8 * NODE_TALL / max(many - 1, 1))
        port.append(height[device] + apart * ((many - 1) / 2 - above))
    return list(zip(port[::2], port[1::2], strict=True))


def _draw_edge(
    axes: Axes, edge: Edge, y: float, ports: tuple[float, float], sides: tuple[bool, bool], wide: float
) -> None:
    """A line with the trigger state above it and the action below; one that turns around encloses the words."""
    turns = sides[0] == sides[1]
    apart = TURN if turns else 0.0
    lane = NODE + CHANNEL, wide - NODE - CHANNEL
    begin = _bend(ports[0], y + apart, 0.0, sides[0], wide)
    end = _bend(ports[1], y - apart, HEAD, sides[1], wide)[::-1]
    curve = [Path.CURVE4] * 3
    points, codes = begin, [Path.MOVETO, *curve]
    if turns:
        far = lane[0] if sides[0] else lane[1]
        out = far + (-TURN if sides[0] else TURN)
        points = [*points, (far, y + apart), (out, y + apart), (out, y - apart), (far, y - apart)]
        codes += [Path.LINETO, *curve]
    path = Path([*points, *end], [*codes, Path.LINETO, *curve])
    colour, dash = (RECOMMENDED, (0, (3, 2))) if edge.recommended else (INK, (0, ()))
    axes.add_patch(PathPatch(path, facecolor="none", edgecolor=colour, linestyle=dash, linewidth=1.1, clip_on=False))
    (x, port), tip = end[-1], HEAD if sides[1] else -HEAD
    axes.add_patch(Polygon([(x + tip, port), (x, port + HEAD / 3), (x, port - HEAD / 3)], color=colour, linewidth=0))
    start, toward = (lane[1], -BADGE) if sides[0] else (lane[0], BADGE)
    if edge.mark:
        badge(axes, start, y + apart, edge.mark, RECOMMENDED if edge.recommended else THIS)
    for line, up in zip((edge.words[0], f"→ {edge.words[1]}"), (0.075, -0.085), strict=True):
        text, size = fitted(line, lane[1] - lane[0] - BADGE)
        axes.text((wide + toward) / 2, y + up, text, ha="center", va="center", fontsize=size, color=colour)


def _bend(port: float, lane: float, gap: float, right: bool, wide: float) -> list[tuple[float, float]]:
    """From a device into a lane."""
    begin, end = NODE + gap, NODE + CHANNEL
    bend = [(begin, port), ((begin + end) / 2, port), ((begin + end) / 2, lane), (end, lane)]
    return [(wide - x, y) for x, y in bend] if right else bend


def _node(axes: Axes, x: float, y: float, name: str, colour: str) -> None:
    box = f"round,pad=0,rounding_size={NODE_TALL / 3}"
    place = x, y - NODE_TALL / 2
    axes.add_patch(
        FancyBboxPatch(place, NODE, NODE_TALL, boxstyle=box, facecolor="white", edgecolor=colour, clip_on=False)
    )
    text, size = fitted(name, NODE - 0.06)
    axes.text(x + NODE / 2, y, text, ha="center", va="center", fontsize=size, color=INK)


def badge(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    axes.add_patch(Circle((x, y), BADGE, facecolor="white", edgecolor=colour, zorder=3, clip_on=False))
    axes.text(x, y - 0.005, text, ha="center", va="center", fontsize=7, color=colour, weight="bold", zorder=4)


def in_inches(axes: Axes) -> tuple[float, float]:
    """Make the axes empty, with an inch as the unit; their width and height."""
    box, dots = axes.get_window_extent(), axes.figure.dpi
    wide, tall = float(box.width / dots), float(box.height / dots)
    axes.set(xlim=(0, wide), ylim=(0, tall))
    axes.set_axis_off()
    return wide, tall


def _preferred(summaries: Sequence[DatasetSummary]) -> DatasetSummary | None:
    """The largest of smart homes; else the first with an example. Synthetic data first, which may be published."""
    able = [each for each in summaries if each.example is not None]
    smart = [each for each in able if each.data in WYZE.data]
    order = WYZE.data.index
    best = min(smart, key=lambda p: (-order(p.data), -sum(p.devices_per_home.values()), p.file), default=None)
    return best or next(iter(able), None)


def _edges(home: ExampleHome) -> list[Edge]:
    """Rules with a row in the matrix first, then the first recommendation."""
    own = list(zip(home.items, home.rows[0].has, strict=True))
    numbers = {item: str(n) for n, (item, has) in enumerate(own, start=1) if has}
    position = {device: n for n, device in enumerate(home.devices)}
    rules = [
        Edge(
            position[rule.trigger],
            position[rule.action_device],
            (rule.trigger_state, rule.action),
            numbers.get(TypedRule(rule.trigger.type, rule.trigger_state, rule.action, rule.action_device.type), ""),
        )
        for rule in home.rules
    ]
    rules = sorted(rules, key=lambda edge: int(edge.mark or len(home.items) + 1))[:MAX_EDGES]
    first = {device.type: n for n, device in reversed(list(enumerate(home.devices)))}
    lacking = [item for item, has in own if not has and _feasible(item, home)]
    return rules + [
        Edge(first[item.trigger_type], first[item.action_type], (item.trigger_state, item.action), "?")
        for item in lacking[:1]
    ]


def _feasible(item: TypedRule, home: ExampleHome) -> bool:
    return {item.trigger_type, item.action_type} <= {device.type for device in home.devices}


def _device_names(devices: Sequence[OwnedDevice]) -> list[str]:
    """By type, numbered where there are several of one."""
    types = [device.type for device in devices]
    return [f"{t} {types[: n + 1].count(t)}" if types.count(t) > 1 else t for n, t in enumerate(types)]


def _caption(summary: DatasetSummary, home: ExampleHome, edges: Sequence[Edge]) -> str:
    names, marks = _device_names(home.devices), sum(home.rows[0].has)
    known, new = [edge for edge in edges if not edge.recommended], [edge for edge in edges if edge.recommended]
    caption = (
        f"One home of {summary.data}, {counted(len(home.devices), 'device')} and {counted(len(home.rules), 'rule')}. "
        f"In the user-item matrix its rules are marks in its column ({marks} shown here, next to "
        f"{counted(len(home.rows) - 1, 'other home')}); in its graph they are edges."
    )
    said = {e: f"“{' → '.join(e.words)}” from {names[e.trigger]} to {names[e.action]}" for e in (*known[:1], *new[:1])}
    if known and known[0].mark:
        caption += f" Row {known[0].mark} is the edge {said[known[0]]}."
    if new:
        caption += f" To recommend is to fill in a question mark or to add an edge, such as {said[new[0]]}."
    types = [device.type for device in home.devices]
    if repeated := sorted({each for each in types if types.count(each) > 1}):
        caption += f" Only the graph distinguishes the devices of type {', '.join(repeated)}."
    return caption


def _notes(home: ExampleHome, edges: Sequence[Edge]) -> tuple[str, ...]:
    shown = [edge for edge in edges if not edge.recommended]
    left_out, unmarked = len(home.rules) - len(shown), sum(not edge.mark for edge in shown)
    notes = [f"{left_out} of the home's {len(home.rules)} rules are not drawn in its graph."] if left_out else []
    notes += [f"Edges without a number ({unmarked}) have no row in this excerpt of the matrix."] if unmarked else []
    return tuple(notes)


def _matrix(axes: Axes, *, home: ExampleHome) -> None:
    """Items as rows, since their names are long; the example home is the first column."""
    wide, tall = in_inches(axes)
    left, top = wide - COLUMN * len(home.rows), tall - HEADS
    bottom = top - ROW * len(home.items)
    axes.add_patch(Rectangle((left, bottom - ROW), COLUMN, tall - bottom + ROW, color=THIS, alpha=0.12, linewidth=0))
    for column, row in enumerate(home.rows):
        x = left + (column + 0.5) * COLUMN
        name, weight = ("this", "bold") if column == 0 else (chr(ord("A") + (column - 1) % 26), "normal")
        axes.text(x, top + 0.04, name, ha="center", fontsize=7.5, weight=weight, color=INK)
        axes.text(x, bottom - ROW / 2, f"{row.rules}", ha="center", va="center", fontsize=6.5, color=INK)
    axes.text(wide, top + 0.2, "homes", ha="right", fontsize=7.5, color=INK)
    axes.text(2.5 * BADGE, bottom - ROW / 2, "rules in all", va="center", fontsize=7.5, color=INK, style="italic")
    for number, (item, owned) in enumerate(zip(home.items, home.rows[0].has, strict=True)):
        middle = top - (number + 0.5) * ROW
        axes.plot([0, wide], [middle - ROW / 2] * 2, color=SEPARATOR, linewidth=0.6)
        feasible = _feasible(item, home)
        if owned:
            badge(axes, BADGE + 0.01, middle, str(number + 1), THIS)
        lines = f"{item.trigger_type}: {item.trigger_state}", f"→ {item.action}: {item.action_type}"
        for line, up in zip(lines, (0.068, -0.068), strict=True):
            text, size = fitted(line, left - 2.5 * BADGE - 0.04)
            colour = INK if owned or feasible else FAINT
            axes.text(2.5 * BADGE, middle + up, text, va="center", fontsize=size, color=colour)
        for column, row in enumerate(home.rows):
            x = left + column * COLUMN
            if row.has[number]:
                side, colour = COLUMN - 0.07, THIS if column == 0 else OTHER
                axes.add_patch(Rectangle((x + 0.035, middle - side / 2), side, side, color=colour, linewidth=0))
            elif column == 0:
                sign, colour = ("?", RECOMMENDED) if feasible else ("x", FAINT)
                place = x + COLUMN / 2, middle
                axes.text(*place, sign, ha="center", va="center", fontsize=9, weight="bold", color=colour)


def _panel(axes: Axes, *, counts: Mapping[str, Mapping[int, int]], styles: Mapping[str, LineStyle]) -> None:
    for data, homes in counts.items():
        sizes = sorted(homes)
        share = np.cumsum([homes[size] for size in sizes]) / max(sum(homes.values()), 1)
        style = styles[data]
        axes.step(np.maximum(sizes, 0.5), share, where="post", color=style.colour, linestyle=style.dash)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value >= 1 else "0"))
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of homes")


def _median(homes: Mapping[int, int]) -> int:
    """The median: the smallest size that at least half of the homes do not exceed."""
    sizes = sorted(homes)
    so_far = accumulate(homes[size] for size in sizes)
    return next((size for size, many in zip(sizes, so_far, strict=True) if 2 * many >= sum(homes.values())), 0)
