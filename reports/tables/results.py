"""The leaderboards, and the final results of the federated methods next to the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from benchmarks.results.formulations import FEDERATED
from benchmarks.results.leaderboard import Board
from benchmarks.results.papers import fedrule_numbers
from benchmarks.results.store import Result
from datasets.common.errors import DataError
from reports import boards
from reports.boards import SPREAD
from reports.inputs import PLACES, Inputs, Role, select_runs
from reports.outputs import RUN, About, Cell, Missing, Table, run_files
from reports.text.formats import count_cell, failure_notes, format_number, interval_cell, number_cell, short_number

TITLES = {"loss": ("loss", 4), "auc": ("AUC", 4), "mr": ("MR", 3), "mr_rt": ("MR(RT)", 3)}  # and digits
PAPER_METRICS = ("loss", "auc", "mr", "mr_rt")
FIRST, LAST = ("data", "method", "group"), ("homes", "hidden rules", "status")
MAX_IN_CAPTION = 6  # boards
Columns = Mapping[str, tuple[str, int]]

# Column -> name in a row of `benchmarks.results.leaderboard`, as `Board.metric` takes it, and digits.
RANKING = {"HR@10": ("hr@10{list}", 3), "NDCG@10": ("ndcg@10{list}", 3), "recall@10": ("recall@10{list}", 3)}
RANKING |= {"MAP": ("map{list}", 3), "MRR of the first hit": ("mrr_first{list}", 3), "MRR, raw": ("mrr{raw}", 4)}
RANKING |= {"MRR, with orphans": ("mrr", 4), "MRR, no valid filter": ("mrr, all", 4)}
RANKING_NOTE = f"{boards.HEADLINE_NOTE} {boards.METRICS_NOTE}"
PAPER_PROTOCOL = {"loss": ("loss", 3), "auc_feasible": ("auc_feasible", 3), "MR": ("mr", 2), "MR(RT)": ("mr_rt", 2)}
PAPER_PROTOCOL |= {"mr_paper": ("mr_paper", 2)}
TWINS = {  # that have equal rows, and why: docs/methods.md
    ("fedgate", "fedrule"): "fedgate and fedrule have equal rows: while all homes take part they do the same.",
    ("fedease", "ease"): "fedease and ease have equal rows: it is ease from sums that homes send.",
}
COST = ("fit s", "fit MB", "seeds", "unanswered")


def final_results(inputs: Inputs, role: Role) -> Table:
    """The paper's table of final results for the data of a role."""
    published: dict[str, list[float]] = fedrule_numbers()["results"].get(role.name, {})
    group = select_runs(role, inputs, lambda run: _is_wanted(run) and inputs.is_default(run))
    if group is None:
        raise Missing(f"no results of {', '.join(published)} by the protocol paper on {' or '.join(role.data)}", RUN)
    board = group.board("paper")
    tables = _tables(inputs, board)
    ordered = [m for m in published if m in board.methods()]
    ordered += sorted(m for m in board.methods() if m not in published)
    rows = []
    for method in ordered:
        rows.append(_here(board, method, tables))
        if method in published:
            rows.append(_paper(method, published[method]))
    rows += [_paper(method, values) for method, values in published.items() if method not in ordered]
    columns = ("method", "numbers of", *(title for title, _ in TITLES.values()), "mr_paper", "seeds")
    notes = _notes(role, inputs, board, published)
    if gone := [title for metric, (title, _) in TITLES.items() if metric not in tables]:
        notes += (f"No intervals, since some home of some run has no finite value: {', '.join(gone)}.",)
    about = About(_caption(board, published), run_files([run for _, run in board.runs]), RUN, notes)
    return Table(columns, tuple(rows), about)


def _tables(inputs: Inputs, board: Board) -> dict[str, boards.RankedBoard]:
    """The ranked board by each metric that is finite in every home."""
    tables = {}
    for metric in PAPER_METRICS:
        try:
            tables[metric] = boards.ranked_board(inputs, board, metric)
        except DataError:  # e.g. the loss of a run that diverged is NaN in some homes
            continue
    return tables


def _is_wanted(run: Result) -> bool:
    """Whether it is a final result of GraphRule or a federated method; `participation` marks one that is not ours."""
    federated = boards.family_of(run) == FEDERATED or "participation" in run.key.parameters
    return run.key.protocol == "paper" and not run.key.curves and (federated or run.key.method == "graphrule")


def _here(board: Board, method: str, tables: Mapping[str, boards.RankedBoard]) -> tuple[Cell, ...]:
    runs = boards.runs_of(board, method)
    cells: list[Cell] = [Cell(method), Cell("here")]
    sign = boards.row_sign(board, method)
    for metric, (_, digits) in TITLES.items():
        if metric not in tables:
            cells.append(number_cell(_mean(runs, metric), digits, sign=sign))
            continue
        table = tables[metric].table
        row = table[table["method"] == method].iloc[0]
        leads = bool(row["method"] == table["method"].iloc[0]) and len(table) > 1 and not math.isnan(row[metric])
        style = {"strong": leads, "underlined": method in tables[metric].tied}
        cells.append(interval_cell(row[metric], row["low"], row["high"], digits, **style, sign=sign))
    return (*cells, number_cell(_mean(runs, "mr_paper"), 3, sign=sign), count_cell(len(runs)))


def _paper(method: str, values: Sequence[float]) -> tuple[Cell, ...]:
    cells = [number_cell(value, digits) for value, (_, digits) in zip(values, TITLES.values(), strict=True)]
    return (Cell(method), Cell("paper"), *cells, count_cell(math.nan), count_cell(math.nan))


def _caption(board: Board, published: Mapping[str, Sequence[float]]) -> str:
    """AUC and MR(RT) of the paper's methods, here and in the paper."""
    said = []
    for method, (_, paper_auc, _, paper_rank) in published.items():
        if runs := boards.runs_of(board, method):
            sign = boards.row_sign(board, method)
            auc, rank = format_number(_mean(runs, "auc"), 3) + sign, format_number(_mean(runs, "mr_rt"), 2) + sign
            said.append(f"{method} AUC {auc} (paper {paper_auc:.3f}), MR(RT) {rank} (paper {paper_rank:.2f})")
    rest = [(_mean(boards.runs_of(board, label), "auc"), label) for label in board.methods() if label not in published]
    if known := [each for each in rest if not math.isnan(each[0])]:
        highest, best = max(known)
        said.append(
            f"of the other {len(rest)}, {best} has the highest AUC, {highest:.3f}{boards.row_sign(board, best)}"
        )
    return f"{boards.data_name(board)}: {'; '.join(said)}. [{boards.interval_name([board])}.]"


def _notes(role: Role, inputs: Inputs, board: Board, published: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    first = board.runs[0][1]
    # Reasons first: the page folds all but the first few notes.
    why = fedrule_numbers()["notes"]
    notes = [status] if (status := boards.boards_note([board])) else []
    notes += [why["data"][role.name].format(data=boards.short_title(board))] if role.name in why["data"] else []
    notes += [why["training"], *_differences(board, published), why["ranks"]]
    notes.append(f"Bold: the best of its column here; {boards.UNDERLINED}.")
    if absent := [method for method in published if method not in board.methods()]:
        notes.append(f"Not run on {first.key.data}: {', '.join(absent)}.")
    notes += [f"{warning[0].upper()}{warning[1:]}." for warning in board.warnings()]
    failed = [run for run in inputs.failed if run.key.data == first.key.data and _is_wanted(run)]
    return (*notes, *failure_notes(failed))


def _differences(board: Board, published: Mapping[str, Sequence[float]]) -> list[str]:
    """Where the numbers here differ from the paper's, by method."""
    found = []
    for method, values in published.items():
        runs = boards.runs_of(board, method)
        parts = [
            f"{title} {'higher' if ours > paper else 'lower'} by {short_number(abs(ours - paper))}"
            for (metric, (title, _)), paper in zip(TITLES.items(), values, strict=True)
            if math.isfinite(ours := _mean(runs, metric)) and not math.isclose(ours, paper, rel_tol=0.01)
        ]
        if parts:
            found.append(f"{method}, compared with the paper: {', '.join(parts)}.")
    return found


def _mean(runs: Sequence[Result], metric: str) -> float:
    """Over seeds; not finite where one of them is not: the others alone would look too good."""
    return sum(run.summary.get(metric, math.nan) for run in runs) / len(runs) if runs else math.nan


def leaderboard(inputs: Inputs, split: str = "holdout") -> Table:
    """Rankings of all candidates with rules hidden by a split, sorted by MRR."""
    return _leaderboard(inputs, "ranking", "MRR", RANKING, RANKING_NOTE, split)


def one_hidden(inputs: Inputs) -> Table:
    """The same with one automation of each home hidden."""
    return leaderboard(inputs, "leave_one_out")


def unseen_homes(inputs: Inputs) -> Table:
    """The same for homes that are not seen in training, with one automation hidden."""
    return leaderboard(inputs, "new_homes")


def paper_protocol(inputs: Inputs) -> Table:
    """The paper's measures: hidden rules against as many sampled non-rules, sorted by AUC."""
    note = (
        "Most sampled non-rules are triples that no home has, which auc_feasible leaves out; ranks are among the "
        "relations of one pair of devices, from 1, and mr_paper from 0 like the authors' public code."
    )
    return _leaderboard(inputs, "paper", "AUC", PAPER_PROTOCOL, note)


def _leaderboard(
    inputs: Inputs, protocol: str, headline: str, columns: Columns, note: str, split: str | None = None
) -> Table:
    found, left_out = boards.ranked_boards(inputs, protocol, split)
    order = board_order(inputs)
    lists = sorted(found, key=lambda each: order(each.board))
    if not lists:
        of = f", split {split}" if split else ""
        raise Missing(" ".join([f"no results by the protocol {protocol}{of}.", *left_out]), RUN)
    single = [each.board.title for each in lists if (each.table["seeds"] == 1).all()]
    names = board_labels([each.board for each in lists])
    rows = [row for name, each in zip(names, lists, strict=True) for row in _rows(each, columns, name)]
    calibrated = ("calibrated",) if protocol == "paper" else ()
    status = boards.boards_note(each.board for each in lists)
    notes = [
        *([status] if status else []),
        f"{headline} [{boards.interval_name([each.board for each in lists])}], mean over seeds. {note}",
        f"{SPREAD[0].upper()}{SPREAD[1:]}: standard deviation of the {headline} of single runs.",
        f"Bold: the best of its list; {boards.UNDERLINED}. {boards.GROUPS}",
        "Fit s and fit MB: median time and mean memory of a fit over seeds. Unanswered: share of hidden rules that a "
        "method gives no score.",
        *twin_notes(lists),
        *left_out,
        *(f"{each.board.title}: {warning}." for each in lists for warning in each.board.warnings()),
        *([f"One seed only, another may give another order: {'; '.join(single)}."] if single else []),
        *failure_notes([run for run in inputs.failed if _is_of(run, protocol, split)]),
    ]
    runs = [run for each in lists for _, run in each.board.runs]
    about = About(_leaders_caption(lists, names, headline), run_files(runs), RUN, tuple(notes))
    return Table((*FIRST, headline, SPREAD, *columns, *calibrated, *COST, *LAST), tuple(rows), about, sortable=True)


def twin_notes(lists: Sequence[boards.RankedBoard]) -> list[str]:
    """Why two methods have equal rows, where they do."""
    return [why for (a, b), why in TWINS.items() if any(_equal(each, a, b) for each in lists)]


def _equal(ranking: boards.RankedBoard, a: str, b: str) -> bool:
    value = dict(zip(ranking.ordered, ranking.table[ranking.metric], strict=True))
    return a in value and b in value and math.isclose(value[a], value[b], rel_tol=1e-9)


def _is_of(run: Result, protocol: str, split: str | None) -> bool:
    return run.key.protocol == protocol and not run.key.curves and split in (None, run.key.split["split"])


def board_order(inputs: Inputs) -> Callable[[Board], tuple[int, str, int]]:
    """The lists that the findings are about first, in their order; then by name, those with more methods first."""
    main: dict[str, int] = {}
    for number, role in enumerate(PLACES):
        with suppress(DataError):  # its runs are of different data
            if board := boards.ranking_of(role, inputs):
                main.setdefault(_homes_of(board), number)
    return lambda board: (main.get(_homes_of(board), len(PLACES)), board_label(board), -len(board.methods()))


def _homes_of(board: Board) -> str:
    """The homes, and whether devices of one type are merged; not how rules are hidden."""
    key = board.runs[0][1].key
    return f"{key.data} {key.fingerprint} {key.track}"


def board_label(board: Board) -> str:
    """The data, with track and split where they are not the usual ones, and whether the lists are closed."""
    run = board.runs[0][1]
    track = run.key.track
    details = [
        *([boards.TRACKS.get(track, track)] if track != "types" else []),
        *([board.split] if board.split != "holdout" else []),
    ]
    return ", ".join([board.data + board.mark, *details]) + run.suffix


def board_labels(shown: Sequence[Board]) -> list[str]:
    """Their labels, with the number of homes where boards would have the same."""
    labels = list(map(board_label, shown))
    homes = [board.runs[0][1].counts.get("homes") for board in shown]
    return [
        f"{label}, {many:,} homes" if labels.count(label) > 1 and many else label
        for label, many in zip(labels, homes, strict=True)
    ]


def _rows(ranking: boards.RankedBoard, columns: Columns, name: str) -> list[tuple[Cell, ...]]:
    board, metric, run = ranking.board, ranking.metric, ranking.board.runs[0][1]
    found, tied = [], set(ranking.tied)
    for rank, row in enumerate(ranking.table.to_dict("records")):
        leads = rank == 0 and len(ranking.table) > 1 and row[metric] == row[metric]
        sign = boards.row_sign(board, row["method"])
        mean = interval_cell(
            row[metric], row["low"], row["high"], strong=leads, underlined=row["method"] in tied, sign=sign
        )
        first = Cell(name), Cell(row["method"], strong=leads), count_cell(row["group"])
        last = count_cell(run.counts.get("homes", math.nan)), count_cell(row["hidden"]), Cell(row["status"])
        cells = [number_cell(row[board.metric(name)], digits) for name, digits in columns.values()]
        cells += [Cell("yes" if row["calibrated"] else "no")] if board.protocol == "paper" else []
        unanswered = number_cell(row["unanswered"] / row["hidden"] if row["hidden"] else math.nan, 3)
        cost = number_cell(row["fit s"], 2), number_cell(row["fit MB"], 0), count_cell(row["seeds"]), unanswered
        found.append((*first, mean, number_cell(row[SPREAD]), *cells, *cost, *last))
    return found


def _leaders_caption(lists: Sequence[boards.RankedBoard], names: Sequence[str], headline: str) -> str:
    """The leader of each board and how many cannot be told apart from it; the first boards where there are many."""
    chosen = list(zip(lists, names, strict=True))[:MAX_IN_CAPTION]
    leaders = []
    for each, name in chosen:
        best, board = each.table.iloc[0], each.board
        sign = boards.row_sign(board, best["method"])
        value = f"{best[each.metric]:.3f}{sign}"
        leaders.append(f"{best['method']} {value} on {name} ({boards.describe_lead(each)})")
    which = "" if len(chosen) == len(lists) else f" The first {len(chosen)} of {len(lists)} lists."
    return f"Best {headline}: {'; '.join(leaders)}.{which}"
