"""What federation costs, and what the corrections of the paper's Algorithm 2 add to the same without them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.results.compare import Ratio, refuse_mixed
from benchmarks.results.formulations import FEDERATED_METHODS
from benchmarks.results.leaderboard import Board
from benchmarks.results.store import Result
from datasets.common.errors import DataError, counted
from reports import boards
from reports.boards import RankedBoard
from reports.findings.numbers import (
    BY_INTERVALS,
    HIGHER,
    LOWER,
    UNDECIDED,
    extremes,
    factor,
    of_difference,
    of_ratio,
    percent,
    sign_of,
    tally,
    value_of,
)
from reports.findings.statement import Statement, runs_of_all, sentence, table
from reports.inputs import Inputs
from reports.outputs import BUILD, RUN, RUN_RIVALS, Missing, Table
from reports.places import labels_by_method, list_name, main_rankings, paper_boards, ranking_beside
from reports.text.formats import NONE

OURS, PAPERS = "fedrank", "fedrule"  # federated methods that are named, whatever they cost
ALGORITHM_2, WITHOUT = "fedrule", "fedgnn"
BOTH = f"Algorithm 2 ({ALGORITHM_2})", f"the same without corrections ({WITHOUT})"
CHANCE = "random"  # order of the list
COIN = f"{math.log(2):.3f} (ln 2)"  # the loss of 1/2 for every rule and non-rule


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two methods on a list, one as a multiple of the other."""

    ranking: RankedBoard
    method: str
    other: str
    ratio: Ratio
    verdict: str  # of the interval of the ratio
    sign: str  # where the training of one of them went wrong

    @property
    def share(self) -> str:
        """97 % [95, 100]."""
        return percent(self.ratio.value, self.ratio.low, self.ratio.high) + self.sign

    @property
    def times(self) -> str:
        """1.20 [0.98, 1.48]."""
        return factor(self.ratio) + self.sign


def _pair(ranking: RankedBoard, method: str, other: str) -> Pair | None:
    """None where one of them was not run."""
    label_of = labels_by_method(ranking)
    if method not in label_of or other not in label_of:
        return None
    labels = label_of[method], label_of[other]
    ratio = ranking.ratio(*labels)
    return None if ratio is None else Pair(ranking, method, other, ratio, of_ratio(ratio), sign_of(ranking, *labels))


def _ends(pairs: Sequence[Pair]) -> list[Pair]:
    """Those with the lowest and the highest ratio."""
    return extremes(pairs, lambda pair: pair.ratio.value)


def _verdicts(pairs: Sequence[Pair], *, total: bool = True) -> str:
    return tally([pair.verdict for pair in pairs], total=total)


def cost_of_federation(inputs: Inputs) -> Statement:
    """Of its central twin's MRR: what fedrank and the paper's method keep, and the least that any keeps."""
    of_list = {
        ranking: [
            pair for method in FEDERATED_METHODS for twin in method.twins if (pair := _pair(ranking, method.name, twin))
        ]
        for ranking in main_rankings(inputs)
    }
    of_list = {ranking: pairs for ranking, pairs in of_list.items() if pairs}
    if not of_list:
        raise Missing("no federated method was ranked beside its central twin", RUN_RIVALS)
    pairs = [pair for found in of_list.values() for pair in found]
    ours, papers = ([pair for pair in pairs if pair.method == name] for name in (OURS, PAPERS))
    twin, said = "of the MRR of its central twin", []
    if ours:
        said.append(
            f"{OURS} has {' to '.join(each.share for each in _ends(ours))} {twin} ({BY_INTERVALS} {_verdicts(ours)})"
        )
    if papers:
        least = f"{'as little as ' if len(papers) > 1 else ''}{_ends(papers)[0].share}"
        same = len(ours) == len(papers)
        by = "" if ours else f"{BY_INTERVALS} "
        said.append(
            f"the paper's {PAPERS} {least if ours else f'has {least} {twin}'} ({by}{_verdicts(papers, total=not same)})"
        )
    if not said:
        worst = _ends(pairs)[0]
        said.append(f"{worst.method} on {list_name(worst.ranking)} has {worst.share} {twin}, the least of all methods")
    headline = f"{'; '.join(said)}." if ours else sentence("; ".join(said))  # the name of a method stays as it is
    return Statement(headline, (_shares(of_list),), runs_of_all(of_list))


def _shares(of_list: Mapping[RankedBoard, Sequence[Pair]]) -> Table:
    """A row for each list: both named methods, and the least of all."""
    twins = {pair.method: pair.other for pairs in of_list.values() for pair in pairs if pair.method in (OURS, PAPERS)}
    named = [name for name in (OURS, PAPERS) if name in twins]
    rows = [
        (
            list_name(ranking),
            *(next((_share_cell(pair) for pair in pairs if pair.method == name), NONE) for name in named),
            f"{(worst := _ends(pairs)[0]).method} of {worst.other}: {_share_cell(worst)}",
        )
        for ranking, pairs in of_list.items()
    ]
    many = [len(pairs) for pairs in of_list.values()]
    picked = counted(max(many), "pair") if min(many) == max(many) else f"{min(many)} to {max(many)} pairs"
    caption = (
        "MRR of a federated method as a share of that of its central twin, the same kind of method with all data in "
        f"one place. The least is picked among {picked} of each list."
    )
    return table(caption, ("list", *(f"{name} of {twins[name]}" for name in named), "least of all"), rows)


def _share_cell(pair: Pair) -> str:
    return f"{pair.share}, {pair.verdict}"


def what_algorithm_2_buys(inputs: Inputs) -> Statement:
    """FedRule against FedGNN: in ranking with their defaults, and by the paper's measures in the paper's setting."""
    said: dict[Callable[[Inputs], Statement], str] = {}
    details: list[str | Table] = []
    runs: list[Result] = []
    missing: list[Missing | DataError] = []
    for part in (_by_rank, _in_papers_setting):
        try:
            stated = part(inputs)
        except (Missing, DataError) as why:  # the other part may still say something
            missing.append(why)
            command = why.command if isinstance(why, Missing) else f"{BUILD} --results DIR"
            details.append(f"Not known: {str(why).rstrip('.')} (`{command}`).")
            continue
        said[part] = stated.headline
        details += stated.details
        runs += stated.runs
    if not said:
        raise next((why for why in missing if isinstance(why, DataError)), missing[0])
    begin = "" if _by_rank in said else f"{' against '.join(BOTH)}, {BY_INTERVALS}: "  # whose, and by what
    return Statement(sentence(begin + "; ".join(said.values())), tuple(details), tuple(runs))


def _by_rank(inputs: Inputs) -> Statement:
    """Half a sentence and a table."""
    pairs = [pair for each in main_rankings(inputs) if (pair := _pair(each, ALGORITHM_2, WITHOUT))]
    if not pairs:
        raise Missing(f"{ALGORITHM_2} and {WITHOUT} were not ranked on the same data", RUN_RIVALS)
    ours, theirs = BOTH
    verdicts = tally([pair.verdict for pair in pairs], f"that of {theirs}")
    headline = f"{BY_INTERVALS} the MRR of {ours} is {verdicts}"
    shown = table(
        f"MRR of {ALGORITHM_2} as a multiple of that of {WITHOUT}, both with their defaults.",
        ("list", "MRR", "verdict"),
        [(list_name(pair.ranking), f"{pair.times} times", pair.verdict) for pair in pairs],
    )
    return Statement(headline, (shown,), runs_of_all(pair.ranking for pair in pairs))


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of both methods and of chance; of a method that diverged, with how many seeds."""

    name: str
    ours: str
    theirs: str
    verdict: str  # empty where one diverged
    chance: str = NONE

    @property
    def said(self) -> str:
        """Its MRR is lower (0.0848 [0.0705, 0.0991] against 0.246 [0.188, 0.304])."""
        both = f"{self.ours} against {self.theirs}"
        told = {HIGHER: HIGHER, LOWER: LOWER, UNDECIDED: "not shown to differ"}.get(self.verdict)
        return f"its {self.name} is {f'{told} ({both})' if told else both}"


def _in_papers_setting(inputs: Inputs) -> Statement:
    """By MRR and by the paper's measures, on the first data that has both methods in the setting that it states."""
    for board in paper_boards(inputs):
        if (found := _with_papers_setting(board)) is not None:
            break
    else:
        what = f"{ALGORITHM_2} and {WITHOUT} were not run with preset=paper by the protocol paper on the same data"
        raise Missing(what, RUN)
    kept, ours, theirs = found
    loss, auc = (
        replace(_measure(inputs, kept, metric, ours, theirs), chance=chance)
        for metric, chance in (("loss", COIN), ("auc", "0.5"))
    )
    rank, ranked = _rank_in_papers_setting(inputs, board)
    measures = [*([rank] if rank else []), loss, auc]
    where = f"in the paper's setting on {boards.data_name(board)}"
    shown = table(
        f"The paper's setting (preset=paper) on {boards.short_title(board)}. A lower loss is better. By chance: random "
        "order of the list, and a coin, which says 1/2 of every rule and non-rule.",
        ("measure", ALGORITHM_2, WITHOUT, "verdict", "by chance"),
        [(each.name, each.ours, each.theirs, each.verdict or NONE, each.chance) for each in measures],
    )
    runs = tuple(run for _, run in kept.runs) + ranked
    return Statement(f"{where} {' and '.join(each.said for each in measures[:-1])}", (shown,), runs)


def _with_papers_setting(board: Board, *others: str) -> tuple[Board, str, str] | None:
    """The rows of both methods in the setting that the paper states, and of others; None without both."""
    label_of = {run.key.method: label for label, run in board.runs if run.overrides.parameters == {"preset": "paper"}}
    if not {ALGORITHM_2, WITHOUT} <= label_of.keys():
        return None
    ours, theirs = label_of[ALGORITHM_2], label_of[WITHOUT]
    return boards.with_rows(board, [ours, theirs, *others]), ours, theirs


def _rank_in_papers_setting(inputs: Inputs, board: Board) -> tuple[Measure | None, tuple[Result, ...]]:
    """Their MRR on the same homes and hidden rules, and the runs that it is of; nothing where they were not ranked."""
    beside = ranking_beside(inputs, board)
    found = _with_papers_setting(beside, CHANCE) if beside else None
    if beside is None or found is None:
        return None, ()
    kept, ours, theirs = found
    both = boards.with_rows(kept, [ours, theirs])
    measure = _measure(inputs, both, kept.headline, ours, theirs)
    if CHANCE in kept.methods():
        measure = replace(measure, chance=value_of(boards.ranked_board(inputs, kept, kept.headline), CHANCE))
    return measure, tuple(run for _, run in kept.runs)


def _measure(inputs: Inputs, board: Board, metric: str, ours: str, theirs: str) -> Measure:
    diverged = {label: many for label in (ours, theirs) if (many := _diverged_seeds(board, label, metric))}
    finite = boards.with_rows(board, [label for label in (ours, theirs) if label not in diverged])
    ranking = boards.ranked_board(inputs, finite, metric) if finite.runs else None
    mine, other = (
        value_of(ranking, label) if ranking and label not in diverged else diverged[label] for label in (ours, theirs)
    )
    versus = ranking.against(ours, theirs) if ranking and not diverged else None
    return Measure(boards.metric_name(metric), mine, other, of_difference(versus) if versus else "")


def _diverged_seeds(board: Board, label: str, metric: str) -> str:
    """In words, with how many seeds a row has no finite value where another row has one; empty where with none.

    Of the same seed: another one hides other rules, and in closed lists not every home has one that counts.
    """
    refuse_mixed([run for _, run in board.runs])
    lacking: dict[tuple[str, int], set[str]] = {}
    for each, run in board.runs:
        values = run.homes("user", metric)
        there = np.isfinite(values[metric].to_numpy(dtype=np.float64))
        lacking[each, run.key.seed] = set(values["user"][~there]) if there.any() else set(values["user"]) | {""}
    mine = {seed: users for (each, seed), users in lacking.items() if each == label}
    others = {seed: [users for (each, at), users in lacking.items() if each != label and at == seed] for seed in mine}
    bad = [seed for seed, users in mine.items() if "" in users or any(users - other for other in others[seed])]
    return f"NaN or infinite with {len(bad)} of {counted(len(mine), 'seed')}" if bad else ""
