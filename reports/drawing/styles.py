"""Line styles: the colour is the method's, dashes and markers are its settings'; families of methods have markers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

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

Dash: TypeAlias = tuple[float, Sequence[float]]  # offset; points drawn, left out, drawn, ...

# The colours of Okabe and Ito, which colour-blind people can distinguish.
COLOURS = {"fedgnn": "#0072B2", "fedrule": "#D55E00", "graphrule": "#000000", "fedprox": "#009E73"}
COLOURS |= {"scaffold": "#CC79A7", "fedgate": "#E69F00"}
COLOURS |= {"graphrank": "#D55E00", "fedrank": "#E69F00", "mf": "#0072B2", "gcmc": "#CC79A7"}
COLOURS |= {"ease": "#009E73", "popularity": "#56B4E9", "random": "#999999"}
SPARE = ("#56B4E9", "#009E73", "#CC79A7", "#E69F00", "#0072B2", "#D55E00", "#000000")
DASHES: tuple[Dash, ...] = ((0, ()), (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)))
PATTERNS = [(dash, marker) for marker in ("", "o", "^") for dash in DASHES]  # [MAX_LINES]
MARKERS = ("o", "^", "s", "D", "v", "P")
NO_LINE: Dash = (0, (0.001, 1000))  # a legend's entry with a marker only
INK, FAINT = "#333333", "#8a8a8a"  # of text, and of what stays in the background


@dataclass(frozen=True, slots=True)
class LineStyle:
    """How a line is drawn."""

    colour: str
    dash: Dash = (0, ())
    marker: str = ""
    size: float = 3.5  # of the marker

    @property
    def line(self) -> dict[str, Any]:
        """Arguments of `Axes.plot` for a line."""
        return {"color": self.colour, "linestyle": self.dash, "marker": self.marker}

    @property
    def dot(self) -> dict[str, Any]:
        """Arguments of `Axes.plot` for a single marker."""
        return {"color": self.colour, "marker": self.marker, "markersize": self.size, "linestyle": "none"}

    @property
    def hollow_dot(self) -> dict[str, Any]:
        """The same for a row of which some seed's training went wrong."""
        return self.dot | {"markerfacecolor": "white", "markeredgewidth": 1.4}


def line_styles(lines: Mapping[str, str]) -> dict[str, LineStyle]:
    """The style of each line, given its method, in the order of the legend; no two are the same."""
    others = sorted(set(lines.values()) - COLOURS.keys())
    colours = COLOURS | {method: SPARE[number % len(SPARE)] for number, method in enumerate(others)}
    settings = sorted({label.removeprefix(method) for label, method in lines.items()})
    styles: dict[str, LineStyle] = {}
    for label, method in sorted(lines.items()):
        first = settings.index(label.removeprefix(method))
        free = (LineStyle(colours[method], *style) for style in [*PATTERNS[first:], *PATTERNS[:first]])
        styles[label] = next(style for style in free if style not in styles.values())
    return styles


def marker_styles(methods: Iterable[str], dash: Dash | None = None) -> dict[str, LineStyle]:
    """A marker of its own for each method, in this order."""
    methods = list(methods)
    plain = line_styles({method: method for method in methods})
    return {
        method: LineStyle(plain[method].colour, dash or plain[method].dash, MARKERS[number % len(MARKERS)], 4.5)
        for number, method in enumerate(methods)
    }


FAMILY_STYLES = {
    GRAPH: LineStyle("#000000", NO_LINE, "o", 5.5),
    FEDERATED: LineStyle("#D55E00", NO_LINE, "^", 6),
    USER_ITEM: LineStyle("#0072B2", NO_LINE, "s", 5),
    KNOWLEDGE_GRAPH: LineStyle("#009E73", NO_LINE, "v", 6),
    FEATURES: LineStyle("#E69F00", NO_LINE, "*", 7),
    NON_PERSONALIZED: LineStyle(FAINT, NO_LINE, "D", 4.5),
    PROBE: LineStyle(FAINT, NO_LINE, "x", 5),
    OTHER: LineStyle("#CC79A7", NO_LINE, "P", 6),
}


def legend(families: Iterable[str]) -> dict[str, LineStyle]:
    """The styles of these families, in a fixed order."""
    present = set(families)
    return {family: style for family, style in FAMILY_STYLES.items() if family in present}
