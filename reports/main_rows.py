"""The rows of a board that stand for its methods: each with its defaults, else with the settings it was run with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.results.leaderboard import Board
from benchmarks.results.results import Result
from reports.material import Material
from reports.text.phrases import seeds
from reports.selection import Place, Role, place_of, places


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


def defaults_of(
    role: Role, material: Material, methods: Sequence[str], *, measured: Callable[[Result], bool], what: str
) -> tuple[Board | None, tuple[str, ...]]:
    """The rankings of these methods with their defaults, as far as `what` was measured; notes on the others.

    None where nothing has it.
    """

    def is_wanted(run: Result) -> bool:
        is_ranking = run.key.protocol == "ranking" and not run.key.curves
        return is_ranking and run.key.method in methods and material.is_default(run)

    place = place_of(role, material, lambda run: is_wanted(run) and measured(run))
    if place is None:
        return None, ()
    every = [run for run in _whole(place, material).runs if is_wanted(run)]
    found = {method: [measured(run) for run in every if run.key.method == method] for method in methods}
    absent = [method for method, each in found.items() if not each]
    lost = [
        f"{method} ({each.count(False)} of {seeds([len(each)])})" for method, each in found.items() if not all(each)
    ]
    notes = [f"Not run on {place.data}: {', '.join(absent)}."] if absent else []
    notes += [f"Left out on {place.data}, where it has no {what}: {', '.join(lost)}."] if lost else []
    return place.board("ranking"), tuple(notes)


def runs_of(board: Board, label: str) -> list[Result]:
    """The seeds of a row."""
    return [run for each, run in board.runs if each == label]


def place_title(board: Board) -> str:
    """The data of a board in a few words, for a panel."""
    return board.runs[0][1].key.data + _homes(board)


def heading(board: Board, many: str) -> str:
    """The data of a board with its options and size, and how many seeds are shown of it."""
    return f"{board.data}{_homes(board)}: {many}"


def seeds_of(board: Board) -> str:
    """How many its rows are the mean of."""
    return seeds(len(runs_of(board, label)) for label in board.methods())


def _homes(board: Board) -> str:
    """How many there are, to stand behind the data; empty where it was not kept."""
    many = Place((board.runs[0][1],)).homes
    return f", {many:,} homes" if many else ""


def _whole(place: Place, material: Material) -> Place:
    """With all runs that were made there."""
    return next(each for each in places(material.runs) if any(run is place.runs[0] for run in each.runs))


def _firsts(board: Board) -> list[tuple[str, Result]]:
    """Every label with one of its runs."""
    found: dict[str, Result] = {}
    for label, run in board.runs:
        found.setdefault(label, run)
    return list(found.items())
