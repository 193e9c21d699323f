"""Label placement: names next to the points of a panel, where they cover neither a point nor each other.

A label is tried right, left, above and below its point, then farther away with a thin line to it. Where nothing is
free, the position that is covered least is used: no label is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from reports.drawing.layout import inches
from reports.drawing.styles import FAINT, INK

Box: TypeAlias = tuple[float, float, float, float]  # left, bottom, right, top

TYPE = 7.0  # points
DOT = 4.5  # points from the middle of a dot to where its name may begin
LINE = 1.25  # of a line of text, in its type
RINGS = (1.0, 2.2, 3.6, 5.5, 8.0)  # distances that are tried, in DOT
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))  # of the point


@dataclass(frozen=True, slots=True)
class Label:
    """A point with its name, in the numbers of the axes."""

    text: str
    x: float
    y: float
    colour: str = INK


def add_labels(axes: Axes, points: Sequence[Label], *, along: Sequence[Label] = ()) -> None:
    """Write the names; limits and scales must have been set. Points that are no numbers have none.

    `along` are names of horizontal lines, which begin at their x, above or below the line.
    """
    points = [point for point in points if math.isfinite(point.x) and math.isfinite(point.y)]
    spots = [_spot(axes, point) for point in points]
    room = _room(axes)
    taken = [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in spots]
    lines = [(room[0], y - 1, room[2], y + 1) for _, y in (_spot(axes, line) for line in along)]
    for number, line in enumerate(along):
        x, y = _spot(axes, line)
        wide, high = text_size(line.text)
        steps = [(x + shift * wide, y + side) for shift in range(4) for side in (1.0, -1.0 - high)]
        tried = [(left, low, left + wide, low + high) for left, low in steps]
        others = [*taken, *lines[:number], *lines[number + 1 :]]
        box = min(tried, key=lambda each: (round(_covered(each, others, room), 6), tried.index(each)))
        taken.append(box)
        _write(axes, line, (x, y), box, far=False)
    taken += lines
    # The crowded ones first: those alone find a place anyway.
    order = sorted(range(len(points)), key=lambda n: (_nearest(spots, n), spots[n]))
    for number in order:
        point, (x, y) = points[number], spots[number]
        size = text_size(point.text)
        tried = [_box(x, y, size, side, ring * DOT) for ring, side in product(RINGS, SIDES)]
        others = taken[:number] + taken[number + 1 :]  # a name may touch its own dot
        chosen = min(range(len(tried)), key=lambda n: (round(_covered(tried[n], others, room), 6), n))
        box = tried[chosen]
        taken.append(box)
        _write(axes, point, (x, y), box, far=chosen >= len(SIDES))


def text_size(text: str) -> tuple[float, float]:
    """Width and height in points."""
    lines = text.split("\n")
    wide = 72 * max(inches(line, TYPE) for line in lines)
    return wide + 1, LINE * TYPE * len(lines)


def _write(axes: Axes, point: Label, spot: tuple[float, float], box: Box, *, far: bool) -> None:
    middle = ((box[0] + box[2]) / 2 - spot[0], (box[1] + box[3]) / 2 - spot[1])
    axes.annotate(
        point.text,
        (point.x, point.y),
        xytext=middle,
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=TYPE,
        color=point.colour,
        path_effects=[withStroke(linewidth=2, foreground="white")],  # grid and lines behind it
        arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3} if far else None,
    )


def _spot(axes: Axes, point: Label) -> tuple[float, float]:
    """Where a point is on the figure, in points."""
    x, y = axes.transData.transform((point.x, point.y)) * 72 / axes.figure.dpi
    return float(x), float(y)


def _room(axes: Axes) -> Box:
    """The panel on the figure, in points."""
    scale = 72 / axes.figure.dpi
    box = axes.get_window_extent()
    return box.x0 * scale, box.y0 * scale, box.x1 * scale, box.y1 * scale


def _box(x: float, y: float, size: tuple[float, float], side: tuple[int, int], away: float) -> Box:
    """The place of a text of this size at a side of a point."""
    wide, high = size
    middle_x = x + side[0] * (away + wide / 2)
    middle_y = y + side[1] * (away + high / 2)
    return middle_x - wide / 2, middle_y - high / 2, middle_x + wide / 2, middle_y + high / 2


def _covered(box: Box, taken: Sequence[Box], room: Box) -> float:
    """How much of a place is taken or lies outside."""
    inside = _overlap(box, room)
    outside = (box[2] - box[0]) * (box[3] - box[1]) - inside
    return 10 * max(outside, 0.0) + sum(_overlap(box, other) for other in taken)


def _overlap(a: Box, b: Box) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return max(wide, 0.0) * max(high, 0.0)


def _nearest(spots: Sequence[tuple[float, float]], number: int) -> float:
    return min((math.dist(spots[number], other) for n, other in enumerate(spots) if n != number), default=math.inf)
