"""Central against federated: each method that is trained in the homes beside its twin with all data in one place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from benchmarks.results.formulations import FEDERATED, FEDERATED_METHODS, GRAPH
from datasets.common.errors import DataError
from reports import boards
from reports.drawing.layout import Block, Layout, Panel, inches
from reports.drawing.styles import FAINT, FAMILY_STYLES, INK, NO_LINE, LineStyle
from reports.inputs import PLACES, Inputs
from reports.outputs import RUN_RIVALS, About, Drawing, Missing, run_files
from reports.places import labels_by_method, place_ranking, share_kept

ROW, BESIDE = 0.25, 0.22  # inches: a row, the space beside its name
APART = 0.17  # rows between the two dots of a pair and its middle
CENTRAL = LineStyle(FAMILY_STYLES[GRAPH].colour, NO_LINE, "o", 4.5)
IN_HOMES = LineStyle(FAMILY_STYLES[FEDERATED].colour, NO_LINE, "^", 5.5)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval."""

    value: float
    low: float
    high: float
    sign: str


@dataclass(frozen=True, slots=True)
class DotPair:
    """A federated method and its twin on one board."""

    central: str
    federated: str
    of_central: Estimate
    of_federated: Estimate
    share: float  # the federated value as a part of the central one, on common seeds; NaN where there are none

    @property
    def name(self) -> str:
        """Of its row."""
        return f"{self.central}, {self.federated}"


def central_federated(inputs: Inputs) -> Drawing:
    """A panel per data set and track, a row per pair."""
    shown: list[tuple[boards.RankedBoard, list[DotPair]]] = []
    notes: list[str] = []
    for role in PLACES:
        try:
            ranking = place_ranking(inputs, role)
        except (Missing, DataError) as reason:
            notes.append(f"{role.title}: {reason}.")
            continue
        if found := dot_pairs(ranking):
            shown.append((ranking, found))
        else:
            notes.append(f"{boards.short_title(ranking.board)}: no federated method was run beside its central twin.")
    if not shown:
        raise Missing(" ".join(["no federated method was ranked beside its central twin.", *notes]), RUN_RIVALS)
    names = list(dict.fromkeys(pair.name for pair in _every_pair(shown)))
    panels = [
        Panel(partial(_panel, ranking=ranking, pairs=pairs, names=names), boards.short_title(ranking.board))
        for ranking, pairs in shown
    ]
    lists = [ranking.board for ranking, _ in shown]
    note = (
        f"Bar: {boards.interval_name(lists)}. Number: how much of the central method's MRR the federated one has, on "
        "common seeds; bold: the two can be told apart (95 % interval of the paired difference)."
    )
    status = boards.boards_note(lists)
    layout = Layout(
        (Block("", tuple(panels)),),
        {"all data in one place": CENTRAL, "trained in the homes": IN_HOMES},
        note + (f" Hollow: see {status}" if status else ""),
        columns=min(len(panels), 2),
        height=max(len(names) * ROW, 1.2),
        left=max(map(inches, names)) + BESIDE,
    )
    sources = run_files([run for board in lists for _, run in board.runs])
    caption = " ".join([*(_caption(*each) for each in shown), status]).strip()
    return Drawing(layout, About(caption, sources, RUN_RIVALS, tuple(notes)))


def dot_pairs(ranking: boards.RankedBoard) -> list[DotPair]:
    """The pairs of which both were run, in the order of formulations; each federated method beside its first twin."""
    label_of = labels_by_method(ranking)
    found = []
    for each in FEDERATED_METHODS:
        federated, central = label_of.get(each.name), label_of.get(each.twins[0])
        if federated is None or central is None:
            continue
        share = share_kept(ranking, federated, central)
        both = _estimate(ranking, central), _estimate(ranking, federated)
        found.append(DotPair(each.twins[0], each.name, *both, math.nan if share is None else share))
    return found


def _every_pair(shown: Sequence[tuple[boards.RankedBoard, list[DotPair]]]) -> list[DotPair]:
    """Of all panels, in the order of formulations."""
    order = [each.name for each in FEDERATED_METHODS]
    return sorted((pair for _, pairs in shown for pair in pairs), key=lambda pair: order.index(pair.federated))


def _estimate(ranking: boards.RankedBoard, label: str) -> Estimate:
    row = ranking.table.iloc[ranking.ordered.index(label)]
    value, low, high = (float(row[name]) for name in (ranking.metric, "low", "high"))
    return Estimate(value, low, high, boards.row_sign(ranking.board, label))


def _panel(axes: Axes, *, ranking: boards.RankedBoard, pairs: Sequence[DotPair], names: Sequence[str]) -> None:
    label_of = labels_by_method(ranking)
    ends = [end for pair in pairs for each in (pair.of_central, pair.of_federated) for end in (each.high, each.value)]
    most = max(filter(math.isfinite, ends), default=1.0) or 1.0
    axes.set_xlim(0, 1.2 * most)  # shares stand at the right
    axes.set_ylim(len(names) - 0.5, -0.5)
    for pair in pairs:
        row = names.index(pair.name)
        for side, style, each in ((-APART, CENTRAL, pair.of_central), (APART, IN_HOMES, pair.of_federated)):
            y = row + side
            axes.plot([each.low, each.high], [y, y], color=style.colour, linewidth=1.3, solid_capstyle="butt")
            axes.plot(each.value, y, **(style.hollow_dot if each.sign else style.dot))
        between = [pair.of_central.value, pair.of_federated.value], [row - APART, row + APART]
        axes.plot(*between, color=FAINT, linewidth=0.8, zorder=1)
        if math.isfinite(pair.share):
            versus = ranking.against(label_of[pair.federated], label_of[pair.central])
            apart = versus is not None and not versus.low <= 0 <= versus.high
            text = axes.text(0.99, row, f"{100 * pair.share:.0f} %", transform=axes.get_yaxis_transform(), color=INK)
            text.set(fontsize=7.5, ha="right", va="center", weight="bold" if apart else "normal")
    for row in range(len(names) - 1):
        axes.axhline(row + 0.5, color="#eeeeee", linewidth=0.8, zorder=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_color(FAINT)
    axes.set_xlabel("mean reciprocal rank", labelpad=1)


def _caption(ranking: boards.RankedBoard, pairs: Sequence[DotPair]) -> str:
    """The pairs that lose most and least."""
    known = sorted((pair for pair in pairs if math.isfinite(pair.share)), key=lambda pair: pair.share)
    if not known:
        return f"On {boards.short_title(ranking.board)} no pair has a seed in common."
    ends = " to ".join(
        f"{100 * pair.share:.0f} % ({pair.federated} of {pair.central})"
        for pair in dict.fromkeys((known[0], known[-1]))
    )
    return f"On {boards.short_title(ranking.board)} federated methods have {ends} of the MRR of their twins."
