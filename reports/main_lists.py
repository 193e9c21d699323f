"""The lists that the page and the README speak of: rankings on the paper's data sets, methods with their defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.results.compare import Comparison
from benchmarks.results.leaderboard import Board
from datasets.common.errors import DataError
from reports.main_rows import main_rows, ranking_of, runs_of, with_rows
from reports.material import Material
from reports.selection import ROLES
from reports.standings import Standing, standing_of

METRICS = {"ranking": ("mrr",), "paper": ("auc", "loss")}  # the first that a list has
NAMES = {"mrr": "MRR", "auc": "AUC"}
MOST_LISTS = 3  # where no data set of the paper was run


@dataclass(frozen=True, slots=True)
class Row:
    """A method in a list."""

    label: str
    method: str
    value: float
    low: float
    high: float
    group: int  # of methods that cannot be told apart
    hits: float  # among ten recommendations; NaN where the list has none


@dataclass(frozen=True, slots=True, eq=False)
class MainList:
    """A list by one metric, best first."""

    standing: Standing
    rows: tuple[Row, ...]

    @property
    def board(self) -> Board:
        """Its runs."""
        return self.standing.board

    @property
    def metric(self) -> str:
        """As people write it."""
        return NAMES.get(self.standing.metric, self.standing.metric)

    @property
    def place(self) -> str:
        """The data in a few words."""
        run = self.board.runs[0][1]
        homes = [f"{run.counts['homes']:,} homes"] if "homes" in run.counts else []
        details = ", ".join([*([] if run.key.track == "types" else [run.key.track]), *homes])
        return f"{run.key.data} ({details})" if details else run.key.data

    def first(self, *methods: str) -> Row | None:
        """The best row of these methods."""
        return next((row for row in self.rows if row.method in methods), None)

    def against(self, a: Row, b: Row) -> Comparison | None:
        """The two on the seeds that both have; None where there is none."""
        return self.standing.against(a.label, b.label)


def main_boards(material: Material) -> tuple[list[Board], list[str]]:
    """The rankings on the paper's data sets, methods with their defaults where these were run; else what there is.

    Nothing is mixed: where the runs of a data set were not given the same data, the reason stands in its place.
    """
    found, left_out = [], []
    for role in ROLES:
        try:
            board = ranking_of(role, material)
        except DataError as error:
            left_out.append(f"{role.title}: {error}.")
        else:
            if board is None:
                continue
            rows = main_rows(board)
            found.append(with_rows(board, rows))
            if others := len(board.methods()) - len(rows):
                left_out.append(
                    f"On {board.runs[0][1].key.data} other settings of these methods are left out ({others})."
                )
    if not found and not left_out:
        uncurved = [board for board in material.boards if not board.runs[0][1].key.curves]
        of_all = [board for board in uncurved if board.protocol == "ranking"]
        found = sorted(of_all or uncurved, key=lambda board: -len(board.methods()))[:MOST_LISTS]
    return found, left_out


def main_list(standing: Standing) -> MainList:
    """A list with what is said of it."""
    rows = []
    for values in standing.table.to_dict("records"):
        label, hits = values["method"], values.get("hr@10", math.nan)
        method = runs_of(standing.board, label)[0].key.method
        value, low, high = (float(values[name]) for name in (standing.metric, "low", "high"))
        rows.append(Row(label, method, value, low, high, int(values["group"]), float(hits)))
    return MainList(standing, tuple(rows))


def main_lists(material: Material) -> tuple[list[MainList], list[str]]:
    """The main lists, and what is not in them and why."""
    shown, left_out = main_boards(material)
    found = []
    for board in shown:
        try:
            metric = next((name for name in METRICS[board.protocol] if board.has(name)), None)
            if metric is None:
                left_out.append(f"{board.title}: no metric that methods could be ranked by.")
                continue
            without = {label for label, run in board.runs if not math.isfinite(run.summary.get(metric, math.nan))}
            if without:
                left_out.append(
                    f"{board.title}: no finite {NAMES.get(metric, metric)} of {', '.join(sorted(without))}."
                )
            measured = with_rows(board, [label for label in board.methods() if label not in without])
            found += [main_list(standing_of(material, measured, metric))] if measured.runs else []
        except DataError as error:  # tables that are gone, or not of the same hidden rules
            left_out.append(f"{board.title}: {error}.")
    return found, left_out
