"""Who leads on which data: every board that can be listed, best method first. Worked out once, used by several outputs.

A list costs seconds where many methods stand in it, since homes are drawn anew thousands of times for its intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import pandas as pd

from benchmarks.results.compare import ALPHA, LEVEL, Comparison
from benchmarks.results.leaderboard import Board, Pairs, ranked
from datasets.common.errors import DataError
from reports.material import Material

HEADLINE = {"ranking": "mrr", "paper": "auc"}  # protocol -> what a list is sorted by
MIDDLE = f"{100 * LEVEL:g} %"  # of the draws lie in an interval
TOLD_APART = f"paired bootstrap over homes, Holm over all pairs of a list, p < {ALPHA:g}"


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """A list by one metric, with all of its methods compared."""

    board: Board
    metric: str
    table: pd.DataFrame  # of `benchmarks.results.leaderboard`: a row per method, best first
    pairs: Pairs

    @property
    def ordered(self) -> list[str]:
        """The labels, best first."""
        return [str(label) for label in self.table["method"]]

    @property
    def tied(self) -> list[str]:
        """The others of the leader's group."""
        return [label for label, group in zip(self.ordered, self.table["group"], strict=True) if group == 1][1:]

    @property
    def seeds(self) -> int:
        """How many leader and next have in common; 0 where nothing follows."""
        found = self.pairs.get((self.ordered[0], self.ordered[1])) if len(self.ordered) > 1 else None
        return len(found.seeds) if found else 0

    @property
    def clear(self) -> bool:
        """Whether the leader differs from the next; one seed never says so."""
        return self.seeds > 1 and not self.tied

    def against(self, a: str, b: str) -> Comparison | None:
        """The two on the seeds that both have; None where there is none."""
        if (b, a) in self.pairs:
            return _turned(self.pairs[b, a])
        return self.pairs.get((a, b))


_KEPT: WeakKeyDictionary[Material, dict[tuple[str, ...], Standing]] = WeakKeyDictionary()


def standing_of(material: Material, board: Board, metric: str) -> Standing:
    """The list of a board of this material by a metric, worked out once; an error where runs cannot be compared."""
    kept = _KEPT.setdefault(material, {})
    place = (metric, board.title, *(text for label, run in board.runs for text in (label, run.key.hash)))
    if place not in kept:
        kept[place] = Standing(board, metric, *ranked(board, metric))
    return kept[place]


def standings(material: Material, protocol: str = "ranking") -> list[Standing]:
    """The list of each board of a protocol, by the protocol's headline metric. Those of `unlisted` are left out."""
    return [each for each in _tried(material, protocol) if isinstance(each, Standing)]


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
    return notes + [f"Left out: {problem}" for problem in _tried(material, protocol) if isinstance(problem, str)]


def _tried(material: Material, protocol: str) -> list[Standing | str]:
    found: list[Standing | str] = []
    for board in _boards(material, protocol):
        if _curved(board):
            continue
        try:
            found.append(standing_of(material, board, HEADLINE[protocol]))
        except DataError as error:  # tables that are gone, or not of the same hidden rules
            found.append(f"{board.title}: {error}")
    return found


def _boards(material: Material, protocol: str) -> list[Board]:
    return [board for board in material.boards if board.protocol == protocol]


def _curved(board: Board) -> bool:
    return bool(board.runs[0][1].key.curves)


def _turned(versus: Comparison) -> Comparison:
    """The same two the other way round."""
    return replace(
        versus,
        a=versus.b,
        b=versus.a,
        value_a=versus.value_b,
        value_b=versus.value_a,
        difference=-versus.difference,
        low=-versus.high,
        high=-versus.low,
    )
