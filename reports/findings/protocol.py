"""What the paper's protocol hides: its AUC against random non-rules, beside AUC against feasible rules and MRR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from benchmarks.results.leaderboard import Board
from reports import boards
from reports.boards import RankedBoard
from reports.findings.numbers import ONE_SEED, interval, share_of, value_of
from reports.findings.statement import Statement, sentence, table
from reports.inputs import IFTTT, Inputs
from reports.outputs import RUN, Missing, Table
from reports.places import both_protocols, competitors, list_name
from reports.slices import over_seeds

EXAMPLES = ("graphrule", "popularity")  # of what AUC and MRR say of a method
NAIVE = "popularity"
NEARLY_PERFECT = 0.95  # AUC
LEAST_METHODS = 4  # for a rank correlation


@dataclass(frozen=True, slots=True)
class Correlation:
    """Spearman's, of the methods that both lists have with their defaults: mean over seeds; NaN where it is unknown."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "unknown"
        return f"{self.value:.2f}" + ("" if math.isnan(self.low) else f" [{self.low:.2f}, {self.high:.2f}]")


def what_the_protocol_hides(inputs: Inputs) -> Statement:
    """AUC against random non-rules, against feasible ones, and MRR: of the paper's network, and over all methods."""
    pairs = both_protocols(inputs, LEAST_METHODS)
    if not pairs:
        raise Missing(f"no data set has {LEAST_METHODS} methods by both protocols", RUN)
    at = next((n for n, (_, each) in enumerate(pairs) if boards.data_name(each.board) in IFTTT.data), 0)
    paper, ranking = pairs[at]
    values = {
        method: [interval(*share_of(paper, method, metric)) for metric in ("auc", "auc_feasible")]
        for method in EXAMPLES
        if method in paper.methods() and method in ranking.ordered
    }
    details: list[str | Table] = []
    if values:
        caption = (
            f"On {list_name(ranking)}: AUC against random non-rules, as in the paper; AUC against rules that the home "
            "could have; MRR of the ranking."
        )
        rows = [(method, *aucs, value_of(ranking, method)) for method, aucs in values.items()]
        details.append(table(caption, ("method", "AUC, random", "AUC, feasible", "MRR"), rows))
    by_auc, by_feasible = (
        [_correlation(each, ranked, metric) for each, ranked in pairs] for metric in ("auc", "auc_feasible")
    )
    many = [len(set(each.methods()) & set(competitors(ranked))) for each, ranked in pairs]
    names = [list_name(ranked) for _, ranked in pairs]
    rows = [(name, str(n), str(a), str(b)) for name, n, a, b in zip(names, many, by_auc, by_feasible, strict=True)]
    caption = "Rank correlation of methods by MRR and by each AUC: mean over seeds, interval over seeds."
    details.append(table(caption, ("data", "methods", "AUC, random", "AUC, feasible"), rows))
    runs = tuple(run for each, ranked in pairs for board in (each, ranked.board) for _, run in board.runs)
    order = _order(by_auc, at, "it" if NAIVE in values else "the paper's AUC")
    if NAIVE in values:
        auc, *_ = share_of(paper, NAIVE, "auc")
        shown = f"{values[NAIVE][0]} on {names[at]}"
        looks = f"looks nearly perfect ({shown})" if auc >= NEARLY_PERFECT else f"has {shown}"
        order = f"by the paper's AUC {NAIVE} {looks}, and {order}"
    return Statement(sentence(order), tuple(details), runs)


def _order(found: Sequence[Correlation], at: int, auc: str) -> str:
    """What the order of methods by this AUC says of their order by MRR; on how many data sets it is so."""
    here = found[at]
    if math.isnan(here.value):
        return f"the rank correlation of methods by {auc} and by MRR is unknown"
    if math.isnan(here.low):
        return f"the rank correlation of methods by {auc} and by MRR is {here} ({ONE_SEED})"
    if here.low <= 0 <= here.high:
        return f"the order of methods by {auc} shows no relation to that by MRR: rank correlation {here}"
    like = sum(each.high < 0 if here.high < 0 else each.low > 0 for each in found)
    order, side = ("lower by MRR", "below") if here.high < 0 else ("higher by MRR too", "above")
    many = f", {side} 0 on {like} of {len(found)} data sets" if len(found) > 1 else ""
    return f"methods that rank higher by {auc} rank {order}: rank correlation {here}{many}"


def _correlation(paper: Board, ranking: RankedBoard, metric: str) -> Correlation:
    methods = [label for label in competitors(ranking) if label in paper.methods()]
    by_seed = []
    for seed in sorted({run.key.seed for _, run in paper.runs}):
        values = {
            label: (_at(paper, label, seed, metric), _at(ranking.board, label, seed, ranking.metric))
            for label in methods
        }
        both = pd.DataFrame(values.values()).dropna()
        if len(both) >= LEAST_METHODS:
            by_seed.append(float(both[0].rank().corr(both[1].rank())))
    if not by_seed or not all(map(math.isfinite, by_seed)):
        return Correlation(math.nan)
    mean, low, high = over_seeds(by_seed)
    return Correlation(mean) if math.isnan(low) else Correlation(mean, max(low, -1.0), min(high, 1.0))


def _at(board: Board, label: str, seed: int, metric: str) -> float:
    runs = [run for run in boards.runs_of(board, label) if run.key.seed == seed]
    return runs[0].summary.get(metric, math.nan) if runs else math.nan
