"""The summary of the page in words: who has the best list, whether to believe it, and what federation costs.

Every sentence is written from the numbers of the lists it is about, and says so where they do not allow one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.results.compare import Comparison, lower_is_better
from reports.boards import CONFIDENCE, NAMES, TIE_TEST, MainList, Row, seeds_of
from reports.drawing.styles import METHODS
from reports.text.phrases import join_names

USER_ITEM = METHODS["user-item"]
FLOOR = "popularity"
FEDERATED = {"fedrank": "graphrank", "fedrule": "graphrule"}  # and the same method with all data in one place
SHARE_OF = "mrr"  # of an AUC, which chance alone makes 1/2, or of a loss a share says nothing
BRACKETS = f"Brackets are {CONFIDENCE} intervals over homes."


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that the summary says: a few words to begin with, one sentence, and more about each data set."""

    lead: str
    sentence: str
    details: tuple[str, ...] = ()


def summary(found: Sequence[MainList], left_out: Sequence[str] = ()) -> list[Point]:
    """Three points; the first alone where nothing was run."""
    lead = "Who has the best list"
    if not found:
        nothing = "There is no list of methods on the paper's data that could be spoken of"
        return [Point(lead, f"{nothing}: see below why." if left_out else f"{nothing} yet.", tuple(left_out))]
    return [
        Point(lead, _winners(found), (*map(_winner, found), *left_out)),
        Point("Whether to believe it", _told_apart(found), _belief(found)),
        Point("What federation costs", _kept(found), _cost(found)),
    ]


def _winners(found: Sequence[MainList]) -> str:
    """The leaders, each with the lists that it leads; a leader that is not clearly ahead only comes first."""
    leading: dict[tuple[str, bool], list[str]] = {}
    for each in found:
        ties = len(each.ranking.tied)
        tied = f", tied with {ties} more" if ties else ""
        where = f"{each.place} ({each.metric} {round_number(each.rows[0].value)}{tied})".replace(") (", ", ")
        leading.setdefault((each.rows[0].label, each.ranking.clear), []).append(where)
    said = [
        f"{label} {'has the best list' if clear else 'comes first'} on {join_names(where)}"
        for (label, clear), where in leading.items()
    ]
    return "; ".join(said) + "."


def _told_apart(found: Sequence[MainList]) -> str:
    """How many of the leaders differ from those that follow, and why the others do not."""
    clear = sum(each.ranking.clear for each in found)
    said = f"The leader differs from the next on {clear} of {len(found)} {'list' if len(found) == 1 else 'lists'}"
    why: dict[str, list[str]] = {}
    for each in found:
        if not each.ranking.clear:
            why.setdefault(_doubt(each), []).append(each.place)
    return said + (
        f": {'; '.join(f'{reason} on {join_names(where)}' for reason, where in why.items())}." if why else "."
    )


def _doubt(each: MainList) -> str:
    """Why a leader cannot be said to differ from the next."""
    if len(each.rows) == 1:
        return "nothing follows it"
    if each.ranking.seeds < 2:
        return "one seed only" if each.ranking.seeds else "no seed in common"
    return f"{len(each.ranking.tied)} more in its group"


def _kept(found: Sequence[MainList]) -> str:
    """How much of the reciprocal rank federated methods keep, over all lists that have both."""
    said = []
    for federated, central in FEDERATED.items():
        shares = [
            versus.value_a / versus.value_b
            for each in found
            if each.ranking.metric == SHARE_OF
            if (a := each.first(federated)) and (b := each.first(central)) and (versus := each.against(a, b))
            if versus.value_b and math.isfinite(versus.value_a / versus.value_b)
        ]
        if shares:
            low, high = f"{100 * min(shares):.0f} %", f"{100 * max(shares):.0f} %"
            many = "" if len(shares) == 1 else f" ({len(shares)} lists)"
            share = low if low == high else f"{low} to {high}"
            said.append(f"{federated} has {share} of {central}'s {NAMES[SHARE_OF]}{many}")
    return (
        f"{join_names(said)}."
        if said
        else f"No list by {NAMES[SHARE_OF]} has both, so that it cannot be said in short."
    )


def _winner(each: MainList) -> str:
    """Who leads, and by how much over the best user-item method and popularity."""
    best, user_item, floor = each.rows[0], each.first(*USER_ITEM), each.first(FLOOR)
    verb = "wins" if each.ranking.clear else "leads"
    said = f"On {each.place} {best.label} {verb} with {each.metric} {round_number(best.value)}"
    said += " (lower is better)" if lower_is_better(each.ranking.metric) else ""
    others = [(user_item, "the best user-item method, "), (floor, "")]
    if best in (user_item, floor):
        rest = next((row for row in each.rows if row.method not in (*USER_ITEM, FLOOR)), None)
        others.append((rest, "the best of the other methods, "))
    compared = [_more(each, best, row, what + row.label) for row, what in others if row and row is not best]
    absent = [what for what, row in (("a user-item method", user_item), (FLOOR, floor)) if row is None]
    said += ": " + ", and ".join(compared) if compared else ""
    return f"{said}." + (f" Not run there: {join_names(absent)}." if absent else "")


def _more(each: MainList, a: Row, b: Row, named: str) -> str:
    """By how much a differs from b."""
    versus = each.against(a, b)
    if versus is None:
        return f"{named} has {round_number(b.value)} on other seeds"
    return f"{_difference(versus)} than {named} ({round_number(versus.value_b)})"


def _difference(versus: Comparison) -> str:
    """The difference and its interval, as how much more or less."""
    sign = 1 if versus.difference >= 0 else -1
    low, high = sorted((sign * versus.low, sign * versus.high))
    word = "more" if sign > 0 else "less"
    return f"{round_number(abs(versus.difference), 2)} {word} [{round_number(low, 2)} to {round_number(high, 2)}]"


def _belief(found: Sequence[MainList]) -> tuple[str, ...]:
    """Which of the leaders differ from those that follow."""
    if len({run.key.seed for each in found for _, run in each.board.runs}) == 1:
        return "Only one seed was run: no difference here should be believed.", BRACKETS
    return (*map(_believed, found), f"To differ means: {TIE_TEST}. {BRACKETS}")


def _believed(each: MainList) -> str:
    """Whether the leader of a list differs from the next."""
    best, seeds = each.rows[0].label, each.ranking.seeds
    if len(each.rows) == 1:
        return f"On {each.place} there is nothing to compare {best} with."
    second = each.rows[1].label
    if seeds == 0:
        return f"On {each.place} {best} and the next, {second}, have no seed in common: they cannot be compared."
    if seeds == 1:
        return f"On {each.place} {best} and the next, {second}, share one seed only: no difference should be believed."
    if each.ranking.tied:
        names = join_names(each.ranking.tied)
        return f"On {each.place} {best} cannot be told apart from {names} ({seeds_of(each.board)})."
    return f"On {each.place} {best} differs from the next, {second} ({seeds} seeds)."


def _cost(found: Sequence[MainList]) -> tuple[str, ...]:
    """Federated methods against the same ones with all data in one place."""
    said = []
    for each in found:
        for federated, central in FEDERATED.items():
            a, b = each.first(federated), each.first(central)
            versus = each.against(a, b) if a and b else None
            if versus is None:
                continue
            values = (
                f"{versus.a} has {round_number(versus.value_a)} against {round_number(versus.value_b)} of {versus.b}"
            )
            chance = ", which may be chance" if versus.low <= 0 <= versus.high else ""
            said.append(f"On {each.place} {values}: {_difference(versus)}{chance}.")
    pairs = " or ".join(f"{federated} beside {central}" for federated, central in FEDERATED.items())
    return tuple(said) or (f"It cannot be said: none of these lists has {pairs}, on the same seeds.",)


def round_number(value: float, significant: int = 3) -> str:
    """A number with as many digits as one reads."""
    if value != value:
        return "unknown"
    if value in (float("inf"), float("-inf")):
        return "infinity" if value > 0 else "-infinity"
    if abs(value) < 0.5e-4:
        return "0"
    if abs(value) >= 10 ** (significant - 1):
        return f"{value:,.0f}"
    shown = f"{value:#.{significant}g}"
    return f"{value:.4f}" if "e" in shown or abs(value) < 1e-3 else shown
