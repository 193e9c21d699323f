"""A home's graph, drawn in inches: devices in two columns, rules as edges with their words.

An edge runs through a lane of its own between the columns, so that no label lies on another, however many rules two
devices share; a rule within one column, or of a device with itself, turns around at the far end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path

from reports.drawing.looks import FAINT, INK
from reports.drawing.text_width import fitted

THIS, WANTED = "#0072B2", "#D55E00"  # colours of the home, and of what it may get
# Inches.
BADGE, NODE, NODE_TALL, GAP, LANE, CHANNEL, IDLE = 0.085, 0.84, 0.28, 0.12, 0.45, 0.28, 0.62
TURN = 0.165  # half of what an edge is apart from itself where it comes back
HEAD = 0.09  # of an arrow


@dataclass(frozen=True, slots=True)
class Edge:
    """A rule of the home, or the one that may become one."""

    trigger: int  # device, by position
    action: int
    words: tuple[str, str]
    mark: str  # the number of its row in the matrix, "?" for what the home lacks, empty where it has no row

    @property
    def wanted(self) -> bool:
        """Whether the home does not have it yet."""
        return self.mark == "?"


def draw_graph(axes: Axes, *, names: Sequence[str], edges: Sequence[Edge]) -> None:
    """Devices that mostly trigger on the left, those that mostly act on the right, the ones without rules below."""
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
    """Device -> its column; devices that do both alike go where there are fewer."""
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
    """Height of each device, and the edges from top to bottom: each near the other, which saves crossings."""
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
            for n, number in enumerate(column):  # apart from the one above, and room for those below
                lowest = below + (len(column) - n - 0.5) * gap
                above = height[column[n - 1]] - gap if n else tall - NODE_TALL / 2
                height[number] = max(min(height[number], above), lowest)
    return height, ordered


def _ports(ordered: Sequence[Edge], height: dict[int, float]) -> list[tuple[float, float]]:
    """Where each edge leaves its trigger and reaches its action: side by side, the uppermost lane on top."""
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
    """A line with the trigger's state above and the action below; around the words where it comes back."""
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
    colour, dash = (WANTED, (0, (3, 2))) if edge.wanted else (INK, (0, ()))
    axes.add_patch(PathPatch(path, facecolor="none", edgecolor=colour, linestyle=dash, linewidth=1.1, clip_on=False))
    (x, port), tip = end[-1], HEAD if sides[1] else -HEAD
    axes.add_patch(Polygon([(x + tip, port), (x, port + HEAD / 3), (x, port - HEAD / 3)], color=colour, linewidth=0))
    start, toward = (lane[1], -BADGE) if sides[0] else (lane[0], BADGE)
    if edge.mark:
        badge(axes, start, y + apart, edge.mark, WANTED if edge.wanted else THIS)
    for line, up in zip((edge.words[0], f"→ {edge.words[1]}"), (0.075, -0.085), strict=True):
        text, size = fitted(line, lane[1] - lane[0] - BADGE)
        axes.text((wide + toward) / 2, y + up, text, ha="center", va="center", fontsize=size, color=colour)


def _bend(port: float, lane: float, gap: float, right: bool, wide: float) -> list[tuple[float, float]]:
    """From beside a device into a lane."""
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
    """Empty axes, one unit of which is an inch; how wide and tall they are."""
    box, dots = axes.get_window_extent(), axes.figure.dpi
    wide, tall = float(box.width / dots), float(box.height / dots)
    axes.set(xlim=(0, wide), ylim=(0, tall))
    axes.set_axis_off()
    return wide, tall
