"""Ranked boards: the methods on one data set, best first, and the boards that the page and the README summarize.

Several outputs share a board, which is ranked once: all pairs of its methods are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import pandas as pd

from benchmarks.results.compare import ALPHA, LEVEL, Comparison, Panel, Ratio, ratio
from benchmarks.results.formulations import FEDERATED, OTHER, families
from benchmarks.results.leaderboard import Board, Pairs, adjusted_p, interval_scope, ranked
from benchmarks.results.status import SIGN, status_note
from benchmarks.results.store import Result
from datasets.common.errors import DataError, counted
from reports.inputs import ROLES, Inputs, Role, group_runs, is_ranking, select_runs
from reports.text.formats import seed_count

CONFIDENCE = f"{100 * LEVEL:g} %"
TIE_TEST = (
    f"paired test over homes and seeds, Holm-corrected over all pairs of a list, p < {ALPHA:g}, with more than one seed"
)
UNDERLINED = f"underlined: cannot be told apart from it ({TIE_TEST})"
GROUPS = (
    "A group begins with the first method that can be told apart from the first of the group above it; one of a later "
    "group may still not be told apart from the best, and is then underlined. Groups of one seed are over homes."
)
SPREAD = "sd over seeds"  # column; standard deviation of the runs, not of their mean
HEADLINE_NOTE = (
    "MRR and HR@10 are of each hidden rule among the candidates that some training home has, without the home's other "
    "hidden rules; closed: only devices that have a known rule, since in this data one without is probably in a hidden "
    "rule; a row orphans shows what that hint alone is worth."
)
METRICS_NOTE = (
    "NDCG@10, recall@10, MAP and the first hit are per home with all of its hidden rules; raw: the other hidden rules "
    "stay in the list. Candidates with equal scores: the reciprocal rank is 1 over their mean place, the other metrics "
    "are expectations over random orders."
)
MAIN_METRICS = {"ranking": ("mrr{list}",), "paper": ("auc", "loss")}  # the first that a board has
NAMES = {"mrr": "MRR", "auc": "AUC"}
# Families of known methods; a method whose history says how many bytes clients send is federated, any other is OTHER.
FAMILIES = families()
PAPER_METHODS = ("graphrule", "fedgnn", "fedrule")  # of its curves by round, final results and federated hit rates
TRACKS = {"instances": "single devices"}  # as people call them
MAX_LISTS = 3  # where no data set of the paper was run


@dataclass(frozen=True, slots=True, eq=False)
class RankedBoard:
    """A board by one metric, with all of its methods compared."""

    board: Board
    metric: str
    table: pd.DataFrame  # of `benchmarks.results.leaderboard`: a row per method, best first
    pairs: Pairs
    panel: Panel  # what both are of

    @property
    def ordered(self) -> list[str]:
        """The labels, best first."""
        return [str(label) for label in self.table["method"]]

    @property
    def tied(self) -> list[str]:
        """All that cannot be told apart from the leader, whatever their group."""
        leader, *others = self.ordered
        apart = self._apart()
        return [label for label in others if (leader, label) not in apart]

    @property
    def seeds(self) -> int:
        """How many the first and the second method have in common; 0 where there is no second."""
        found = self.pairs.get((self.ordered[0], self.ordered[1])) if len(self.ordered) > 1 else None
        return len(found.seeds) if found else 0

    @property
    def clear(self) -> bool:
        """Whether the leader is significantly better than all others; never on one seed."""
        return self.seeds > 1 and not self.tied

    @property
    def undecided(self) -> bool:
        """Whether none of several others can be told apart from the leader."""
        return 1 < len(self.ordered) - 1 == len(self.tied)

    def against(self, a: str, b: str) -> Comparison | None:
        """The two on their common seeds; None where there are none."""
        if (found := self.pairs.get((b, a))) is None:
            return self.pairs.get((a, b))
        swapped = replace(found, a=a, b=b, value_a=found.value_b, value_b=found.value_a)
        return replace(swapped, difference=-found.difference, low=-found.high, high=-found.low)

    def ratio(self, a: str, b: str) -> Ratio | None:
        """How many times the value of b that of a is, on their common seeds; None where there are none or b is 0."""
        return ratio(self.panel, a, b)

    def told_apart(self, a: str, b: str) -> bool:
        """Whether two methods differ by TIE_TEST; never on one seed."""
        return not self._apart().isdisjoint([(a, b), (b, a)])

    def _apart(self) -> set[tuple[str, str]]:
        """All pairs that differ, the better one first."""
        return {pair for pair, p in adjusted_p(self.pairs).items() if p < ALPHA and len(self.pairs[pair].seeds) > 1}


def describe_lead(ranking: RankedBoard) -> str:
    """How many of the others the leader can be told apart from."""
    others, tied = len(ranking.ordered) - 1, len(ranking.tied)
    if not others:
        return "nothing else was run"
    one_seed = "one seed: " if ranking.seeds == 1 else ""
    if ranking.undecided:
        return f"{one_seed}none of the {others} others can be told apart from it"
    if tied == others:
        return f"{one_seed}cannot be told apart from the only other"
    if tied:
        return f"cannot be told apart from {tied} of {counted(others, 'other')}"
    return f"ahead of all {others} others" if others > 1 else "ahead of the only other"


_CACHE: WeakKeyDictionary[Inputs, dict[tuple[object, ...], RankedBoard]] = WeakKeyDictionary()


def ranked_board(inputs: Inputs, board: Board, metric: str) -> RankedBoard:
    """The board by a metric, ranked once; an error where its runs cannot be compared."""
    cached = _CACHE.setdefault(inputs, {})
    key = (metric, board.title, *((label, id(run)) for label, run in board.runs))  # its runs live as long as the inputs
    if key not in cached:
        cached[key] = RankedBoard(board, metric, *ranked(board, metric))
    return cached[key]


def ranked_boards(
    inputs: Inputs, protocol: str = "ranking", split: str | None = None
) -> tuple[list[RankedBoard], list[str]]:
    """The boards of a protocol, of one split if given, by their headline metric; and which are left out and why."""
    found: list[RankedBoard] = []
    notes: list[str] = []
    every = [board for board in inputs.boards if board.protocol == protocol and split in (None, board.split_name)]
    curves = [board for board in every if board.runs[0][1].key.curves]
    if curves:
        where = f"{sum(len(board.runs) for board in curves)} on {', '.join(sorted(set(map(data_name, curves))))}"
        why = "they were fitted without the validation rules"
        notes.append(f"Runs with curves by round are left out ({where}): {why}.")
    left_out = inputs.swept_note(
        lambda run: run.key.protocol == protocol and split in (None, run.key.split["split"]) and not run.key.curves
    )
    notes += [left_out] if left_out else []
    for board in every:
        if board.runs[0][1].key.curves:
            continue
        try:
            found.append(ranked_board(inputs, board, board.headline))
        except DataError as error:  # its tables are gone, or are not of the same hidden rules
            notes.append(f"Left out: {board.title}: {error}")
    return found, notes


def main_rows(board: Board) -> list[str]:
    """The labels of methods with their defaults; all labels of a method that was not run with them."""
    method_of = {label: run.key.method for label, run in board.runs}
    return [label for label, method in method_of.items() if label == method or method not in method_of]


def with_rows(board: Board, labels: Sequence[str]) -> Board:
    """The board without its other rows."""
    return replace(board, runs=tuple((label, run) for label, run in board.runs if label in labels))


def ranking_of(role: Role, inputs: Inputs) -> Board | None:
    """The rankings of all methods on the data of a role; None where there are none."""
    group = select_runs(role, inputs, is_ranking)
    return group.board("ranking") if group else None


def defaults_of(
    role: Role, inputs: Inputs, methods: Sequence[str], *, measured: Callable[[Result], bool], what: str
) -> tuple[Board | None, tuple[str, ...]]:
    """The rankings of these methods with their defaults, where `what` was measured; notes on the others.

    None where no run has it.
    """

    def is_wanted(run: Result) -> bool:
        return is_ranking(run) and run.key.method in methods and inputs.is_default(run)

    group = select_runs(role, inputs, lambda run: is_wanted(run) and measured(run))
    if group is None:
        return None, ()
    same_data = next(each.runs for each in group_runs(inputs.runs) if any(run is group.runs[0] for run in each.runs))
    every = [run for run in same_data if is_wanted(run)]
    found = {method: [measured(run) for run in every if run.key.method == method] for method in methods}
    absent = [method for method, each in found.items() if not each]
    unmeasured = {method: each for method, each in found.items() if not all(each)}
    lost = [f"{method} ({each.count(False)} of {seed_count([len(each)])})" for method, each in unmeasured.items()]
    notes = [f"Not run on {group.data}: {', '.join(absent)}."] if absent else []
    notes += [f"Left out on {group.data}, without {what}: {', '.join(lost)}."] if lost else []
    return group.board("ranking"), tuple(notes)


def metric_name(metric: str) -> str:
    """As people write it; a board says in its name which lists it is of."""
    name, _, _ = metric.partition(",")
    return NAMES.get(name, metric)


def runs_of(board: Board, label: str) -> list[Result]:
    """The seeds of a row."""
    return [run for each, run in board.runs if each == label]


def row_sign(board: Board, label: str) -> str:
    """The sign beside the numbers of a row, where the training of some of its seeds went wrong; else nothing."""
    return SIGN if board.status(label) else ""


def signed(board: Board, label: str) -> str:
    """The label of a row in a figure."""
    return f"{label} {row_sign(board, label)}".rstrip()


def boards_note(shown: Iterable[Board]) -> str:
    """What the sign means in each row of these boards that has it; empty where none has."""
    return status_note((label, _place(board), board.status(label)) for board in shown for label in board.methods())


def _place(board: Board) -> str:
    """The data set, with track and split where they are not the usual ones."""
    return data_name(board) + track_suffix(board) + ("" if board.split == "holdout" else f", {board.split}")


def data_name(board: Board) -> str:
    """The data set, without its options."""
    return board.runs[0][1].key.data


def short_title(board: Board) -> str:
    """The data set, its size, and its track where it is not `types`, for a panel."""
    return data_name(board) + _size(board) + track_suffix(board)


def track_suffix(board: Board) -> str:
    """As people call the track; empty for `types`."""
    track = board.runs[0][1].key.track
    return "" if track == "types" else f", {TRACKS.get(track, track)}"


def heading(board: Board, seeds: str) -> str:
    """The data set with its options and size, and the number of seeds."""
    return f"{board.data}{_size(board)}: {seeds}"


def seeds_of(board: Board) -> str:
    """How many seeds its rows are the mean of, in words."""
    return seed_count(len(runs_of(board, label)) for label in board.methods())


def interval_name(boards: Sequence[Board]) -> str:
    """What the intervals of these boards are, in words."""
    counts = [len(runs_of(board, label)) for board in boards for label in board.methods()]
    return f"{CONFIDENCE} interval {interval_scope(counts)}"


def family_of(run: Result) -> str:
    """Its own where it is a known method; a result has the name of its method and not its code."""
    if sends(run):
        return FEDERATED
    return next((family for family, methods in FAMILIES.items() if run.key.method in methods), OTHER)


def sends(run: Result) -> bool:
    """Whether its history says what a home sends."""
    return any("sent_bytes" in row for row in run.history)


def sent(run: Result) -> float:
    """Bytes that a client sends over the whole training, mean over clients: in a round only its cohort sends."""
    if not sends(run):
        return math.nan
    homes = float(run.counts.get("homes") or max(row.get("clients", 1.0) for row in run.history))
    rounds = sum(row.get("sent_bytes", 0.0) * row.get("clients", homes) for row in run.history)
    return rounds / homes + sum(row.get("statistics_bytes", 0.0) for row in run.history)


@dataclass(frozen=True, slots=True)
class Row:
    """A method on a main board."""

    label: str
    method: str
    value: float
    low: float
    high: float
    spread: float  # standard deviation over seeds; NaN for one seed
    tied: bool  # cannot be told apart from the first
    hits: float  # hit rate at 10; NaN where it was not measured
    gain: float  # NDCG at 10; NaN where it was not measured
    sign: str = ""  # beside its numbers, where the training of some of its seeds went wrong


@dataclass(frozen=True, slots=True, eq=False)
class MainList:
    """A board that the summary is about, by one metric, best first."""

    ranking: RankedBoard
    rows: tuple[Row, ...]

    @property
    def metric(self) -> str:
        """As people write it."""
        return metric_name(self.ranking.metric)

    @property
    def data(self) -> str:
        """The data set, with its track where it is not `types`, its size, and its lists where they are closed."""
        run = self.ranking.board.runs[0][1]
        homes = f"{run.counts['homes']:,} homes" if "homes" in run.counts else ""
        track = "" if run.key.track == "types" else TRACKS.get(run.key.track, run.key.track)
        details = ", ".join(filter(None, [track, homes, run.suffix.removeprefix(", ")]))
        return f"{run.key.data} ({details})" if details else run.key.data

    def first(self, *methods: str) -> Row | None:
        """The best row of these methods."""
        return next((row for row in self.rows if row.method in methods), None)

    def against(self, a: Row, b: Row) -> Comparison | None:
        """The two on their common seeds; None where there are none."""
        return self.ranking.against(a.label, b.label)


def main_lists(inputs: Inputs, roles: Sequence[Role] = ROLES) -> tuple[list[MainList], list[str]]:
    """The boards that the summary is about, or those of other roles, and what is left out and why."""
    boards, left_out = _main_boards(inputs, roles)
    found = []
    for board in boards:
        try:
            metric = next(filter(board.has, map(board.metric, MAIN_METRICS[board.protocol])), None)
            if metric is None:
                left_out.append(f"{board.title}: no metric to rank methods by.")
                continue
            lacking = {label for label, run in board.runs if not math.isfinite(run.summary.get(metric, math.nan))}
            if lacking:
                names = ", ".join(sorted(lacking))
                left_out.append(f"{board.title}: no finite {metric_name(metric)} of {names}.")
            measured = with_rows(board, [label for label in board.methods() if label not in lacking])
            found += [_main_list(ranked_board(inputs, measured, metric))] if measured.runs else []
        except DataError as error:  # its tables are gone, or are not of the same hidden rules
            left_out.append(f"{board.title}: {error}.")
    return found, left_out


def _main_boards(inputs: Inputs, roles: Sequence[Role]) -> tuple[list[Board], list[str]]:
    """Rankings on the data of roles, methods with their defaults where they were run with them; else what there is.

    Runs on different versions of a data set are never mixed: they are left out, with the reason.
    """
    found: list[Board] = []
    left_out: list[str] = []
    for role in roles:
        try:
            board = ranking_of(role, inputs)
        except DataError as error:
            left_out.append(f"{role.title}: {error}.")
            continue
        if board is not None:
            rows = main_rows(board)
            found.append(with_rows(board, rows))
            if others := len(board.methods()) - len(rows):
                rest = f"{counted(others, 'row')} with settings other than the defaults left out"
                left_out.append(f"{data_name(board)}: {rest}.")
    if not found and not left_out:
        without_curves = [board for board in inputs.boards if not board.runs[0][1].key.curves]
        rankings = [board for board in without_curves if board.protocol == "ranking"]
        found = sorted(rankings or without_curves, key=lambda board: -len(board.methods()))[:MAX_LISTS]
    return found, left_out


def _main_list(ranking: RankedBoard) -> MainList:
    method_of = {label: run.key.method for label, run in ranking.board.runs}
    rows, tied = [], set(ranking.tied)
    for each in ranking.table.to_dict("records"):
        label, sign = each["method"], row_sign(ranking.board, each["method"])
        value, low, high, spread = (float(each[name]) for name in (ranking.metric, "low", "high", SPREAD))
        names = map(ranking.board.metric, ("hr@10{list}", "ndcg@10{list}"))
        hits, gain = (float(each.get(name, math.nan)) for name in names)
        rows.append(Row(label, method_of[label], value, low, high, spread, label in tied, hits, gain, sign))
    return MainList(ranking, tuple(rows))


def _size(board: Board) -> str:
    """The number of homes, empty where it was not recorded; and whether the lists of the headline are closed."""
    run = board.runs[0][1]
    homes = run.counts.get("homes")
    return (f", {homes:,} homes" if homes else "") + run.suffix
