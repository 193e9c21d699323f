"""Which hidden rules are found: in small and in large homes, unseen in training, and those that no method finds yet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.results.compare import Ratio
from datasets.common.errors import counted
from reports import boards
from reports.boards import RankedBoard
from reports.findings.numbers import (
    BY_INTERVALS,
    extremes,
    factor,
    interval,
    of_ratio,
    percent,
    share_of,
    sign_of,
    tally,
)
from reports.findings.statement import Statement, runs_of_all, table
from reports.inputs import IFTTT, PLACES, WYZE, Inputs
from reports.outputs import RUN_RIVALS, Missing
from reports.places import SIMPLE, best_label, competitors, list_name, main_rankings, track_of
from reports.slices import (
    MIN_HIDDEN,
    SIZE,
    SliceMean,
    hidden_rules,
    size_slices,
    slice_change,
    slice_mean,
    slice_ratio,
)
from reports.text.formats import NONE

HOMES = (WYZE, IFTTT, next(role for role in PLACES if role.name == "home-assistant"))  # of homes by their size
EVERY = "all candidates"  # the list that has unseen rules: the valid filter leaves them out


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The first method of a list in small and in large homes."""

    ranking: RankedBoard
    method: str
    slices: tuple[str, str]
    change: Ratio  # from small to large homes

    @property
    def times(self) -> str:
        """0.24 [0.12, 0.48] (home-assistant, over 20 against 6-10 devices)."""
        small, large = map(_devices, self.slices)
        where = f"{list_name(self.ranking)}, {large} against {small} devices"
        return f"{factor(self.change)}{sign_of(self.ranking, self.method)} ({where})"


def _devices(name: str) -> str:
    """6-10, or over 20."""
    return name.removeprefix(SIZE).replace(">", "over ")


def by_size_of_homes(inputs: Inputs) -> Statement:
    """The leader in the smallest and in the largest homes that have enough hidden rules."""
    found = [sizes for each in main_rankings(inputs, HOMES) if (sizes := _sizes(each))]
    if not found:
        raise Missing(f"no data set has {MIN_HIDDEN} hidden rules in homes of two sizes", RUN_RIVALS)
    ends = " to ".join(each.times for each in extremes(found, lambda each: each.change.value))
    verdicts = tally([of_ratio(each.change) for each in found], noun="data set")
    headline = (
        f"In large homes the best method's MRR, with orphans, is {ends} times that in small homes: {BY_INTERVALS} "
        f"{verdicts}."
    )
    shown = table(
        f"The best method of each data set in its smallest and largest homes with {MIN_HIDDEN} hidden rules or more, "
        "and beside the best simple method. Larger homes have longer lists. With orphans: lists of this table have "
        "devices without a known rule, which closed lists leave out. Hidden rules are of all seeds, intervals over "
        "seeds.",
        ("data", "devices", "hidden rules", "MRR, with orphans", "beside"),
        [row for each in found for row in _size_rows(each)],
    )
    return Statement(headline, (shown,), runs_of_all(each.ranking for each in found))


def _sizes(ranking: RankedBoard) -> Sizes | None:
    """None where homes of two sizes do not have enough hidden rules."""
    best = next(iter(competitors(ranking)), "")
    runs = boards.runs_of(ranking.board, best)
    parts = [name for name in size_slices(runs) if hidden_rules(runs, name) >= MIN_HIDDEN]
    if len(parts) < 2 or (ratio := slice_change(runs, parts[0], parts[-1], "mrr")) is None:
        return None
    return Sizes(ranking, best, (parts[0], parts[-1]), ratio)


def _size_rows(sizes: Sizes) -> list[tuple[str, ...]]:
    ranking, simple = sizes.ranking, best_label(sizes.ranking, SIMPLE)
    runs = boards.runs_of(ranking.board, sizes.method)
    others = boards.runs_of(ranking.board, simple) if simple and simple != sizes.method else []
    rows: list[tuple[str, ...]] = []
    for name in sizes.slices:
        ratio, hidden = slice_ratio(runs, others, name, "mrr"), f"{hidden_rules(runs, name):,}"
        mean = _mean(ranking, sizes.method, slice_mean(runs, name, "mrr"))
        beside = f"{factor(ratio)} times {simple}" if ratio else NONE
        rows.append((list_name(ranking), _devices(name), hidden, f"{sizes.method} {mean}", beside))
    return rows


def _mean(ranking: RankedBoard, label: str, mean: SliceMean | None) -> str:
    return f"{interval(mean.value, mean.low, mean.high)}{sign_of(ranking, label)}" if mean else NONE


@dataclass(frozen=True, slots=True, eq=False)
class Unseen:
    """The best method of a list on the hidden rules that no training home has."""

    ranking: RankedBoard
    method: str
    mean: SliceMean
    methods: int  # of how many it is the best

    @property
    def mrr(self) -> str:
        """0.0360 [0.0083, 0.0638]."""
        return _mean(self.ranking, self.method, self.mean)

    @property
    def missed(self) -> str:
        """93 % [85, 100], of a hit rate."""
        return percent(1 - self.mean.value, 1 - self.mean.high, 1 - self.mean.low) + sign_of(self.ranking, self.method)


def _unseen(ranking: RankedBoard, metric: str) -> Unseen | None:
    """None where there are few such rules."""
    found = {
        label: mean
        for label in competitors(ranking)
        if (mean := slice_mean(boards.runs_of(ranking.board, label), "unseen", metric)) and mean.hidden >= MIN_HIDDEN
    }
    best = max(found, key=lambda label: found[label].value, default=None)
    return None if best is None or track_of(ranking) != "types" else Unseen(ranking, best, found[best], len(found))


def _best_of(found: Sequence[Unseen]) -> str:
    """Among how many methods the best of each list was picked."""
    least, most = min(each.methods for each in found), max(each.methods for each in found)
    return f"the best of {counted(most, 'method') if least == most else f'{least} to {most} methods'}"


def rules_unseen_in_training(inputs: Inputs) -> Statement:
    """How many hidden rules no training home has, and the best method on them."""
    found = [unseen for each in main_rankings(inputs) if (unseen := _unseen(each, "mrr, all"))]
    if not found:
        raise Missing(f"no data set has {MIN_HIDDEN} hidden rules that no training home has", RUN_RIVALS)
    shares, rows = [], []
    for each in found:
        seen = slice_mean(boards.runs_of(each.ranking.board, each.method), "seen", "mrr, all")
        shares.append(each.mean.hidden / (each.mean.hidden + (seen.hidden if seen else 0)))
        beside = _mean(each.ranking, each.method, seen)
        mine = f"{each.mean.hidden:,}", f"{each.method} {each.mrr}"
        rows.append((list_name(each.ranking), f"{100 * shares[-1]:.0f} %", *mine, beside))
    share = " to ".join(dict.fromkeys(f"{100 * end:.0f} %" for end in (min(shares), max(shares))))
    *_, top = extremes(found, lambda each: each.mean.value)
    most = "at most " if len(found) > 1 else ""
    seeds = counted(len(boards.runs_of(top.ranking.board, top.method)), "seed")
    headline = (
        f"{share} of hidden rules occur in no training home; {_best_of(found)} on them has an MRR of {most}{top.mrr} "
        f"({list_name(top.ranking)}, {top.mean.hidden:,} rules over {seeds})."
    )
    caption = (
        f"Hidden rules that no training home has, {_best_of(found)} on them by MRR among {EVERY}, and the same method "
        "on rules that some training home has. The best is picked on these rules, which may be few, and looks better "
        "than it is. Their number is that of all seeds; intervals are over seeds."
    )
    columns = ("data", "share unseen", "unseen rules", "best, MRR", "its MRR, seen")
    return Statement(headline, (table(caption, columns, rows),), runs_of_all(each.ranking for each in found))


@dataclass(frozen=True, slots=True, eq=False)
class Missed:
    """Hidden rules that the first ten of the first method do not have."""

    ranking: RankedBoard
    method: str
    share: tuple[float, float, float]  # with its interval

    @property
    def left_out(self) -> str:
        """18 %, of all hidden rules of all seeds; none where the list is not closed."""
        runs = boards.runs_of(self.ranking.board, self.method)
        if not runs[0].suffix:
            return "none"
        every, closed = (sum(run.summary.get(name, math.nan) for run in runs) for name in ("hidden", "hidden, closed"))
        return f"{100 * (1 - closed / every):.0f} %" if every and math.isfinite(closed) else NONE

    @property
    def text(self) -> str:
        """10 % [6, 15]."""
        return percent(*self.share) + sign_of(self.ranking, self.method)


def what_remains_open(inputs: Inputs) -> Statement:
    """Hidden rules that the first method does not have among its first ten, and of those that no training home has."""
    found = [missed for each in main_rankings(inputs) if (missed := _missed(each))]
    if not found:
        raise Missing("no hit rates by home", RUN_RIVALS)
    unseen = {each.ranking: of_it for each in found if (of_it := _unseen(each.ranking, "hr@10, all"))}
    ends = " to ".join(f"{each.text} ({list_name(each.ranking)})" for each in extremes(found, lambda e: e.share[0]))
    headline = f"In ten recommendations the best method misses {ends} of the hidden rules that count in its list"
    caption = (
        "Left out: the share of the hidden rules with an orphan, a device without a known rule, which do not count in "
        "closed lists. Missed: of the others those that are not among the first ten of the best method by MRR."
    )
    columns = ["list", "left out", "missed"]
    rows = [[list_name(each.ranking), each.left_out, f"{each.method} {each.text}"] for each in found]
    if unseen:
        top, *_ = extremes(list(unseen.values()), lambda each: 1 - each.mean.value)
        who = _best_of(list(unseen.values()))
        least = "at least " if len(unseen) > 1 else ""
        headline += f"; {who} misses {least}{top.missed} of hidden rules that no training home has"
        caption += (
            f" Unseen: of those that no training home has, with and without orphans, missed by {who} on them among "
            f"{EVERY}; intervals over seeds."
        )
        columns.append("unseen, missed")
        for row, each in zip(rows, found, strict=True):
            of_it = unseen.get(each.ranking)
            row.append(f"{of_it.method} {of_it.missed}" if of_it else NONE)
    return Statement(f"{headline}.", (table(caption, columns, rows),), runs_of_all(each.ranking for each in found))


def _missed(ranking: RankedBoard) -> Missed | None:
    best, metric = next(iter(competitors(ranking)), None), ranking.board.metric("hr@10{list}")
    if best is None or not ranking.board.has(metric):
        return None
    hits, low, high = share_of(ranking.board, best, metric)
    return Missed(ranking, best, (1 - hits, 1 - high, 1 - low))
