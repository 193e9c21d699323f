"""Numbers with their intervals, and what a comparison of two methods allows to say, in the words of a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.results.compare import Comparison, Estimate, Panel, Ratio, ratio
from benchmarks.results.leaderboard import Board
from datasets.common.errors import DataError
from reports import boards
from reports.boards import RankedBoard
from reports.places import SIMPLE, best_label, formulation_name
from reports.text.formats import NONE, format_number

AHEAD, BEHIND, TIED = "ahead", "behind", "not told apart"  # by the test of the leaderboards
HIGHER, LOWER, UNDECIDED = "higher", "lower", "undecided"  # by an interval
BY_INTERVALS = f"by uncorrected {boards.CONFIDENCE} intervals"  # beside what these say, in a sentence
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


def ratio_in(ranking: RankedBoard, a: str, b: str, metric: str) -> Ratio | None:
    """How many times the value of b in another metric that of a is; None where it was not measured, or b has 0."""
    if not ranking.board.has(metric):
        return None
    return ratio(Panel.of([(label, run) for label, run in ranking.board.runs if label in (a, b)], metric), a, b)


def hidden_by_seed(ranking: RankedBoard, label: str) -> str:
    """How many hidden rules count in the lists of each seed of a row: 13 to 20."""
    found = sorted(round(float(ranking.panel.weights[:, c].sum())) for c in ranking.panel.columns(label).values())
    return f"{found[0]:,} to {found[-1]:,}" if found[0] < found[-1] else f"{found[0]:,}"


def change_of(before: Ratio, after: Ratio) -> Ratio | None:
    """How many times the one ratio the other is, as if their homes were independent; None where an error is unknown.

    The error of the difference of two logarithms is the root of the sum of their squared errors.
    """
    halves = [math.log(each.high / each.value) for each in (before, after) if each.value > 0]
    if len(halves) < 2 or not all(map(math.isfinite, halves)):
        return None
    found, width = after.value / before.value, math.exp(math.hypot(*halves))
    return Ratio(found, found / width, found * width, min(before.seeds, after.seeds))


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
    def row(self) -> tuple[str, str, str]:
        """graphrank (evidence ranking) | 1.36 [1.24, 1.49] times ease: ahead | 1.20 [1.12, 1.29] times."""
        hits = ratio_in(self.ranking, self.best, self.simple, self.ranking.board.metric("hr@10{list}"))
        signed = f"{factor(hits)}{sign_of(self.ranking, self.best, self.simple)} times" if hits else NONE
        return named(self.ranking, self.best), f"{self.times} times {self.simple}: {self.verdict}", signed


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


def tally(verdicts: Sequence[str], rival: str = "", noun: str = "list", *, total: bool = True, of: str = "") -> str:
    """On how many lists: "ahead of mf on 2 and behind on 1 of 4 lists, 1 with one seed".

    Without the total where the sentence has said it of the same lists; `of` are words right behind it.
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
    text += f" on the only {noun}" if only else f" of {len(verdicts)} {noun}s{of}"
    return text + with_one_seed(verdicts.count(ONE_SEED), len(verdicts))


def with_one_seed(single: int, lists: int) -> str:
    """How many of these lists have only one seed, which allows no test; empty where none has."""
    if lists == single == 1:
        return f", with {ONE_SEED}"
    return f", each with {ONE_SEED}" if single == lists else f", {single} with {ONE_SEED}" if single else ""
