"""Measurements as pytest-benchmark saves them, made up, and figures of them."""

from __future__ import annotations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.results.speeds import Speed
from reports.drawing.layout import draw
from reports.outputs import Drawing


def speed(name, fullname, group="", seconds=1.0, *, machine="a machine", scale="default", **info) -> Speed:
    """A measurement; `info` is what its benchmark notes."""
    made = "2026-01-01T00:00:00+00:00"
    noted = {"scale": scale, **info}
    return Speed(name, fullname, group, {}, seconds, seconds, 1, noted, "m/0001_default.json", made, machine, "")


def drawn(drawing: Drawing, *, phone=False) -> Figure:
    """The figure with a canvas, which knows how large texts are."""
    figure = draw(drawing.layout, phone=phone)
    FigureCanvasAgg(figure)
    return figure
