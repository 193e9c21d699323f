"""Who leads on which data: every board that can be listed, best method first. Worked out once, used by several outputs.

A list costs seconds where many methods stand in it, since homes are drawn anew thousands of times for its intervals.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pandas as pd

from benchmarks.leaderboard import Board, leaderboard
from datasets.errors import DataError
from reports.material import Material

HEADLINE = {"ranking": "mrr", "paper": "auc"}  # protocol -> what a list is sorted by

_KEPT: WeakKeyDictionary[Material, dict[tuple[str, ...], pd.DataFrame]] = WeakKeyDictionary()


def standing(material: Material, board: Board, metric: str) -> pd.DataFrame:
    """`benchmarks.leaderboard` of a board of this material by a metric, worked out once."""
    kept = _KEPT.setdefault(material, {})
    place = (metric, *(run.key.hash for _, run in board.runs))
    if place not in kept:
        kept[place] = leaderboard(board, metric)
    return kept[place]


def standings(material: Material, protocol: str = "ranking") -> list[tuple[Board, pd.DataFrame]]:
    """Each board of a protocol with its list, by the protocol's headline metric. Those of `unlisted` are left out."""
    return [(board, table) for board, table in _tried(material, protocol) if isinstance(table, pd.DataFrame)]


def unlisted(material: Material, protocol: str = "ranking") -> list[str]:
    """Which boards are left out, and why, in sentences."""
    notes = []
    curves = [board for board in _boards(material, protocol) if _curved(board)]
    if curves:
        titles = ", ".join(sorted({board.runs[0][1].key.data for board in curves}))
        notes.append(
            f"Runs with curves by round are left out ({sum(len(board.runs) for board in curves)} on {titles}): "
            "they were fitted without validation rules."
        )
    return notes + [f"Left out: {problem}" for _, problem in _tried(material, protocol) if isinstance(problem, str)]


def _tried(material: Material, protocol: str) -> list[tuple[Board, pd.DataFrame | str]]:
    found: list[tuple[Board, pd.DataFrame | str]] = []
    for board in _boards(material, protocol):
        if _curved(board):
            continue
        try:
            found.append((board, standing(material, board, HEADLINE[protocol])))
        except DataError as error:  # tables that are gone, or not of the same hidden rules
            found.append((board, f"{board.title}: {error}"))
    return found


def _boards(material: Material, protocol: str) -> list[Board]:
    return [board for board in material.boards if board.protocol == protocol]


def _curved(board: Board) -> bool:
    return bool(board.runs[0][1].key.curves)
