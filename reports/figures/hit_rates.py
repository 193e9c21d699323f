"""Hit rate against the number of recommendations: is the hidden rule among the first 1, 2, ..., 50 of the list?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from benchmarks.results.leaderboard import Board
from benchmarks.results.results import Result
from reports.drawing.lines import Floats
from reports.drawing.looks import Look, looks_of
from reports.output_types import RUN, About, Drawing, Missing, sources_of
from reports.main_rows import defaults_of, place_title, runs_of, seeds_of
from reports.material import Material
from reports.text.paper import HIT_RATE_AT_40, PAPER_METHODS
from reports.selection import IFTTT, WYZE, Role
from reports.drawing.sheet import Block, Panel, Sheet

LONGEST = 50
FORMULATIONS = ("graphrank", "graphrule", "mf", "gcmc", "ease", "popularity")
LINE = "Line: mean over seeds; band: smallest to largest seed. Only rules that some training home has (valid filter)."


def formulations(material: Material) -> Drawing:
    """Graph and user-item methods, and the floors, on smart homes and recipes: the paper's first comparison."""
    shown, notes = [], []
    for role in (WYZE, IFTTT):
        try:
            board, absent = _board(role, material, FORMULATIONS)
        except Missing as missing:
            notes.append(f"{role.title}: {missing.what}.")
            continue
        shown.append(board)
        notes += absent
        if role is WYZE and "graphrule" in board.methods():
            data, ours = board.runs[0][1].key.data, _mean_at(board, "graphrule", 40)
            notes.append(
                f"The paper reports about {HIT_RATE_AT_40} for GraphRule among 40 recommendations on its own Wyze "
                f"data, which is not public; graphrule has {ours:.2f} here, on {data}."
            )
    if not shown:
        raise Missing("none of the methods was run", RUN)
    runs = [run for board in shown for _, run in board.runs]
    return Drawing(_sheet(shown), About(" ".join(map(_leader, shown)), sources_of(runs), RUN, tuple(notes)))


def federated(role: Role) -> Callable[[Material], Drawing]:
    """Central and federated training of the paper's network on the data of a role."""

    def make(material: Material) -> Drawing:
        board, absent = _board(role, material, PAPER_METHODS)
        values = [f"{label} {_mean_at(board, label, 10):.2f}" for label in _ordered(board)]
        caption = f"Hidden rules among the first ten: {', '.join(values)}."
        return Drawing(_sheet([board]), About(caption, sources_of([run for _, run in board.runs]), RUN, absent))

    return make


def _board(role: Role, material: Material, methods: Sequence[str]) -> tuple[Board, tuple[str, ...]]:
    """The rankings of these methods with their defaults, and notes on those that are not there."""
    board, notes = defaults_of(role, material, methods, measured=_is_measured, what=f"hit rates up to {LONGEST}")
    if board is None:
        raise Missing(f"no rankings of {', '.join(methods)} on {' or '.join(role.data)} ({role.track})", RUN)
    return board, notes


def _is_measured(run: Result) -> bool:
    """Whether it has all hit rates that are drawn."""
    return all(math.isfinite(run.summary.get(f"hr@{n}", math.nan)) for n in range(1, LONGEST + 1))


def _leader(board: Board) -> str:
    best, *rest = _ordered(board)
    others = ", ".join(f"{label} {_mean_at(board, label, 10):.2f}" for label in rest)
    found, data = _mean_at(board, best, 10), board.runs[0][1].key.data
    return f"On {data} {best} finds {found:.2f} of the hidden rules among its first ten" + (
        f" ({others})." if others else "."
    )


def _sheet(shown: Sequence[Board]) -> Sheet:
    """A panel for each board; the legend in the order of the methods above."""
    looks = looks_of({label: run.key.method for board in shown for label, run in board.runs})
    ordered = {label: looks[label] for label in (*FORMULATIONS, *looks) if label in looks}
    panels = tuple(
        Panel(partial(_panel, board=board, looks=looks), f"{place_title(board)}, {seeds_of(board)}") for board in shown
    )
    return Sheet((Block("", panels),), ordered, LINE, columns=len(panels), height=3.0, left=0.7)


def _panel(axes: Axes, *, board: Board, looks: Mapping[str, Look]) -> None:
    many, highest = np.arange(1, LONGEST + 1), 0.0
    for label in board.methods():
        values, look = _curve(board, label), looks[label]
        highest = max(highest, float(values.max()))
        axes.plot(many, values.mean(axis=0), color=look.colour, linestyle=look.dash, marker=look.marker, markevery=6)
        if len(values) > 1:
            axes.fill_between(many, values.min(axis=0), values.max(axis=0), color=look.colour, alpha=0.1, linewidth=0)
    axes.set_xlim(0, LONGEST)
    axes.set_ylim(0, 1 if highest > 0.5 else None)
    axes.set_xlabel("recommendations", labelpad=1)
    axes.set_ylabel("hit rate, higher is better")


def _curve(board: Board, label: str) -> Floats:
    """[n_seeds, LONGEST]: the hit rate of each seed."""
    return np.array([[run.summary[f"hr@{n}"] for n in range(1, LONGEST + 1)] for run in runs_of(board, label)])


def _mean_at(board: Board, label: str, many: int) -> float:
    return float(_curve(board, label)[:, many - 1].mean())


def _ordered(board: Board) -> list[str]:
    """Best among ten first."""
    return sorted(board.methods(), key=lambda label: (-_mean_at(board, label, 10), label))
