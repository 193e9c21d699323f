"""Numbers with their intervals, and whether two methods can be told apart, in the words of a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from benchmarks.results.compare import Comparison, Estimate, Panel, Ratio
from benchmarks.results.leaderboard import Board
from datasets.common.errors import DataError, counted
from reports import boards
from reports.boards import RankedBoard
from reports.places import SIMPLE, best_label, formulation_name
from reports.text.formats import format_number

DIFFERENCE = f"the {boards.CONFIDENCE} interval of the difference, not corrected for several comparisons,"
APART, TIED, ONE_SEED = "told apart", "cannot be told apart", "one seed"


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


def times(ratio: Ratio) -> str:
    """1.36 [1.24, 1.49] times."""
    return f"{_factor(ratio)} times"


def value_of(ranking: RankedBoard, label: str) -> str:
    """The metric of a row with its interval, and the sign where its training went wrong."""
    row = ranking.table.iloc[ranking.ordered.index(label)]
    sign = boards.row_sign(ranking.board, label)
    return interval(float(row[ranking.metric]), float(row["low"]), float(row["high"])) + sign


def _estimate(board: Board, label: str, metric: str) -> Estimate:
    """The mean over seeds of another metric of a row."""
    runs = [(label, run) for run in boards.runs_of(board, label)]
    if not runs:
        raise DataError(f"{board.title}: {label} was not run")
    panel = Panel.of(runs, metric)
    return panel.estimate(list(panel.columns(label).values()))


def share_of(board: Board, label: str, metric: str) -> tuple[float, float, float]:
    """A metric between 0 and 1 of a row, and its interval, which ends there as well."""
    found = _estimate(board, label, metric)
    low, high = found.interval()
    return found.value, max(low, 0.0), min(high, 1.0)


def lead(ranking: RankedBoard, where: str, methods: Iterable[str]) -> str:
    """The best of these methods over the best simple one; empty where one of them was not run.

    1.36 [1.24, 1.49] on home-assistant (graphrank, evidence ranking, over ease; told apart).
    """
    best, simple = best_label(ranking, methods), best_label(ranking, SIMPLE)
    ratio = ranking.ratio(best, simple) if best and simple else None
    if best is None or simple is None or ratio is None:
        return ""
    sign = max(boards.row_sign(ranking.board, label) for label in (best, simple))
    verdict = ONE_SEED if ratio.seeds == 1 else APART if ranking.told_apart(best, simple) else TIED
    return f"{_factor(ratio)}{sign} {where} ({best}, {formulation_name(ranking, best)}, over {simple}; {verdict})"


def verdict(versus: Comparison) -> str:
    """Of two methods that were to be compared before anything was run: no correction for many pairs."""
    if len(versus.seeds) == 1:
        return ONE_SEED
    return f"the interval of the difference {'contains' if versus.low <= 0 <= versus.high else 'excludes'} 0"


def verdict_of_all(pairs: Sequence[Comparison]) -> str:
    """The same of two methods on several lists: on how many; a list with one seed counts neither way."""
    several = [pair for pair in pairs if len(pair.seeds) > 1]
    if not several:
        return "with one seed nothing can be said of the difference"
    lower, higher = sum(pair.high < 0 for pair in several), sum(pair.low > 0 for pair in several)
    parts = [f"{word} 0 on {many}" for word, many in (("below", lower), ("above", higher)) if many]
    if parts:
        return f"{DIFFERENCE} is {' and '.join(parts)} of {counted(len(several), 'list')} with several seeds"
    where = "the only list" if len(several) == 1 else f"all {len(several)} lists"
    return f"{DIFFERENCE} contains 0 on {where} with several seeds"


def _factor(ratio: Ratio) -> str:
    if math.isnan(ratio.low):
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
