"""Every list of methods in one table: which is best on which data, and which cannot be told apart from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.results.leaderboard import Board
from reports.text.cells import figure, interval, whole
from reports.text.failures import failure_notes
from reports.output_types import RUN, About, Cell, Missing, Table, sources_of
from reports.material import Material
from reports.selection import ROLES
from reports.standings import MIDDLE, TOLD_APART, Standing, standings, unlisted

FIRST, LAST = ("data", "method", "group"), ("homes", "hidden rules")
MOST_IN_CAPTION = 6  # lists

Row = Mapping[str, float]

# Column -> the cell of a row of `benchmarks.results.leaderboard`.
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
    lists = sorted(standings(material, protocol), key=lambda each: _order(each.board))
    left_out = unlisted(material, protocol)
    if not lists:
        raise Missing(" ".join([f"no results of the protocol {protocol}.", *left_out]), RUN)
    shown = {**columns, **COST}
    rows = [row for each in lists for row in _rows(each, shown)]
    notes = [
        f"{headline} [{MIDDLE} interval over homes], mean over seeds; {said}.",
        f"Bold leads its list; underlined: of its group, whose methods cannot be told apart from it ({TOLD_APART}). "
        "Unanswered: share of hidden rules that a method gives no score.",
        *left_out,
        *(f"{each.board.title}: {warning}." for each in lists for warning in each.board.warnings()),
        *_one_seed(lists),
        *failure_notes([run for run in material.failed if run.key.protocol == protocol and not run.key.curves]),
    ]
    runs = [run for each in lists for _, run in each.board.runs]
    about = About(_caption(lists, headline), sources_of(runs), RUN, tuple(notes))
    return Table((*FIRST, headline, *shown, *LAST), tuple(rows), about, sortable=True)


def _order(board: Board) -> tuple[int, str]:
    """The lists that the summary speaks of first, then by name."""
    key = board.runs[0][1].key
    spoken_of = [n for n, role in enumerate(ROLES) if key.data in role.data and key.track == role.track]
    return (spoken_of[0] if spoken_of and board.split == "holdout" else len(ROLES)), place_in_words(board)


def place_in_words(board: Board) -> str:
    """What tells a list from the others: data, and track and split where they are not the usual ones."""
    track = board.runs[0][1].key.track
    unusual = [*([track] if track != "types" else []), *([board.split] if board.split != "holdout" else [])]
    return ", ".join([board.data + board.mark, *unusual])


def _rows(listed: Standing, columns: Mapping[str, Callable[[Row], Cell]]) -> list[tuple[Cell, ...]]:
    board, metric, run = listed.board, listed.metric, listed.board.runs[0][1]
    found = []
    for place, row in enumerate(listed.table.to_dict("records")):
        values: Row = {str(name): value for name, value in row.items()}
        leads = place == 0 and len(listed.table) > 1 and row[metric] == row[metric]
        tied = place > 0 and row["group"] == 1
        mean = interval(row[metric], row["low"], row["high"], strong=leads, underlined=tied)
        first = Cell(place_in_words(board)), Cell(row["method"], strong=leads), whole(row["group"])
        last = whole(run.counts.get("homes", float("nan"))), whole(row["hidden"])
        found.append((*first, mean, *(cell(values) for cell in columns.values()), *last))
    return found


def _caption(lists: Sequence[Standing], headline: str) -> str:
    """The leader of each list and how many are in its group; the lists of most methods where there are many."""
    chosen = sorted(lists, key=lambda each: -len(each.table))[:MOST_IN_CAPTION]
    leaders = []
    for each in chosen:
        best, board, others = each.table.iloc[0], each.board, len(each.table) - 1
        beside = f"{len(each.tied)} of {others} others in its group" if others else "alone"
        leaders.append(f"{best['method']} {best[each.metric]:.3f} on {place_in_words(board)} ({beside})")
    which = "" if len(chosen) == len(lists) else f" The {len(chosen)} longest of {len(lists)} lists."
    return f"Best {headline}: {'; '.join(leaders)}.{which}"


def _one_seed(lists: Sequence[Standing]) -> list[str]:
    single = [each.board.title for each in lists if (each.table["seeds"] == 1).all()]
    return [f"One seed only, so that another may give another order: {'; '.join(single)}."] if single else []
