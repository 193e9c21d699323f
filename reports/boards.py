"""Who leads on which data: every board that can be listed, best method first. Worked out once, used by several outputs.

A list costs seconds where many methods stand in it, since homes are drawn anew thousands of times for its intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import pandas as pd

from benchmarks.results.compare import ALPHA, LEVEL, Comparison
from benchmarks.results.leaderboard import Board, Pairs, ranked
from benchmarks.results.store import Result
from datasets.common.errors import DataError
from reports.inputs import Inputs
from reports.selection import ROLES, Role, RunGroup, group_runs, select_runs
from reports.text.phrases import seed_count

HEADLINE = {"ranking": "mrr", "paper": "auc"}  # protocol -> what a list is sorted by
CONFIDENCE = f"{100 * LEVEL:g} %"  # of the draws lie in an interval
TIE_TEST = f"paired bootstrap over homes, Holm over all pairs of a list, p < {ALPHA:g}"


@dataclass(frozen=True, slots=True, eq=False)
class RankedBoard:
    """A list by one metric, with all of its methods compared."""

    board: Board
    metric: str
    table: pd.DataFrame  # of `benchmarks.results.leaderboard`: a row per method, best first
    pairs: Pairs

    @property
    def ordered(self) -> list[str]:
        """The labels, best first."""
        return [str(label) for label in self.table["method"]]

    @property
    def tied(self) -> list[str]:
        """The others of the leader's group."""
        return [label for label, group in zip(self.ordered, self.table["group"], strict=True) if group == 1][1:]

    @property
    def seeds(self) -> int:
        """How many leader and next have in common; 0 where nothing follows."""
        found = self.pairs.get((self.ordered[0], self.ordered[1])) if len(self.ordered) > 1 else None
        return len(found.seeds) if found else 0

    @property
    def clear(self) -> bool:
        """Whether the leader differs from the next; one seed never says so."""
        return self.seeds > 1 and not self.tied

    def against(self, a: str, b: str) -> Comparison | None:
        """The two on the seeds that both have; None where there is none."""
        if (b, a) in self.pairs:
            return _swapped(self.pairs[b, a])
        return self.pairs.get((a, b))


_CACHE: WeakKeyDictionary[Inputs, dict[tuple[str, ...], RankedBoard]] = WeakKeyDictionary()


def ranked_board(inputs: Inputs, board: Board, metric: str) -> RankedBoard:
    """The list of a board of this material by a metric, worked out once; an error where runs cannot be compared."""
    kept = _CACHE.setdefault(inputs, {})
    place = (metric, board.title, *(text for label, run in board.runs for text in (label, run.key.hash)))
    if place not in kept:
        kept[place] = RankedBoard(board, metric, *ranked(board, metric))
    return kept[place]


def ranked_boards(inputs: Inputs, protocol: str = "ranking") -> list[RankedBoard]:
    """The list of each board of a protocol, by the protocol's headline metric. Those of `unlisted` are left out."""
    return [each for each in _rank_all(inputs, protocol) if isinstance(each, RankedBoard)]


def excluded(inputs: Inputs, protocol: str = "ranking") -> list[str]:
    """Which boards are left out, and why, in sentences."""
    notes = []
    curves = [board for board in _boards(inputs, protocol) if _curved(board)]
    if curves:
        titles = ", ".join(sorted({board.runs[0][1].key.data for board in curves}))
        notes.append(
            f"Runs with curves by round are left out ({sum(len(board.runs) for board in curves)} on {titles}): "
            "they were fitted without validation rules."
        )
    return notes + [f"Left out: {problem}" for problem in _rank_all(inputs, protocol) if isinstance(problem, str)]


def _rank_all(inputs: Inputs, protocol: str) -> list[RankedBoard | str]:
    found: list[RankedBoard | str] = []
    for board in _boards(inputs, protocol):
        if _curved(board):
            continue
        try:
            found.append(ranked_board(inputs, board, HEADLINE[protocol]))
        except DataError as error:  # tables that are gone, or not of the same hidden rules
            found.append(f"{board.title}: {error}")
    return found


def _boards(inputs: Inputs, protocol: str) -> list[Board]:
    return [board for board in inputs.boards if board.protocol == protocol]


def _curved(board: Board) -> bool:
    return bool(board.runs[0][1].key.curves)


def _swapped(versus: Comparison) -> Comparison:
    """The same two the other way round."""
    return replace(
        versus,
        a=versus.b,
        b=versus.a,
        value_a=versus.value_b,
        value_b=versus.value_a,
        difference=-versus.difference,
        low=-versus.high,
        high=-versus.low,
    )


# --- The rows of a board that stand for its methods: each with its defaults, else with the settings it was run with.


def main_rows(board: Board) -> list[str]:
    """Labels: of each method the bare one, where there is one; else all of its labels."""
    bare = {run.key.method for label, run in board.runs if label == run.key.method}
    return [label for label, run in _firsts(board) if label == run.key.method or run.key.method not in bare]


def with_rows(board: Board, labels: Sequence[str]) -> Board:
    """The board without its other rows."""
    return replace(board, runs=tuple((label, run) for label, run in board.runs if label in labels))


def ranking_of(role: Role, inputs: Inputs) -> Board | None:
    """The rankings of all methods on the data of a role; None where there are none."""
    place = select_runs(role, inputs, lambda run: run.key.protocol == "ranking" and not run.key.curves)
    return place.board("ranking") if place else None


def defaults_of(
    role: Role, inputs: Inputs, methods: Sequence[str], *, measured: Callable[[Result], bool], what: str
) -> tuple[Board | None, tuple[str, ...]]:
    """The rankings of these methods with their defaults, as far as `what` was measured; notes on the others.

    None where nothing has it.
    """

    def is_wanted(run: Result) -> bool:
        is_ranking = run.key.protocol == "ranking" and not run.key.curves
        return is_ranking and run.key.method in methods and inputs.is_default(run)

    place = select_runs(role, inputs, lambda run: is_wanted(run) and measured(run))
    if place is None:
        return None, ()
    every = [run for run in _whole(place, inputs).runs if is_wanted(run)]
    found = {method: [measured(run) for run in every if run.key.method == method] for method in methods}
    absent = [method for method, each in found.items() if not each]
    lost = [
        f"{method} ({each.count(False)} of {seed_count([len(each)])})"
        for method, each in found.items()
        if not all(each)
    ]
    notes = [f"Not run on {place.data}: {', '.join(absent)}."] if absent else []
    notes += [f"Left out on {place.data}, where it has no {what}: {', '.join(lost)}."] if lost else []
    return place.board("ranking"), tuple(notes)


def runs_of(board: Board, label: str) -> list[Result]:
    """The seeds of a row."""
    return [run for each, run in board.runs if each == label]


def short_title(board: Board) -> str:
    """The data of a board in a few words, for a panel."""
    return board.runs[0][1].key.data + _homes(board)


def heading(board: Board, many: str) -> str:
    """The data of a board with its options and size, and how many seeds are shown of it."""
    return f"{board.data}{_homes(board)}: {many}"


def seeds_of(board: Board) -> str:
    """How many its rows are the mean of."""
    return seed_count(len(runs_of(board, label)) for label in board.methods())


def _homes(board: Board) -> str:
    """How many there are, to stand behind the data; empty where it was not kept."""
    many = RunGroup((board.runs[0][1],)).homes
    return f", {many:,} homes" if many else ""


def _whole(place: RunGroup, inputs: Inputs) -> RunGroup:
    """With all runs that were made there."""
    return next(each for each in group_runs(inputs.runs) if any(run is place.runs[0] for run in each.runs))


def _firsts(board: Board) -> list[tuple[str, Result]]:
    """Every label with one of its runs."""
    found: dict[str, Result] = {}
    for label, run in board.runs:
        found.setdefault(label, run)
    return list(found.items())


# --- The lists that the page and the README speak of: rankings on the paper's data sets, methods with their defaults.

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

    ranking: RankedBoard
    rows: tuple[Row, ...]

    @property
    def board(self) -> Board:
        """Its runs."""
        return self.ranking.board

    @property
    def metric(self) -> str:
        """As people write it."""
        return NAMES.get(self.ranking.metric, self.ranking.metric)

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
        return self.ranking.against(a.label, b.label)


def main_boards(inputs: Inputs) -> tuple[list[Board], list[str]]:
    """The rankings on the paper's data sets, methods with their defaults where these were run; else what there is.

    Nothing is mixed: where the runs of a data set were not given the same data, the reason stands in its place.
    """
    found, left_out = [], []
    for role in ROLES:
        try:
            board = ranking_of(role, inputs)
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
        uncurved = [board for board in inputs.boards if not board.runs[0][1].key.curves]
        of_all = [board for board in uncurved if board.protocol == "ranking"]
        found = sorted(of_all or uncurved, key=lambda board: -len(board.methods()))[:MOST_LISTS]
    return found, left_out


def main_list(ranking: RankedBoard) -> MainList:
    """A list with what is said of it."""
    rows = []
    for values in ranking.table.to_dict("records"):
        label, hits = values["method"], values.get("hr@10", math.nan)
        method = runs_of(ranking.board, label)[0].key.method
        value, low, high = (float(values[name]) for name in (ranking.metric, "low", "high"))
        rows.append(Row(label, method, value, low, high, int(values["group"]), float(hits)))
    return MainList(ranking, tuple(rows))


def main_lists(inputs: Inputs) -> tuple[list[MainList], list[str]]:
    """The main lists, and what is not in them and why."""
    shown, left_out = main_boards(inputs)
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
            found += [main_list(ranked_board(inputs, measured, metric))] if measured.runs else []
        except DataError as error:  # tables that are gone, or not of the same hidden rules
            left_out.append(f"{board.title}: {error}.")
    return found, left_out
