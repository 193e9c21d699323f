"""Loss, AUC and mean ranks after training, central and federated, beside what the paper reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from benchmarks.results.leaderboard import Board
from benchmarks.results.store import Result
from datasets.common.errors import DataError
from reports.boards import (
    CONFIDENCE,
    TIE_TEST,
    RankedBoard,
    excluded,
    ranked_board,
    ranked_boards,
    runs_of,
    short_title,
)
from reports.drawing.styles import FEDERATED, family_of
from reports.inputs import Inputs
from reports.output_types import RUN, About, Cell, Missing, Table, run_files
from reports.selection import ROLES, Role, select_runs
from reports.text.formats import NONE, count_cell, format_number, interval_cell, number_cell
from reports.text.phrases import METRICS, PAPER_RESULTS, failure_notes, short_number

TITLES = {"loss": ("loss", 4), "auc": ("AUC", 4), "mr": ("MR", 3), "mr_rt": ("MR(RT)", 3)}  # and digits
HERE, PAPER = "here", "paper"

# Why our numbers are not the paper's.
DATA = {
    "wyze": "The paper's Wyze data (76,218 users) is private: {place} here. Fewer homes show fewer of the rules that "
    "others have.",
    "ifttt": "The paper took 144 users, 53 entities and 132 trigger-action pairs from the same kind of recipes: "
    "{place} here.",
}
TRAINING = (
    "The defaults here are not the paper's Adam at 0.1: graphrule learns at a rate of 0.01 with non-rules drawn anew, "
    "federated methods take plain steps in the homes and Adam at the server, which gave a higher AUC and lower ranks "
    "on real recipes; docs/graph.md and docs/federated.md have both side by side."
)
RANKS = (
    "Ranks count from 1 here. The authors' public code counts from 0, so the paper's may be one less: compare them "
    "with mr_paper as well."
)


def final_results(inputs: Inputs, role: Role) -> Table:
    """The paper's table of final results for the data of a role."""
    board = _board(role, inputs)
    tables = _tables(inputs, board)
    published = PAPER_RESULTS.get(role.name, {})
    ordered = [m for m in published if m in board.methods()]
    ordered += sorted(m for m in board.methods() if m not in published)
    rows = []
    for method in ordered:
        rows.append(_here(board, method, tables))
        if method in published:
            rows.append(_paper(method, published[method]))
    rows += [_paper(method, values) for method, values in published.items() if method not in ordered]
    columns = ("method", "numbers of", *(title for title, _ in TITLES.values()), "mr_paper", "seeds")
    runs = [run for _, run in board.runs]
    notes = (*_notes(role, inputs, board, published), *_plain(tables))
    about = About(_caption(board, published), run_files(runs), RUN, notes)
    return Table(columns, tuple(rows), about)


def _board(role: Role, inputs: Inputs) -> Board:
    place = select_runs(role, inputs, lambda run: _wanted(run) and inputs.is_default(run))
    if place is None:
        wanted = ", ".join(PAPER_RESULTS.get(role.name, ()))
        raise Missing(f"no results of {wanted} by the protocol paper on {' or '.join(role.data)}", RUN)
    return place.board("paper")


def _tables(inputs: Inputs, board: Board) -> dict[str, pd.DataFrame]:
    """The list by each metric that every home has a number of."""
    tables = {}
    for metric in METRICS:
        try:
            tables[metric] = ranked_board(inputs, board, metric).table
        except DataError:  # e.g. the loss of a run that ran away, which is no number in some homes
            continue
    return tables


def _plain(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    gone = [title for metric, (title, _) in TITLES.items() if metric not in tables]
    said = "Without intervals, since some run has no number for some home"
    return [f"{said}: {', '.join(gone)}."] if gone else []


def _wanted(run: Result) -> bool:
    """Whether it is GraphRule or trained by homes, with its final numbers; a stranger's method says so by a setting."""
    federated = family_of(run) == FEDERATED or "participation" in run.key.parameters
    return run.key.protocol == "paper" and not run.key.curves and (federated or run.key.method == "graphrule")


def _here(board: Board, method: str, tables: Mapping[str, pd.DataFrame]) -> tuple[Cell, ...]:
    runs = runs_of(board, method)
    cells: list[Cell] = [Cell(method), Cell(HERE)]
    for metric, (_, digits) in TITLES.items():
        if metric not in tables:
            cells.append(number_cell(_mean(runs, metric), digits))
            continue
        table = tables[metric]
        row = table[table["method"] == method].iloc[0]
        leads = bool(row["method"] == table["method"].iloc[0]) and len(table) > 1 and not math.isnan(row[metric])
        tied = not leads and bool(row["group"] == 1) and len(table) > 1
        cells.append(interval_cell(row[metric], row["low"], row["high"], digits, strong=leads, underlined=tied))
    return (*cells, number_cell(_mean(runs, "mr_paper"), 3), count_cell(len(runs)))


def _paper(method: str, values: Sequence[float]) -> tuple[Cell, ...]:
    cells = [number_cell(value, digits) for value, (_, digits) in zip(values, TITLES.values(), strict=True)]
    return (Cell(method), Cell(PAPER), *cells, Cell(NONE, ""), Cell(NONE, ""))


def _caption(board: Board, published: Mapping[str, Sequence[float]]) -> str:
    """AUC and MR(RT) of the paper's methods, here and there."""
    said = []
    for method in published:
        runs = runs_of(board, method)
        if runs:
            auc, rank = _mean(runs, "auc"), _mean(runs, "mr_rt")
            paper = dict(zip(METRICS, published[method], strict=True))
            said.append(
                f"{method} AUC {format_number(auc, 3)} (paper {paper['auc']:.3f}), MR(RT) {format_number(rank, 2)} (paper "
                f"{paper['mr_rt']:.2f})"
            )
    rest = [(_mean(runs_of(board, label), "auc"), label) for label in board.methods() if label not in published]
    if known := [each for each in rest if not math.isnan(each[0])]:
        auc, best = max(known)
        said.append(f"of the other {len(rest)}, {best} has the highest AUC, {auc:.3f}")
    return f"{board.runs[0][1].key.data}: {'; '.join(said)}. [{CONFIDENCE} interval over homes.]"


def _notes(role: Role, inputs: Inputs, board: Board, published: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    first = board.runs[0][1]
    # Why comes first: a page folds what is behind the first few.
    notes = [DATA[role.name].format(place=short_title(board))] if role.name in DATA else []
    notes += [TRAINING, *_differences(board, published), RANKS]
    notes.append("Bold leads its column here; underlined: the data cannot tell it from that.")
    absent = [method for method in published if method not in board.methods()]
    if absent:
        notes.append(f"Not run on {first.key.data}: {', '.join(absent)}.")
    if len({run.key.seed for _, run in board.runs}) == 1:
        notes.append("One seed only: the interval is over homes and says nothing about other seeds.")
    notes += [f"{warning[0].upper()}{warning[1:]}." for warning in board.warnings()]
    failed = [run for run in inputs.failed if run.key.data == first.key.data and _wanted(run)]
    return (*notes, *failure_notes(failed))


def _differences(board: Board, published: Mapping[str, Sequence[float]]) -> list[str]:
    """Where the numbers here are not the paper's, method by method."""
    found = []
    for method, values in published.items():
        runs = runs_of(board, method)
        parts = [
            f"{title} {'above' if ours > paper else 'below'} by {short_number(abs(ours - paper))}"
            for (metric, (title, _)), paper in zip(TITLES.items(), values, strict=True)
            if math.isfinite(ours := _mean(runs, metric)) and not math.isclose(ours, paper, rel_tol=0.01)
        ]
        if parts:
            found.append(f"{method}, against the paper: {', '.join(parts)}.")
    return found


def _mean(runs: Sequence[Result], metric: str) -> float:
    """Over seeds; infinite where one is, and NaN where one has none: the others alone would look too good."""
    return sum(run.summary.get(metric, math.nan) for run in runs) / len(runs) if runs else math.nan


# --- Every list of methods in one table: which is best on which data, and which cannot be told apart from it.

FIRST, LAST = ("data", "method", "group"), ("homes", "hidden rules")
MOST_IN_CAPTION = 6  # lists

Row = Mapping[str, float]

# Column -> the cell of a row of `benchmarks.results.leaderboard`.
RANKING: dict[str, Callable[[Row], Cell]] = {
    "HR@1": lambda row: number_cell(row["hr@1"], 3),
    "HR@10": lambda row: number_cell(row["hr@10"], 3),
    "NDCG@10": lambda row: number_cell(row["ndcg@10"], 3),
    "MRR, no valid filter": lambda row: number_cell(row["mrr, all"]),
}
PAPER_PROTOCOL: dict[str, Callable[[Row], Cell]] = {
    "loss": lambda row: number_cell(row["loss"], 3),
    "auc_feasible": lambda row: number_cell(row["auc_feasible"], 3),
    "MR": lambda row: number_cell(row["mr"], 2),
    "MR(RT)": lambda row: number_cell(row["mr_rt"], 2),
    "mr_paper": lambda row: number_cell(row["mr_paper"], 2),
    "calibrated": lambda row: Cell("yes" if row["calibrated"] else "no"),
}
COST: dict[str, Callable[[Row], Cell]] = {
    "fit s": lambda row: number_cell(row["fit s"], 2),
    "fit MB": lambda row: number_cell(row["fit MB"], 0),
    "seeds": lambda row: count_cell(row["seeds"]),
    "unanswered": lambda row: number_cell(row["unanswered"] / row["hidden"] if row["hidden"] else float("nan"), 3),
}


def leaderboard(inputs: Inputs) -> Table:
    """The lists that people see: rankings of all candidates, sorted by MRR."""
    return _listed(inputs, "ranking", "MRR", RANKING, "the candidates are those that some training home has")


def paper_protocol(inputs: Inputs) -> Table:
    """The paper's measures: hidden rules against as many sampled non-rules, sorted by AUC."""
    said = (
        "most sampled non-rules are triples that no home has, which auc_feasible leaves out; ranks count from 1 "
        "among the relations of one pair of devices, mr_paper from 0 as the authors' public code"
    )
    return _listed(inputs, "paper", "AUC", PAPER_PROTOCOL, said)


def _listed(
    inputs: Inputs, protocol: str, headline: str, columns: Mapping[str, Callable[[Row], Cell]], said: str
) -> Table:
    lists = sorted(ranked_boards(inputs, protocol), key=lambda each: _order(each.board))
    left_out = excluded(inputs, protocol)
    if not lists:
        raise Missing(" ".join([f"no results of the protocol {protocol}.", *left_out]), RUN)
    shown = {**columns, **COST}
    rows = [row for each in lists for row in _rows(each, shown)]
    notes = [
        f"{headline} [{CONFIDENCE} interval over homes], mean over seeds; {said}.",
        f"Bold leads its list; underlined: of its group, whose methods cannot be told apart from it ({TIE_TEST}). "
        "Unanswered: share of hidden rules that a method gives no score.",
        *left_out,
        *(f"{each.board.title}: {warning}." for each in lists for warning in each.board.warnings()),
        *_one_seed(lists),
        *failure_notes([run for run in inputs.failed if run.key.protocol == protocol and not run.key.curves]),
    ]
    runs = [run for each in lists for _, run in each.board.runs]
    about = About(_leaderboard_caption(lists, headline), run_files(runs), RUN, tuple(notes))
    return Table((*FIRST, headline, *shown, *LAST), tuple(rows), about, sortable=True)


def _order(board: Board) -> tuple[int, str]:
    """The lists that the summary speaks of first, then by name."""
    key = board.runs[0][1].key
    spoken_of = [n for n, role in enumerate(ROLES) if key.data in role.data and key.track == role.track]
    return (spoken_of[0] if spoken_of and board.split == "holdout" else len(ROLES)), board_label(board)


def board_label(board: Board) -> str:
    """What tells a list from the others: data, and track and split where they are not the usual ones."""
    track = board.runs[0][1].key.track
    unusual = [*([track] if track != "types" else []), *([board.split] if board.split != "holdout" else [])]
    return ", ".join([board.data + board.mark, *unusual])


def _rows(listed: RankedBoard, columns: Mapping[str, Callable[[Row], Cell]]) -> list[tuple[Cell, ...]]:
    board, metric, run = listed.board, listed.metric, listed.board.runs[0][1]
    found = []
    for place, row in enumerate(listed.table.to_dict("records")):
        values: Row = {str(name): value for name, value in row.items()}
        leads = place == 0 and len(listed.table) > 1 and row[metric] == row[metric]
        tied = place > 0 and row["group"] == 1
        mean = interval_cell(row[metric], row["low"], row["high"], strong=leads, underlined=tied)
        first = Cell(board_label(board)), Cell(row["method"], strong=leads), count_cell(row["group"])
        last = count_cell(run.counts.get("homes", float("nan"))), count_cell(row["hidden"])
        found.append((*first, mean, *(cell(values) for cell in columns.values()), *last))
    return found


def _leaderboard_caption(lists: Sequence[RankedBoard], headline: str) -> str:
    """The leader of each list and how many are in its group; the lists of most methods where there are many."""
    chosen = sorted(lists, key=lambda each: -len(each.table))[:MOST_IN_CAPTION]
    leaders = []
    for each in chosen:
        best, board, others = each.table.iloc[0], each.board, len(each.table) - 1
        beside = f"{len(each.tied)} of {others} others in its group" if others else "alone"
        leaders.append(f"{best['method']} {best[each.metric]:.3f} on {board_label(board)} ({beside})")
    which = "" if len(chosen) == len(lists) else f" The {len(chosen)} longest of {len(lists)} lists."
    return f"Best {headline}: {'; '.join(leaders)}.{which}"


def _one_seed(lists: Sequence[RankedBoard]) -> list[str]:
    single = [each.board.title for each in lists if (each.table["seeds"] == 1).all()]
    return [f"One seed only, so that another may give another order: {'; '.join(single)}."] if single else []
