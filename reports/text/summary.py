"""The summary of the page in words: who is best, whether to believe it, and what federation costs.

Every sentence is written from the numbers of the lists it is about, and says so where they do not allow one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.results.compare import Comparison, lower_is_better
from benchmarks.results.formulations import FEDERATED_METHODS
from datasets.common.errors import counted
from reports.boards import (
    FAMILIES,
    NAMES,
    TIE_TEST,
    MainList,
    Row,
    boards_note,
    describe_lead,
    interval_name,
    seeds_of,
)
from reports.text.formats import join_names, round_number

USER_ITEM = FAMILIES["user-item"]
POPULARITY = "popularity"
FEDERATED = {each.name: each.twins[0] for each in FEDERATED_METHODS}  # and the same with all data in one place
MOST_PAIRS = 3  # that one sentence names
SHARE_OF = "mrr"  # a share of an AUC, which is 1/2 by chance, or of a loss means nothing


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the summary: a title, one sentence, and details on each data set."""

    lead: str
    sentence: str
    details: tuple[str, ...] = ()


def summary(found: Sequence[MainList], left_out: Sequence[str] = ()) -> list[Point]:
    """Three points; the first alone where nothing was run."""
    lead = "Best method"
    if not found:
        why = "No list can be shown: see the details." if left_out else "No method has been run yet."
        return [Point(lead, why, tuple(left_out))]
    status = boards_note(each.ranking.board for each in found)
    return [
        Point(lead, _leaders(found), (*map(_best, found), *([status] if status else []), *left_out)),
        Point("Significance", _significant(found), _significance(found)),
        Point("Cost of federation", _share_kept(found), _cost(found)),
    ]


def brackets(found: Sequence[MainList]) -> str:
    """What stands in brackets."""
    return f"Brackets: {interval_name([each.ranking.board for each in found])}."


def _leaders(found: Sequence[MainList]) -> str:
    """The leaders, each with its data sets; only a significant lead makes a method the best."""
    leading: dict[tuple[str, bool], list[str]] = {}
    for each in found:
        ties = len(each.ranking.tied)
        tied = f", cannot be told apart from {ties} more" if ties else ""
        tied = f", {describe_lead(each.ranking)}" if each.ranking.undecided else tied
        where = f"{each.data} ({each.metric} {_value(each.rows[0])}{tied})".replace(") (", ", ")
        leading.setdefault((each.rows[0].label, each.ranking.clear), []).append(where)
    said = [f"{who} is {'best' if clear else 'first'} on {join_names(data)}" for (who, clear), data in leading.items()]
    return "; ".join(said) + "."


def _significant(found: Sequence[MainList]) -> str:
    """How many of the leaders are significantly better, and why the others are not."""
    clear = sum(each.ranking.clear for each in found)
    said = f"The leader is significantly better than all others on {clear} of {counted(len(found), 'list')}"
    why: dict[str, list[str]] = {}
    for each in found:
        if not each.ranking.clear:
            why.setdefault(_why_unclear(each), []).append(each.data)
    reasons = "; ".join(f"{reason} on {join_names(where)}" for reason, where in why.items())
    return f"{said}: {reasons}." if reasons else f"{said}."


def _why_unclear(each: MainList) -> str:
    if len(each.rows) == 1:
        return "nothing else was run"
    if each.ranking.seeds < 2:
        return "one seed only" if each.ranking.seeds else "no seed in common"
    return f"{counted(len(each.ranking.tied), 'method')} that cannot be told apart from it"


def _share_kept(found: Sequence[MainList]) -> str:
    """How much of the reciprocal rank federated methods keep, over all boards that have both."""
    said, kept = [], {}
    for federated, central in FEDERATED.items():
        shares = {
            each.data: versus.value_a / versus.value_b
            for each in found
            if each.ranking.metric.partition(",")[0] == SHARE_OF
            if (a := each.first(federated)) and (b := each.first(central)) and (versus := each.against(a, b))
            if versus.value_b and math.isfinite(versus.value_a / versus.value_b)
        }
        if shares:
            ends = min(shares.values()), max(shares.values())
            share = " to ".join(dict.fromkeys(f"{100 * each:.0f} %" for each in ends))
            many = "" if len(shares) == 1 else f" ({len(shares)} lists)"
            sign = _sign(found, federated, central)
            said.append(f"{federated} has {share} of {central}'s {NAMES[SHARE_OF]}{sign}{many}")
            for data, value in shares.items():
                where = f" on {data}" if len(found) > 1 else ""
                kept[f"{federated} of {central}{sign}{where}"] = value
    if len(said) > MOST_PAIRS:
        pairs = [end(kept, key=kept.__getitem__) for end in (min, max)]
        spread = " to ".join(f"{100 * kept[pair]:.0f} % ({pair})" for pair in pairs)
        return f"{len(said)} federated methods have {spread} of the {NAMES[SHARE_OF]} with all data in one place."
    none = f"No list by {NAMES[SHARE_OF]} has a federated method and its centralized counterpart"
    return f"{join_names(said) or none}."


def _sign(found: Sequence[MainList], *methods: str) -> str:
    """That of any of their rows."""
    return max((row.sign for each in found for method in methods if (row := each.first(method))), default="")


def _best(each: MainList) -> str:
    """The leader, and its lead over the best user-item method and popularity."""
    best, user_item, popularity = each.rows[0], each.first(*USER_ITEM), each.first(POPULARITY)
    verb = "wins" if each.ranking.clear else "leads"
    said = f"On {each.data} {best.label} {verb} with {each.metric} {_value(best)}"
    said += " (lower is better)" if lower_is_better(each.ranking.metric) else ""
    others = [(user_item, "the best user-item method, "), (popularity, "")]
    if best in (user_item, popularity):
        rest = next((row for row in each.rows if row.method not in (*USER_ITEM, POPULARITY)), None)
        others.append((rest, "the best of the other methods, "))
    compared = [_more(each, best, row, what + row.label) for row, what in others if row and row is not best]
    absent = [what for what, row in (("a user-item method", user_item), (POPULARITY, popularity)) if row is None]
    said += ": " + ", and ".join(compared) if compared else ""
    return f"{said}." + (f" Not run there: {join_names(absent)}." if absent else "")


def _more(each: MainList, a: Row, b: Row, named: str) -> str:
    versus = each.against(a, b)
    if versus is None:
        return f"{named} has {_value(b)} on other seeds"
    return f"{_difference(versus)} than {named} ({round_number(versus.value_b)}{b.sign})"


def _value(row: Row) -> str:
    return round_number(row.value) + row.sign


def _difference(versus: Comparison) -> str:
    sign = 1 if versus.difference >= 0 else -1
    low, high = sorted((sign * versus.low, sign * versus.high))
    word = "more" if sign > 0 else "less"
    return f"{round_number(abs(versus.difference), 2)} {word} [{round_number(low, 2)} to {round_number(high, 2)}]"


def _significance(found: Sequence[MainList]) -> tuple[str, ...]:
    if len({run.key.seed for each in found for _, run in each.ranking.board.runs}) == 1:
        return "Only one seed was run: no difference here is conclusive.", brackets(found)
    return (*map(_is_significant, found), f"Significant: {TIE_TEST}. {brackets(found)}")


def _is_significant(each: MainList) -> str:
    best, seeds = each.rows[0].label, each.ranking.seeds
    if len(each.rows) == 1:
        return f"On {each.data} there is nothing to compare {best} with."
    second = each.rows[1].label
    if seeds == 0:
        return f"On {each.data} {best} and the runner-up, {second}, have no seed in common and cannot be compared."
    if seeds == 1:
        return f"On {each.data} {best} and the runner-up, {second}, share only one seed: no difference is conclusive."
    if each.ranking.tied:
        names = join_names(each.ranking.tied)
        return f"On {each.data} {best} cannot be told apart from {names} ({seeds_of(each.ranking.board)})."
    return f"On {each.data} {best} is significantly better than the runner-up, {second} ({seeds} seeds)."


def _cost(found: Sequence[MainList]) -> tuple[str, ...]:
    said = []
    for each in found:
        pairs = [pair for pair in FEDERATED.items() if each.first(pair[0]) and each.first(pair[1])]
        if len(pairs) > MOST_PAIRS:
            said.append(_shares(each, pairs))
            continue
        for federated, central in pairs:
            a, b = each.first(federated), each.first(central)
            versus = each.against(a, b) if a and b else None
            if a is None or b is None or versus is None:
                continue
            ours, other = round_number(versus.value_a) + a.sign, round_number(versus.value_b) + b.sign
            chance = ", which may be due to chance" if versus.low <= 0 <= versus.high else ""
            values = f"{versus.a} has {ours} against {other} of {versus.b}"
            said.append(f"On {each.data} {values}: {_difference(versus)}{chance}.")
    return tuple(filter(None, said)) or (
        "Unknown: no list has a federated method and its counterpart on the same seeds.",
    )


def _shares(each: MainList, pairs: Sequence[tuple[str, str]]) -> str:
    """Each pair in a few words; empty where none has a seed in common."""
    said = []
    for federated, central in pairs:
        a, b = each.first(federated), each.first(central)
        versus = each.against(a, b) if a and b else None
        if a and b and versus:
            ours, other = round_number(versus.value_a) + a.sign, round_number(versus.value_b) + b.sign
            chance = " (may be chance)" if versus.low <= 0 <= versus.high and versus.value_a != versus.value_b else ""
            said.append(f"{versus.a} {ours} of {other} ({versus.b}){chance}")
    return f"On {each.data}: {', '.join(said)}." if said else ""
