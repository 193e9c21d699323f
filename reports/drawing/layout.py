"""Figure layout: panels under headings, and below them a note and the legend; text measured, wrapped or shrunk to fit.

Every figure is drawn twice, wide for a page or print and in one column for a phone. Positions are in inches, so
nothing moves or is cut off when a label gets longer: text is wrapped instead.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath

from reports.drawing.styles import LineStyle

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
                    axes.set_title(panel.title, loc="left", pad=4)
                lines = axes.get_ylabel().count("\n") + 1
                # One label below the other, however wide the numbers are.
                axes.yaxis.set_label_coords((0.1 + 0.15 * lines - layout.left) / wide, 0.5)
            top -= taken
        if note:
            figure.text(RIGHT / width, below / height, "\n".join(note), fontsize=TYPE, va="top", linespacing=1.4)
        if labels:
            handles = [Line2D([], [], **style.line, markersize=style.size) for style in layout.styles.values()]
            figure.legend(
                handles,
                ["\n".join(label) for label in labels],
                loc="upper left",
                bbox_to_anchor=(RIGHT / width, legend / height),
                ncols=legend_columns,
                fontsize=TYPE,
                frameon=False,
                borderaxespad=0,
                borderpad=0,
                handlelength=3.2,
                columnspacing=1.5,
            )
    return figure


def render(figure: Figure, suffix: str) -> bytes:
    """The figure as a file of this kind; the same bytes for the same figure."""
    file = io.BytesIO()
    with matplotlib.style.context(RC_STYLE):
        figure.savefig(file, format=suffix[1:], dpi=150, metadata=METADATA[suffix])
    return file.getvalue()


def _legend_grid(labels: Sequence[list[str]], room: float) -> tuple[int, int]:
    """As many columns as fit, and the lines of the longest one; a legend fills its columns one after the other."""
    wide = [max(map(inches, label)) + HANDLE for label in labels]
    grids = [np.array_split(np.arange(len(labels)), n + 1) for n in range(len(labels))]
    fitting = [grid for grid in grids if sum(max(wide[n] for n in column) for column in grid) < room]
    chosen = fitting[-1] if fitting else grids[0]
    return len(chosen), max(sum(len(labels[n]) for n in column) for column in chosen)
