"""The summary of the page in words: who has the best list, whether to believe it, and what federation costs.

Every sentence is written from the numbers of the lists it is about, and says so where they do not allow one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.compare import ALPHA, LEVEL, Comparison, lower_is_better
from reports.families import METHODS
from reports.main_lists import NAMES, MainList, Row
from reports.main_rows import seeds_of

USER_ITEM = METHODS["user-item"]
FLOOR = "popularity"
FEDERATED = {"fedrank": "graphrank", "fedrule": "graphrule"}  # and the same method with all data in one place
BRACKETS = f"Brackets are {100 * LEVEL:g} % intervals over homes."


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
        nothing = "No method has finished a run that could be ranked: nothing can be said yet."
        return [Point(lead, nothing, tuple(left_out))]
    return [
        Point(lead, _winners(found), (*map(_winner, found), *left_out)),
        Point("Whether to believe it", _told_apart(found), _belief(found)),
        Point("What federation costs", _kept(found), _cost(found)),
    ]


def _winners(found: Sequence[MainList]) -> str:
    """The leaders, each with the lists that it leads."""
    leading: dict[str, list[str]] = {}
    for each in found:
        name = NAMES.get(each.metric, each.metric)
        where = f"{each.place} ({name} {digits(each.rows[0].value)})".replace(") (", ", ")
        leading.setdefault(each.rows[0].label, []).append(where)
    first, *rest = [f"{label} has the best list on {listed(where)}" for label, where in leading.items()]
    return "; ".join([first, *(said.replace(" has the best list", "", 1) for said in rest)]) + "."


def _told_apart(found: Sequence[MainList]) -> str:
    """How many of the leaders differ from those that follow, and why the others do not."""
    single = [each for each in found if _most_seeds(each) == 1]
    tied = [each for each in found if each not in single and _tied(each)]
    clear = [each for each in found if each not in single and not _tied(each) and len(each.rows) > 1]
    said = f"The leader differs from the next on {len(clear)} of {len(found)} {'list' if len(found) == 1 else 'lists'}"
    why = [f"{each.place} has {len(_tied(each))} tied with it" for each in tied]
    why += [f"{listed([each.place for each in single])} had one seed only"] if single else []
    return said + (f": {', and '.join(why)}." if why else ".")


def _kept(found: Sequence[MainList]) -> str:
    """How much of the measure federated methods keep, over all lists that have both."""
    said = []
    for federated, central in FEDERATED.items():
        shares = [
            versus.value_a / versus.value_b
            for each in found
            if (a := each.first(federated)) and (b := each.first(central)) and (versus := each.against(a, b))
            if versus.value_b and math.isfinite(versus.value_a / versus.value_b)
        ]
        if shares:
            low, high = f"{100 * min(shares):.0f} %", f"{100 * max(shares):.0f} %"
            many = "" if len(shares) == 1 else f" ({len(shares)} lists)"
            said.append(f"{federated} has {low if low == high else f'{low} to {high}'} of {central}'s measure{many}")
    return f"{listed(said)}." if said else "It cannot be said from these lists."


def _winner(each: MainList) -> str:
    """Who leads, and by how much over the best user-item method and popularity."""
    best, user_item, floor = each.rows[0], each.first(*USER_ITEM), each.first(FLOOR)
    verb = "leads" if _tied(each) else "wins"
    said = f"On {each.place} {best.label} {verb} with {NAMES.get(each.metric, each.metric)} {digits(best.value)}"
    said += " (lower is better)" if lower_is_better(each.metric) else ""
    others = [(user_item, "the best user-item method, "), (floor, "")]
    if best in (user_item, floor):
        rest = next((row for row in each.rows if row.method not in (*USER_ITEM, FLOOR)), None)
        others.append((rest, "the best of the other methods, "))
    compared = [_more(each, best, row, what + row.label) for row, what in others if row and row is not best]
    absent = [what for what, row in (("a user-item method", user_item), (FLOOR, floor)) if row is None]
    said += ": " + ", and ".join(compared) if compared else ""
    return f"{said}." + (f" Not run there: {listed(absent)}." if absent else "")


def _more(each: MainList, a: Row, b: Row, named: str) -> str:
    """By how much a differs from b."""
    versus = each.against(a, b)
    if versus is None:
        return f"{named} has {digits(b.value)} on other seeds"
    return f"{_difference(versus)} than {named} ({digits(versus.value_b)})"


def _difference(versus: Comparison) -> str:
    """The difference and its interval, as how much more or less."""
    sign = 1 if versus.difference >= 0 else -1
    low, high = sorted((sign * versus.low, sign * versus.high))
    word = "more" if sign > 0 else "less"
    return f"{digits(abs(versus.difference), 2)} {word} [{digits(low, 2)} to {digits(high, 2)}]"


def _belief(found: Sequence[MainList]) -> tuple[str, ...]:
    """Which of the leaders differ from those that follow."""
    if all(_most_seeds(each) == 1 for each in found):
        return "Only one seed was run: no difference here should be believed.", BRACKETS
    said = []
    for each in found:
        best, tied = each.rows[0], _tied(each)
        if _most_seeds(each) == 1:
            said.append(f"On {each.place} only one seed was run: no difference there should be believed.")
        elif len(each.rows) == 1:
            said.append(f"On {each.place} there is nothing to compare {best.label} with.")
        elif tied:
            names = listed([row.label for row in tied])
            said.append(f"On {each.place} {best.label} cannot be told apart from {names} ({seeds_of(each.board)}).")
        else:
            said.append(
                f"On {each.place} {best.label} differs from the next, {each.rows[1].label} ({seeds_of(each.board)})."
            )
    how = f"To differ means: paired bootstrap over homes, Holm over all pairs of a list, p < {ALPHA:g}."
    return (*said, f"{how} {BRACKETS}")


def _cost(found: Sequence[MainList]) -> tuple[str, ...]:
    """Federated methods against the same ones with all data in one place."""
    said = []
    for each in found:
        for federated, central in FEDERATED.items():
            a, b = each.first(federated), each.first(central)
            versus = each.against(a, b) if a and b else None
            if versus is None:
                continue
            values = f"{versus.a} has {digits(versus.value_a)} against {digits(versus.value_b)} of {versus.b}"
            chance = ", which may be chance" if versus.low <= 0 <= versus.high else ""
            said.append(f"On {each.place} {values}: {_difference(versus)}{chance}.")
    pairs = " or ".join(f"{federated} beside {central}" for federated, central in FEDERATED.items())
    return tuple(said) or (f"It cannot be said: none of these lists has {pairs}, on the same seeds.",)


def _tied(each: MainList) -> list[Row]:
    """Who cannot be told apart from the leader."""
    return [row for row in each.rows[1:] if row.group == each.rows[0].group]


def _most_seeds(each: MainList) -> int:
    return max(row.seeds for row in each.rows)


def listed(names: Sequence[str]) -> str:
    """As people list things: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def digits(value: float, significant: int = 3) -> str:
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
