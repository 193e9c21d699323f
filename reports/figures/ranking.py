"""Quality of the ranked list: hit rate by its length, and reciprocal rank by home size and by rule seen or unseen."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from benchmarks.results.leaderboard import Board
from benchmarks.results.published import CUTOFFS
from benchmarks.results.store import Result
from reports.boards import (
    PAPER_METHODS,
    boards_note,
    data_name,
    defaults_of,
    row_sign,
    runs_of,
    seeds_of,
    short_title,
)
from reports.drawing.curves import Floats, draw_cross, plot_mean
from reports.drawing.layout import Block, Layout, Panel
from reports.drawing.styles import NO_LINE, LineStyle, line_styles, marker_styles
from reports.inputs import IFTTT, WYZE, Inputs, Role
from reports.outputs import RUN, About, Drawing, Missing, run_files
from reports.slices import MIN_HIDDEN, SIZE
from reports.text.formats import seed_count

HIT_RATE_AT_40 = 0.91  # of GraphRule on Wyze, section 4.2 of the paper; its other hit rates are in figures only
FORMULATIONS = ("graphrank", "graphrule", "mf", "gcmc", "ease", "popularity")
LINE = (
    "Line: mean over seeds; band: smallest to largest seed. Only rules that some training home has (valid filter), and "
    "where it says closed only devices that have a known rule."
)
FILTERED, EVERY = "mrr", "mrr, all"  # with the valid filter, and among all candidates
WIDTH = 0.6  # of the points of one slice, in slices
NOTE = (
    "Dot: mean over the hidden rules of all seeds; bar: smallest to largest seed; n: hidden rules of all seeds. By "
    "home size, candidates are rules that some training home has (valid filter), between any devices; by seen or "
    "unseen, all candidates, since the filter leaves out unseen rules."
)


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the hidden rules."""

    name: str  # in summaries
    metric: str
    hidden: int  # over all seeds of a method

    @property
    def title(self) -> str:
        """Below its dots."""
        return self.name.removeprefix(SIZE)


@dataclass(frozen=True, slots=True)
class Dot:
    """A method on a slice; NaN where it was not measured for every seed."""

    mean: float
    low: float
    high: float
    lost: int = 0  # seeds without a finite value


def formulations(inputs: Inputs) -> Drawing:
    """Hit rates of graph and user-item methods on smart homes and recipes: the paper's first comparison."""
    shown, notes = [], []
    for role in (WYZE, IFTTT):
        try:
            board, absent = _board(role, inputs, FORMULATIONS)
        except Missing as missing:
            notes.append(f"{role.title}: {missing.what}.")
            continue
        shown.append(board)
        notes += absent
        if role is WYZE and "graphrule" in board.methods():
            notes.append(
                f"The paper reports a hit rate of about {HIT_RATE_AT_40} at 40 for GraphRule on its own Wyze data, "
                f"which is not public; here graphrule has {_mean_at(board, 'graphrule', 40):.2f}"
                f"{row_sign(board, 'graphrule')} on {data_name(board)}."
            )
    if not shown:
        raise Missing(f"no rankings of {', '.join(FORMULATIONS)}", RUN)
    runs = [run for board in shown for _, run in board.runs]
    caption = " ".join([*map(_leader, shown), boards_note(shown)]).strip()
    return Drawing(_layout(shown), About(caption, run_files(runs), RUN, tuple(notes)))


def federated(inputs: Inputs, role: Role) -> Drawing:
    """Hit rates of central and federated training of the paper's network on the data of a role."""
    board, absent = _board(role, inputs, PAPER_METHODS)
    caption = f"Hit rate at 10: {', '.join(f'{label} {rate}' for label, rate in _at_ten(board))}."
    caption = f"{caption} {boards_note([board])}".strip()
    return Drawing(_layout([board]), About(caption, run_files([run for _, run in board.runs]), RUN, absent))


def _board(role: Role, inputs: Inputs, methods: Sequence[str]) -> tuple[Board, tuple[str, ...]]:
    """The rankings of these methods with their defaults, and notes on those that are not there."""
    board, notes = defaults_of(role, inputs, methods, measured=_is_measured, what=f"hit rates up to {CUTOFFS[-1]}")
    if board is None:
        raise Missing(f"no rankings of {', '.join(methods)} on {' or '.join(role.data)} ({role.track})", RUN)
    return board, notes


def _is_measured(run: Result) -> bool:
    return all(math.isfinite(run.summary.get(f"hr@{n}{run.suffix}", math.nan)) for n in CUTOFFS)


def _leader(board: Board) -> str:
    (best, found), *rest = _at_ten(board)
    others = ", ".join(f"{label} {rate}" for label, rate in rest)
    said = f"On {data_name(board)} {best} has a hit rate of {found} at 10"
    return f"{said} ({others})." if others else f"{said}."


def _layout(shown: Sequence[Board]) -> Layout:
    """A panel per board; the legend in the order of FORMULATIONS."""
    styles = line_styles({label: run.key.method for board in shown for label, run in board.runs})
    ordered = {label: styles[label] for label in (*FORMULATIONS, *styles) if label in styles}
    panels = tuple(
        Panel(partial(_panel, board=board, styles=styles), f"{short_title(board)}, {seeds_of(board)}")
        for board in shown
    )
    note = f"{LINE} Cross: see {status}" if (status := boards_note(shown)) else LINE
    return Layout((Block("", panels),), _legend(shown, ordered), note, columns=len(panels), height=3.0, left=0.7)


def _legend(shown: Sequence[Board], styles: Mapping[str, LineStyle]) -> dict[str, LineStyle]:
    """The styles under the labels with their signs."""
    signs = {label: next(filter(None, (row_sign(board, label) for board in shown)), "") for label in styles}
    return {f"{label} {signs[label]}".rstrip(): style for label, style in styles.items()}


def _panel(axes: Axes, *, board: Board, styles: Mapping[str, LineStyle]) -> None:
    many, highest = np.array(CUTOFFS, dtype=np.float64), 0.0
    for label in board.methods():
        values = _curve(board, label)
        highest = max(highest, float(values.max()))
        plot_mean(axes, many, values, styles[label], marker_every=2)
        if row_sign(board, label):
            draw_cross(axes, CUTOFFS[-1], float(values[:, -1].mean()), styles[label].colour)
    axes.set_xlim(0, CUTOFFS[-1])
    axes.set_ylim(0, 1 if highest > 0.5 else None)
    axes.set_xlabel("recommendations", labelpad=1)
    axes.set_ylabel("hit rate, higher is better")


def _curve(board: Board, label: str) -> Floats:
    """[n_seeds, n_cutoffs]: the hit rates of each seed."""
    runs = runs_of(board, label)
    return np.array([[run.summary[f"hr@{n}{run.suffix}"] for n in CUTOFFS] for run in runs])


def _mean_at(board: Board, label: str, cutoff: int) -> float:
    return float(_curve(board, label)[:, CUTOFFS.index(cutoff)].mean())


def _at_ten(board: Board) -> list[tuple[str, str]]:
    """The methods with their hit rates at 10 as text, best first."""
    rates = sorted((-_mean_at(board, label, 10), label) for label in board.methods())
    return [(label, f"{-rate:.2f}{row_sign(board, label)}") for rate, label in rates]


def sizes(inputs: Inputs) -> Drawing:
    """Reciprocal rank by slice of the formulations, on smart homes and recipes."""
    shown, notes = [], []
    for role in (WYZE, IFTTT):
        board, absent = defaults_of(
            role,
            inputs,
            FORMULATIONS,
            measured=lambda run: any(name.startswith(SIZE) for name in run.summary),
            what="results by home size",
        )
        if board is None:
            notes.append(f"{role.title}: none of {', '.join(FORMULATIONS)} was ranked on {' or '.join(role.data)}.")
            continue
        shown.append(board)
        notes += [*absent, *_unseen_notes(board), *_lost_notes(board)]
    if not shown:
        raise Missing("no rankings of the formulations with results by home size", RUN)
    labels = {label for board in shown for label in board.methods()}
    styles = marker_styles([label for label in FORMULATIONS if label in labels], NO_LINE)
    blocks = [Block(_heading(board), tuple(_panels(board, styles))) for board in shown]
    status = boards_note(shown)
    note = f"{NOTE} Hollow: see {status}" if status else NOTE
    layout = Layout(tuple(blocks), _legend(shown, styles), note, columns=2, height=2.4, left=0.75)
    sources = run_files([run for board in shown for _, run in board.runs])
    caption = " ".join([*map(_caption, shown), _orphans_note(shown), status])
    return Drawing(layout, About(" ".join(caption.split()), sources, RUN, tuple(notes)))


def _heading(board: Board) -> str:
    """The data set with its size and seeds; not that its lists are closed elsewhere, since slices are of open ones."""
    homes = board.runs[0][1].counts.get("homes")
    return f"{board.data}{f', {homes:,} homes' if homes else ''}: {seeds_of(board)}"


def _orphans_note(shown: Sequence[Board]) -> str:
    """Where the lists of leaderboards are closed, that these are not; empty where none is."""
    closed = [data_name(board) for board in shown if board.runs[0][1].suffix]
    where = f"lists of {', '.join(closed)} are not closed here"
    return f"With orphans, devices without a known rule: {where}." if closed else ""


def _panels(board: Board, styles: Mapping[str, LineStyle]) -> list[Panel]:
    found = []
    for slices, title in (
        (_by_size(board), "devices of the home (valid filter)"),
        (_by_kind(board), "rule seen in training? (no filter)"),
    ):
        dots = {label: [_dot(board, label, part) for part in slices] for label in board.methods()}
        wrong = {label for label in dots if row_sign(board, label)}
        panel = partial(_breakdown_panel, slices=slices, dots=dots, styles=styles, wrong=wrong)
        found.append(Panel(panel, title))
    return found


def _by_size(board: Board) -> list[Slice]:
    """Home sizes with hidden rules, small ones first."""
    measured = [name for _, run in board.runs for name in run.summary if name.startswith(SIZE)]
    names = dict.fromkeys(name.split(":")[0] for name in measured if ":" in name)
    return [Slice(name, FILTERED, hidden) for name in names if (hidden := _hidden(board, name))]


def _by_kind(board: Board) -> list[Slice]:
    return [Slice(name, EVERY, hidden) for name in ("seen", "unseen") if (hidden := _hidden(board, name))]


def _hidden(board: Board, name: str) -> int:
    """Of the method with the most seeds; all methods have the same hidden rules."""
    counts = [sum(_count(run, f"{name}: hidden") for run in runs_of(board, label)) for label in board.methods()]
    return int(max(counts))


def _dot(board: Board, label: str, part: Slice) -> Dot:
    """Seeds are weighted by their hidden rules, which may be few."""
    runs = runs_of(board, label)
    values = np.array([run.summary.get(f"{part.name}: {part.metric}", math.nan) for run in runs])
    hidden = np.array([_count(run, f"{part.name}: hidden") for run in runs])
    measured = values[hidden > 0]
    lost = int(np.sum(~np.isfinite(measured)))
    if lost or not len(measured):  # the mean of the other seeds would look too good
        return Dot(math.nan, math.nan, math.nan, lost)
    return Dot(float(np.average(measured, weights=hidden[hidden > 0])), float(measured.min()), float(measured.max()))


def _breakdown_panel(
    axes: Axes,
    *,
    slices: Sequence[Slice],
    dots: Mapping[str, Sequence[Dot]],
    styles: Mapping[str, LineStyle],
    wrong: Collection[str],  # labels of which some seed's training went wrong
) -> None:
    labels = [each for each in styles if each in dots]
    for number, each in enumerate(labels):
        style = styles[each]
        shift = WIDTH * (number / (len(labels) - 1) - 0.5) if len(labels) > 1 else 0.0
        for place, dot in enumerate(dots[each]):
            axes.plot([place + shift] * 2, [dot.low, dot.high], color=style.colour, linewidth=1.2)
            axes.plot(place + shift, dot.mean, **(style.hollow_dot if each in wrong else style.dot))
    for place in range(1, len(slices)):
        axes.axvline(place - 0.5, color="#d5d5d5", linewidth=0.8)
    axes.set_xticks(range(len(slices)), [f"{part.title}\nn = {part.hidden:,}" for part in slices])
    axes.set_xlim(-0.5, max(len(slices), 1) - 0.5)
    top = max((dot.high for each in dots.values() for dot in each if math.isfinite(dot.high)), default=0.0) or 1.0
    axes.set_ylim(-0.03 * top, 1.06 * top)  # so that dots at 0 are not cut off
    axes.grid(visible=False, axis="x")
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("mean reciprocal rank")


def _unseen_notes(board: Board) -> list[str]:
    """Methods without a score for any unseen rule."""
    data = data_name(board)
    if not _hidden(board, "unseen"):
        return [f"Every hidden rule of {data} was seen in training."]
    mute = []
    for label in board.methods():
        runs = runs_of(board, label)
        hidden, unanswered = (sum(_count(run, f"unseen: {what}") for run in runs) for what in ("hidden", "unanswered"))
        if hidden and hidden == unanswered:
            mute.append(label)
    return [f"On {data} {', '.join(mute)} cannot score unseen rules, which counts as 0."] if mute else []


def _lost_notes(board: Board) -> list[str]:
    """Methods without a dot in a slice because some seed is not finite."""
    found = [
        f"{label}, {part.name} ({dot.lost} of {seed_count([len(runs_of(board, label))])})"
        for part in (*_by_size(board), *_by_kind(board))
        for label in board.methods()
        if (dot := _dot(board, label, part)).lost
    ]
    return [f"Not finite on {data_name(board)}, and so without a dot: {'; '.join(found)}."] if found else []


def _caption(board: Board) -> str:
    """The best method on the smallest and the largest homes and on unseen rules, where there are enough rules."""
    parts = [(part, f"in homes with {part.title} devices") for part in _by_size(board)]
    enough = [each for each in parts if each[0].hidden >= MIN_HIDDEN]
    unseen = [(part, "on unseen rules") for part in _by_kind(board) if part.name == "unseen"]
    best = []
    for part, where in (*enough[:1], *enough[1:][-1:], *(each for each in unseen if each[0].hidden >= MIN_HIDDEN)):
        means = [(_dot(board, label, part).mean, label) for label in board.methods()]
        if there := [each for each in means if math.isfinite(each[0])]:
            mean, label = max(there)
            best.append(f"{label} ({mean:.3f}{row_sign(board, label)}) {where} ({part.hidden:,} hidden rules)")
    few = [f"{where} ({part.hidden:,})" for part, where in (*parts, *unseen) if part.hidden < MIN_HIDDEN]
    of = f"of the {len(board.methods())} methods shown the best are" if len(board.methods()) > 1 else "the best are"
    said = f"{of} {', '.join(best)}." if best else f"no slice has {MIN_HIDDEN} hidden rules."
    said = f"On {data_name(board)} {said}"
    return f"{said} Too few hidden rules to name the best: {', '.join(few)}." if few else said


def _count(run: Result, name: str) -> float:
    value = run.summary.get(name, 0.0)
    return value if math.isfinite(value) else 0.0
