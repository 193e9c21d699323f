"""The lists that the page is about: what each data set is, how large, and what random order reaches on it."""

from __future__ import annotations

import math

from reports import boards
from reports.boards import RankedBoard
from reports.inputs import Inputs
from reports.outputs import RUN, About, Cell, Missing, Table, run_files
from reports.places import every_ranking, labels_by_method, main_rankings, place_name
from reports.text.formats import NONE, count_cell, format_number, interval_cell

KINDS = {
    "wyze": "real",
    "ifttt-fedrule": "real",
    "ifttt-full": "real",
    "home-assistant": "real",
    "wyze-synthetic": "synthetic",
    "ifttt-synthetic": "synthetic",
}
CHANCE = "random"


def shown_lists(inputs: Inputs) -> Table:
    """A row per list that the findings are about; of other data sets, one for each of theirs."""
    found = main_rankings(inputs)
    found = found or [each for each in every_ranking(inputs) if each.board.split_name == "holdout"]
    if not found:
        raise Missing("no rankings", RUN)
    columns = ("data", "real or synthetic", "homes", "devices per home", "rules per home", "hidden rules", "methods")
    caption = (
        "Means per home. Devices of one type count as one, except in lists of single devices. Hidden rules: of all "
        "homes, mean over seeds. MRR of random order: what a method has that knows nothing; low where there are many "
        "candidates."
    )
    runs = [run for each in found for _, run in each.board.runs]
    rows = tuple(map(_row, found))
    return Table((*columns, f"MRR of {CHANCE} order"), rows, About(caption, run_files(runs), RUN))


def _row(ranking: RankedBoard) -> tuple[Cell, ...]:
    run = ranking.board.runs[0][1]
    counts, homes = run.counts, run.counts.get("homes", 0)
    sizes = [counts[name] / homes if name in counts and homes else math.nan for name in ("devices", "rules")]
    of_size = (Cell(NONE, "") if math.isnan(size) else Cell(format_number(size, 1), size) for size in sizes)
    hidden = float(ranking.table["hidden"].iloc[0])
    return (
        Cell(place_name(ranking, homes=False)),
        Cell(KINDS.get(boards.data_name(ranking.board), NONE)),
        count_cell(homes or math.nan),
        *of_size,
        count_cell(hidden),
        count_cell(len({each.key.method for _, each in ranking.board.runs})),
        _chance(ranking),
    )


def _chance(ranking: RankedBoard) -> Cell:
    label = labels_by_method(ranking).get(CHANCE)
    if label is None:
        return interval_cell(math.nan, math.nan, math.nan)
    row = ranking.table.iloc[ranking.ordered.index(label)]
    return interval_cell(float(row[ranking.metric]), float(row["low"]), float(row["high"]))
