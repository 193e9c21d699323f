"""Where training by round ends: readings of the paper's federated training, single options of it, and encoders."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.results.formulations import FEDERATED_METHODS
from benchmarks.results.leaderboard import Board, boards
from benchmarks.results.status import SIGN, sign_of
from benchmarks.results.store import Result
from datasets.common.errors import DataError
from datasets.common.training_warnings import FAILED
from reports.boards import RankedBoard, boards_note, interval_name, ranked_board, row_sign, runs_of, short_title
from reports.inputs import Inputs, group_runs
from reports.outputs import About, Cell, Missing, Table, run_files
from reports.text.formats import (
    NONE,
    count_cell,
    failure_notes,
    format_number,
    interval_cell,
    join_names,
    number_cell,
    seed_count,
)

RUN_INTERPRETATIONS = "python -m benchmarks run federated"
RUN_OPTIONS = "python -m benchmarks run federated-options"
RUN_ENCODERS = "python -m benchmarks run gnn"
EARLY = 10.0  # the round of the first loss of a cell
HIGHEST = 100.0  # nobody reads a loss above it
CELL_NOTE = (
    "A cell: test loss after round 10 → at the end [lowest, highest over seeds]; AUC; MR(RT) from 1, means over seeds; "
    "how many runs diverged, which count with their last good model."
)
CSV = ("method", "setting", "data", "seeds", "loss 10", "loss", "loss low", "loss high", "AUC", "MR(RT)", "diverged")
ENCODERS = {"sage": "GraphSAGE", "gcn": "GCN", "gat": "GAT"}
NETWORKS = [each.name for each in FEDERATED_METHODS if each.twins == ("graphrule",)]  # of the paper, in the homes
# Each reading of the paper's "Adam, 0.1, 3 local steps": method, the settings that are not the defaults, and in words.
Given: TypeAlias = dict[str, object]
KEPT: Given = {"preset": "paper"}
RESET: Given = {"preset": "paper", "client_optimizer": "adam"}
PLAIN: Given = {"preset": "paper", "client_optimizer": "sgd"}
UPDATES: Given = {"control": "updates"}
INTERPRETATIONS: tuple[tuple[str, Given, str], ...] = (
    ("graphrule", {}, "all data in one place"),
    ("graphrule", KEPT, "all data in one place, Adam at 0.1"),
    ("fedgnn", RESET, "client Adam, reset each round"),
    ("fedrule", RESET | UPDATES, "client Adam, reset each round; control in updates, as Algorithm 2 is written"),
    ("fedrule", RESET, "client Adam, reset each round; control in gradients"),
    ("fedgnn", KEPT, "client Adam, moments kept"),
    ("fedrule", KEPT | UPDATES, "client Adam, moments kept; control in updates"),
    ("fedrule", KEPT, "client Adam, moments kept; control in gradients"),
    ("fedgnn", PLAIN, "plain steps at 0.1, server averages"),
    ("fedrule", PLAIN, "plain steps at 0.1, server averages"),
    ("fedgnn", {"server_rate": 0.1}, "plain steps at 0.1, server Adam at 0.1"),
    ("fedrule", {"learning_rate": 0.1, "server_rate": 0.1}, "plain steps at 0.1, server Adam at 0.1"),
    ("fedgnn", {}, "plain steps at 0.1, server Adam at 0.03: the defaults"),
    ("fedrule", {"learning_rate": 0.1}, "plain steps at 0.1, server Adam at 0.03"),
    ("fedrule", {}, "plain steps at 0.01, server Adam at 0.03: the defaults"),
)


@dataclass(frozen=True, slots=True)
class End:
    """Where the seeds of one configuration end, on one data set."""

    early: float  # loss after round EARLY, mean
    loss: float  # at the end, mean
    low: float
    high: float
    auc: float
    rank: float  # MR(RT)
    diverged: int
    seeds: int

    @classmethod
    def of(cls, runs: Sequence[Result]) -> End:
        losses = [last_loss(run) for run in runs]
        return cls(
            _mean(_loss_at(run, EARLY) for run in runs),
            _mean(losses),
            min(losses),
            max(losses),
            _mean(run.summary.get("auc", math.nan) for run in runs),
            _mean(run.summary.get("mr_rt", math.nan) for run in runs),
            sum(any(warning.kind in FAILED for warning in run.warnings) for run in runs),
            len({run.key.seed for run in runs}),
        )

    @property
    def text(self) -> str:
        """0.49 → 0.55 [0.20, 1.38]; 0.995; 1.9; 1 of 5 diverged."""
        spread = f" [{_loss(self.low)}, {_loss(self.high)}]" if self.seeds > 1 else ""
        parts = [f"{_loss(self.early)} → {_loss(self.loss)}{spread}", _number(self.auc, 3), _number(self.rank, 1)]
        parts += [f"{self.diverged} of {self.seeds} diverged"] if self.diverged else []
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One data set: the runs of each configuration that was run on it."""

    title: str
    runs: dict[str, list[Result]]  # by `setting`

    @property
    def seeds(self) -> str:
        """How many its rows are the mean of, in words."""
        return seed_count(len(runs) for runs in self.runs.values())


def setting(method: str, given: Iterable[tuple[str, object]]) -> str:
    """What identifies a configuration: the method with all that is not a default."""
    text = ", ".join(f"{name}={value}" for name, value in sorted(given, key=str))
    return f"{method} ({text})" if text else method


def interpretations(inputs: Inputs) -> Table:
    """A row per reading of the paper, a column per data set."""
    names = {setting(method, given.items()): words for method, given, words in INTERPRETATIONS}
    columns = _columns(inputs, lambda run: _setting(run) in names, lambda run: "preset" in run.overrides.parameters)
    if not columns:
        raise Missing("the readings of the paper's federated training were not run", RUN_INTERPRETATIONS)
    rows = [(method, words, setting(method, given.items())) for method, given, words in INTERPRETATIONS]
    return _table(inputs, rows, columns, RUN_INTERPRETATIONS)


def options(inputs: Inputs) -> Table:
    """A row per setting of a federated method of the paper's network beside its defaults, a column per data set."""

    def is_option(run: Result) -> bool:
        return run.key.method in NETWORKS and not {"preset", "server_rate"} & run.overrides.parameters.keys()

    columns = _columns(inputs, is_option, lambda run: "local_steps" in run.overrides.parameters)
    if not columns:
        raise Missing("no federated method was run with one option changed at a time", RUN_OPTIONS)
    runs = {name: some[0] for column in columns for name, some in column.runs.items()}

    def order(name: str) -> tuple[int, list[str], str]:
        run = runs[name]
        return NETWORKS.index(run.key.method), sorted(run.overrides.parameters), name

    rows = []
    for name in sorted(runs, key=order):
        given = runs[name].overrides.parameters
        words = ", ".join(f"{option}={value}" for option, value in sorted(given.items())) or "the defaults"
        rows.append((runs[name].key.method, words, name))
    return _table(inputs, rows, columns, RUN_OPTIONS)


def _setting(run: Result) -> str:
    return setting(run.key.method, run.overrides.parameters.items())


def _columns(inputs: Inputs, wanted: Callable[[Result], bool], decisive: Callable[[Result], bool]) -> list[Column]:
    """The data sets with wanted runs that were measured by round, some of them decisive."""
    measured = [run for run in inputs.runs if run.key.protocol == "paper" and run.key.curves and wanted(run)]
    found = []
    for group in group_runs(measured):
        if any(map(decisive, group.runs)):
            runs: dict[str, dict[int, Result]] = {}
            for run in sorted(group.runs, key=lambda run: -run.key.curves):  # of a seed the one measured most often
                runs.setdefault(_setting(run), {})[run.key.seed] = run
            by_setting = {name: list(by_seed.values()) for name, by_seed in runs.items()}
            found.append(Column(_title(boards(group.runs)[0]), by_setting))
    return sorted(found, key=lambda column: column.title)


def _title(board: Board) -> str:
    homes = board.runs[0][1].counts.get("homes")
    return board.data + (f", {homes:,} homes" if homes else "")


def _table(inputs: Inputs, rows: Sequence[tuple[str, str, str]], columns: Sequence[Column], command: str) -> Table:
    ends = {
        (name, column.title): End.of(runs)
        for _, _, name in rows
        for column in columns
        if (runs := column.runs.get(name))
    }
    cells = tuple(
        (Cell(method), Cell(words), *(_cell(ends.get((name, column.title))) for column in columns))
        for method, words, name in rows
    )
    used = [run for column in columns for runs in column.runs.values() for run in runs]
    absent = [f"{len(rows) - len(c.runs)} on {c.title}" for c in columns if len(c.runs) < len(rows)]
    notes = [f"{CELL_NOTE} {'; '.join(f'{column.title}: {column.seeds}' for column in columns)}."]
    notes += [f"Rows that were not run: {join_names(absent)}."] if absent else []
    methods = {run.key.method for run in used}
    notes += failure_notes([run for run in inputs.failed if run.key.method in methods and run.key.curves])
    about = About(_caption(rows, columns, ends), run_files(used), command, tuple(notes))
    titles = ("method", "setting", *(column.title for column in columns))
    return Table(titles, cells, about, details=_details(rows, columns, ends, about))


def _details(
    rows: Sequence[tuple[str, str, str]], columns: Sequence[Column], ends: dict[tuple[str, str], End], about: About
) -> Table:
    """A row for each configuration and data set."""
    found = []
    for method, words, name in rows:
        for column in columns:
            if end := ends.get((name, column.title)):
                numbers = (end.early, end.loss, end.low, end.high, end.auc, end.rank)
                counts = count_cell(end.seeds), *map(number_cell, numbers), count_cell(end.diverged)
                found.append((Cell(method), Cell(words), Cell(column.title), *counts))
    return Table(CSV, tuple(found), about)


def _cell(end: End | None) -> Cell:
    return Cell(NONE, "") if end is None else Cell(end.text)


def _caption(rows: Sequence[tuple[str, str, str]], columns: Sequence[Column], ends: dict[tuple[str, str], End]) -> str:
    """Where the loss ends lowest and the AUC highest, and how many runs diverged, by data set."""
    said = []
    for column in columns:
        known = [
            (ends[name, column.title], f"{method}, {words}") for method, words, name in rows if name in column.runs
        ]
        finite = [(end, who) for end, who in known if math.isfinite(end.loss)]
        lost, runs = sum(end.diverged for end, _ in known), sum(end.seeds for end, _ in known)
        if finite:
            loss, lowest = min(finite, key=lambda each: each[0].loss)
            auc, highest = max(finite, key=lambda each: each[0].auc)
            both = f"loss ends lowest at {_loss(loss.loss)} ({lowest})"
            both += f", AUC is highest at {_number(auc.auc, 3)}" + ("" if loss is auc else f" ({highest})")
            said.append(f"On {column.title} {both}; {lost} of {runs} runs diverged.")
    return " ".join(said) or "No run has a finite loss."


def last_loss(run: Result) -> float:
    """On test, of the last round that was measured."""
    losses = [row["test_loss"] for row in run.history if "test_loss" in row]
    return losses[-1] if losses else run.summary.get("loss", math.nan)


def _loss_at(run: Result, at: float) -> float:
    return next((row["test_loss"] for row in run.history if row.get("round") == at and "test_loss" in row), math.nan)


def _loss(value: float) -> str:
    return f">{HIGHEST:g}" if value > HIGHEST else _number(value, 2)


def _number(value: float, digits: int) -> str:
    return format_number(value, digits)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def encoders(inputs: Inputs) -> Table:
    """A row per encoder, three columns per data set; everything but the encoder equal."""
    shown = list(_encoder_boards(inputs))
    if not shown:
        raise Missing("graphrule was not run by round with different encoders", RUN_ENCODERS)
    names = {(encoder, loops): _encoder_name(encoder, loops) for encoder in ENCODERS for loops in (False, True)}
    there = {_encoder(runs[0]) for _, by_label in shown for runs in by_label.values()}
    rows = {which: [Cell(name)] for which, name in names.items() if which in there}
    columns = ["encoder"]
    for ranking, by_label in shown:
        columns += [f"{short_title(ranking.board)}: AUC", "loss", "MR"]
        label_of = {_encoder(runs[0]): label for label, runs in by_label.items()}
        for which, row in rows.items():
            row += _encoder_cells(ranking, label_of.get(which))
    lists = [ranking.board for ranking, _ in shown]
    runs = [run for board in lists for _, run in board.runs]
    rates = sorted({f"{run.key.parameters['learning_rate']:g}" for run in runs})
    status = boards_note(lists)
    seeds = "; ".join(
        f"{short_title(ranking.board)}: {seed_count(map(len, by_label.values()))}" for ranking, by_label in shown
    )
    notes = (
        *([status] if status else []),
        f"AUC [{interval_name(lists)}]; loss and mean rank (MR, from 1) are means over seeds, all on test rules; "
        f"fitted without the validation rules, since the runs have curves. Learning rate {join_names(rates)}. {seeds}. "
        "Bold: the highest AUC; underlined: cannot be told apart from it.",
        "Without self loops a device that no rule reaches has no state of its own in GCN and GAT, but in GraphSAGE.",
    )
    caption = " ".join(_encoders_caption(*each) for each in shown)
    table_rows = tuple(map(tuple, rows.values()))
    return Table(tuple(columns), table_rows, About(caption, run_files(runs), RUN_ENCODERS, notes))


def _encoder_boards(inputs: Inputs) -> Iterable[tuple[RankedBoard, dict[str, list[Result]]]]:
    """By data set the runs that differ in the encoder only, ranked by AUC, and the runs of each row."""
    measured = [
        run
        for run in inputs.runs
        if run.key.method == "graphrule" and run.key.protocol == "paper" and run.key.curves
        if str(run.key.parameters.get("encoder")) in ENCODERS
    ]
    for group in group_runs(measured):
        equal: dict[str, list[Result]] = {}
        for run in group.runs:
            rest = {name: v for name, v in run.key.parameters.items() if name not in ("encoder", "self_loops")}
            equal.setdefault(str(sorted(rest.items())), []).append(run)
        best = max(equal.values(), key=lambda runs: len({_encoder(run) for run in runs}))
        if len({run.key.parameters["encoder"] for run in best}) < 2:
            continue
        board = max(boards(best), key=lambda board: len(board.runs))  # of one version of the data
        try:
            ranking = ranked_board(inputs, board, "auc")
        except DataError:  # its tables are gone
            continue
        yield ranking, {label: runs_of(board, label) for label in ranking.ordered}


def _encoder(run: Result) -> tuple[str, bool]:
    return str(run.key.parameters["encoder"]), bool(run.key.parameters.get("self_loops"))


def _encoder_name(encoder: str, loops: bool) -> str:
    return ENCODERS[encoder] + (", self loops" if loops else "")


def _encoder_cells(ranking: RankedBoard, label: str | None) -> tuple[Cell, ...]:
    if label is None:
        return interval_cell(math.nan, math.nan, math.nan), count_cell(math.nan), count_cell(math.nan)
    row = ranking.table.iloc[ranking.ordered.index(label)]
    leads = label == ranking.ordered[0]
    style = {"strong": leads, "underlined": label in ranking.tied}
    sign = row_sign(ranking.board, label)
    value = interval_cell(row["auc"], row["low"], row["high"], 3, **style, sign=sign)
    return value, number_cell(row["loss"], 3, sign=sign), number_cell(row["mr"], 2, sign=sign)


def _encoders_caption(ranking: RankedBoard, by_label: dict[str, list[Result]]) -> str:
    values = dict(zip(ranking.ordered, ranking.table["auc"], strict=True))
    ends = ", ".join(
        f"{_encoder_name(*_encoder(runs[0]))} {values[label]:.3f}{SIGN if sign_of(runs) else ''}"
        for label, runs in sorted(by_label.items(), key=lambda each: -values[each[0]])
    )
    return f"AUC on {short_title(ranking.board)}: {ends}."
