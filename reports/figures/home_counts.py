"""How large homes are: the share of homes with at most so many devices and rules, a line per data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.results.portraits import FOLDER, Portrait
from reports.drawing.looks import Look, looks_of
from reports.output_types import BUILD, About, Drawing, Missing
from reports.material import Material
from reports.drawing.sheet import Block, Panel, Sheet

MOST = 6  # data sets; the largest of each name first


def home_counts(material: Material) -> Drawing:
    """Devices and rules per home of each data set, the largest version of it."""
    largest: dict[str, Portrait] = {}
    for portrait in sorted(material.portraits, key=lambda each: (-_homes(each), each.file)):
        largest.setdefault(portrait.data, portrait)
    shown = sorted(largest.values(), key=lambda each: (-_homes(each), each.data))[:MOST]
    if not shown:
        raise Missing("no data set has been described", BUILD)
    looks = looks_of({portrait.data: portrait.data for portrait in shown})
    panels = (
        Panel(partial(_panel, counts={p.data: p.devices_per_home for p in shown}, looks=looks), "devices of a home"),
        Panel(partial(_panel, counts={p.data: p.rules_per_home for p in shown}, looks=looks), "rules of a home"),
    )
    note = "Line: share of homes with at most so many; the farther right, the larger the homes."
    sheet = Sheet((Block("", panels),), looks, note, columns=2, height=2.4, left=0.7)
    sources = tuple(sorted(f"{FOLDER}/{portrait.file}" for portrait in shown))
    return Drawing(sheet, About(_caption(shown), sources, BUILD))


def _panel(axes: Axes, *, counts: Mapping[str, Mapping[int, int]], looks: Mapping[str, Look]) -> None:
    for data, homes in counts.items():
        sizes = sorted(homes)
        share = np.cumsum([homes[size] for size in sizes]) / max(sum(homes.values()), 1)
        look = looks[data]
        axes.step(np.maximum(sizes, 0.5), share, where="post", color=look.colour, linestyle=look.dash)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value >= 1 else "0"))
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of homes")


def _caption(shown: Sequence[Portrait]) -> str:
    """The home in the middle of each."""
    middle = [
        f"{p.data} {_middle(p.devices_per_home):,} devices and {_middle(p.rules_per_home):,} rules" for p in shown
    ]
    return f"The home in the middle has: {'; '.join(middle)}."


def _middle(homes: Mapping[int, int]) -> int:
    """The median: the smallest size that at least half of the homes do not exceed."""
    half, so_far = sum(homes.values()) / 2, 0
    for size in sorted(homes):
        so_far += homes[size]
        if so_far >= half:
            return size
    return 0


def _homes(portrait: Portrait) -> int:
    return sum(portrait.devices_per_home.values())
