"""Every list of methods in one table: which is best on which data, and which cannot be told apart from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from benchmarks.leaderboard import Board
from reports.cells import figure, interval, whole
from reports.failures import failure_notes
from reports.made import RUN, About, Cell, Missing, Table, sources_of
from reports.material import Material
from reports.standings import HEADLINE, standings, unlisted

FIRST, LAST = ("data", "method", "group"), ("track", "split", "homes")
MOST_IN_CAPTION = 6  # lists

Row = Mapping[str, float]

# Column -> the cell of a row of `benchmarks.leaderboard`.
RANKING: dict[str, Callable[[Row], Cell]] = {
    "HR@1": lambda row: figure(row["hr@1"], 3),
    "HR@10": lambda row: figure(row["hr@10"], 3),
    "NDCG@10": lambda row: figure(row["ndcg@10"], 3),
    "MRR, no valid filter": lambda row: figure(row["mrr, all"]),
}
PAPER: dict[str, Callable[[Row], Cell]] = {
    "loss": lambda row: figure(row["loss"], 3),
    "auc_feasible": lambda row: figure(row["auc_feasible"], 3),
    "MR": lambda row: figure(row["mr"], 2),
    "MR(RT)": lambda row: figure(row["mr_rt"], 2),
    "mr_paper": lambda row: figure(row["mr_paper"], 2),
    "calibrated": lambda row: Cell("yes" if row["calibrated"] else "no"),
}
COST: dict[str, Callable[[Row], Cell]] = {
    "fit s": lambda row: figure(row["fit s"], 2),
    "fit MB": lambda row: figure(row["fit MB"], 0),
    "seeds": lambda row: whole(row["seeds"]),
    "unanswered": lambda row: figure(row["unanswered"] / row["hidden"] if row["hidden"] else float("nan"), 3),
}


def leaderboard(material: Material) -> Table:
    """The lists that people see: rankings of all candidates, sorted by MRR."""
    return _listed(material, "ranking", "MRR", RANKING, "the candidates are those that some training home has")


def paper_protocol(material: Material) -> Table:
    """The paper's measures: hidden rules against as many sampled non-rules, sorted by AUC."""
    said = (
        "most sampled non-rules are triples that no home has, which auc_feasible leaves out; ranks count from 1 "
        "among the relations of one pair of devices, mr_paper from 0 as the authors' public code"
    )
    return _listed(material, "paper", "AUC", PAPER, said)


def _listed(
    material: Material, protocol: str, headline: str, columns: Mapping[str, Callable[[Row], Cell]], said: str
) -> Table:
    lists = standings(material, protocol)
    left_out = unlisted(material, protocol)
    if not lists:
        raise Missing(" ".join([f"no results of the protocol {protocol}.", *left_out]), RUN)
    shown = {**columns, **COST}
    rows = [row for board, table in lists for row in _rows(board, table, HEADLINE[protocol], shown)]
    notes = [
        f"{headline} [95 % interval over homes], mean over seeds; {said}.",
        "Bold leads its list; underlined: the data cannot tell it from that (group 1; paired bootstrap over homes, "
        "Holm over the list, 5 %). Unanswered: share of hidden rules that a method gives no score.",
        *left_out,
        *(f"{board.title}: {warning}." for board, _ in lists for warning in board.warnings()),
        *_one_seed(lists),
        *failure_notes([run for run in material.failed if run.key.protocol == protocol and not run.key.curves]),
    ]
    runs = [run for board, _ in lists for _, run in board.runs]
    about = About(_caption(lists, HEADLINE[protocol], headline), sources_of(runs), RUN, tuple(notes))
    return Table((*FIRST, headline, *shown, *LAST), tuple(rows), about, sortable=True)


def place_in_words(board: Board) -> tuple[str, str, str]:
    """Data with the options that were changed, track and split of a board, as its title has them."""
    run = board.runs[0][1]
    homes = f"{run.counts['homes']:,} homes" if "homes" in run.counts else run.key.fingerprint
    data, _, rest = board.title.partition(f", {homes}, {run.key.track}, ")
    split, _, told_apart = rest.partition(f", {board.protocol}")
    return data + told_apart, run.key.track, split


def _rows(
    board: Board, table: pd.DataFrame, metric: str, columns: Mapping[str, Callable[[Row], Cell]]
) -> list[tuple[Cell, ...]]:
    data, track, split = place_in_words(board)
    homes = whole(board.runs[0][1].counts.get("homes", float("nan")))
    found = []
    for place, row in enumerate(table.to_dict("records")):
        values: Row = {str(name): value for name, value in row.items()}
        leads = place == 0 and len(table) > 1 and row[metric] == row[metric]
        tied = place > 0 and row["group"] == 1
        mean = interval(row[metric], row["low"], row["high"], strong=leads, underlined=tied)
        first = Cell(data), Cell(row["method"], strong=leads), whole(row["group"])
        last = Cell(track), Cell(split), homes
        found.append((*first, mean, *(cell(values) for cell in columns.values()), *last))
    return found


def _caption(lists: Sequence[tuple[Board, pd.DataFrame]], metric: str, headline: str) -> str:
    """The leader of each list and how many cannot be told from it; the lists of most methods where there are many."""
    chosen = sorted(lists, key=lambda each: -len(each[1]))[:MOST_IN_CAPTION]
    leaders = []
    for board, table in chosen:
        best, tied = table.iloc[0], int((table["group"] == 1).sum()) - 1
        others = f", {tied} of {len(table) - 1} others cannot be told from it" if len(table) > 1 else ", alone"
        data, track, split = place_in_words(board)
        leaders.append(f"{best['method']} {best[metric]:.3f} on {data} ({track}, {split}{others})")
    which = "" if len(chosen) == len(lists) else f" The {len(chosen)} longest of {len(lists)} lists."
    return f"Best {headline}: {'; '.join(leaders)}.{which}"


def _one_seed(lists: Sequence[tuple[Board, pd.DataFrame]]) -> list[str]:
    single = [board.title for board, table in lists if (table["seeds"] == 1).all()]
    return [f"One seed only, so that another may give another order: {'; '.join(single)}."] if single else []
