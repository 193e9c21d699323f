"""Accuracy against training time and against the bytes that a client sends: a point per method.

Accuracy and bytes are means over seeds; seconds are medians, since the first run may include compiling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from benchmarks.results.formulations import FEDERATED, PROBE
from benchmarks.results.leaderboard import HEADLINE, Board
from benchmarks.results.store import Result
from reports import boards
from reports.drawing.layout import Block, Label, Layout, Panel, add_labels, wrap_label
from reports.drawing.styles import DASHES, FAMILY_STYLES, LineStyle, legend
from reports.inputs import IFTTT, WYZE, Inputs, Role, select_runs
from reports.outputs import RUN, About, Drawing, Missing, run_files
from reports.text.formats import in_bytes, in_seconds, seed_count

METRICS = {"mrr": "mean reciprocal rank", "auc": "AUC, mean over homes"}
LINED = tuple(family for family in FAMILY_STYLES if family != FEDERATED)  # each has its own dashes
NOT_FROM_0 = " (not from 0)"  # of an axis
LETTERS = 22  # per line of a label
MAX_TICKS = 5
CHANCE = "random"  # its time and rank are far from all others, which would be crowded for it
CLOSE = 0.95  # of the best accuracy


@dataclass(frozen=True, slots=True)
class Point:
    """A row of a board; not finite where the value of a seed is not."""

    label: str
    family: str
    cost: float
    accuracy: float
    seeds: int = 1
    broken: int = 0  # seeds without a finite accuracy or, where other seeds have one, cost
    sign: str = ""  # where the training of some seed went wrong

    @property
    def reached(self) -> str:
        """Its accuracy as text."""
        return f"{self.accuracy:.3f}{self.sign}"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One data set of a figure."""

    board: Board
    draw: Callable[[Axes], None]
    styles: dict[str, LineStyle]  # of the legend
    caption: str
    seeds: str


def points(
    board: Board, metric: str, cost: Callable[[Result], float], middle: Callable[[list[float]], float] = fmean
) -> list[Point]:
    """One per row but for probes, in the order of the board."""
    found = []
    for label in board.methods():
        runs = boards.runs_of(board, label)
        if boards.family_of(runs[0]) == PROBE:
            continue
        accuracies, costs = [run.summary.get(metric, math.nan) for run in runs], [cost(run) for run in runs]
        has_cost = any(map(math.isfinite, costs))  # a central method sends nothing, which is fine
        needed = zip(accuracies, costs if has_cost else accuracies, strict=True)
        broken = sum(not all(map(math.isfinite, each)) for each in needed)
        # Not finite where a seed is not: the others alone would look too good.
        cost_middle = middle(costs) if all(map(math.isfinite, costs)) else math.nan
        accuracy_mean = sum(accuracies) / len(accuracies)
        sign = boards.row_sign(board, label)
        found.append(Point(label, boards.family_of(runs[0]), cost_middle, accuracy_mean, len(runs), broken, sign))
    return found


def seconds(run: Result) -> float:
    """Of training."""
    return run.seconds.get("fit", math.nan)


def front(shown: Sequence[Point]) -> list[Point]:
    """The Pareto front, cheapest first: no other point is both cheaper and better."""
    kept: list[Point] = []
    for point in sorted(shown, key=lambda point: (point.cost, -point.accuracy, point.label)):
        if not kept or point.accuracy > kept[-1].accuracy:
            kept.append(point)
    return kept


def time(inputs: Inputs) -> Drawing:
    """MRR against seconds of training, on smart homes and recipes."""
    parts: list[Part] = []
    notes: list[str] = []
    for role in (WYZE, IFTTT):
        board = boards.ranking_of(role, inputs)
        if board is None:
            notes.append(f"{role.title}: no rankings on {' or '.join(role.data)}.")
            continue
        board = boards.with_rows(board, boards.main_rows(board))
        every = points(board, board.headline, seconds, median)
        chance = [point for point in every if point.label == CHANCE]
        every = [point for point in every if point not in chance] or every
        shown = [point for point in every if _can_be_drawn(point)]
        if chance and chance[0] not in every and math.isfinite(chance[0].accuracy):
            notes.append(f"{boards.short_title(board)}: random order, not drawn, has {chance[0].reached}.")
        notes += _lost_note(board, "no time or no rank", [point for point in every if point not in shown])
        if shown:
            threads = " or ".join(map(str, sorted({run.threads for _, run in board.runs})))
            seeds = f"{boards.seeds_of(board)}, {threads} {'thread' if threads == '1' else 'threads'}"
            panel, styles = partial(_time_panel, shown=shown), legend(point.family for point in shown)
            parts.append(Part(board, panel, styles, _time_caption(shown, boards.data_name(board)), seeds))
    if not parts:
        raise Missing("no rankings on smart homes or recipes", RUN)
    note = (
        "Methods with their defaults; MRR: mean over seeds, time: median over seeds, of training alone, on the machine "
        "of each run. Grey line: no other method is both faster and better."
    )
    return _drawing(parts, note, notes, height=4.2)  # there may be thirty names


def bytes_sent(inputs: Inputs) -> Drawing:
    """Accuracy against bytes that a client sends in the whole training, and the best central method of each family."""
    parts: list[Part] = []
    notes: list[str] = []
    for role in (WYZE, IFTTT):
        board, metric = _federated_board(role, inputs)
        every = points(board, metric, boards.sent) if board else []
        federated = [point for point in every if _can_be_drawn(point)]
        if board is None or not federated:
            notes.append(f"{role.title}: no federated method was run on {' or '.join(role.data)}.")
            continue
        central = _best_central_of_each_family(every)
        lost = [p for p in every if (p.family == FEDERATED and p not in federated) or not math.isfinite(p.accuracy)]
        notes += _lost_note(board, f"no bytes or no {'AUC' if metric == 'auc' else 'rank'}", lost)
        if metric == "auc":
            notes.append(
                f"{boards.short_title(board)}: AUC by the protocol paper, since no federated method was ranked."
            )
        if not central:
            notes.append(f"{boards.short_title(board)}: no central method was run.")
        board = boards.with_rows(board, [point.label for point in (*federated, *central)])
        panel = partial(_bytes_panel, federated=federated, central=central, metric=metric)
        styles = {FEDERATED: FAMILY_STYLES[FEDERATED]}
        styles |= {f"best central method, {point.family}": _line_style(point) for point in central}
        caption = _bytes_caption(federated, central, boards.data_name(board), metric)
        parts.append(Part(board, panel, styles, caption, boards.seeds_of(board)))
    if not parts:
        raise Missing("no federated method was run on smart homes or recipes", RUN)
    note = (
        "Methods with their defaults, mean over seeds. Bytes that a client sends over the whole training, mean over "
        "clients, including the counts that fedrank sends first. A central method has all data on the server."
    )
    return _drawing(parts, note, notes)


def _drawing(parts: Sequence[Part], note: str, notes: Sequence[str], height: float = 3.2) -> Drawing:
    panels = tuple(Panel(part.draw, boards.short_title(part.board)) for part in parts)
    styles = {name: style for part in parts for name, style in part.styles.items()}
    note += f" {'; '.join(f'{part.board.data}: {part.seeds}' for part in parts)}."
    status = boards.boards_note(part.board for part in parts)
    note += f" Hollow: see {status}" if status else ""
    layout = Layout((Block("", panels),), styles, note, columns=len(panels), height=height, left=0.75)
    files = run_files([run for part in parts for _, run in part.board.runs])
    caption = " ".join([*(part.caption for part in parts), status]).strip()
    return Drawing(layout, About(caption, files, RUN, tuple(notes)))


def _federated_board(role: Role, inputs: Inputs) -> tuple[Board | None, str]:
    """The main rows of the board with the most federated runs, by the first protocol that has any; and its metric."""
    for protocol in HEADLINE:
        if group := select_runs(role, inputs, partial(_is_federated, protocol=protocol)):
            there = {id(run) for run in group.runs}
            # Runs with and without curves are on different boards: they are fitted to different rules.
            board = max(inputs.boards, key=lambda board: sum(id(run) in there for _, run in board.runs))
            return boards.with_rows(board, boards.main_rows(board)), board.headline
    return None, ""


def _is_federated(run: Result, *, protocol: str) -> bool:
    return run.key.protocol == protocol and boards.sends(run) and (protocol == "paper" or not run.key.curves)


def _best_central_of_each_family(every: Sequence[Point]) -> list[Point]:
    best: dict[str, Point] = {}
    for point in sorted(every, key=lambda point: (-point.accuracy, point.label)):
        if point.family != FEDERATED and math.isfinite(point.accuracy):
            best.setdefault(point.family, point)
    return list(best.values())


def _time_panel(axes: Axes, *, shown: Sequence[Point]) -> None:
    _logarithmic(axes, [point.cost for point in shown], in_seconds)
    _vertical(axes, [point.accuracy for point in shown], "mrr")
    best = front(shown)
    axes.plot([p.cost for p in best], [p.accuracy for p in best], color="#c4c4c4", linewidth=1.2, zorder=1)
    _dots(axes, shown, "training")


def _bytes_panel(axes: Axes, *, federated: Sequence[Point], central: Sequence[Point], metric: str) -> None:
    _logarithmic(axes, [point.cost for point in federated], in_bytes)
    _vertical(axes, [point.accuracy for point in (*federated, *central)], metric)
    left, right = axes.get_xlim()
    edge = left * (right / left) ** 0.02  # where labels of lines begin
    for point in central:
        style = _line_style(point)
        axes.axhline(point.accuracy, color=style.colour, linestyle=style.dash, linewidth=1.2, zorder=1)
    lines = [replace(_label(point), x=edge, colour=FAMILY_STYLES[point.family].colour) for point in central]
    _dots(axes, federated, "sent by a client", lines)


def _dots(axes: Axes, shown: Sequence[Point], cost: str, lines: Sequence[Label] = ()) -> None:
    for point in shown:
        style = FAMILY_STYLES[point.family]
        axes.plot(point.cost, point.accuracy, **(style.hollow_dot if point.sign else style.dot))
    axes.set_xlabel(cost, labelpad=1)
    add_labels(axes, [_label(point) for point in shown], along=lines)


def _line_style(point: Point) -> LineStyle:
    return LineStyle(FAMILY_STYLES[point.family].colour, DASHES[LINED.index(point.family) % len(DASHES)])


def _logarithmic(axes: Axes, values: Sequence[float], text: Callable[[float], str]) -> None:
    """The horizontal axis, with room for labels at both ends."""
    axes.set_xscale("log")
    room = 10 ** (0.12 * math.log10(max(values) / min(values)) + 0.2)
    low, high = min(values) / room, max(values) * room
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator(ticks(low, high)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def ticks(low: float, high: float) -> list[float]:
    """Round numbers in the range, at most MAX_TICKS."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits, step in (((1, 1.5, 2, 3, 4, 6, 8), 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3)):
        found = [digit * 10.0**decade for decade in decades[::step] for digit in digits]
        found = [value for value in found if low <= value <= high]
        if len(found) <= MAX_TICKS:
            break
    return found


def _vertical(axes: Axes, values: Sequence[float], metric: str) -> None:
    """From 0 where points come near it; else it says that it is cut."""
    spread = max(values) - min(values) or 0.1 * abs(values[0]) or 1.0
    cut = min(values) > max(values) / 2
    axes.set_ylim(min(values) - 0.15 * spread if cut else 0, max(values) + 0.15 * spread)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.set_ylabel(METRICS[metric.partition(",")[0]] + (NOT_FROM_0 if cut else ""))


def _label(point: Point) -> Label:
    return Label(wrap_label(f"{point.label} {point.sign}".rstrip(), LETTERS), point.cost, point.accuracy)


def _lost_note(board: Board, what: str, lost: Sequence[Point]) -> list[str]:
    """The points that are not drawn, with the number of broken seeds where others are fine."""
    names = [
        f"{each.label} ({each.broken} of {seed_count([each.seeds])})" if 0 < each.broken < each.seeds else each.label
        for each in lost
    ]
    return [f"{boards.short_title(board)}: {what} of {', '.join(names)}."] if names else []


def _can_be_drawn(point: Point) -> bool:
    return math.isfinite(point.accuracy) and 0 < point.cost < math.inf


def _time_caption(shown: Sequence[Point], data: str) -> str:
    """The best method, and the fastest that is nearly as good."""
    best = max(shown, key=lambda point: (point.accuracy, -point.cost))
    text = f"On {data} {best.label} is the best ({best.reached}) and trains in {in_seconds(best.cost)}"
    near = [point for point in shown if point.accuracy >= CLOSE * best.accuracy]
    fast = min(near, key=lambda point: point.cost)
    if fast is best:
        return f"{text}; no faster method has {CLOSE:.0%} of that."
    text += f"; {fast.label}{fast.sign} has {fast.accuracy / best.accuracy:.0%} of that in {in_seconds(fast.cost)}"
    return f"{text}, {best.cost / fast.cost:,.1f} times faster."


def _bytes_caption(federated: Sequence[Point], central: Sequence[Point], data: str, metric: str) -> str:
    """The best federated and the best central method, and the one that sends least."""
    best = max(federated, key=lambda point: (point.accuracy, -point.cost))
    what = f"{boards.metric_name(metric)} {best.reached}"
    text = f"On {data} a client sends {in_bytes(best.cost)} for {what} with {best.label}"
    least = min(federated, key=lambda point: (point.cost, point.label))
    if least is not best:
        text += f", {in_bytes(least.cost)} for {least.reached} with {least.label}"
    if central:
        text += f"; {central[0].label}, central, has {central[0].reached}"
    return f"{text}."
