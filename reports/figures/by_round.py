"""Loss, AUC and mean rank by round, on train and test; and where training ends, by learning rate of the clients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.results.leaderboard import Board, boards
from benchmarks.results.status import SIGN, sign_of
from benchmarks.results.store import Result
from reports.boards import PAPER_METHODS, data_name, heading, sends
from reports.drawing.curves import (
    LOG_METRICS,
    MARGIN,
    METRICS,
    Row,
    curves_layout,
    draw_cross,
    lines_note,
    logarithmic,
    rows,
)
from reports.drawing.layout import Block, Layout, Panel
from reports.drawing.styles import FAINT, LineStyle, marker_styles
from reports.inputs import IFTTT, WYZE, Inputs, Role, RunGroup, finite_or_nan, group_runs, select_runs
from reports.outputs import RUN, About, Drawing, Missing, run_files
from reports.text.formats import join_names, seed_count

ENCODERS = {"sage": "GraphSAGE", "gcn": "GCN", "gat": "GAT"}
PARTS = ("train", "test")
RATE = "learning_rate"  # of the clients
MAX_TICKS = 6
WRONG = "diverged, refused many updates, stopped early, or have a loss or ranks that are not finite"


@dataclass(frozen=True, slots=True)
class End:
    """Where one run ended."""

    rate: float
    values: Mapping[str, float]
    diverged: bool  # or went wrong otherwise: its training did, its loss is NaN, or a metric is infinite


Ends = dict[str, list[End]]  # by method


def federated(inputs: Inputs, role: Role) -> Drawing:
    """GraphRule, FedGNN and FedRule with their defaults on the data of a role."""
    group = select_runs(role, inputs, lambda run: _is_measured(run, PAPER_METHODS) and inputs.is_default(run))
    if group is None:
        raise Missing(f"no curves by round of {', '.join(PAPER_METHODS)} on {' or '.join(role.data)}", RUN)
    absent = [method for method in PAPER_METHODS if method not in {run.key.method for run in group.runs}]
    notes = [f"Not run: {', '.join(absent)}."] if absent else []
    notes.append(
        "In the paper FedGNN diverges and FedRule does not. Here the methods have their defaults, with Adam on the "
        "server; rounds-paper has the paper's setting, with Adam on the clients."
    )
    return _drawing(group, {}, notes)


def papers_setting(inputs: Inputs) -> Drawing:
    """The same in the setting that the paper states: on recipes, or in smart homes where it was not run on recipes."""

    def is_wanted(run: Result) -> bool:
        return _is_measured(run, PAPER_METHODS) and run.overrides.parameters == {"preset": "paper"}

    group = select_runs(IFTTT, inputs, is_wanted) or select_runs(WYZE, inputs, is_wanted)
    if group is None:
        raise Missing("no curves by round in the paper's setting (preset=paper)", "python -m benchmarks run federated")
    absent = [method for method in PAPER_METHODS if method not in {run.key.method for run in group.runs}]
    notes = [f"Not run: {', '.join(absent)}."] if absent else []
    notes.append("100 rounds, Adam at 0.1 in the homes with moments that are kept, and a server that averages.")
    return _drawing(group, {}, notes)


def encoders(inputs: Inputs) -> Drawing:
    """GraphSAGE, GCN and GAT, with everything else equal."""
    group = select_runs(
        WYZE,
        inputs,
        lambda run: _is_measured(run, ("graphrule",)) and str(run.key.parameters["encoder"]) in ENCODERS,
    )
    settings: dict[tuple[tuple[str, str], ...], list[Result]] = {}
    for run in group.runs if group else ():
        rest = {name: str(value) for name, value in run.key.parameters.items() if name not in ("encoder", "self_loops")}
        settings.setdefault(tuple(sorted(rest.items())), []).append(run)
    best = max(settings.values(), key=lambda runs: len({run.key.parameters["encoder"] for run in runs}), default=[])
    there = {str(run.key.parameters["encoder"]) for run in best}
    if len(there) < 2:
        raise Missing("no curves by round of graphrule with different encoders", "python -m benchmarks run gnn")
    named = {
        inputs.label(run): ENCODERS[str(run.key.parameters["encoder"])]
        + (", self loops" if run.key.parameters.get("self_loops") else "")
        for run in best
    }
    absent = [name for encoder, name in ENCODERS.items() if encoder not in there]
    return _drawing(RunGroup(tuple(best)), named, [f"Not run: {', '.join(absent)}."] if absent else [])


def _drawing(group: RunGroup, named: Mapping[str, str], notes: Sequence[str]) -> Drawing:
    """`named` are other labels; a renamed line gets a colour of its own."""
    shown = {}
    for part in PARTS:
        row = rows(group.runs, part)[0]
        names = [(line, named.get(line.label, "")) for line in row.lines]
        lines = [replace(line, label=name, method=name) if name else line for line, name in names]
        shown[part] = replace(row, lines=tuple(lines))
    about = About(_caption(shown["train"], shown["test"]), run_files(group.runs), RUN, tuple(notes))
    return Drawing(curves_layout(list(shown.items())), about)


def _caption(train: Row, test: Row) -> str:
    """Where each line ends, and whose loss rises at the end."""
    ends = [
        f"{line.label} {sum(auc) / len(auc):.3f}{SIGN if line.status else ''}"
        for line in test.lines
        if (auc := [curve[-1, 1] for run in line.runs if len(curve := run.curve("auc"))])
    ]
    caption = f"Test AUC at the end: {', '.join(ends)}." if ends else ""
    diverging = _rising(train)
    reasons = {False: "while that of training does not: overfitting", True: "and so does that of training: divergence"}
    for diverges, why in reasons.items():
        if names := [name for name in _rising(test) if (name in diverging) == diverges]:
            caption += f" The test loss of {', '.join(names)} ends more than a fifth above its lowest point, {why}."
    return f"{caption} {lines_note([test])}".strip()


def _rising(row: Row) -> list[str]:
    """The lines whose loss ends more than a fifth above its lowest point, in the mean over seeds."""
    found = []
    for line in row.lines:
        losses = [run.curve("loss")[:, 1] for run in line.runs if len(run.curve("loss"))]
        if losses and sum(loss[-1] for loss in losses) > 1.2 * sum(loss.min() for loss in losses):
            found.append(line.label)
    return found


def _is_measured(run: Result, methods: Sequence[str]) -> bool:
    return bool(run.key.curves) and run.key.method in methods and any("test_auc" in row for row in run.history)


def learning_rates(inputs: Inputs) -> Drawing:
    """Test loss, AUC and mean rank on smart homes and recipes, with everything else at the defaults."""
    swept = _swept_runs(inputs)
    shown, notes = [], []
    for role in (WYZE, IFTTT):
        group = select_runs(role, inputs, lambda run: id(run) in swept)
        if group is None:
            notes.append(f"{role.title}: not run with several learning rates on {' or '.join(role.data)}.")
            continue
        # Runs with and without curves are fitted to different rules: the larger board of the two.
        board = max(boards(group.runs), key=lambda board: len(board.runs))
        shown.append((board, ends := _ends(board)))
        notes += _gap_notes(data_name(board), ends)
    if not shown:
        raise Missing("no federated method was run with several learning rates of the clients", RUN)
    styles = marker_styles(sorted({method for _, ends in shown for method in ends}))
    blocks = [
        Block(
            heading(board, seed_count(len(at) for each in ends.values() for at in _by_rate(each).values())),
            tuple(Panel(partial(_rates_panel, ends=ends, metric=metric, styles=styles)) for metric in METRICS),
        )
        for board, ends in shown
    ]
    caption = " ".join(_rates_caption(data_name(board), ends) for board, ends in shown)
    sources = run_files([run for board, _ in shown for _, run in board.runs])
    note = _note([end for _, ends in shown for each in ends.values() for end in each])
    layout = Layout(tuple(blocks), styles, note, columns=3, height=2.1, left=0.92)
    return Drawing(layout, About(caption, sources, RUN, tuple(notes)))


def _swept_runs(inputs: Inputs) -> set[int]:
    """The runs, by identity, of methods that were run with several rates on the same data, all else at the defaults."""
    found: set[int] = set()
    candidates = [
        run
        for run in inputs.runs
        if run.key.protocol == "paper" and sends(run)
        if run.overrides.parameters.keys() <= {RATE} and math.isfinite(_rate(run))
    ]
    for group in group_runs(candidates):
        rates: dict[tuple[str, int], set[float]] = {}
        for run in group.runs:
            rates.setdefault((run.key.method, run.key.curves), set()).add(_rate(run))
        found |= {id(run) for run in group.runs if len(rates[run.key.method, run.key.curves]) > 1}
    return found


def _rate(run: Result) -> float:
    """NaN where the method has none, and where it is not positive: the axis is logarithmic."""
    rate = finite_or_nan(run.key.parameters.get(RATE))
    return rate if rate > 0 else math.nan


def _ends(board: Board) -> Ends:
    ends: Ends = {}
    for _, run in sorted(board.runs, key=lambda each: (each[1].key.method, _rate(each[1]), each[1].key.seed)):
        values = {metric: run.summary.get(metric, math.nan) for metric in METRICS}
        broken = ("loss" in run.summary and math.isnan(values["loss"])) or any(map(math.isinf, values.values()))
        ends.setdefault(run.key.method, []).append(End(_rate(run), values, bool(sign_of([run])) or broken))
    return ends


def _rates_panel(axes: Axes, *, ends: Ends, metric: str, styles: Mapping[str, LineStyle]) -> None:
    rates = sorted({end.rate for each in ends.values() for end in each})
    for method, each in ends.items():
        by_rate, style = _by_rate(each), styles[method]
        # A gap where a seed is not finite: the mean of the other seeds would look too good.
        values = [[e.values[metric] for e in at] if _is_finite(at, metric) else [math.nan] for at in by_rate.values()]
        means, own = [sum(v) / len(v) for v in values], list(by_rate)
        axes.plot(own, means, color=style.colour, linestyle=style.dash, marker=style.marker)
        axes.fill_between(own, [min(v) for v in values], [max(v) for v in values], color=style.colour, alpha=0.1, lw=0)
    axes.set_xscale("log")
    axes.set_xlim(rates[0] / MARGIN**2, rates[-1] * MARGIN**2)
    axes.xaxis.set_major_locator(FixedLocator(rates[:: -(-len(rates) // MAX_TICKS)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("learning rate of the clients", labelpad=1)
    axes.set_ylabel(f"test {METRICS[metric]}", linespacing=1.3)
    _scale(axes, metric, [end for each in ends.values() for end in each])
    limits = axes.get_ylim()
    for method, each in ends.items():
        for end in (end for end in each if end.diverged):  # on the edge where the value is beyond it or not finite
            value = end.values[metric]
            y = min(max(value, limits[0]), limits[1]) if math.isfinite(value) else limits[metric != "auc"]
            draw_cross(axes, end.rate, y, styles[method].colour)
    axes.set_ylim(limits)  # crosses at the edge would move it


def _scale(axes: Axes, metric: str, ends: Sequence[End]) -> None:
    """A logarithmic axis where values span orders of magnitude; a loss only up to that of runs that did not diverge."""
    values = [end.values[metric] for end in ends if math.isfinite(end.values[metric])]
    if not values:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=FAINT)
        return
    finished = [end.values[metric] for end in ends if math.isfinite(end.values[metric]) and not end.diverged]
    low, high = min(values), max((finished if metric == "loss" else values) or values)
    if metric in LOG_METRICS and not logarithmic(axes, low, high):
        axes.set_ylim(0, high * MARGIN if high > 0 else 1)


def _rates_caption(data: str, ends: Ends) -> str:
    """How far the AUC of each method moves between its best and its worst rate, and which runs diverged."""
    ranges = []
    for method, each in ends.items():
        finite = {rate: at for rate, at in _by_rate(each).items() if _is_finite(at, "auc")}
        means = {rate: sum(end.values["auc"] for end in at) / len(at) for rate, at in finite.items()}
        if means:
            best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
            ranges.append(f"{method} {means[best]:.3f} at rate {best:g} and {means[worst]:.3f} at {worst:g}")
    diverged = {method: sum(end.diverged for end in each) for method, each in ends.items()}
    lost = [f"{count} of {len(ends[method])} runs of {method}" for method, count in diverged.items() if count]
    caption = f"Best and worst test AUC on {data}: {'; '.join(ranges)}." if ranges else f"No AUC on {data}."
    return f"{caption} {join_names(lost)} {WRONG}." if lost else caption


def _gap_notes(data: str, ends: Ends) -> list[str]:
    """Rates without a mean because some of their seeds are not finite; metrics that a method lacks altogether."""
    found = []
    for metric in METRICS:
        gaps = []
        for method, each in ends.items():
            if all(math.isnan(end.values[metric]) for end in each):
                gaps.append(f"{method} at all rates")
                continue
            for rate, at in _by_rate(each).items():
                if lost := sum(not math.isfinite(end.values[metric]) for end in at):
                    gaps.append(f"{method} at {rate:g} ({lost} of {seed_count([len(at)])})")
        if gaps:
            found.append(f"{data}: no {metric}, and so no mean, of {join_names(gaps)}.")
    return found


def _note(ends: Sequence[End]) -> str:
    note = "Everything else at the defaults. Line: mean over seeds; band: smallest to largest seed."
    if any(end.diverged for end in ends):
        note += f" Cross: one of the runs that {WRONG}; a diverged one counts with its last good model."
    if not all(math.isfinite(value) for end in ends for value in end.values.values()):
        note += " A line has a gap where a seed is not finite."
    return note


def _by_rate(ends: Sequence[End]) -> dict[float, list[End]]:
    return {rate: [end for end in ends if end.rate == rate] for rate in sorted({end.rate for end in ends})}


def _is_finite(seeds: Sequence[End], metric: str) -> bool:
    return all(math.isfinite(end.values[metric]) for end in seeds)
