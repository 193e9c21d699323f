"""How much the federated methods depend on the learning rate of the homes: where training ends, for each rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from benchmarks.leaderboard import Board, boards
from benchmarks.results import Result
from reports.curves import METRICS
from reports.families import sends
from reports.looks import FAINT, Look, looks_of
from reports.made import RUN, About, Drawing, Missing, sources_of
from reports.main_rows import data_of, homes_of
from reports.material import Material
from reports.places import IFTTT, WYZE, Role, place_of, places
from reports.sheet import Block, Panel, Sheet

RATE = "learning_rate"
MARKERS = ("o", "^", "s", "D", "v", "P")
MOST_TICKS = 6
SPAN, ROOM = 10, 1.2  # logarithms where numbers span more; between the highest number and the edge of its panel


@dataclass(frozen=True, slots=True)
class End:
    """Where one run ended."""

    rate: float
    values: Mapping[str, float]
    ran_away: bool  # it ended before its rounds were over, or its loss is no number


Ends = dict[str, list[End]]  # by method


def learning_rates(material: Material) -> Drawing:
    """Test loss, AUC and mean rank on smart homes and recipes; all other settings are the defaults."""
    swept = _swept(material)
    shown = []
    notes = []
    for role in (WYZE, IFTTT):
        board = _board(role, material, swept)
        if board is None:
            notes.append(f"{role.title}: not run with several learning rates on {' or '.join(role.data)}.")
        else:
            shown.append((board, _ends(board)))
    if not shown:
        raise Missing("no federated method was run with several learning rates of the homes", RUN)
    looks = _looks(method for _, ends in shown for method in ends)
    blocks = [
        Block(
            f"{data_of(board)}, {homes_of(board)}: {_seeds(ends)}",
            tuple(Panel(partial(_panel, ends=ends, metric=metric, looks=looks)) for metric in METRICS),
        )
        for board, ends in shown
    ]
    caption = " ".join(_caption(board.runs[0][1].key.data, ends) for board, ends in shown)
    sources = sources_of([run for board, _ in shown for _, run in board.runs])
    note = _note([end for _, ends in shown for each in ends.values() for end in each])
    sheet = Sheet(tuple(blocks), looks, note, columns=3, height=2.1, left=0.92)
    return Drawing(sheet, About(caption, sources, RUN, tuple(notes)))


def _swept(material: Material) -> set[int]:
    """The runs, by identity, of methods that were run with several rates in one place, and nothing else changed."""
    found: set[int] = set()
    for place in places([run for run in material.runs if _is_wanted(run, material)]):
        rates: dict[tuple[str, int], dict[float, list[int]]] = {}
        for run in place.runs:
            rates.setdefault((run.key.method, run.key.curves), {}).setdefault(_rate(run), []).append(id(run))
        for by_rate in rates.values():
            if len(by_rate) > 1:
                found |= {each for runs in by_rate.values() for each in runs}
    return found


def _is_wanted(run: Result, material: Material) -> bool:
    if run.key.protocol != "paper" or not sends(run) or not math.isfinite(_rate(run)):
        return False
    label = material.label(run)
    return label == run.key.method or label == f"{run.key.method} ({RATE}={run.key.parameters[RATE]})"


def _board(role: Role, material: Material, swept: set[int]) -> Board | None:
    place = place_of(role, material, lambda run: id(run) in swept)
    # With and without curves are fits to different rules: the list with more runs.
    return max(boards(place.runs), key=lambda board: len(board.runs)) if place else None


def _ends(board: Board) -> Ends:
    ends: Ends = {}
    for _, run in sorted(board.runs, key=lambda each: (each[1].key.method, _rate(each[1]), each[1].key.seed)):
        values = {metric: run.summary.get(metric, math.nan) for metric in METRICS}
        planned = run.key.parameters.get("rounds")
        short = isinstance(planned, int) and run.history[-1].get("round", planned) < planned
        broken = "loss" in run.summary and not math.isfinite(run.summary["loss"])
        ends.setdefault(run.key.method, []).append(End(_rate(run), values, short or broken))
    return ends


def _panel(axes: Axes, *, ends: Ends, metric: str, looks: Mapping[str, Look]) -> None:
    rates = sorted({end.rate for each in ends.values() for end in each})
    for method, each in ends.items():
        there = [end for end in each if math.isfinite(end.values[metric])]
        own = sorted({end.rate for end in there})
        values = [[end.values[metric] for end in there if end.rate == rate] for rate in own]
        look = looks[method]
        axes.plot(own, [float(np.mean(v)) for v in values], color=look.colour, linestyle=look.dash, marker=look.marker)
        axes.fill_between(own, [min(v) for v in values], [max(v) for v in values], color=look.colour, alpha=0.1, lw=0)
    axes.set_xscale("log")
    axes.set_xlim(rates[0] / ROOM**2, rates[-1] * ROOM**2)
    axes.xaxis.set_major_locator(FixedLocator(rates[:: -(-len(rates) // MOST_TICKS)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("learning rate of the homes", labelpad=1)
    axes.set_ylabel(f"test {METRICS[metric]}", linespacing=1.3)
    _scale(axes, metric, [end for each in ends.values() for end in each])
    limits = axes.get_ylim()
    for method, each in ends.items():
        for end in each:
            value = end.values[metric]
            if end.ran_away:  # what is no number is on the edge
                place = min(max(value, limits[0]), limits[1]) if math.isfinite(value) else limits[metric != "auc"]
                colour = looks[method].colour
                axes.plot(end.rate, place, color=colour, marker="x", markersize=7, markeredgewidth=1.8, clip_on=False)
    axes.set_ylim(limits)  # crosses at the edge would move it


def _scale(axes: Axes, metric: str, ends: Sequence[End]) -> None:
    """As high as the runs that went to their end; logarithms where numbers of many sizes are drawn."""
    values = [end.values[metric] for end in ends if math.isfinite(end.values[metric])]
    if not values:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=FAINT)
        return
    finished = [end.values[metric] for end in ends if math.isfinite(end.values[metric]) and not end.ran_away]
    low, high = min(values), max(finished or values)
    if metric != "auc" and high > SPAN * low > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < SPAN**2 * low else (1,)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        margin = max((high / low) ** 0.06, ROOM)
        axes.set_ylim(low / margin, high * margin)
    elif metric != "auc":
        axes.set_ylim(0, high * ROOM if high > 0 else 1)


def _caption(data: str, ends: Ends) -> str:
    """How far the AUC of each method moves between its best and its worst rate, and who ran away."""
    says = []
    for method, each in ends.items():
        by_rate = {rate: [e.values["auc"] for e in each if e.rate == rate] for rate in sorted({e.rate for e in each})}
        means = {rate: float(np.mean(v)) for rate, v in by_rate.items() if all(map(math.isfinite, v))}
        if means:
            best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
            says.append(f"{method} from {means[best]:.3f} (rate {best:g}) to {means[worst]:.3f} (rate {worst:g})")
    away = {method: sum(end.ran_away for end in each) for method, each in ends.items()}
    lost = [f"{many} of {len(ends[method])} runs of {method}" for method, many in away.items() if many]
    caption = f"Test AUC at the end on {data}: {', '.join(says)}." if says else f"No AUC on {data}."
    return f"{caption} {_and(lost)} ran away or ended early." if lost else caption


def _and(parts: Sequence[str]) -> str:
    return " and ".join([*filter(None, [", ".join(parts[:-1])]), parts[-1]])


def _note(ends: Sequence[End]) -> str:
    note = "Everything else as by default. Line: mean over seeds; band: smallest to largest seed."
    if any(end.ran_away for end in ends):
        note += " Cross: a run that ended before its rounds were over or whose loss is no number, with its last model."
    return note


def _seeds(ends: Ends) -> str:
    """How many a dot is the mean of."""
    counts = [sum(e.rate == rate for e in each) for each in ends.values() for rate in {e.rate for e in each}]
    low, high = min(counts), max(counts)
    return "1 seed" if high == 1 else f"{high} seeds" if low == high else f"{low} to {high} seeds"


def _looks(methods: Iterable[str]) -> dict[str, Look]:
    """Each method with a marker of its own."""
    plain = looks_of({method: method for method in methods})
    return {
        method: Look(look.colour, look.dash, MARKERS[number % len(MARKERS)], 4.5)
        for number, (method, look) in enumerate(plain.items())
    }


def _rate(run: Result) -> float:
    rate = run.key.parameters.get(RATE)
    return float(rate) if isinstance(rate, int | float) and rate > 0 else math.nan
