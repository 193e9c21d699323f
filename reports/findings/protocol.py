"""What the paper's protocol hides: its AUC against random non-rules, beside AUC against feasible rules and MRR.

The paper's methods have a place of their own: both orders are compared with them and without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from benchmarks.results.leaderboard import Board
from benchmarks.results.papers import fedrule_numbers
from datasets.common.errors import DataError
from reports import boards
from reports.boards import PAPER_METHODS, RankedBoard
from reports.findings.numbers import ONE_SEED, interval, share_of, value_of
from reports.findings.statement import Statement, sentence, table
from reports.inputs import IFTTT, Inputs
from reports.outputs import RUN, Missing, Table
from reports.places import both_protocols, competitors, list_name, main_rankings, paper_boards
from reports.slices import over_seeds
from reports.text.formats import NONE, join_names

NETWORK, NAIVE = "graphrule", "popularity"
EXAMPLES = (NETWORK, NAIVE)  # of what AUC and MRR say of a method
OTHERS = "the others"
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
    """The paper's methods by its AUC and by MRR, AUC against feasible rules, and how alike both orders are."""
    pairs = both_protocols(inputs, LEAST_METHODS)
    if not pairs:
        raise Missing(f"no data set has {LEAST_METHODS} methods by both protocols", RUN)
    at = next((n for n, (_, each) in enumerate(pairs) if boards.data_name(each.board) in IFTTT.data), 0)
    papers = [name for name in PAPER_METHODS if all(name in _in_both(*each) for each in pairs)]
    ranked = main_rankings(inputs)
    said = [*_network(pairs[at], ranked), *_papers_place(pairs, papers)]
    if not said:
        where, here = list_name(pairs[at][1]), _correlation(*pairs[at], "auc")
        single = f", {ONE_SEED}" if math.isfinite(here.value) and math.isnan(here.low) else ""
        said.append(f"the rank correlation of methods by the paper's AUC and by MRR is {here} ({where}{single})")
    details = [*_examples(*pairs[at]), _order_table(pairs, papers), *_published(inputs)]
    runs = {run.key.hash: run for paper, ranking in pairs for board in (paper, ranking.board) for _, run in board.runs}
    runs |= {run.key.hash: run for each in ranked for _, run in each.board.runs if run.key.method in EXAMPLES}
    return Statement(sentence("; ".join(said)), tuple(details), tuple(runs.values()))


def _network(pair: tuple[Board, RankedBoard], ranked: Sequence[RankedBoard]) -> list[str]:
    """The AUC of the paper's network, and on how many lists it has less MRR than popularity."""
    paper, ranking = pair
    both = [each for each in ranked if set(EXAMPLES) <= set(each.ordered)]
    if NETWORK not in paper.methods() or not both:
        return []
    auc, low, high = share_of(paper, NETWORK, "auc")
    shown = f"{interval(auc, low, high)} on {list_name(ranking)}"
    looks = f"looks nearly perfect ({shown})" if auc >= NEARLY_PERFECT else f"has {shown}"
    below = [each for each in both if each.ordered.index(NETWORK) > each.ordered.index(NAIVE)]
    apart = sum(each.told_apart(NETWORK, NAIVE) for each in below)
    if len(both) == 1:
        where = f"{'' if below else 'not '}below {NAIVE} on the only list"
        told = f", {'' if apart else 'not '}told apart" if below else ""
    else:
        where, told = f"below {NAIVE} on {len(below) or 'none'} of {len(both)} lists", f", told apart on {apart}"
    return [f"by the paper's AUC {NETWORK} {looks}, by MRR it is {where}{told if below else ''}"]


def _papers_place(pairs: Sequence[tuple[Board, RankedBoard]], papers: Sequence[str]) -> list[str]:
    """On how many data sets the paper's methods are before all others by AUC, and behind all others by MRR."""
    if not papers or any(set(_in_both(*each)) <= set(papers) for each in pairs):
        return []
    by_auc = sum(set(_by_auc(*each)[: len(papers)]) == set(papers) for each in pairs)
    by_rank = sum(set(_in_both(*each)[-len(papers) :]) == set(papers) for each in pairs)
    counts = sorted({len(_in_both(*each)) for each in pairs})
    many = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    are = "are" if papers[1:] else "is"
    named = "the paper's three" if papers == list(PAPER_METHODS) else join_names(papers)
    who = f"of {many} methods by both protocols {named} {are}"
    if len(pairs) == 1:
        first, last = (f"{'' if so else 'not '}{word}" for so, word in ((by_auc, "first"), (by_rank, "last")))
        return [f"{who} {first} by AUC and {are} {last} by MRR on the only data set"]
    on_first, on_last = (str(found) if found else "none" for found in (by_auc, by_rank))
    return [f"{who} first by AUC on {on_first} and last by MRR on {on_last} of {len(pairs)} data sets"]


def _in_both(paper: Board, ranking: RankedBoard) -> list[str]:
    """The methods by both protocols, best by MRR first; without chance and probes."""
    return [label for label in competitors(ranking) if label in paper.methods()]


def _by_auc(paper: Board, ranking: RankedBoard) -> list[str]:
    """The same by the paper's AUC; those without one are last."""

    def auc(label: str) -> float:
        values = [run.summary.get("auc", math.nan) for run in boards.runs_of(paper, label)]
        return sum(values) / len(values) if all(map(math.isfinite, values)) else -math.inf

    return sorted(_in_both(paper, ranking), key=auc, reverse=True)


def _examples(paper: Board, ranking: RankedBoard) -> list[Table]:
    rows = [
        (
            name,
            *(interval(*share_of(paper, name, metric)) for metric in ("auc", "auc_feasible")),
            value_of(ranking, name),
        )
        for name in EXAMPLES
        if name in paper.methods() and name in ranking.ordered
    ]
    caption = (
        f"On {list_name(ranking)}: AUC against random non-rules, as in the paper; AUC against rules that the home "
        "could have; MRR of the ranking."
    )
    return [table(caption, ("method", "AUC, random", "AUC, feasible", "MRR"), rows)] if rows else []


def _order_table(pairs: Sequence[tuple[Board, RankedBoard]], papers: Sequence[str]) -> Table:
    """How alike the orders by AUC and by MRR are, with the paper's methods and without them."""
    rows = []
    for paper, ranking in pairs:
        alike = [_correlation(paper, ranking, metric) for metric in ("auc", "auc_feasible")]
        alike.append(_correlation(paper, ranking, "auc", without=papers))
        rows.append((list_name(ranking), ", ".join(_by_auc(paper, ranking)), *map(str, alike)))
    caption = (
        "Methods by both protocols, and the rank correlation of their orders by MRR and by each AUC: mean over seeds, "
        f"interval over seeds. {OTHERS[0].upper()}{OTHERS[1:]}: without the paper's ({join_names(papers) or NONE})."
    )
    columns = ("data", "by AUC, best first", "AUC, random", "AUC, feasible", f"AUC, random, {OTHERS}")
    return table(caption, columns, rows)


def _published(inputs: Inputs) -> list[Table]:
    """The paper's AUC on its recipes beside that of its setting on ours; nothing where that was not run."""
    for board in paper_boards(inputs):
        label_of = {
            run.key.method: label for label, run in board.runs if run.overrides.parameters == {"preset": "paper"}
        }
        if label_of and boards.data_name(board) in IFTTT.data:
            break
    else:
        return []
    published, rows = fedrule_numbers()["results"][IFTTT.name], []
    for name in PAPER_METHODS:
        try:
            ours = interval(*share_of(board, label_of[name], "auc")) if name in label_of else ""
        except DataError:  # its tables are gone; the other numbers say enough
            continue
        if ours:
            rows.append((name, ours, f"{published[name][1]:.3f}"))
    caption = (
        f"A check: AUC against random non-rules in the paper's setting (preset=paper) on {boards.short_title(board)}, "
        "and what the paper reports on its own recipes."
    )
    return [table(caption, ("method", "AUC here", "AUC in the paper"), rows)] if rows else []


def _correlation(paper: Board, ranking: RankedBoard, metric: str, *, without: Sequence[str] = ()) -> Correlation:
    methods = [label for label in _in_both(paper, ranking) if label not in without]
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
