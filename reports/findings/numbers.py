"""Numbers with their intervals, and what a comparison of two methods allows to say, in the words of a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.results.compare import Comparison, Estimate, Panel, Ratio
from benchmarks.results.leaderboard import Board
from datasets.common.errors import DataError
from reports import boards
from reports.boards import RankedBoard
from reports.places import SIMPLE, best_label, formulation_name
from reports.text.formats import format_number

AHEAD, BEHIND, TIED = "ahead", "behind", "not told apart"  # by the test of the leaderboards
HIGHER, LOWER, UNDECIDED = "higher", "lower", "undecided"  # by an interval
ONE_SEED = "one seed"
BESIDE = {AHEAD: "ahead of", BEHIND: "behind", HIGHER: "higher than", LOWER: "lower than"}  # another method

Item = TypeVar("Item")


def interval(value: float, low: float, high: float) -> str:
    """0.289 [0.275, 0.303]: three digits, four decimals at most; no brackets where the ends are not known."""
    digits = 3 if 0.1 <= abs(value) < 1 else 2 if 1 <= abs(value) < 10 else 1 if abs(value) >= 10 else 4
    shown = [format_number(each, digits) for each in (value, low, high)]
    return shown[0] if math.isnan(low) or math.isnan(high) else f"{shown[0]} [{shown[1]}, {shown[2]}]"


def percent(value: float, low: float, high: float) -> str:
    """97 % [95, 100]; 99.6 % [99.4, 99.9] where whole numbers would say all or nothing."""
    digits = 1 if 0 < min(value, 1 - value) < 0.01 else 0
    shown = [f"{100 * each:.{digits}f}" for each in (value, low, high)]
    return f"{shown[0]} %" + ("" if math.isnan(low) or math.isnan(high) else f" [{shown[1]}, {shown[2]}]")


def factor(ratio: Ratio) -> str:
    """1.36 [1.24, 1.49]."""
    if math.isnan(ratio.low):
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def value_of(ranking: RankedBoard, label: str) -> str:
    """The metric of a row with its interval, and the sign where its training went wrong."""
    row = ranking.table.iloc[ranking.ordered.index(label)]
    return interval(float(row[ranking.metric]), float(row["low"]), float(row["high"])) + sign_of(ranking, label)


def sign_of(ranking: RankedBoard, *labels: str) -> str:
    """Where the training of some of these rows went wrong."""
    return max(boards.row_sign(ranking.board, label) for label in labels)


def share_of(board: Board, label: str, metric: str) -> tuple[float, float, float]:
    """A metric between 0 and 1 of a row, and its interval, which ends there as well."""
    found = _estimate(board, label, metric)
    low, high = found.interval()
    return found.value, max(low, 0.0), min(high, 1.0)


def _estimate(board: Board, label: str, metric: str) -> Estimate:
    """The mean over seeds of another metric of a row."""
    runs = [(label, run) for run in boards.runs_of(board, label)]
    if not runs:
        raise DataError(f"{board.title}: {label} was not run")
    panel = Panel.of(runs, metric)
    return panel.estimate(list(panel.columns(label).values()))


def extremes(items: Sequence[Item], value: Callable[[Item], float]) -> list[Item]:
    """The one with the lowest and the one with the highest value; one where there is one."""
    return [pick(items, key=value) for pick in (min, max)][: len(items)] if items else []


@dataclass(frozen=True, slots=True, eq=False)
class Lead:
    """The best of some methods beside the best simple method of a list."""

    ranking: RankedBoard
    best: str
    simple: str
    ratio: Ratio
    verdict: str  # ahead, behind, not told apart or one seed

    @property
    def times(self) -> str:
        """1.36 [1.24, 1.49], and the sign where the training of one of the two went wrong."""
        return factor(self.ratio) + sign_of(self.ranking, self.best, self.simple)

    @property
    def row(self) -> tuple[str, str]:
        """graphrank (evidence ranking) | 1.36 [1.24, 1.49] times ease: ahead."""
        return named(self.ranking, self.best), f"{self.times} times {self.simple}: {self.verdict}"


def lead(ranking: RankedBoard, methods: Iterable[str], simple: Iterable[str] = SIMPLE) -> Lead | None:
    """The best of these methods over the best simple one; None where one of them was not run."""
    best, other = best_label(ranking, methods), best_label(ranking, simple)
    ratio = ranking.ratio(best, other) if best and other else None
    if best is None or other is None or ratio is None:
        return None
    verdict = TIED
    if ratio.seeds == 1:
        verdict = ONE_SEED
    elif ranking.told_apart(best, other):
        verdict = AHEAD if ratio.value > 1 else BEHIND
    return Lead(ranking, best, other, ratio, verdict)


def named(ranking: RankedBoard, label: str) -> str:
    """A row with its formulation."""
    return f"{label} ({formulation_name(ranking, label)})"


def of_difference(versus: Comparison) -> str:
    """Of two methods that were to be compared before anything was run: no correction for many pairs."""
    return ONE_SEED if len(versus.seeds) == 1 else _beside(versus.low, versus.high, 0.0)


def of_ratio(ratio: Ratio) -> str:
    """The same by the interval of their ratio, where that is what is shown."""
    return ONE_SEED if ratio.seeds == 1 else _beside(ratio.low, ratio.high, 1.0)


def _beside(low: float, high: float, middle: float) -> str:
    return HIGHER if low > middle else LOWER if high < middle else UNDECIDED


def tally(verdicts: Sequence[str], rival: str = "", noun: str = "list", *, total: bool = True) -> str:
    """On how many lists: "ahead of mf on 2 and behind on 1 of 4 lists, 1 with one seed".

    Without the total where the sentence has said it of the same lists.
    """
    found = [word for word in BESIDE if word in verdicts]
    tested = TIED not in verdicts and UNDECIDED in verdicts
    only = len(verdicts) == 1
    if found:
        words = [BESIDE[found[0]] + f" {rival}" if rival else found[0], *found[1:]]
        text = " and ".join(
            word if only else f"{word} on {verdicts.count(each)}" for word, each in zip(words, found, strict=True)
        )
    else:
        text = ("not " if only else "") + ("shown to differ" if tested else "told apart")
        text += (f" from {rival}" if rival else "") + ("" if only else " on none")
    if not total:
        return text
    text += f" on the only {noun}" if only else f" of {len(verdicts)} {noun}s"
    return text + with_one_seed(verdicts.count(ONE_SEED), len(verdicts))


def with_one_seed(single: int, lists: int) -> str:
    """How many of these lists have only one seed, which allows no test; empty where none has."""
    if lists == single == 1:
        return f", with {ONE_SEED}"
    return f", each with {ONE_SEED}" if single == lists else f", {single} with {ONE_SEED}" if single else ""
