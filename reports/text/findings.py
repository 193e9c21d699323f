"""Ten findings in sentences: each a function from the results to what they say, with numbers and 95 % intervals.

The wording follows the numbers: two methods are told apart by the paired test of the leaderboards, and a lead within
the interval is no lead. A finding whose results are missing says which command makes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.results.compare import Comparison, refuse_mixed
from benchmarks.results.formulations import formulation_of
from benchmarks.results.leaderboard import Board
from benchmarks.results.store import Result
from datasets.common.errors import DataError, counted
from reports import boards
from reports.boards import RankedBoard
from reports.inputs import IFTTT, PLACES, WYZE, Inputs
from reports.outputs import BUILD, RUN, RUN_RIVALS, Missing, run_files
from reports.places import (
    USER_ITEM,
    best_label,
    both_protocols,
    competitors,
    main_rankings,
    paper_boards,
    split_rankings,
    track_of,
)
from reports.scaling import RUN_SIZES, quality_lines
from reports.slices import (
    MIN_HIDDEN,
    SIZE,
    SliceMean,
    hidden_rules,
    over_seeds,
    size_slices,
    slice_mean,
    slice_ratio,
)
from reports.text.formats import join_names
from reports.text.intervals import interval, lead, percent, share_of, times, value_of, verdict

TWINS = (("fedrank", "graphrank"), ("fedcompgcn", "compgcn"), ("fedease", "ease"), ("fcf", "mf"), ("fedmf", "mf"))
TRACK_WORDS = {"types": "First with devices merged by type", "instances": "First among single devices"}
HOMES = (WYZE, IFTTT, next(role for role in PLACES if role.name == "home-assistant"))  # of homes by their size
BY_HOMES = ("graphrank", "ease", "graphrule")  # whose values by number of homes are named
EXAMPLES = ("graphrule", "popularity")  # of what AUC and MRR say of a method
LEAST_METHODS = 4  # for a rank correlation
EVERY = "all candidates"  # the list that has unseen rules: the valid filter leaves them out
HOW_TO_READ = (
    "Brackets: 95 % intervals over homes and seeds, over homes alone of one seed, over seeds alone where it says so. "
    f"Told apart: by the {boards.TIE_TEST}, which knows that the two were picked among many and so is stricter than "
    "the interval of their ratio; where it says paired, by the 95 % interval of their difference alone."
)
OVER_SEEDS = f"[{boards.CONFIDENCE} over seeds]"


@dataclass(frozen=True, slots=True)
class Statement:
    """What some runs say, in a sentence or two."""

    text: str
    runs: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A question to the results."""

    name: str  # of its anchor
    title: str
    command: str  # shows the numbers of its answer
    state: Callable[[Inputs], Statement]  # raises Missing


@dataclass(frozen=True, slots=True)
class Answer:
    """What results say to it."""

    finding: Finding
    text: str  # what is missing, where they say nothing
    command: str  # shows the numbers, or makes what is missing
    sources: tuple[str, ...]  # none where they say nothing

    @property
    def known(self) -> bool:
        """Whether they say something."""
        return bool(self.sources)


def findings(inputs: Inputs) -> list[Answer]:
    """The answers to all of FINDINGS."""
    return [_answer(finding, inputs) for finding in FINDINGS]


def _answer(finding: Finding, inputs: Inputs) -> Answer:
    try:
        stated = finding.state(inputs)
    except Missing as missing:
        return Answer(finding, f"These results do not say: {missing.what.rstrip('.')}.", missing.command, ())
    except DataError as error:  # results of different data, or their tables are gone
        return Answer(finding, f"These results do not say: {str(error).rstrip('.')}.", f"{BUILD} --results DIR", ())
    return Answer(finding, stated.text, finding.command, run_files(stated.runs))


def which_formulation(inputs: Inputs) -> Statement:
    """The leader of each place, its formulation, and whether it is told apart from all other formulations."""
    shown = [each for each in main_rankings(inputs) if competitors(each)]
    if not shown:
        raise Missing("no method was ranked", RUN_RIVALS)
    sentences = []
    for track, words in TRACK_WORDS.items():
        leads: dict[str, list[str]] = {}
        of_track = [each for each in shown if track_of(each) == track]
        apart = 0
        for each in of_track:
            best, *others = competitors(each)
            kind = _formulation(each, best)
            rival = next((label for label in others if _formulation(each, label) != kind), None)
            apart += rival is not None and each.told_apart(best, rival)
            leads.setdefault(kind, []).append(f"{each.board.runs[0][1].key.data} ({best}, MRR {value_of(each, best)})")
        if of_track:
            first = "; ".join(f"{kind} on {join_names(where)}" for kind, where in leads.items())
            many = f"{apart or 'none'} of {counted(len(of_track), 'data set')}"
            rest = f"told apart from the best method of another formulation on {many}"
            sentences.append(f"{words}: {first}; {rest}.")
    return _statement(sentences, shown)


def more_than_user_item(inputs: Inputs) -> Statement:
    """The best graph method over the best user-item method on each real data set."""
    shown = {
        each: said for each in main_rankings(inputs) if _is_real(each) and (said := lead(each, f"on {_data(each)}"))
    }
    if not shown:
        raise Missing("no graph method was ranked beside a user-item method on real data", RUN_RIVALS)
    text = "On real data the best graph method has so many times the MRR of the best user-item method: "
    return _statement([f"{text}{join_names(list(shown.values()))}."], shown)


def cost_of_federation(inputs: Inputs) -> Statement:
    """The lowest share of its central twin's MRR that each federated method keeps, and where they are told apart."""
    shown, used = main_rankings(inputs), dict[RankedBoard, None]()
    kept, apart = [], []
    for federated, central in TWINS:
        pairs = [
            (ratio, versus, each)
            for each in shown
            if federated in each.ordered and central in each.ordered
            if (ratio := each.ratio(federated, central)) and (versus := each.against(federated, central))
        ]
        if not pairs:
            continue
        used |= dict.fromkeys(each for *_, each in pairs)
        if all(versus.low == versus.high == 0 for _, versus, _ in pairs):
            kept.append(f"{federated} all of {central}")
            continue
        least, _, where = min(pairs, key=lambda pair: pair[0].value)
        sign = _sign(where, federated, central)
        kept.append(f"{federated} {percent(least.value, least.low, least.high)}{sign} of {central} on {_data(where)}")
        apart.append(f"{federated} {_lower_and_higher([versus for _, versus, _ in pairs])}")
    if not used:
        raise Missing("no federated method was ranked beside its central twin", RUN_RIVALS)
    lists = counted(len(used), "list")
    what = (
        f"What a federated method has of the MRR of its twin with all data in one place, where it is least of {lists}"
    )
    sentences = [f"{what}: {'; '.join(kept)}."]
    if apart:
        sentences.append(f"Where the two are told apart (paired, {boards.CONFIDENCE}): {', '.join(apart)}.")
    return _statement(sentences, used)


def what_algorithm_2_buys(inputs: Inputs) -> Statement:
    """FedRule against FedGNN: in ranking with their defaults, and by the paper's measures in the paper's setting."""
    return _together(inputs, _algorithm_2_in_ranking, _algorithm_2_by_loss)


def _algorithm_2_in_ranking(inputs: Inputs) -> Statement:
    shown = [
        (ratio, versus, each)
        for each in main_rankings(inputs)
        if "fedrule" in each.ordered and "fedgnn" in each.ordered
        if (ratio := each.ratio("fedrule", "fedgnn")) and (versus := each.against("fedrule", "fedgnn"))
    ]
    if not shown:
        raise Missing("fedrule and fedgnn were not ranked on the same data", RUN_RIVALS)
    ends = [pick(shown, key=lambda each: each[0].value) for pick in (min, max)][: min(len(shown), 2)]
    spread = " to ".join(
        f"{times(ratio)}{_sign(each, 'fedrule', 'fedgnn')} (on {_data(each)})" for ratio, _, each in ends
    )
    text = (
        f"With their defaults fedrule has {spread} the MRR of fedgnn; told apart (paired, {boards.CONFIDENCE}) it is "
        f"{_lower_and_higher([versus for _, versus, _ in shown])}."
    )
    return _statement([text], [each for *_, each in shown])


def _algorithm_2_by_loss(inputs: Inputs) -> Statement:
    """In the setting that the paper states, on the first data that has both methods."""
    for board in paper_boards(inputs):
        label_of = {run.key.method: label for label, run in board.runs if _is_papers_setting(run)}
        if {"fedrule", "fedgnn"} <= label_of.keys():
            break
    else:
        raise Missing("fedrule and fedgnn were not run with preset=paper by the protocol paper on the same data", RUN)
    ours, theirs = label_of["fedrule"], label_of["fedgnn"]
    kept = boards.with_rows(board, [ours, theirs])
    said = [_papers_measure(inputs, kept, metric, ours, theirs) for metric in ("loss", "auc")]
    text = f"In the paper's setting (preset=paper) on {boards.short_title(board)}: {'; '.join(said)}."
    return Statement(text, tuple(run for _, run in kept.runs))


def _papers_measure(inputs: Inputs, board: Board, metric: str, ours: str, theirs: str) -> str:
    """Both values and whether they differ; of a row that diverged, with how many seeds."""
    diverged = {label: many for label in (ours, theirs) if (many := _diverged_seeds(board, label, metric))}
    finite = boards.with_rows(board, [label for label in (ours, theirs) if label not in diverged])
    ranking = boards.ranked_board(inputs, finite, metric) if finite.runs else None
    values = [
        f"of {name} {value_of(ranking, label) if ranking and label not in diverged else diverged[label]}"
        for name, label in (("fedrule", ours), ("fedgnn", theirs))
    ]
    versus = ranking.against(ours, theirs) if ranking and not diverged else None
    return f"{boards.metric_name(metric)} {' and '.join(values)}{f' ({verdict(versus)})' if versus else ''}"


def _diverged_seeds(board: Board, label: str, metric: str) -> str:
    """In words, with how many seeds a row has no finite value where another row has one; empty where with none."""
    refuse_mixed([run for _, run in board.runs])
    lacking: dict[tuple[str, int], set[str]] = {}
    for each, run in board.runs:
        table = run.homes("user", metric)
        there = np.isfinite(table[metric].to_numpy(dtype=np.float64))
        lacking[each, run.key.seed] = set(table["user"][~there]) if there.any() else set(table["user"]) | {""}
    mine = {seed: users for (each, seed), users in lacking.items() if each == label}
    others = [users for (each, _), users in lacking.items() if each != label]
    bad = [seed for seed, users in mine.items() if "" in users or any(users - other for other in others)]
    return f"NaN or infinite with {len(bad)} of {counted(len(mine), 'seed')}" if bad else ""


def what_the_protocol_hides(inputs: Inputs) -> Statement:
    """AUC against random non-rules, against feasible ones, and MRR: of the paper's network, and over all methods."""
    pairs = both_protocols(inputs, LEAST_METHODS)
    if not pairs:
        raise Missing(f"no data set has {LEAST_METHODS} methods by both protocols", RUN)
    paper, ranking = next((each for each in pairs if each[1].board.runs[0][1].key.data in IFTTT.data), pairs[0])
    said = []
    for method in EXAMPLES:
        if method in paper.methods() and method in ranking.ordered:
            random, feasible = (share_of(paper, method, metric) for metric in ("auc", "auc_feasible"))
            said.append(
                f"{method} has AUC {interval(*random)} against random non-rules, "
                f"{interval(*feasible)} against rules that the home could have, and MRR "
                f"{value_of(ranking, method)}"
            )
    orders = [
        f"{_correlation(each, ranked, 'auc')} and {_correlation(each, ranked, 'auc_feasible')} on {_data(ranked)}"
        for each, ranked in pairs
    ]
    sentences = [f"On {_data(ranking)} {'; '.join(said)}."] if said else []
    sentences.append(
        f"The rank correlation of methods by MRR and by each of the two AUC is {join_names(orders)} {OVER_SEEDS}."
    )
    runs = [run for each, ranked in pairs for board in (each, ranked.board) for _, run in board.runs]
    return Statement(" ".join(sentences), tuple(runs))


def by_number_of_homes(inputs: Inputs) -> Statement:
    """MRR with the fewest and the most homes, and the lead of the best graph method over the best user-item method."""
    lines = quality_lines(inputs)
    said = []
    for method in BY_HOMES:
        line = lines.lines.get(method, [])
        if len(line) > 1:
            ends = [f"{interval(at.value, at.low, at.high)}{at.sign} of {at.homes:,}" for at in (line[0], line[-1])]
            said.append(f"{method} has MRR {' and '.join(ends)}")
    rankings = [boards.ranked_board(inputs, board, board.headline) for board in (lines.boards[0], lines.boards[-1])]
    leads = [text for each in rankings if (text := lead(each, f"with {each.board.runs[0][1].counts['homes']:,} homes"))]
    data = boards.data_name(rankings[0].board)
    sentences = [f"With so many homes of {data}, {'; '.join(said)}."] if said else []
    if leads:
        text = "The best graph method has so many times the MRR of the best user-item method: "
        sentences.append(f"{text}{join_names(leads)}.")
    if not sentences:
        raise Missing("neither graph nor user-item methods were run with two numbers of homes", RUN_SIZES)
    return _statement(sentences, rankings)


def by_size_of_homes(inputs: Inputs) -> Statement:
    """The leader in the smallest and in the largest homes that have enough hidden rules."""
    said: dict[RankedBoard, str] = {}
    for each in main_rankings(inputs, HOMES):
        best, simple = next(iter(competitors(each)), ""), best_label(each, USER_ITEM)
        runs = boards.runs_of(each.board, best)
        parts = [name for name in size_slices(runs) if hidden_rules(runs, name) >= MIN_HIDDEN]
        ends = []
        for name in (parts[0], parts[-1]) if len(parts) > 1 else ():
            if mean := slice_mean(runs, name, "mrr"):
                beside = boards.runs_of(each.board, simple) if simple and simple != best else []
                ratio = slice_ratio(runs, beside, name, "mrr")
                more = f" ({times(ratio)} {simple})" if ratio else ""
                devices = name.removeprefix(SIZE).replace(">", "more than ")
                ends.append(f"{interval(mean.value, mean.low, mean.high)} with {devices} devices{more}")
        if len(ends) == 2:
            said[each] = f"on {_data(each)} {best}{_sign(each, best)} has {ends[0]} and {ends[1]}"
    if not said:
        raise Missing(f"no data set has {MIN_HIDDEN} hidden rules in homes of two sizes", RUN_RIVALS)
    text = f"MRR of the best method in small and in large homes: {'; '.join(said.values())} {OVER_SEEDS}."
    return _statement([text], said)


def rules_unseen_in_training(inputs: Inputs) -> Statement:
    """How many hidden rules no training home has, and the best method on them."""
    shares, best_of, used = [], [], []
    for each in main_rankings(inputs):
        found = _unseen(each, "mrr, all")
        if found is None or track_of(each) != "types":
            continue
        best, mean = found
        seen = slice_mean(boards.runs_of(each.board, best), "seen", "mrr, all")
        whole = mean.hidden + (seen.hidden if seen else 0)
        shares.append(f"{100 * mean.hidden / whole:.0f} % on {_data(each)}")
        beside = f", where it has {interval(seen.value, seen.low, seen.high)} for others" if seen else ""
        mine = interval(mean.value, mean.low, mean.high)
        best_of.append(f"{best}{_sign(each, best)} {mine} on {_data(each)}{beside}")
        used.append(each)
    if not used:
        raise Missing(f"no data set has {MIN_HIDDEN} hidden rules that no training home has", RUN_RIVALS)
    sentences = [
        f"Hidden rules that no training home has: {join_names(shares)}.",
        f"Their highest MRR, among {EVERY}: {'; '.join(best_of)} {OVER_SEEDS}.",
    ]
    return _statement(sentences, used)


def homes_not_seen_in_training(inputs: Inputs) -> Statement:
    """The best graph method over the best user-item method, which folds new homes in by their rules."""
    rankings = split_rankings(inputs, "new_homes")
    shown = {each: said for each in rankings if (said := lead(each, f"on {_data(each)}"))}
    if not shown:
        raise Missing("no graph method was ranked beside a user-item method on homes not seen in training", RUN)
    text = (
        "In homes not seen in training the best graph method has so many times the MRR of the best user-item method: "
    )
    return _statement([f"{text}{join_names(list(shown.values()))}."], shown)


def what_remains_open(inputs: Inputs) -> Statement:
    """Hidden rules that the best list does not have among its first ten, and of those that no training home has."""
    missed, unseen, used = [], [], []
    for each in main_rankings(inputs):
        best, metric = next(iter(competitors(each)), None), each.board.metric("hr@10{list}")
        if best is None or not each.board.has(metric):
            continue
        hits, low, high = share_of(each.board, best, metric)
        missed.append(f"{percent(1 - hits, 1 - high, 1 - low)} on {_data(each)} ({best})")
        used.append(each)
        if track_of(each) == "types" and (found := _unseen(each, "hr@10, all")):
            label, mean = found
            unseen.append(f"{percent(1 - mean.value, 1 - mean.high, 1 - mean.low)} on {_data(each)} ({label})")
    if not used:
        raise Missing("no hit rates by home", RUN_RIVALS)
    sentences = [f"Hidden rules that the best list does not have among its first ten: {join_names(missed)}."]
    if unseen:
        text = f"Of those that no training home has, among {EVERY} (by the method with the fewest misses)"
        sentences.append(f"{text}: {join_names(unseen)} {OVER_SEEDS}.")
    return _statement(sentences, used)


def _together(inputs: Inputs, *parts: Callable[[Inputs], Statement]) -> Statement:
    """What each part says, and what is missing; missing where all are."""
    said: list[str] = []
    runs: list[Result] = []
    missing: list[Missing] = []
    failed: list[DataError] = []
    for part in parts:
        try:
            stated = part(inputs)
        except Missing as each:
            missing.append(each)
            said.append(f"Not known: {each.what} (`{each.command}`).")
            continue
        except DataError as each:  # results of different data, or their tables are gone
            failed.append(each)
            said.append(f"Not known: {str(each).rstrip('.')} (`{BUILD} --results DIR`).")
            continue
        said.append(stated.text)
        runs += stated.runs
    if not runs:
        raise (failed or missing)[0]
    return Statement(" ".join(said), tuple(runs))


def _lower_and_higher(pairs: Sequence[Comparison]) -> str:
    """On how many lists a method is told apart from another: lower on 2 and higher on 1 of 6."""
    tests = (lambda pair: pair.high < 0, lambda pair: pair.low > 0)
    lower, higher = (sum(map(test, [pair for pair in pairs if len(pair.seeds) > 1])) for test in tests)
    parts = [f"{word} on {many}" for word, many in (("lower", lower), ("higher", higher)) if many]
    return f"{' and '.join(parts) or 'on none'} of {len(pairs)}"


def _sign(ranking: RankedBoard, *labels: str) -> str:
    """Where the training of some of these rows went wrong."""
    return max(boards.row_sign(ranking.board, label) for label in labels)


def _statement(sentences: Sequence[str], shown: Iterable[RankedBoard]) -> Statement:
    return Statement(" ".join(sentences), tuple(run for each in shown for _, run in each.board.runs))


def _unseen(ranking: RankedBoard, metric: str) -> tuple[str, SliceMean] | None:
    """The best method on the hidden rules that no training home has; None where they are few."""
    found = {
        label: mean
        for label in competitors(ranking)
        if (mean := slice_mean(boards.runs_of(ranking.board, label), "unseen", metric)) and mean.hidden >= MIN_HIDDEN
    }
    best = max(found, key=lambda label: found[label].value, default=None)
    return None if best is None else (best, found[best])


def _formulation(ranking: RankedBoard, label: str) -> str:
    method = boards.runs_of(ranking.board, label)[0].key.method
    found = formulation_of(method)
    return found.name if found else method


def _data(ranking: RankedBoard) -> str:
    """The data set, and whether devices of one type are told apart."""
    name = boards.data_name(ranking.board)
    return name if track_of(ranking) == "types" else f"single devices of {name}"


def _is_real(ranking: RankedBoard) -> bool:
    return not boards.data_name(ranking.board).endswith("-synthetic")


def _is_papers_setting(run: Result) -> bool:
    return run.overrides.parameters == {"preset": "paper"}


def _correlation(paper: Board, ranking: RankedBoard, metric: str) -> str:
    """Spearman's, of the methods that both have with their defaults: mean over seeds."""
    methods = [label for label in competitors(ranking) if label in paper.methods()]
    by_seed = []
    for seed in sorted({run.key.seed for _, run in paper.runs}):
        values = {
            label: (_at(paper, label, seed, metric), _at(ranking.board, label, seed, ranking.metric))
            for label in methods
        }
        table = pd.DataFrame(values.values()).dropna()
        if len(table) >= LEAST_METHODS:
            by_seed.append(float(table[0].rank().corr(table[1].rank())))
    if not by_seed or not all(map(math.isfinite, by_seed)):
        return "unknown"
    mean, low, high = over_seeds(by_seed)
    return f"{mean:.2f}" if math.isnan(low) else f"{mean:.2f} [{max(low, -1):.2f}, {min(high, 1):.2f}]"


def _at(board: Board, label: str, seed: int, metric: str) -> float:
    runs = [run for run in boards.runs_of(board, label) if run.key.seed == seed]
    return runs[0].summary.get(metric, math.nan) if runs else math.nan


PUBLISHED = " --results published"
SHOW = "python -m reports.build --no-run"
FINDINGS = (
    Finding("formulation", "Which formulation wins", "python -m benchmarks leaderboard", which_formulation),
    Finding("user-item", "How much more than user-item methods", f"{SHOW} --only ratios", more_than_user_item),
    Finding(
        "federation", "What federation costs", "python -m benchmarks compare fedrank graphrank", cost_of_federation
    ),
    Finding(
        "algorithm-2", "What Algorithm 2 buys", "python -m benchmarks compare fedrule fedgnn", what_algorithm_2_buys
    ),
    Finding("protocol", "What the paper's protocol hides", f"{SHOW} --only leaderboard-paper", what_the_protocol_hides),
    Finding("homes", "How it changes with the number of homes", f"{SHOW} --only scaling-table", by_number_of_homes),
    Finding("home-size", "How it changes with the size of homes", f"{SHOW} --only home-sizes", by_size_of_homes),
    Finding("unseen-rules", "Rules unseen in training", f"{SHOW} --only home-sizes", rules_unseen_in_training),
    Finding("new-homes", "Homes not seen in training", f"{SHOW} --only ratios", homes_not_seen_in_training),
    Finding("open", "What remains open", f"{SHOW} --only leaderboard", what_remains_open),
)
