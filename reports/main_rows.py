"""The rows of a board that stand for its methods: each with its defaults, else with the settings it was run with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.leaderboard import Board
from benchmarks.results import Result
from reports.material import Material
from reports.places import Role, place_of


def main_rows(board: Board) -> list[str]:
    """Labels: of each method the bare one, where there is one; else all of its labels."""
    bare = {run.key.method for label, run in board.runs if label == run.key.method}
    return [label for label, run in _firsts(board) if label == run.key.method or run.key.method not in bare]


def with_rows(board: Board, labels: Sequence[str]) -> Board:
    """The board without its other rows."""
    return replace(board, runs=tuple((label, run) for label, run in board.runs if label in labels))


def ranking_of(role: Role, material: Material) -> Board | None:
    """The rankings of all methods on the data of a role; None where there are none."""
    place = place_of(role, material, lambda run: run.key.protocol == "ranking" and not run.key.curves)
    return place.board("ranking") if place else None


def runs_of(board: Board, label: str) -> list[Result]:
    """The seeds of a row."""
    return [run for each, run in board.runs if each == label]


def place_title(board: Board) -> str:
    """The data of a board in a few words, for a panel."""
    return f"{board.runs[0][1].key.data}, {homes_of(board)}"


def homes_of(board: Board) -> str:
    """How many there are."""
    return f"{board.runs[0][1].counts.get('homes', 0):,} homes"


def data_of(board: Board) -> str:
    """The data of a board with those of its options that are not the defaults."""
    homes = f", {homes_of(board)}"
    return board.title.partition(homes)[0] if homes in board.title else board.runs[0][1].key.data


def seeds_of(board: Board) -> str:
    """How many its rows are the mean of."""
    counts = [len(runs_of(board, label)) for label in board.methods()]
    low, high = min(counts), max(counts)
    return "1 seed" if high == 1 else f"{high} seeds" if low == high else f"{low} to {high} seeds"


def _firsts(board: Board) -> list[tuple[str, Result]]:
    """Every label with one of its runs."""
    found: dict[str, Result] = {}
    for label, run in board.runs:
        found.setdefault(label, run)
    return list(found.items())
