"""Published numbers beside ours: the Wyze challenge, and each method beside its paper. Most are of other data.

The numbers are in benchmarks/results/papers.toml and fedrule_paper.toml, with their sources.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.results.formulations import federated_method
from benchmarks.results.leaderboard import Board
from benchmarks.results.papers import challenge_metric, fedrule_numbers, number_text, other_numbers, value_text
from benchmarks.results.store import Result
from reports import boards
from reports.inputs import PLACES, ROLES, Inputs, Role, select_runs
from reports.outputs import RUN, About, Cell, Missing, Table, run_files
from reports.tables.results import board_label
from reports.text.formats import NONE, count_cell, failure_notes, interval_cell, number_cell

RUN_CHALLENGE = "python -m benchmarks run challenge"
MRR, MRR_ALL = "mrr@50", "mrr@50, all"
SPLITS = ("new_homes", "leave_one_out")  # what the challenge asks first
REAL, PRESET = "wyze", "public"
CHALLENGE = (
    "method",
    "trained",
    "data",
    "the challenge's data",
    "MRR@50",
    "MRR@50, no valid filter",
    "homes measured",
    "seeds",
)
PAPERS = ("method", "metric", "published", "on other data", "here", "data here", "seeds here", "source")
NOT_RUN = "not run in this setting"
OTHER_DATA = (
    "The data of the papers is private, gated or filtered in another way: a number here is of other homes, and no "
    "difference says that a method was implemented better or worse."
)
PAPER_FILES = ("benchmarks/results/fedrule_paper.toml", "benchmarks/results/papers.toml")
TEST_HOMES = "public Wyze data, test homes"  # of published numbers
NOT_CHECKED = "public Wyze data, homes not known to us"


@dataclass(frozen=True, slots=True)
class Published:
    """A number of a method, in its paper."""

    method: str
    metric: str
    value: float
    data: str
    source: str
    about: bool = False
    digits: int = 3
    label: str = ""  # what the source calls it, where that is not certainly `metric`

    @property
    def text(self) -> str:
        return number_text(self.value, self.about, self.digits)


def is_challenge(run: Result) -> bool:
    """Whether it ranks rules between single devices with one rule hidden, on the public data or homes like it."""
    key = run.key
    like = key.data == REAL or (key.data == f"{REAL}-synthetic" and key.data_options.get("preset") == PRESET)
    return like and key.track == "instances" and key.split["split"] in SPLITS and key.protocol == "ranking"


def challenge_boards(inputs: Inputs) -> list[Board]:
    """The boards of the challenge: real data first, homes unseen in training first, more methods first."""
    found = [
        boards.with_rows(board, boards.main_rows(board))
        for board in inputs.boards
        if is_challenge(board.runs[0][1]) and not board.runs[0][1].key.curves and board.has(MRR)
    ]

    def order(board: Board) -> tuple[bool, int, int]:
        return boards.data_name(board) != REAL, SPLITS.index(board.split_name), -len(board.methods())

    return sorted(found, key=order)


def challenge(inputs: Inputs) -> Table:
    """The Wyze challenge: what others published, and our methods by MRR@50."""
    found = [boards.ranked_board(inputs, board, MRR) for board in challenge_boards(inputs)]
    if not found:
        raise Missing("no rankings of single devices with one rule hidden on wyze or its synthetic twin", RUN_CHALLENGE)
    published = sorted(other_numbers()["challenge"], key=lambda entry: -entry["value"])
    rows = [_published_row(entry) for entry in published]
    rows += [row for each in found for row in _rows(each)]
    runs = [run for each in found for _, run in each.board.runs]
    why = other_numbers()["notes"]
    failed = [run for run in inputs.failed if is_challenge(run)]
    status = boards.boards_note(each.board for each in found)
    listed = [each.board for each in found]
    notes = (
        *([status] if status else []),
        "The first rows are published, the others are made here. wyze-synthetic is generated "
        "after the published counts of the challenge's data and is other data: its numbers compare methods with each "
        "other, and with no published one.",
        f"MRR@50 [{boards.interval_name(listed)}]: mean over hidden rules of 1 / rank among the candidates of "
        "the home that some training home has (without the filter: among all), 0 beyond rank 50. Bold: the best of its "
        "data; underlined: cannot be told apart from it.",
        why["challenge"],
        why["sources"],
        "Published: " + "; ".join(f"{_name(entry)}: {entry['source']}" for entry in published) + ".",
        *failure_notes(failed),
    )
    about = About(_challenge_caption(found, published), run_files(runs), RUN_CHALLENGE, notes)
    return Table(CHALLENGE, tuple(rows), about)


def _name(entry: dict[str, Any]) -> str:
    return entry["name"] if entry["trained"] == "central" else f"{entry['name']}, {entry['trained']}"


def _published_row(entry: dict[str, Any]) -> tuple[Cell, ...]:
    value, nothing = Cell(value_text(entry), float(entry["value"])), count_cell(math.nan)
    checked = entry.get("checked", False)
    of = Cell(TEST_HOMES if checked else NOT_CHECKED), Cell("yes" if checked else "not checked")
    return Cell(entry["name"]), Cell(entry["trained"]), *of, value, nothing, nothing, nothing


def _rows(ranking: boards.RankedBoard) -> list[tuple[Cell, ...]]:
    board = ranking.board
    rows: list[tuple[Cell, ...]] = []
    real = "yes" if boards.data_name(board) == REAL else "no"
    for row in ranking.table.to_dict("records"):
        label = row["method"]
        runs, sign = boards.runs_of(board, label), boards.row_sign(board, label)
        federated = federated_method(runs[0].key.method) is not None or boards.sends(runs[0])
        style = {
            "strong": label == ranking.ordered[0] and len(ranking.ordered) > 1,
            "underlined": label in ranking.tied,
        }
        value = interval_cell(row[MRR], row["low"], row["high"], **style, sign=sign)
        unfiltered = number_cell(_mean(runs, MRR_ALL), sign=sign)
        measured = [len(run.homes("user")) for run in runs]
        counts = count_cell(round(sum(measured) / len(measured))), count_cell(len(runs))
        where = "one user per client" if federated else "central"
        rows.append((Cell(label), Cell(where), Cell(board_label(board)), Cell(real), value, unfiltered, *counts))
    return rows


def _challenge_caption(found: Sequence[boards.RankedBoard], published: Sequence[dict[str, Any]]) -> str:
    checked = next(entry for entry in published if entry.get("checked"))
    said = [f"Published on the challenge's data: up to {value_text(checked)} ({_name(checked)})"]
    if published[0] is not checked:
        said.append(f"reported, and not checked by us: {value_text(published[0])} ({_name(published[0])})")
    for each in found:
        first = each.ordered[0]
        value = each.table[MRR].iloc[0]
        other = "" if boards.data_name(each.board) == REAL else ", other data"
        said.append(f"{first} {value:.3f}{boards.row_sign(each.board, first)} on {board_label(each.board)}{other}")
    return "; ".join(said) + "."


def papers(inputs: Inputs) -> Table:
    """Each method's number beside its paper's, which is of other data."""
    found = published_facts(inputs)
    runs = [run for _, there, _ in found for run in there]
    absent = [fact.method for fact, there, _ in found if not there]
    rows = [paper_row(*each) for each in found]
    notes = [
        f"{OTHER_DATA} For methods without a row we know of no published number on rules of homes under these metrics.",
        other_numbers()["notes"]["sources"],
    ]
    if absent:
        names = ", ".join(dict.fromkeys(absent))
        notes.append(f"Not run in the setting of a published number: {names}. `{RUN}` and `{RUN_CHALLENGE}` do.")
    caption = f"{len({row[0].text for row in rows})} methods with published numbers, {len(rows)} numbers in all."
    return Table(PAPERS, tuple(rows), About(caption, (*PAPER_FILES, *run_files(runs)), RUN, tuple(notes)))


def paper_row(fact: Published, found: Sequence[Result], where: str) -> tuple[Cell, ...]:
    """A published number and ours."""
    return (
        Cell(fact.method),
        Cell(fact.label or fact.metric.upper()),
        Cell(fact.text, fact.value),
        Cell(fact.data),
        number_cell(_mean(found, fact.metric), 3),
        Cell(where if found else NOT_RUN),
        count_cell(len(found) or math.nan),
        Cell(fact.source),
    )


def published_facts(inputs: Inputs, method: str = "") -> list[tuple[Published, list[Result], str]]:
    """Published numbers, of one method if given, the runs here that measure the same, and on which data."""
    toml, paper = other_numbers(), fedrule_numbers()
    roles = {role.name: role for role in (*ROLES, *PLACES)}
    found = []
    for name, methods in paper["results"].items():
        for trained, (_, auc, *_) in methods.items():
            if method not in ("", trained):
                continue
            fact = Published(trained, "auc", auc, toml["data"][name], "Yao et al., FedRule, final results")
            found.append((fact, *_runs(inputs, roles[name], fact, "paper")))
    for entry in (each for each in toml["published"] if method in ("", each["method"])):
        place, protocol = entry["here"], entry["protocol"]
        fact = Published(**{key: value for key, value in entry.items() if key not in ("here", "protocol")})
        found.append((fact, *_runs(inputs, roles[place], fact, protocol)))
    first = next(iter(challenge_boards(inputs)), None)
    for entry in toml["challenge"]:
        if "method" in entry and method in ("", entry["method"]):
            source = f"{_name(entry)}: {entry['source']}"
            how = entry.get("about", False), entry.get("digits", 3), challenge_metric(entry)
            data = TEST_HOMES if entry.get("checked") else NOT_CHECKED
            fact = Published(entry["method"], MRR, entry["value"], data, source, *how)
            runs = boards.runs_of(first, entry["method"]) if first else []
            found.append((fact, runs, board_label(first) if first else NONE))
    return found


def _runs(inputs: Inputs, role: Role, fact: Published, protocol: str) -> tuple[list[Result], str]:
    """The runs of a method with its defaults on the data of a role, and the name of that data."""

    def is_wanted(run: Result) -> bool:
        key = run.key
        same = key.method == fact.method and key.protocol == protocol and not key.curves
        return same and fact.metric in run.summary and inputs.is_default(run)

    group = select_runs(role, inputs, is_wanted)
    return (
        (list(group.runs), f"{group.data}, {group.homes:,} homes" if group.homes else group.data) if group else ([], "")
    )


def _mean(runs: Sequence[Result], metric: str) -> float:
    """Over seeds; NaN without runs."""
    return sum(run.summary.get(metric, math.nan) for run in runs) / len(runs) if runs else math.nan
