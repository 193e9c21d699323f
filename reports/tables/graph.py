"""The graph formulation: its methods against the best user-item method on every list, and what each option brings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.results.leaderboard import SPLIT_TITLES
from benchmarks.results.store import Result
from reports import boards
from reports.boards import SPREAD, RankedBoard
from reports.inputs import IFTTT, PLACES, WYZE, Inputs, Role, RunGroup, group_runs, is_ranking
from reports.outputs import RUN, About, Cell, Missing, Table, run_files
from reports.places import GRAPH_METHODS, USER_ITEM, best_label, every_ranking, labels_by_method, place_name
from reports.text.formats import (
    NONE,
    Interval,
    count_cell,
    failure_notes,
    format_number,
    interval_cell,
    join_names,
    number_cell,
)

RUN_ABLATIONS = "python -m benchmarks run ablations"
# Columns of `ratios`, as far as they were run: what ranks by evidence, graph networks, and the simplest.
COMPARED = (
    *("graphrank", "fedrank", "graphfeatures", "recrules", "takg"),
    *("rgcn", "compgcn", "hetgnn", "sagerank", "graphrule", "fedrule", "popularity"),
)
SPLITS = ("holdout", "leave_one_out", "new_homes")
ABLATED = ("graphrule", "graphrank")  # of which options are changed
BESIDE = ("ease", "popularity", "orphans")  # rows to compare with
MARKS = (
    f"Bold: more than {{what}} and told apart from it; underlined: cannot be told apart ({boards.TIE_TEST}); "
    "plain: less, and told apart."
)


def ratios(inputs: Inputs) -> Table:
    """A row per list, a column per method: how many times the MRR of the best user-item method it has."""
    found = [each for each in every_ranking(inputs) if _is_comparison(each)]
    if not found:
        raise Missing("no list has a graph method and a user-item method", RUN)
    shown = sorted(found, key=_order)
    there = {method for each in shown for method in labels_by_method(each)}
    methods = [method for method in COMPARED if method in there]
    rows = tuple(_ratio_row(each, methods) for each in shown)
    columns = ("data", "split", "homes", "best user-item", "MRR", *methods)
    runs = [run for each in shown for _, run in each.board.runs]
    status = boards.boards_note(each.board for each in shown)
    notes = (
        *([status] if status else []),
        MARKS.format(what="the best user-item method"),
        f"MRR [{boards.interval_name([each.board for each in shown])}], as on the leaderboard. Ratios are of means "
        "over the seeds that both have; the CSV file has their intervals (delta method, paired by home and seed). "
        "Closed: only devices that have a known rule.",
        *failure_notes([run for run in inputs.failed if is_ranking(run)]),
    )
    about = About(_ratios_caption(shown), run_files(runs), RUN, notes)
    return Table(columns, rows, about, sortable=True)


def _is_comparison(ranking: RankedBoard) -> bool:
    label_of = labels_by_method(ranking)
    return not label_of.keys().isdisjoint(USER_ITEM) and not label_of.keys().isdisjoint(GRAPH_METHODS)


def _order(ranking: RankedBoard) -> tuple[int, str, bool, int]:
    """By split, data and track; small data first."""
    run = ranking.board.runs[0][1]
    split = ranking.board.split_name
    place = SPLITS.index(split) if split in SPLITS else len(SPLITS)
    return place, ranking.board.data, run.key.track != "types", run.counts.get("homes", 0)


def _ratio_row(ranking: RankedBoard, methods: Sequence[str]) -> tuple[Cell, ...]:
    run, label_of = ranking.board.runs[0][1], labels_by_method(ranking)
    simple = best_label(ranking, USER_ITEM) or ""
    row = ranking.table.iloc[ranking.ordered.index(simple)]
    sign = boards.row_sign(ranking.board, simple)
    data = ranking.board.data + boards.track_suffix(ranking.board) + run.suffix
    return (
        Cell(data),
        Cell(SPLIT_TITLES.get(ranking.board.split_name, ranking.board.split_name)),
        count_cell(run.counts.get("homes", math.nan)),
        Cell(simple),
        interval_cell(row[ranking.metric], row["low"], row["high"], 3, sign=sign),
        *(_ratio_cell(ranking, label_of.get(method), simple) for method in methods),
    )


def _ratio_cell(ranking: RankedBoard, label: str | None, simple: str) -> Cell:
    if label is None or (found := ranking.ratio(label, simple)) is None:
        return Interval(NONE, "")
    apart = ranking.told_apart(label, simple)
    return Interval(
        format_number(found.value, 2) + boards.row_sign(ranking.board, label),
        found.value,
        strong=apart and found.value > 1,
        underlined=not apart,
        low=found.low,
        high=found.high,
    )


def _ratios_caption(shown: Sequence[RankedBoard]) -> str:
    """On how many lists the best graph method is told apart, and the range of its ratio by track."""
    said = []
    for track, words in (("types", "with devices merged by type"), ("instances", "among single devices")):
        found = [(each, best_label(each, GRAPH_METHODS), best_label(each, USER_ITEM)) for each in shown]
        of_track = [
            (each, graph, simple, ratio)
            for each, graph, simple in found
            if each.board.runs[0][1].key.track == track and graph and simple and (ratio := each.ratio(graph, simple))
        ]
        if not of_track:
            continue
        apart = sum(ratio.value > 1 and each.told_apart(graph, simple) for each, graph, simple, ratio in of_track)
        ends = [pick(of_track, key=lambda entry: entry[3].value) for pick in (min, max)]
        ends = ends[: 1 if ends[0] is ends[1] else 2]
        spread = " to ".join(f"{e[3].value:.2f} ({e[1]} on {place_name(e[0])})" for e in ends)
        said.append(f"{words} {spread}, more and told apart on {apart} of {len(of_track)} lists")
    return f"The best graph method has so many times the MRR of the best user-item method: {'; '.join(said)}."


@dataclass(frozen=True, slots=True, eq=False)
class Ablation:
    """The runs on one data set in which options of the graph method differ."""

    title: str
    ranking: RankedBoard

    def own_defaults(self, label: str) -> str | None:
        """The row that a row is compared with: its method with the defaults."""
        method = boards.runs_of(self.ranking.board, label)[0].key.method
        return method if method in ABLATED and method in self.ranking.ordered else None


def ablations(inputs: Inputs) -> Table:
    """A row per setting of the graph method, the best of the first data set first; three columns per data set."""
    shown = [found for role in (WYZE, IFTTT, *PLACES) if (found := _ablation(inputs, role))]
    shown = list({id(each.ranking): each for each in shown}.values())  # a data set may have several roles
    if not shown:
        raise Missing("graphrule and graphrank were not run with an option changed at a time", RUN_ABLATIONS)
    labels = dict.fromkeys(label for each in shown for label in each.ranking.ordered)
    columns, rows = ["method"], {label: [Cell(label)] for label in labels}
    for each in shown:
        columns += [f"{each.title}: MRR", SPREAD, "HR@10"]
        for label, row in rows.items():
            row += _ablation_cells(each, label)
    runs = [run for each in shown for _, run in each.ranking.board.runs]
    status = boards.boards_note(each.ranking.board for each in shown)
    notes = (
        *([status] if status else []),
        f"{MARKS.format(what='the same method with its defaults')} The defaults themselves and {join_names(BESIDE)} "
        "are plain too: not compared. MRR "
        f"[{boards.interval_name([each.ranking.board for each in shown])}]. {boards.HEADLINE_NOTE}",
        *failure_notes([r for r in inputs.failed if r.key.method in ABLATED and r.overrides.parameters]),
    )
    about = About(" ".join(map(_ablation_caption, shown)), run_files(runs), RUN_ABLATIONS, notes)
    return Table(tuple(columns), tuple(map(tuple, rows.values())), about, sortable=True)


def _ablation(inputs: Inputs, role: Role) -> Ablation | None:
    """The data of a role with the most settings; None where no setting was changed."""
    if role.track != "types":
        return None
    groups = [
        RunGroup(tuple(run for run in group.runs if _is_wanted(inputs, run)))
        for group in group_runs([run for run in inputs.ranked_runs if is_ranking(run)])
        if group.data in role.data
        and group.runs[0].key.track == role.track
        and group.runs[0].key.split["split"] == "holdout"
    ]
    found = [group for group in groups if _changed(group)]
    if not found:
        return None
    best = min(found, key=lambda group: (role.data.index(group.data), -len(_changed(group)), -(group.homes or 0)))
    board = best.board("ranking")
    ranking = boards.ranked_board(inputs, board, board.headline)
    return Ablation(f"{boards.short_title(board)}, {boards.seeds_of(board)}", ranking)


def _is_wanted(inputs: Inputs, run: Result) -> bool:
    return run.key.method in ABLATED or (run.key.method in BESIDE and inputs.is_default(run))


def _changed(group: RunGroup) -> set[str]:
    """The settings of the graph methods other than their defaults."""
    return {
        f"{run.key.method} {sorted(run.overrides.parameters.items(), key=str)}"
        for run in group.runs
        if run.key.method in ABLATED and run.overrides.parameters
    }


def _ablation_cells(shown: Ablation, label: str) -> tuple[Cell, ...]:
    ranking = shown.ranking
    if label not in ranking.ordered:
        return interval_cell(math.nan, math.nan, math.nan), count_cell(math.nan), count_cell(math.nan)
    row = ranking.table.iloc[ranking.ordered.index(label)]
    usual, sign = shown.own_defaults(label), boards.row_sign(ranking.board, label)
    compared = usual is not None and usual != label
    apart = compared and ranking.told_apart(label, usual or "")
    more = compared and ranking.ordered.index(label) < ranking.ordered.index(usual or "")
    style = {"strong": apart and more, "underlined": compared and not apart}
    return (
        interval_cell(row[ranking.metric], row["low"], row["high"], 3, **style, sign=sign),
        number_cell(row[SPREAD], 3),
        number_cell(row[ranking.board.metric("hr@10{list}")], 3, sign=sign),
    )


def _ablation_caption(shown: Ablation) -> str:
    """What brings most to graphrule, and what costs graphrank most."""
    ranking, said = shown.ranking, []
    for method, place, words in (("graphrule", 0, "most"), ("graphrank", -1, "least")):
        labels = [label for label in ranking.ordered if label != method and shown.own_defaults(label) == method]
        if labels and method in ranking.ordered:
            values = dict(zip(ranking.ordered, ranking.table[ranking.metric], strict=True))
            end = labels[place]
            said.append(f"{method} has {values[method]:.3f}, {words} with {end.partition(' ')[2]}: {values[end]:.3f}")
    text = f"On {boards.data_name(ranking.board)} {'; '.join(said)}." if said else ""
    return text or f"On {boards.data_name(ranking.board)} no setting can be compared with the defaults."
