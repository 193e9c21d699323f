"""Curves by round: which runs make up which line, and the panels of loss, AUC and mean rank.

A line is all seeds of a method with its settings, labelled as on the leaderboard: their mean, in a band from the
smallest to the largest. A run whose training went wrong, e.g. stopped before its last round, is marked with a cross at
its end and counts with its last model from there on; if it were left out, a method would look better the more of its
runs fail. A loss that diverged may leave the panel at the top, so that the other lines can still be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from benchmarks.results.curves import curves_table
from benchmarks.results.leaderboard import boards
from benchmarks.results.status import SIGN, sign_of, status_note, status_of
from benchmarks.results.store import Result
from datasets.common.errors import DataError, unknown
from reports.drawing.layout import Block, Layout, Panel
from reports.drawing.styles import FAINT, LineStyle, line_styles
from reports.text.formats import seed_count

Floats = npt.NDArray[np.float64]

PARTS = ("test", "validation", "train")
METRICS = {
    "loss": "loss (cross-entropy)\nlower is better",
    "auc": "AUC, mean over homes\nhigher is better",
    "mr": "mean rank of a rule\nlower is better",
}
MAX_LINES = 12  # that a reader can distinguish
LOG_METRICS = ("loss", "mr")  # on a logarithmic axis where they span more than SPAN
SPAN = 10
MARGIN = 1.2  # factor between the highest number and the edge of its panel


@dataclass(frozen=True, slots=True, eq=False)
class RunCurves:
    """What was measured of one run, by round."""

    measured: pd.DataFrame  # a row per measured round, a column per metric; NaN where it is not finite
    wrong: bool  # its training went wrong

    def curve(self, metric: str) -> Floats:
        """[n_measured, 2]: round and value; empty where the metric was not measured."""
        if metric not in self.measured:
            return np.empty((0, 2))
        values = self.measured[metric].dropna()
        return np.stack([values.index.to_numpy(np.float64), values.to_numpy(np.float64)], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A method with its settings."""

    label: str
    method: str
    runs: tuple[RunCurves, ...]  # one per seed
    status: str = ""  # what went wrong in which seeds; empty where nothing did

    @property
    def signed(self) -> str:
        """Its label in the legend."""
        return f"{self.label} {SIGN}" if self.status else self.label


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The lines that may share a panel: the same data, track and split."""

    title: str  # with the number of homes
    lines: tuple[Line, ...]


def rows(
    runs: Sequence[Result], part: str, *, methods: Sequence[str] = (), lines: Sequence[str] = ()
) -> tuple[Row, ...]:
    """All lines, or those of `methods` and those whose labels are in `lines`; an error where they are too many."""
    check_name("part", part, PARTS)
    found = boards(_measured_fits(runs, part))
    method_of = {label: run.key.method for board in found for label, run in board.runs}
    for method in methods:
        check_name("method", method, method_of.values())
    for line in lines:
        check_name("line", line, method_of)
    chosen = [label for label, method in method_of.items() if method in methods or label in lines]
    kept = sorted(chosen if methods or lines else method_of)
    if len(kept) > MAX_LINES:
        raise DataError(
            f"{len(kept)} lines are too many for one figure (at most {MAX_LINES}); choose methods with --methods A,B, "
            "or lines with --line 'LABEL' for each, of:\n" + "\n".join(f"    {label}" for label in kept)
        )
    shown = []
    for board in found:
        by_label = {label: [run for name, run in board.runs if name == label] for label in kept}
        of_line = [(label, runs) for label, runs in by_label.items() if runs]
        drawn = [Line(label, method_of[label], _curves(runs, part), status_of(runs)) for label, runs in of_line]
        if drawn:
            shown.append(Row(board.title, tuple(drawn)))
    return tuple(shown)


def curves_layout(shown: Sequence[tuple[str, Row]], *, metrics: Sequence[str] = tuple(METRICS)) -> Layout:
    """A block per (part, row), with a panel for each metric."""
    for metric in metrics:
        check_name("metric", metric, METRICS)
    styles = line_styles({line.label: line.method for _, row in shown for line in row.lines})
    parts = len({part for part, _ in shown})
    blocks = []
    for part, row in shown:
        panels = [Panel(partial(_panel, row=row, styles=styles, metric=metric, part=part)) for metric in metrics]
        heading = f"{row.title}: {seed_count(len(line.runs) for line in row.lines)}"
        blocks.append(Block(f"{part.capitalize()}: {heading}" if parts > 1 else heading, tuple(panels)))
    note = _note([row for _, row in shown], metrics)
    signed = {line.label: line.signed for _, row in shown for line in row.lines if line.status}
    legend = {signed.get(label, label): style for label, style in styles.items()}
    return Layout(tuple(blocks), legend, note, columns=min(len(metrics), 3), left=0.92)


def lines_note(shown: Iterable[Row]) -> str:
    """What the sign means in each line that has it; empty where none has."""
    return status_note((line.label, _place(row), line.status) for row in shown for line in row.lines)


def _place(row: Row) -> str:
    """Its title without what is usual in curves."""
    return ", ".join(part for part in row.title.split(", ") if part not in ("types", "holdout", "paper"))


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """An error with the nearest known name where there is no such thing."""
    if name not in (choices := set(known)):
        raise unknown(kind, name, choices)


def logarithmic(axes: Axes, low: float, high: float) -> bool:
    """Make the vertical axis logarithmic where values span more than SPAN; whether they do."""
    if not high > SPAN * low > 0:
        return False
    axes.set_yscale("log")
    margin = max((high / low) ** 0.06, MARGIN)
    axes.set_ylim(low / margin, high * margin)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < SPAN**2 * low else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    return True


def plot_mean(axes: Axes, x: Floats, values: Floats, style: LineStyle, *, marker_every: int = 1) -> None:
    """The mean of values [n_seeds, n_x] as a line, and from the smallest to the largest as a band."""
    axes.plot(x, values.mean(axis=0), **style.line, markevery=marker_every)
    if len(values) > 1:
        axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=style.colour, alpha=0.1, linewidth=0)


def draw_cross(axes: Axes, x: float, y: float, colour: str) -> None:
    """Mark a run whose training went wrong."""
    axes.plot(x, y, color=colour, marker="x", markersize=7, markeredgewidth=1.8, clip_on=False)


def _measured_fits(runs: Sequence[Result], part: str) -> list[Result]:
    """Every fit that was measured by round on a part, once.

    Curves are measured by the protocol `paper`, whatever a run was evaluated by. Of a fit that was evaluated by several
    protocols, or measured more and less often, the one that was measured most often.
    """
    fits: dict[str, tuple[int, Result]] = {}
    for run in runs:
        points = len(_measured(run, part))
        fit = replace(run, key=replace(run.key, protocol="paper", curves=0))
        if points > fits.get(fit.key.hash, (0, fit))[0]:
            fits[fit.key.hash] = points, fit
    if not fits:
        raise DataError(
            f"none of the {len(runs)} runs here was measured by round on {part}; "
            "run `python -m benchmarks run federated --curves 10` first"
        )
    return [fit for _, (_, fit) in sorted(fits.items())]


def _curves(seeds: Sequence[Result], part: str) -> tuple[RunCurves, ...]:
    """One per seed."""
    return tuple(RunCurves(_measured(run, part), bool(sign_of([run]))) for run in seeds)


def _measured(run: Result, part: str) -> pd.DataFrame:
    table = curves_table([run])
    wide = table[table["part"] == part].pivot(index="round", columns="metric", values="value")
    return wide.replace([np.inf, -np.inf], np.nan).sort_index()


def _panel(axes: Axes, *, row: Row, styles: Mapping[str, LineStyle], metric: str, part: str) -> None:
    every, finished, ends = [np.empty(0)], [np.empty(0)], []
    for line in row.lines:
        style = styles[line.label]
        curves = [(curve, run.wrong) for run in line.runs if len(curve := run.curve(metric))]
        if not curves:
            continue
        rounds = np.unique(np.concatenate([curve[:, 0] for curve, _ in curves]))
        # Straight lines between measured rounds; the last value from there on.
        values = np.stack([np.interp(rounds, curve[:, 0], curve[:, 1]) for curve, _ in curves])  # [n_seeds, n_rounds]
        plot_mean(axes, rounds, values, style, marker_every=-(-len(rounds) // MAX_LINES))
        every += [curve[:, 1] for curve, _ in curves]
        finished += [curve[:, 1] for curve, wrong in curves if not wrong]
        ends += [(*curve[-1], style.colour) for curve, wrong in curves if wrong]
    axes.set_xlabel("round", labelpad=1)
    axes.set_ylabel(f"{part} {METRICS[metric]}", linespacing=1.3)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if len(values := np.concatenate(every)):
        _scale(axes, metric, values, np.concatenate(finished))
    else:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=FAINT)
    limits = axes.get_ylim()
    for last, value, colour in ends:
        draw_cross(axes, last, min(value, limits[1]), colour)
    axes.set_ylim(limits)  # crosses at the edge would move it


def _scale(axes: Axes, metric: str, values: Floats, finished: Floats) -> None:
    """A logarithmic axis where values span orders of magnitude; a loss only up to that of complete runs."""
    cut = metric == "loss" and 0 < len(finished) < len(values) and finished.max() < values.max()
    low, high = values.min(), finished.max() if cut else values.max()
    if not (metric in LOG_METRICS and logarithmic(axes, low, high)) and cut:
        axes.set_ylim(low / MARGIN, high * MARGIN)


def _note(shown: Sequence[Row], metrics: Sequence[str]) -> str:
    lines = [line.runs for row in shown for line in row.lines]
    note = "Line: mean over seeds; band: smallest to largest seed." if max(map(len, lines)) > 1 else "Line: one seed."
    if status := lines_note(shown):
        beyond = " (on the upper edge: its loss is beyond it)" if "loss" in metrics else ""
        note += f" Cross: the end of a run that went wrong{beyond}; its last model counts from there on. {status}"
    return note
