"""Figure layout: panels under headings, and below them a note and the legend; text measured, wrapped or shrunk to fit.

Every figure is drawn twice, wide for a page or print and in one column for a phone. Positions are in inches, so
nothing moves or is cut off when a label gets longer: text is wrapped instead.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any, TypeAlias

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath

from reports.drawing.compression import reduce_colours, shorten_svg
from reports.drawing.styles import FAINT, INK, LineStyle

TYPE = 8.0  # points
SMALLER = (8.0, 7.5, 7.0, 6.5)
SLACK = 4  # letters, as some are wider than others


def inches(text: str, size: float = TYPE, weight: str = "normal") -> float:
    """How wide it is, by the corners of its outlines: their exact extent takes long to compute."""
    return _relative(text, weight) * size / 72


def wrapped(text: str, room: float, size: float = TYPE, weight: str = "normal") -> list[str]:
    """The text in lines of at most `room` inches; none for an empty text."""
    if not text:
        return []
    letters = int(len(text) * room / max(inches(text, size, weight), 1e-9))
    return [text] if letters > len(text) else textwrap.wrap(text, max(letters - SLACK, 8))


def wrap_label(label: str, letters: int) -> str:
    """A method with its settings in lines of so many letters; the value of a setting may begin a line."""
    return "\n".join(textwrap.wrap(label.replace("=", "= "), letters, break_on_hyphens=False)).replace("= ", "=")


def fitted(text: str, room: float) -> tuple[str, float]:
    """The text and the largest size at which it fits; truncated where even small type is too wide."""
    for size in SMALLER:
        if inches(text, size) <= room:
            return text, size
    while text and inches(f"{text}…", SMALLER[-1]) > room:
        text = text[:-1].rstrip()
    return f"{text}…", SMALLER[-1]


@cache
def _relative(text: str, weight: str) -> float:
    """Points per point of type."""
    return float(TextPath((0, 0), text, size=1, prop=FontProperties(weight=weight)).vertices[:, 0].max(initial=0.0))


# Suffix -> metadata that leaves out the date, so that the same figure gives the same bytes.
METADATA: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}

# matplotlib's defaults and not the user's; ids in an SVG file are derived from the salt.
RC_STYLE: list[str | dict[str, object]] = [
    "default",
    {"svg.hashsalt": "fedrule", "axes.grid": True, "grid.color": "#e6e6e6", "axes.axisbelow": True},
    {"axes.spines.top": False, "axes.spines.right": False, "axes.labelsize": 8, "xtick.labelsize": 8},
    {"ytick.labelsize": 8, "axes.titlesize": 9, "lines.linewidth": 1.5, "lines.markersize": 3.5},
]
LEGEND: dict[str, Any] = {"fontsize": TYPE, "frameon": False, "borderaxespad": 0, "borderpad": 0}
LEGEND |= {"handlelength": 3.2, "columnspacing": 1.5}
# Inches.
WIDTH = {1: 5.8, 2: 8.4, 3: 10.0}  # of a wide figure, by its columns
PHONE = 3.9
RIGHT, ABOVE, HEADING, BELOW, ENTRY, HANDLE = 0.2, 0.16, 0.2, 0.5, 0.185, 0.65


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One pair of axes."""

    draw: Callable[[Axes], None]
    title: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Panels under one heading."""

    heading: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A figure before it is drawn."""

    blocks: tuple[Block, ...]
    styles: Mapping[str, LineStyle] = field(default_factory=dict)  # the legend; none where this is empty
    note: str = ""
    columns: int = 3  # of panels, on a wide page
    height: float = 2.1  # inches of a panel
    left: float = 0.75  # inches for the numbers and the label of the vertical axis


def draw(layout: Layout, *, phone: bool = False) -> Figure:
    """The figure, wide or in one column for a phone."""
    columns = 1 if phone else layout.columns
    width = PHONE if phone else WIDTH[columns]
    room = width - 2 * RIGHT
    headings = [wrapped(block.heading, room, TYPE + 2, "bold") for block in layout.blocks]
    note = wrapped(layout.note, room)
    labels = [wrapped(label, room - HANDLE) for label in layout.styles]
    legend_columns, lines = _legend_grid(labels, room) if labels else (1, 0)
    legend = lines * ENTRY + (RIGHT if labels else 0)
    below = legend + ENTRY * len(note) + (RIGHT if note else 0)
    titled = [ABOVE if any(panel.title for panel in block.panels) else 0.0 for block in layout.blocks]
    rows = [-(-len(block.panels) // columns) for block in layout.blocks]
    tall = [
        len(heading) * HEADING + ABOVE + many * (title + layout.height + BELOW)
        for heading, title, many in zip(headings, titled, rows, strict=True)
    ]
    height = sum(tall) + below
    step = width / columns
    with matplotlib.style.context(RC_STYLE):
        figure = Figure(figsize=(width, height))
        top = height
        for block, heading, title, taken in zip(layout.blocks, headings, titled, tall, strict=True):
            place = top - len(heading) * HEADING - ABOVE  # upper edge of the block's first row
            if heading:
                text = figure.text(RIGHT / width, (top - 0.07) / height, "\n".join(heading), va="top", linespacing=1.3)
                text.set(fontsize=TYPE + 2, weight="bold")
            for number, panel in enumerate(block.panels):
                row, column = divmod(number, columns)
                bottom = place - (row + 1) * (title + layout.height + BELOW) + BELOW
                left, wide = column * step + layout.left, step - layout.left - RIGHT
                axes = figure.add_axes((left / width, bottom / height, wide / width, layout.height / height))
                panel.draw(axes)
                if panel.title:
                    beyond = min(max(inches(panel.title, TYPE + 1) - wide, 0.0), layout.left - RIGHT)
                    axes.set_title(panel.title, loc="left", pad=4, x=-beyond / wide)
                lines = axes.get_ylabel().count("\n") + 1
                # One label below the other, however wide the numbers are.
                axes.yaxis.set_label_coords((0.1 + 0.15 * lines - layout.left) / wide, 0.5)
            top -= taken
        if note:
            figure.text(RIGHT / width, below / height, "\n".join(note), fontsize=TYPE, va="top", linespacing=1.4)
        if labels:
            handles = [Line2D([], [], **style.line, markersize=style.size) for style in layout.styles.values()]
            where: dict[str, Any] = {
                "loc": "upper left",
                "bbox_to_anchor": (RIGHT / width, legend / height),
                "ncols": legend_columns,
            }
            figure.legend(handles, ["\n".join(label) for label in labels], **where, **LEGEND)
    return figure


def render(figure: Figure, suffix: str) -> bytes:
    """The figure as a file of this kind; the same bytes for the same figure."""
    file = io.BytesIO()
    with matplotlib.style.context(RC_STYLE):
        figure.savefig(file, format=suffix[1:], dpi=150, metadata=METADATA[suffix])
    content = file.getvalue()
    return shorten_svg(content) if suffix == ".svg" else reduce_colours(content) if suffix == ".png" else content


def _legend_grid(labels: Sequence[list[str]], room: float) -> tuple[int, int]:
    """As many columns as fit, and the lines of the longest one; a legend fills its columns one after the other."""
    wide = [max(map(inches, label)) + HANDLE for label in labels]
    grids = [np.array_split(np.arange(len(labels)), n + 1) for n in range(len(labels))]
    fitting = [grid for grid in grids if sum(max(wide[n] for n in column) for column in grid) < room]
    chosen = fitting[-1] if fitting else grids[0]
    return len(chosen), max(sum(len(labels[n]) for n in column) for column in chosen)


Box: TypeAlias = tuple[float, float, float, float]  # left, bottom, right, top

LABEL = 7.0  # points of type
DOT = 4.5  # points from the middle of a dot to where its name may begin
LINE = 1.25  # of a line of text, in its type
RINGS = (1.0, 2.2, 3.6, 5.5, 8.0, 11.0)  # distances that are tried, in DOT
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))  # of the point
BETWEEN = ((1, 0.5), (1, -0.5), (-1, 0.5), (-1, -0.5))  # sides that are tried further away, as well


@dataclass(frozen=True, slots=True)
class Label:
    """A point with its name, in the numbers of the axes."""

    text: str
    x: float
    y: float
    colour: str = INK


def add_labels(axes: Axes, points: Sequence[Label], *, along: Sequence[Label] = ()) -> None:
    """Write the names; limits and scales must have been set. Non-finite points have none.

    `along` are names of horizontal lines, which begin at their x, above or below the line.
    """
    points = [point for point in points if math.isfinite(point.x) and math.isfinite(point.y)]
    spots = [_spot(axes, point) for point in points]
    scale, box = 72 / axes.figure.dpi, axes.get_window_extent()
    room = (box.x0 * scale, box.y0 * scale, box.x1 * scale, box.y1 * scale)
    taken = [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in spots]
    lines = [(room[0], y - 1, room[2], y + 1) for _, y in (_spot(axes, line) for line in along)]
    for number, line in enumerate(along):
        x, y = _spot(axes, line)
        wide, high = text_size(line.text)
        steps = [(x + shift * wide, y + side) for shift in range(4) for side in (1.0, -1.0 - high)]
        tried = [(left, low, left + wide, low + high) for left, low in steps]
        chosen = _least_covered(tried, [*taken, *lines[:number], *lines[number + 1 :]], room)
        taken.append(tried[chosen])
        _write(axes, line, (x, y), tried[chosen], far=False)
    taken += lines
    # The crowded ones first: those alone find a place anyway.
    for number in sorted(range(len(points)), key=lambda n: (_nearest(spots, n), spots[n])):
        point, (x, y) = points[number], spots[number]
        near = [_box(x, y, text_size(point.text), side, RINGS[0] * DOT) for side in SIDES]
        far = product(RINGS[1:], (*SIDES, *BETWEEN))
        tried = [*near, *(_box(x, y, text_size(point.text), side, ring * DOT) for ring, side in far)]
        leaders = [_leader((x, y), box) if at >= len(SIDES) else [] for at, box in enumerate(tried)]
        others = taken[:number] + taken[number + 1 :]  # a name may touch its own dot
        chosen = _least_covered(tried, others, room, leaders)
        taken += [tried[chosen], *leaders[chosen]]
        _write(axes, point, (x, y), tried[chosen], far=chosen >= len(SIDES))


def text_size(text: str) -> tuple[float, float]:
    """Width and height in points."""
    lines = text.split("\n")
    return 72 * max(inches(line, LABEL) for line in lines) + 1, LINE * LABEL * len(lines)


def _write(axes: Axes, point: Label, spot: tuple[float, float], box: Box, *, far: bool) -> None:
    middle = ((box[0] + box[2]) / 2 - spot[0], (box[1] + box[3]) / 2 - spot[1])
    axes.annotate(
        point.text,
        (point.x, point.y),
        xytext=middle,
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=LABEL,
        color=point.colour,
        bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.4},  # grid and lines behind it
        arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3} if far else None,
    )


def _spot(axes: Axes, point: Label) -> tuple[float, float]:
    """Where a point is on the figure, in points."""
    x, y = axes.transData.transform((point.x, point.y)) * 72 / axes.figure.dpi
    return float(x), float(y)


def _box(x: float, y: float, size: tuple[float, float], side: tuple[float, float], away: float) -> Box:
    """The place of a text of this size at a side of a point."""
    wide, high = size
    middle_x = x + side[0] * (away + wide / 2)
    middle_y = y + side[1] * (away + high / 2)
    return middle_x - wide / 2, middle_y - high / 2, middle_x + wide / 2, middle_y + high / 2


def _leader(spot: tuple[float, float], box: Box) -> list[Box]:
    """The line from a point to its name, as small boxes along it."""
    (x, y), middle = spot, ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    steps = np.linspace(0.1, 0.9, 9)
    points = [(x + step * (middle[0] - x), y + step * (middle[1] - y)) for step in steps]
    outside = [(a, b) for a, b in points if not (box[0] <= a <= box[2] and box[1] <= b <= box[3])]
    return [(a - 1, b - 1, a + 1, b + 1) for a, b in outside]


def _least_covered(tried: Sequence[Box], taken: Sequence[Box], room: Box, leaders: Sequence[Sequence[Box]] = ()) -> int:
    """The first of the places of which least is taken or lies outside of the room; so for the line that leads there."""

    def covered(number: int) -> float:
        box = tried[number]
        outside = (box[2] - box[0]) * (box[3] - box[1]) - _overlap(box, room)
        crossed = sum(_overlap(part, other) for part in (leaders[number] if leaders else ()) for other in taken)
        return round(10 * max(outside, 0.0) + sum(_overlap(box, other) for other in taken) + crossed, 6)

    return min(range(len(tried)), key=covered)


def _overlap(a: Box, b: Box) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return max(wide, 0.0) * max(high, 0.0)


def _nearest(spots: Sequence[tuple[float, float]], number: int) -> float:
    return min((math.dist(spots[number], other) for n, other in enumerate(spots) if n != number), default=math.inf)
