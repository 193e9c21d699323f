"""Loss, AUC and mean rank by round as panels, a line per method; `python -m reports.curves` draws those of a folder.

A line is the mean over seeds, its band goes from the smallest to the largest. A run that ended before its rounds were
over is marked with a cross and counts on with its last model, which is its result: left out from there on, a method
would look better the more of its runs have failed. A loss that ran away may leave its panel at the top; what the
others do could not be seen otherwise.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from benchmarks.results.store import load_results, results_folder
from reports.drawing.layout import METADATA, Block, Layout, Panel, draw, render
from reports.drawing.lines import MOST_LINES, PARTS, Floats, Row, one_of, rows
from reports.drawing.styles import FAINT, LineStyle, line_styles

log = logging.getLogger(__name__)

METRICS = {
    "loss": "loss (cross-entropy)\nlower is better",
    "auc": "AUC, mean over homes\nhigher is better",
    "mr": "mean rank of a rule\nlower is better",
}
LOG_SCALE = ("loss", "mr")  # where they span more than SPAN
SPAN = 10
ROOM = 1.2  # between the highest number and the edge of its panel


def curves_layout(shown: Sequence[tuple[str, Row]], *, metrics: Sequence[str] = tuple(METRICS)) -> Layout:
    """A heading for each row, given with its part, and a panel for each of its metrics."""
    for metric in metrics:
        one_of("metric", metric, METRICS)
    styles = line_styles({line.label: line.method for _, row in shown for line in row.lines})
    parts = len({part for part, _ in shown})
    blocks = [
        Block(
            f"{part.capitalize() + ': ' if parts > 1 else ''}{row.title}: {row.seeds}",
            tuple(Panel(partial(_panel, row=row, styles=styles, metric=metric, part=part)) for metric in metrics),
        )
        for part, row in shown
    ]
    columns = min(len(metrics), 3)
    return Layout(tuple(blocks), styles, _note([row for _, row in shown], metrics), columns=columns, left=0.92)


def main(arguments: list[str] | None = None) -> int:
    """Draw what the command line asks for; bad input is one message and exit code 1."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        if given.out.suffix not in METADATA:
            raise ValueError(f"--out {given.out}: figures are written as {', '.join(METADATA)}; give such a name")
        runs = load_results(results_folder(given.results))
        if given.data:
            one_of("data set", given.data, {run.key.data for run in runs})
            runs = [run for run in runs if run.key.data == given.data]
        shown = [(given.part, row) for row in rows(runs, given.part, methods=given.methods, lines=given.line)]
        content = render(draw(curves_layout(shown, metrics=given.metric)), given.out.suffix)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_bytes(content)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    log.info("%s", given.out)
    return 0


def _panel(axes: Axes, *, row: Row, styles: Mapping[str, LineStyle], metric: str, part: str) -> None:
    """One metric on one data set."""
    everything, finished, ends = [np.empty(0)], [np.empty(0)], []
    for line in row.lines:
        style = styles[line.label]
        curves = [(curve, run.stopped_early) for run in line.runs if len(curve := run.curve(metric))]
        if not curves:
            continue
        rounds = np.unique(np.concatenate([curve[:, 0] for curve, _ in curves]))
        # Between measured rounds along a straight line; after the last one as it was there.
        values = np.stack([np.interp(rounds, curve[:, 0], curve[:, 1]) for curve, _ in curves])  # [n_seeds, n_rounds]
        (mean,) = axes.plot(rounds, values.mean(axis=0), color=style.colour, linestyle=style.dash, marker=style.marker)
        mean.set_markevery(-(-len(rounds) // MOST_LINES))
        if len(curves) > 1:
            axes.fill_between(
                rounds, values.min(axis=0), values.max(axis=0), color=style.colour, alpha=0.1, linewidth=0
            )
        everything += [curve[:, 1] for curve, _ in curves]
        finished += [curve[:, 1] for curve, stopped_early in curves if not stopped_early]
        ends += [(*curve[-1], style.colour) for curve, stopped_early in curves if stopped_early]
    axes.set_xlabel("round", labelpad=1)
    axes.set_ylabel(f"{part} {METRICS[metric]}", linespacing=1.3)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if len(values := np.concatenate(everything)):
        _scale(axes, metric, values, np.concatenate(finished))
    else:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=FAINT)
    limits = axes.get_ylim()
    for last, value, colour in ends:
        end = min(value, limits[1])
        axes.plot(last, end, color=colour, marker="x", markersize=7, markeredgewidth=1.8, clip_on=False)
    axes.set_ylim(limits)  # crosses at the edge would move it


def _scale(axes: Axes, metric: str, values: Floats, finished: Floats) -> None:
    """Logarithms where numbers of many sizes are drawn; a loss goes as high as the runs that went to their end."""
    cut = metric == "loss" and 0 < len(finished) < len(values) and finished.max() < values.max()
    low, high = values.min(), finished.max() if cut else values.max()
    if not (metric in LOG_SCALE and logarithmic(axes, low, high)) and cut:
        axes.set_ylim(low / ROOM, high * ROOM)


def logarithmic(axes: Axes, low: float, high: float) -> bool:
    """The vertical axis where numbers span more than SPAN; whether they do."""
    if not high > SPAN * low > 0:
        return False
    axes.set_yscale("log")
    margin = max((high / low) ** 0.06, ROOM)
    axes.set_ylim(low / margin, high * margin)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < SPAN**2 * low else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    return True


def _note(shown: Sequence[Row], metrics: Sequence[str]) -> str:
    """What the marks of this figure mean."""
    lines = [line.runs for row in shown for line in row.lines]
    note = "Line: mean over seeds; band: smallest to largest seed." if max(map(len, lines)) > 1 else "Line: one seed."
    if any(run.stopped_early for runs in lines for run in runs):
        beyond = " (on the upper edge: with a loss beyond it)" if "loss" in metrics else ""
        note += f" Cross: a run that ended before its rounds were over{beyond}; it counts on with its last model."
    return note


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reports.curves", description="Curves by round of the runs in a folder, as one figure."
    )
    add = parser.add_argument
    add("--results", type=Path, metavar="DIR", help="where results are kept (default $FEDRULE_RESULTS or results)")
    add("--out", type=Path, required=True, metavar="FILE", help="the figure: a name that ends in .svg, .png or .pdf")
    add("--data", metavar="NAME", help="this data set only, with all of its options")
    add("--methods", type=_names, default=[], metavar="A,B", help="all lines of these methods only")
    add(
        "--line",
        action="append",
        default=[],
        metavar="LABEL",
        help="this line only, as the leaderboard names it, e.g. 'fedrule (server_optimizer=plain, server_rate=1.0)'; "
        "once for each line, since labels have commas in them. A bare method is the line of its defaults. Lines are "
        "added to those of --methods",
    )
    add("--metric", type=_names, default=list(METRICS), metavar="A,B", help="a column for each (default loss,auc,mr)")
    add("--part", default=PARTS[0], metavar="NAME", help="test, validation or train (default test)")
    return parser


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


if __name__ == "__main__":
    sys.exit(main())
