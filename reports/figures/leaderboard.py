"""The leaderboard as a figure: each method's reciprocal rank with its interval, and the group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from benchmarks.results.leaderboard import Board
from benchmarks.results.store import Result
from datasets.common.errors import DataError, counted
from reports import boards
from reports.boards import TRACKS
from reports.drawing.layout import Block, Layout, Panel, inches, wrap_label
from reports.drawing.styles import FAINT, FAMILY_STYLES, INK, legend
from reports.inputs import PLACES, Inputs, Role, RunGroup, group_runs, is_ranking, select_runs
from reports.outputs import RUN, About, Drawing, Missing, run_files

MAX_PANELS = 6
MAX_NAMED = 8  # methods in a caption; the figure marks them all
MAX_ROWS = 14  # beyond that, methods are shown with their defaults only
LETTERS = 20  # per line of a label
ROW, LINE, BESIDE = 0.22, 0.13, 0.22  # inches: a row of one line, each further line, the space beside a label
BELOW = 0.3  # rows from a bar to the dots of its seeds
NOT_APART = "\N{ALMOST EQUAL TO}"  # before the name
GROUPS = (
    f"{NOT_APART}: cannot be told apart from the best ({boards.TIE_TEST}). Number: a group, which begins with the "
    "first method that can be told apart from the first of the group above it (of one seed: over homes)."
)
HOLLOW = "Hollow, with a dashed bar: see"


@dataclass(frozen=True, slots=True, eq=False)
class PanelBoard:
    """What one panel shows."""

    ranking: boards.RankedBoard
    families: dict[str, str]  # of each label
    left_out: int = 0  # rows with other settings

    @property
    def by_row(self) -> list[list[Result]]:
        """The runs of each row that is the mean of several."""
        every = [boards.runs_of(self.ranking.board, label) for label in self.ranking.ordered]
        return [runs if len(runs) > 1 else [] for runs in every]


def intervals(inputs: Inputs) -> Drawing:
    """The rankings on the lists of the findings, and on other data sets."""
    return _drawing(inputs, "holdout", *_main_groups(inputs))


def one_hidden(inputs: Inputs, split: str = "leave_one_out") -> Drawing:
    """The rankings with one automation of each home hidden."""
    return _drawing(inputs, split, *_long_enough(_groups_of(inputs, split)))


def unseen_homes(inputs: Inputs, split: str = "new_homes") -> Drawing:
    """The rankings of homes that are not seen in training, with one automation hidden."""
    return _drawing(inputs, split, *_long_enough(_groups_of(inputs, split)))


def _drawing(inputs: Inputs, split: str, groups: Sequence[RunGroup], left_out_lists: Sequence[str]) -> Drawing:
    shown, notes = [], list(left_out_lists)
    for group in groups:
        try:
            shown.append(_panel_board(inputs, group))
        except DataError as error:  # its tables are gone, or are not of the same data or hidden rules
            notes.append(f"Left out: {group.data}: {str(error).removeprefix(f'{group.data}: ')}")
    if not shown:
        left_out = inputs.swept_note(lambda run: is_ranking(run) and run.key.split["split"] == split)
        raise Missing(" ".join(filter(None, ["no rankings that could be shown.", *notes, left_out])), RUN)
    notes += [
        f"{each.ranking.board.title}: {each.left_out} more rows with settings other than the defaults are not shown; "
        "groups are formed among the rows that are."
        for each in shown
        if each.left_out
    ]
    titles = [boards.short_title(each.ranking.board) for each in shown]
    panels = [Panel(partial(_panel, board=each), title) for each, title in zip(shown, titles, strict=True)]
    labels = [label for each in shown for label in _labels(each.ranking)]
    lists = [each.ranking.board for each in shown]
    status = boards.boards_note(lists)
    layout = Layout(
        (Block("", tuple(panels)),),
        legend(family for each in shown for family in each.families.values()),
        f"Marker: mean over seeds; bar: {boards.interval_name(lists)}; dots below it: the seeds. {GROUPS} "
        f"{'; '.join(f'{_name(board)}: {boards.seeds_of(board)}' for board in lists)}."
        + (f" {HOLLOW} {status}" if status else ""),
        columns=min(len(panels), 2),
        height=max(_height(_labels(each.ranking)) for each in shown),
        left=max(0.3, *(inches(line) for label in labels for line in label.split("\n"))) + BESIDE,
    )
    sources = run_files([run for board in lists for _, run in board.runs])
    caption = " ".join([*(_caption(each.ranking) for each in shown), status]).strip()
    return Drawing(layout, About(caption, sources, RUN, tuple(notes)))


def _main_groups(inputs: Inputs) -> tuple[list[RunGroup], list[str]]:
    """Those of the findings, then of each other data set the one with the most methods; and what is left out."""
    found: list[RunGroup] = []
    refused: dict[Role, DataError] = {}
    for role in PLACES:
        try:
            group = select_runs(role, inputs, is_ranking)
        except DataError as error:  # its runs are of different data
            refused[role] = error
            continue
        found += [group] if group else []
    if refused and not found:
        raise next(iter(refused.values()))
    known = {group.data for group in found} | {data for role in refused for data in role.data}
    others: dict[str, RunGroup] = {}
    for group in group_runs([run for run in inputs.ranked_runs if is_ranking(run)]):
        key = group.runs[0].key
        if key.track != "types" or key.split["split"] != "holdout" or key.data in known:
            continue
        if key.data not in others or group.methods > others[key.data].methods:
            others[key.data] = group
    ordered = sorted(others.values(), key=lambda group: (-group.methods, group.data))
    notes = [f"Left out: {role.title}: {error}" for role, error in refused.items()]
    return [*found, *ordered][:MAX_PANELS], notes


def _long_enough(groups: Sequence[RunGroup]) -> tuple[list[RunGroup], list[str]]:
    """Without lists of less than half as many methods as the longest has, and a note on each of these."""
    most = max((group.methods for group in groups), default=0)
    kept = [group for group in groups if 2 * group.methods >= most]
    notes = [
        f"Not drawn: {group.data}{', ' + TRACKS[track] if (track := group.runs[0].key.track) in TRACKS else ''}, with "
        f"{counted(group.methods, 'method')} where the longest list has {most}."
        for group in groups
        if group not in kept
    ]
    return kept[:MAX_PANELS], notes + [f"Not drawn, for want of room: {group.data}." for group in kept[MAX_PANELS:]]


def _groups_of(inputs: Inputs, split: str) -> list[RunGroup]:
    """Of each data set and track with this split the one with the most methods."""
    found: dict[tuple[str, str], RunGroup] = {}
    for group in group_runs([run for run in inputs.ranked_runs if is_ranking(run) and run.key.split["split"] == split]):
        place = group.data, group.runs[0].key.track
        if place not in found or group.methods > found[place].methods:
            found[place] = group
    ordered = sorted(found, key=lambda place: (place[0], place[1] != "types"))
    return [found[place] for place in ordered]


def _name(board: Board) -> str:
    """The data set, and its track where it is not the usual one."""
    return board.data + boards.track_suffix(board)


def _panel_board(inputs: Inputs, group: RunGroup) -> PanelBoard:
    board = group.board("ranking")
    every = board.methods()
    kept = every if len(every) <= MAX_ROWS else boards.main_rows(board)
    board = boards.with_rows(board, kept)
    families = {label: boards.family_of(boards.runs_of(board, label)[0]) for label in kept}
    return PanelBoard(boards.ranked_board(inputs, board, board.headline), families, len(every) - len(kept))


def _panel(axes: Axes, *, board: PanelBoard) -> None:
    table = board.ranking.table
    metric = board.ranking.metric
    numbers = table[[metric, "low", "high"]].to_numpy(np.float64)
    seeds = [(run.summary[metric], row + BELOW) for row, runs in enumerate(board.by_row) for run in runs]
    finite = np.array([*numbers.ravel(), *(value for value, _ in seeds)])
    finite = finite[np.isfinite(finite)]
    least, most = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    margin = 0.06 * (most - least or 1)
    axes.set_xlim(max(least - margin, 0), most + 2.5 * margin)  # groups are numbered at the right
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_ylim(len(table) - 0.5, -0.5)
    groups = table["group"].tolist()
    for group in dict.fromkeys(groups):
        first, last = groups.index(group), len(groups) - 1 - groups[::-1].index(group)
        if group % 2:
            axes.axhspan(first - 0.5, last + 0.5, color="#eef1f5", linewidth=0, zorder=0)
        number = axes.text(0.985, (first + last) / 2, str(group), transform=axes.get_yaxis_transform(), color=INK)
        number.set(fontsize=9, ha="right", va="center")
    for row, (label, (mean, low, high)) in enumerate(zip(table["method"], numbers, strict=True)):
        style, wrong = FAMILY_STYLES[board.families[label]], bool(boards.row_sign(board.ranking.board, label))
        dash = (0, (2, 1.2)) if wrong else "solid"
        axes.plot([low, high], [row, row], color=style.colour, linewidth=1.6, linestyle=dash, solid_capstyle="butt")
        axes.plot(mean, row, **(style.hollow_dot if wrong else style.dot))
    if seeds:
        axes.plot(*zip(*seeds, strict=True), color=FAINT, marker="o", markersize=1.6, linestyle="none")
    axes.set_yticks(range(len(table)), _labels(board.ranking))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_color(FAINT)
    axes.set_xlabel("mean reciprocal rank", labelpad=1)


def _labels(ranking: boards.RankedBoard) -> list[str]:
    """The names of the rows, with the signs of what went wrong and of what cannot be told apart from the best."""
    tied = set(ranking.tied)
    marked = [f"{NOT_APART} {label}" if label in tied else label for label in ranking.ordered]
    return [
        _wrapped(f"{text} {boards.row_sign(ranking.board, label)}".rstrip())
        for text, label in zip(marked, ranking.ordered, strict=True)
    ]


def _wrapped(label: str) -> str:
    return wrap_label(label, LETTERS)


def _height(labels: Sequence[str]) -> float:
    """Inches of all rows, each as high as the highest label needs."""
    lines = max(label.count("\n") + 1 for label in labels)
    return max(len(labels) * (ROW + LINE * (lines - 1)), 1.2)


def _caption(ranking: boards.RankedBoard) -> str:
    first, *others = ranking.table.to_dict("records")
    sign = boards.row_sign(ranking.board, first["method"])
    metric, where = ranking.metric, _name(ranking.board)
    text = f"On {where} {first['method']} leads with {first[metric]:.4f}{sign}"
    text += f" ({first['low']:.4f} to {first['high']:.4f})"
    if not others:
        return f"{text}; nothing else was run there."
    text += f", {first[metric] - others[0][metric]:.4f} ahead of {boards.signed(ranking.board, others[0]['method'])}"
    if ranking.tied and not others[1:] and ranking.seeds == 1:
        return f"{text}, but on one seed only."
    if ranking.undecided:
        return f"{text}; {boards.describe_lead(ranking)}."
    if len(ranking.tied) > MAX_NAMED:
        return f"{text}; it {boards.describe_lead(ranking)}."
    if ranking.tied:
        return f"{text}; it cannot be told apart from {', '.join(ranking.tied)}."
    return f"{text}, a significant difference."
