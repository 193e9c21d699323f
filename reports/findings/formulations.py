"""Which formulation is first, and what graph methods have over simple ones: on all lists, by homes, in new homes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.results.compare import Ratio
from benchmarks.results.leaderboard import Board
from datasets.common.errors import counted
from reports import boards
from reports.boards import RankedBoard
from reports.findings.numbers import (
    BY_INTERVALS,
    HIGHER,
    LOWER,
    ONE_SEED,
    Lead,
    change_of,
    extremes,
    factor,
    hidden_by_seed,
    interval,
    lead,
    named,
    of_ratio,
    tally,
    value_of,
    with_one_seed,
)
from reports.findings.statement import Statement, runs_of_all, sentence, table
from reports.inputs import Inputs
from reports.outputs import RUN, RUN_RIVALS, Missing, Table
from reports.places import (
    GRAPH_METHODS,
    NETWORKS,
    SIMPLE,
    competitors,
    formulation_name,
    list_name,
    list_name_in_full,
    main_rankings,
    split_rankings,
    track_of,
)
from reports.scaling import RUN_SIZES, Quality, QualityLines, quality_lines
from reports.text.formats import NONE, join_names

BY_HOMES = ("graphrank", "ease", "graphrule")  # whose values by number of homes are shown
BEST, BEST_SIMPLE = "the best evidence, feature or graph method", "the best simple method"
LEADS = (
    f"{BEST[0].upper()}{BEST[1:]} and, where that is another one, the best graph neural network, both by MRR: MRR and "
    "HR@10 as multiples of those of the best simple method (user-item or popularity). Ahead or behind is by MRR."
)
HIDDEN = " Hidden rules are those that count, with each seed: closed lists leave out those with an orphan."
SINGLE = (
    " Simple methods give all devices of one type the same score, so on single devices they start behind. Of tied "
    "candidates MRR takes 1 over their mean place, never more than in random order; HR@10 is that of random order."
)
COLUMNS = "method", "MRR", "HR@10"
MOST_NAMED = 2  # lists in a headline
CHANGE = {HIGHER: f"{HIGHER} {BY_INTERVALS}", LOWER: f"{LOWER} {BY_INTERVALS}", ONE_SEED: f"{ONE_SEED}, no test"}


@dataclass(frozen=True, slots=True, eq=False)
class Leader:
    """The first method of a list, and what else may be as good."""

    ranking: RankedBoard
    label: str
    formulation: str
    rivals: tuple[str, ...]  # other formulations with a method that is not told apart from it

    @property
    def one_seed(self) -> bool:
        """Whether nothing can be told apart."""
        return self.ranking.seeds == 1


def which_formulation(inputs: Inputs) -> Statement:
    """The leader of each list, its formulation, and which formulations it is not told apart from."""
    kept, note = _fully_run({each: list_name(each) for each in main_rankings(inputs)})
    leaders = [leader for each in kept if (leader := _leader(each))]
    if not leaders:
        raise Missing("no two formulations were ranked on the same data", RUN_RIVALS)
    rows = [
        (
            list_name(each.ranking),
            f"{named(each.ranking, each.label)}, {value_of(each.ranking, each.label)}",
            "; ".join(each.rivals) + (f" ({ONE_SEED})" if each.one_seed else "") or "none",
        )
        for each in leaders
    ]
    shown = table(
        "The first method of each list, and every other formulation that has a method it is not told apart from.",
        ("list", "first, its MRR", "not told apart from"),
        rows,
    )
    details = (shown, note) if note else (shown,)
    return Statement(_first_of_all(leaders), details, runs_of_all(each.ranking for each in leaders))


def _leader(ranking: RankedBoard) -> Leader | None:
    """None where all methods are of one formulation."""
    best, *others = competitors(ranking) or [""]
    kinds = {label: formulation_name(ranking, label) for label in others if best}
    mine = formulation_name(ranking, best) if best else ""
    if not set(kinds.values()) - {mine}:
        return None
    rivals = [kind for label, kind in kinds.items() if kind != mine and not ranking.told_apart(best, label)]
    return Leader(ranking, best, mine, tuple(dict.fromkeys(rivals)))


def _first_of_all(leaders: Sequence[Leader]) -> str:
    lists, firsts = len(leaders), Counter(each.formulation for each in leaders)
    most = max(firsts.values())
    methods = {
        kind: Counter(each.label for each in leaders if each.formulation == kind)
        for kind in firsts
        if firsts[kind] == most
    }
    who = join_names([f"{kind} ({', '.join(name for name, _ in of.most_common())})" for kind, of in methods.items()])
    clear = [each for each in leaders if not each.rivals]
    but = "and" if len(clear) == lists else "but"
    single = with_one_seed(sum(each.one_seed for each in leaders), lists)
    if lists == 1:
        told = f"is {'' if clear else 'not '}told apart from every other formulation"
        return sentence(f"{who} is first on the only list, {list_name(leaders[0].ranking)}, {but} {told}{single}")
    first = f"are first on {most} of {lists} lists each" if len(methods) > 1 else f"is first on {most} of {lists} lists"
    of = {0: "no list", lists: "all lists"}.get(len(clear), counted(len(clear), "list"))
    told = f"the first method is told apart from every other formulation on {of}"
    if 0 < len(clear) <= min(MOST_NAMED, lists - 1):
        told += f": {join_names([f'{list_name(each.ranking)} ({each.label})' for each in clear])}"
    return sentence(f"{who} {first}, {but} {told}{single}")


def more_than_user_item(inputs: Inputs) -> Statement:
    """The best graph method, and the best network among them, over the best simple method on each real data set."""
    leads, networks, details = _over_simple(
        {each: list_name(each) for each in main_rankings(inputs) if _is_real(each)}, "on real data", RUN_RIVALS
    )
    headline = f"On real data {_ahead(leads)}"
    if networks:
        verdicts = tally([each.verdict for each in networks], total=len(networks) != len(leads))
        headline += f"; the best neural network is {verdicts}"
    return Statement(f"{headline}.", details, runs_of_all(each.ranking for each in leads))


def homes_not_seen_in_training(inputs: Inputs) -> Statement:
    """The best graph method over the best simple one, which folds new homes in by their rules."""
    where = {each: list_name_in_full(each) for each in split_rankings(inputs, "new_homes")}
    leads, _, details = _over_simple(where, "on homes not seen in training", RUN)
    headline = f"In homes not seen in training {_ahead(leads)}."
    return Statement(headline, details, runs_of_all(each.ranking for each in leads))


def _over_simple(
    where: Mapping[RankedBoard, str], on: str, command: str
) -> tuple[list[Lead], list[Lead], tuple[str | Table, ...]]:
    """The leads of the best methods, those of the best networks on the same lists, and a table of both."""
    kept, note = _fully_run(where)
    leads = {each: found for each in kept if (found := lead(each, GRAPH_METHODS))}
    if not leads:
        raise Missing(f"no evidence, feature or graph method was ranked beside a simple method {on}", command)
    networks = {each: found for each in leads if (found := lead(each, NETWORKS))}
    rows = [
        (where[each], hidden_by_seed(each, leads[each].best), *row)
        for each in leads
        for row in _lead_rows(leads[each], networks.get(each))
    ]
    caption = LEADS + HIDDEN + (SINGLE if any(track_of(each) != "types" for each in leads) else "")
    shown = table(caption, ("list", "hidden rules", *COLUMNS), rows)
    return list(leads.values()), list(networks.values()), (shown, note) if note else (shown,)


def _fully_run(where: Mapping[RankedBoard, str]) -> tuple[list[RankedBoard], str]:
    """Lists with half of the methods or more, and a note on the others: the best of few methods is not the best."""
    most = max((len(competitors(each)) for each in where), default=0)
    few = {each: len(competitors(each)) for each in where if 2 * len(competitors(each)) < most}
    named_lists = [f"{where[each]} ({many} of {most} methods)" for each, many in few.items()]
    note = f"Left out, with less than half of the methods: {join_names(named_lists)}." if few else ""
    return [each for each in where if each not in few], note


def _ahead(leads: Sequence[Lead]) -> str:
    many = len({each.ranking.board.data for each in leads})
    of = f" of {counted(many, 'data set')}" if many < len(leads) else ""
    verdicts = tally([each.verdict for each in leads], BEST_SIMPLE, of=of)
    names = ", ".join(name for name, _ in Counter(each.best for each in leads).most_common())
    return f"{BEST} ({names}) is {verdicts} ({_times(leads)})"


def _lead_rows(best: Lead, network: Lead | None) -> list[tuple[str, str, str]]:
    """One where the best method is a network."""
    return [best.row] + ([network.row] if network and network.best != best.best else [])


def _times(leads: Sequence[Lead]) -> str:
    """1.10 [1.05, 1.14] to 1.36 [1.24, 1.49] times its MRR; 8.81 [5.57, 13.92] on single devices."""
    types = [each for each in leads if track_of(each.ranking) == "types"]
    single = [each for each in leads if each not in types]
    merged, apart = (
        " to ".join(each.times for each in extremes(of, lambda e: e.ratio.value)) for of in (types, single)
    )
    if not merged:
        return f"{apart} times its MRR on single devices"
    return f"{merged} times its MRR" + (f"; {apart} on single devices" if apart else "")


def by_number_of_homes(inputs: Inputs) -> Statement:
    """MRR by number of homes, and the lead of the best method over the best simple one.

    Of methods that were run with the fewest and with the most homes: others would make one of the two look better.
    Sizes without one of each kind are not the ends, unless there are no others.
    """
    lines = quality_lines(inputs)
    rankings = {homes: _main_ranking(inputs, board) for homes, board in zip(lines.sizes, lines.boards, strict=True)}
    least, *_, most = _with_both_kinds(lines) or lines.sizes
    common = {method for method, line in lines.lines.items() if {least, most} <= {at.homes for at in line}}
    graph, networks, simple = ([each for each in of if each in common] for of in (GRAPH_METHODS, NETWORKS, SIMPLE))
    leads = {homes: found for homes, each in rankings.items() if (found := lead(each, graph, simple))}
    data = boards.data_name(lines.boards[0])
    details: list[str | Table] = []
    if values := [method for method in BY_HOMES if method in common]:
        rows = [(f"{homes:,}", *(_at(lines, method, homes) for method in values)) for homes in lines.sizes]
        details.append(
            table(f"MRR by number of homes of {data}; with more homes lists are longer.", ("homes", *values), rows)
        )
    if leads:
        rows = [
            (f"{homes:,}", *row)
            for homes, found in leads.items()
            for row in _lead_rows(found, lead(found.ranking, networks, simple))
        ]
        caption = f"{LEADS} Of methods that were run with {least:,} and with {most:,} homes."
        details.append(table(caption, ("homes", *COLUMNS), rows))
    ends = f"From {least:,} to {most:,} homes of {data}"
    if {least, most} <= leads.keys():
        first, last = leads[least], leads[most]
        change = change_of(first.ratio, last.ratio)
        told = f"{first.times} ({first.best}) to {last.times} ({last.best}) times the MRR of {BEST_SIMPLE}"
        headline = f"{ends} {BEST} goes from {told}"
    elif values:
        first_at, *_, last_at = [at for at in lines.lines[values[0]] if least <= at.homes <= most]
        change = change_of(_as_ratio(first_at), _as_ratio(last_at))
        headline = f"{ends} the MRR of {values[0]} goes from {_quality(first_at)} to {_quality(last_at)}"
    else:
        raise Missing("neither graph nor simple methods were run on few and on many homes", RUN_SIZES)
    if change is not None:
        headline += f"; {_told(change)}"
        details.append(
            f"The change is {factor(change)} times: the difference of the logarithms of both, its error the root of "
            "the sum of their squared errors, as if the homes were independent."
        )
    return Statement(f"{headline}.", tuple(details), runs_of_all(rankings.values()))


def _with_both_kinds(lines: QualityLines) -> list[int]:
    """The sizes that a simple method was run with, and one that could be ahead of it; none where there is only one."""
    kinds = [
        {at.homes for name in kind if name in lines.lines for at in lines.lines[name]}
        for kind in (GRAPH_METHODS, SIMPLE)
    ]
    found = [homes for homes in lines.sizes if all(homes in kind for kind in kinds)]
    return found if len(found) > 1 else []


def _main_ranking(inputs: Inputs, board: Board) -> RankedBoard:
    return boards.ranked_board(inputs, boards.with_rows(board, boards.main_rows(board)), board.headline)


def _at(lines: QualityLines, method: str, homes: int) -> str:
    found = next((at for at in lines.lines[method] if at.homes == homes), None)
    return NONE if found is None else _quality(found)


def _quality(at: Quality) -> str:
    return interval(at.value, at.low, at.high) + at.sign


def _told(change: Ratio) -> str:
    """No change where the interval contains 1, whatever it is over; a change by more than one seed."""
    if change.low <= 1 <= change.high:
        return "no change is shown" + (f" ({ONE_SEED})" if change.seeds == 1 else "")
    return CHANGE[of_ratio(change)]


def _as_ratio(at: Quality) -> Ratio:
    """An MRR with an interval as wide relative to it."""
    half = (at.high - at.low) / 2 / at.value if at.value > 0 else math.nan
    return Ratio(at.value, at.value / math.exp(half), at.value * math.exp(half), seeds=0)


def _is_real(ranking: RankedBoard) -> bool:
    return not boards.data_name(ranking.board).endswith("-synthetic")
