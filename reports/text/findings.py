"""Ten findings in sentences: each a function from the results to what they say, with numbers and 95 % intervals.

The wording follows the numbers: two methods are told apart by the paired test of the leaderboards, and a lead within
the interval is no lead. A finding whose results are missing says which command makes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.results.compare import Comparison, Ratio, refuse_mixed
from benchmarks.results.formulations import FEDERATED_METHODS
from benchmarks.results.leaderboard import Board
from benchmarks.results.store import Result
from datasets.common.errors import DataError, counted
from reports import boards
from reports.boards import RankedBoard
from reports.inputs import IFTTT, PLACES, WYZE, Inputs
from reports.outputs import BUILD, RUN, RUN_RIVALS, Missing, run_files
from reports.places import (
    GRAPH_METHODS,
    NETWORKS,
    SIMPLE,
    best_label,
    both_protocols,
    competitors,
    formulation_name,
    labels_by_method,
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
from reports.text.intervals import (
    DIFFERENCE,
    interval,
    lead,
    percent,
    share_of,
    times,
    value_of,
    verdict,
    verdict_of_all,
)

OURS, PAPERS = "fedrank", "fedrule"  # federated methods that are named, whatever they cost
TRACK_WORDS = {"types": "First with devices merged by type", "instances": "First among single devices"}
HOMES = (WYZE, IFTTT, next(role for role in PLACES if role.name == "home-assistant"))  # of homes by their size
BY_HOMES = ("graphrank", "ease", "graphrule")  # whose values by number of homes are named
EXAMPLES = ("graphrule", "popularity")  # of what AUC and MRR say of a method
BEST_SIMPLE = "the best simple method (user-item or popularity)"
LEAST_METHODS = 4  # for a rank correlation
EVERY = "all candidates"  # the list that has unseen rules: the valid filter leaves them out
HOW_TO_READ = (
    "Brackets: 95 % intervals over homes and seeds, over homes alone of one seed, over seeds alone where it says so. "
    "Where a value was picked among several, its interval is an ordinary one, which does not know of the others. "
    f"Told apart: by the {boards.TIE_TEST}. It knows that the two were picked among many, and so is stricter than "
    f"the interval of their ratio and than {DIFFERENCE} which is paired by home and seed: `compare` corrects, and may "
    "say otherwise. Where it is named, lists with one seed do not count."
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
    command: str  # shows numbers behind its answer
    state: Callable[[Inputs], Statement]  # raises Missing


@dataclass(frozen=True, slots=True)
class Answer:
    """What results say to it."""

    finding: Finding
    text: str  # what is missing, where they say nothing
    command: str  # shows numbers behind it, or makes what is missing
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
            kind = formulation_name(each, best)
            rival = next((label for label in others if formulation_name(each, label) != kind), None)
            apart += rival is not None and each.told_apart(best, rival)
            leads.setdefault(kind, []).append(f"{each.board.runs[0][1].key.data} ({best}, MRR {value_of(each, best)})")
        if of_track:
            first = "; ".join(f"{kind} on {join_names(where)}" for kind, where in leads.items())
            many = f"{apart or 'none'} of {counted(len(of_track), 'data set')}"
            rest = f"told apart from the best method of another formulation on {many}"
            sentences.append(f"{words}: {first}; {rest}.")
    return _statement(sentences, shown)


def more_than_user_item(inputs: Inputs) -> Statement:
    """The best graph method, and the best network among them, over the best simple method on each real data set."""
    where = {each: f"on {_data(each)}" for each in main_rankings(inputs) if _is_real(each)}
    if not (sentences := _leads("On real data the", where)):
        raise Missing("no graph method was ranked beside a simple method on real data", RUN_RIVALS)
    return _statement(sentences, [each for each in where if lead(each, "", GRAPH_METHODS)])


def _leads(begin: str, where: Mapping[RankedBoard, str]) -> list[str]:
    """A sentence on the best graph methods and one on the best networks; none where there is nothing to compare."""
    said = [
        [text for each, place in where.items() if (text := lead(each, place, methods))]
        for methods in (GRAPH_METHODS, NETWORKS)
    ]
    words = (
        f"{begin} best graph method (evidence, features or network) has so many times the MRR of {BEST_SIMPLE}",
        "For the best graph neural network it is",
    )
    return [f"{text}: {join_names(each)}." for text, each in zip(words, said, strict=True) if each]


def cost_of_federation(inputs: Inputs) -> Statement:
    """Of its central twin's MRR: what fedrank keeps, and the least that any federated method and the paper's keep."""
    pairs = [
        pair
        for ranking in main_rankings(inputs)
        for method in FEDERATED_METHODS
        for twin in method.twins
        if (pair := _twins(ranking, method.name, twin))
    ]
    if not pairs:
        raise Missing("no federated method was ranked beside its central twin", RUN_RIVALS)
    sentences = []
    if of_ours := [pair for pair in pairs if pair.federated == OURS]:
        ends = " to ".join(f"{pair.share} on {_data(pair.ranking)}" for pair in _ends(of_ours))
        of = f"of the MRR of {of_ours[0].central}, its twin with all data in one place{_both_picked(len(of_ours))}"
        verdict = verdict_of_all([pair.versus for pair in of_ours])
        sentences.append(f"{OURS} has {ends} {of}; {verdict}.")
    least = [f"{(worst := _ends(pairs)[0]).federated} {worst.share} of {worst.central} on {_data(worst.ranking)}"]
    if (of_papers := [pair for pair in pairs if pair.federated == PAPERS]) and worst.federated != PAPERS:
        worst = _ends(of_papers)[0]
        where = f"{worst.share} of {worst.central} on {_data(worst.ranking)}"
        least.append(f"{PAPERS}, the paper's, has at least {where} {_picked(len(of_papers), 'list')}".rstrip())
    what = "The least of all federated methods beside their twins"
    sentences.append(f"{what} {_picked(len(pairs), 'pair')}is {'; '.join(least)}.")
    return _statement(sentences, dict.fromkeys(pair.ranking for pair in pairs))


@dataclass(frozen=True, slots=True, eq=False)
class Twins:
    """A federated method beside its central twin on a list."""

    ranking: RankedBoard
    federated: str
    central: str
    ratio: Ratio
    versus: Comparison
    share: str  # of the twin's value, with its interval


def _twins(ranking: RankedBoard, federated: str, central: str) -> Twins | None:
    """None where one of them was not run."""
    label_of = labels_by_method(ranking)
    if federated not in label_of or central not in label_of:
        return None
    labels = label_of[federated], label_of[central]
    ratio, versus = ranking.ratio(*labels), ranking.against(*labels)
    if ratio is None or versus is None:
        return None
    share = percent(ratio.value, ratio.low, ratio.high) + _sign(ranking, *labels)
    return Twins(ranking, federated, central, ratio, versus, share)


def _ends(pairs: Sequence[Twins]) -> list[Twins]:
    """Those that keep least and most; one where there is one."""
    return [pick(pairs, key=lambda pair: pair.ratio.value) for pick in (min, max)][: len(pairs)]


def _both_picked(lists: int) -> str:
    """The same of a lowest and a highest value; empty where they are all that there is."""
    return f" (lowest and highest picked among {lists} lists)" if lists > 2 else ""


def _picked(number: int, noun: str) -> str:
    """That a lowest or highest value is one of so many; empty where there was nothing to pick from."""
    return f"(picked among {counted(number, noun)}) " if number > 1 else ""


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
    ends = [pick(shown, key=lambda each: each[0].value) for pick in (min, max)][: len(shown)]
    spread = " to ".join(
        f"{times(ratio)}{_sign(each, 'fedrule', 'fedgnn')} (on {_data(each)})" for ratio, _, each in ends
    )
    text = (
        f"With their defaults fedrule has {spread} the MRR of fedgnn{_both_picked(len(shown))}; "
        f"{verdict_of_all([versus for _, versus, _ in shown])}."
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
    """MRR with the fewest and the most homes, and the lead of the best graph method over the best simple one."""
    lines = quality_lines(inputs)
    said = []
    for method in BY_HOMES:
        line = lines.lines.get(method, [])
        if len(line) > 1:
            ends = [f"{interval(at.value, at.low, at.high)}{at.sign} of {at.homes:,}" for at in (line[0], line[-1])]
            said.append(f"{method} has MRR {' and '.join(ends)}")
    rankings = [boards.ranked_board(inputs, board, board.headline) for board in (lines.boards[0], lines.boards[-1])]
    where = {each: f"with {each.board.runs[0][1].counts['homes']:,} homes" for each in rankings}
    data = boards.data_name(rankings[0].board)
    sentences = [f"With so many homes of {data}, {'; '.join(said)}."] if said else []
    sentences += _leads("The", where)
    if not sentences:
        raise Missing("neither graph nor simple methods were run on few and on many homes", RUN_SIZES)
    return _statement(sentences, rankings)


def by_size_of_homes(inputs: Inputs) -> Statement:
    """The leader in the smallest and in the largest homes that have enough hidden rules."""
    said: dict[RankedBoard, str] = {}
    for each in main_rankings(inputs, HOMES):
        best, simple = next(iter(competitors(each)), ""), best_label(each, SIMPLE)
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
    shares, best_of, used, picked = [], [], [], []
    for each in main_rankings(inputs):
        found = _unseen(each, "mrr, all")
        if found is None or track_of(each) != "types":
            continue
        best, mean, many = found
        picked.append(many)
        seen = slice_mean(boards.runs_of(each.board, best), "seen", "mrr, all")
        whole = mean.hidden + (seen.hidden if seen else 0)
        shares.append(f"{100 * mean.hidden / whole:.0f} % on {_data(each)}")
        beside = f" ({interval(seen.value, seen.low, seen.high)} for rules that some training home has)" if seen else ""
        mine = interval(mean.value, mean.low, mean.high)
        best_of.append(f"{best}{_sign(each, best)} {mine} on {_data(each)}{beside}")
        used.append(each)
    if not used:
        raise Missing(f"no data set has {MIN_HIDDEN} hidden rules that no training home has", RUN_RIVALS)
    sentences = [
        f"Hidden rules that no training home has: {join_names(shares)}.",
        f"Their highest MRR, among {EVERY} ({_of_methods(picked)}): {'; '.join(best_of)} {OVER_SEEDS}.",
    ]
    return _statement(sentences, used)


def homes_not_seen_in_training(inputs: Inputs) -> Statement:
    """The best graph method over the best simple one, which folds new homes in by their rules."""
    where = {each: f"on {_data_in_full(each)}" for each in split_rankings(inputs, "new_homes")}
    if not (sentences := _leads("In homes not seen in training the", where)):
        raise Missing("no graph method was ranked beside a simple method on homes not seen in training", RUN)
    return _statement(sentences, [each for each in where if lead(each, "", GRAPH_METHODS)])


def what_remains_open(inputs: Inputs) -> Statement:
    """Hidden rules that the best list does not have among its first ten, and of those that no training home has."""
    missed, unseen, used, picked = [], [], [], []
    for each in main_rankings(inputs):
        best, metric = next(iter(competitors(each)), None), each.board.metric("hr@10{list}")
        if best is None or not each.board.has(metric):
            continue
        hits, low, high = share_of(each.board, best, metric)
        missed.append(f"{percent(1 - hits, 1 - high, 1 - low)} on {_data(each)} ({best})")
        used.append(each)
        if track_of(each) == "types" and (found := _unseen(each, "hr@10, all")):
            label, mean, many = found
            picked.append(many)
            unseen.append(f"{percent(1 - mean.value, 1 - mean.high, 1 - mean.low)} on {_data(each)} ({label})")
    if not used:
        raise Missing("no hit rates by home", RUN_RIVALS)
    sentences = [f"Hidden rules that the best list does not have among its first ten: {join_names(missed)}."]
    if unseen:
        text = (
            f"Of the hidden rules that no training home has, among {EVERY}, so many are not found by the method with "
        )
        text += f"the fewest misses ({_of_methods(picked)})"
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


def _sign(ranking: RankedBoard, *labels: str) -> str:
    """Where the training of some of these rows went wrong."""
    return max(boards.row_sign(ranking.board, label) for label in labels)


def _statement(sentences: Sequence[str], shown: Iterable[RankedBoard]) -> Statement:
    return Statement(" ".join(sentences), tuple(run for each in shown for _, run in each.board.runs))


def _unseen(ranking: RankedBoard, metric: str) -> tuple[str, SliceMean, int] | None:
    """The best method on the hidden rules that no training home has, of how many; None where they are few."""
    found = {
        label: mean
        for label in competitors(ranking)
        if (mean := slice_mean(boards.runs_of(ranking.board, label), "unseen", metric)) and mean.hidden >= MIN_HIDDEN
    }
    best = max(found, key=lambda label: found[label].value, default=None)
    return None if best is None else (best, found[best], len(found))


def _of_methods(numbers: Sequence[int]) -> str:
    """Among how many methods the best of each list was picked."""
    least, most = min(numbers), max(numbers)
    return f"picked among {counted(most, 'method')}" if least == most else f"picked among {least} to {most} methods"


def _data(ranking: RankedBoard) -> str:
    """The data set, and whether devices of one type are told apart."""
    name = boards.data_name(ranking.board)
    return name if track_of(ranking) == "types" else f"single devices of {name}"


def _data_in_full(ranking: RankedBoard) -> str:
    """The same with the options of the data, how many homes it has, and seeds."""
    data = boards.heading(ranking.board, boards.seeds_of(ranking.board)).replace(": ", ", ")
    return data if track_of(ranking) == "types" else f"single devices of {data}"


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
