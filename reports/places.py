"""The board of a place, which is a data set and track with a split, and rows of it by method."""

from __future__ import annotations

import math
from collections.abc import Iterable

from benchmarks.results.formulations import FEATURES, FEDERATED_METHODS, GRAPH
from benchmarks.results.leaderboard import SPLIT_TITLES
from datasets.common.errors import DataError
from reports import boards
from reports.boards import FAMILIES, RankedBoard
from reports.inputs import Inputs, Role
from reports.outputs import RUN_RIVALS, Missing

TRACKS = {"instances": "single devices"}
USER_ITEM = FAMILIES["user-item"]
# Of the graph formulation: all that rank by a home's graph, central and in the homes.
GRAPH_METHODS = (
    *FAMILIES[GRAPH],
    *FAMILIES[FEATURES],
    *(each.name for each in FEDERATED_METHODS if each.twins[0] in FAMILIES[GRAPH]),
)


def place_ranking(inputs: Inputs, role: Role) -> RankedBoard:
    """The rankings on the data of a role, methods with their defaults; missing where there are none."""
    board = boards.ranking_of(role, inputs)
    if board is None:
        data = " or ".join(role.data) + ("" if role.track == "types" else f", track {role.track}")
        raise Missing(f"no rankings on {data}", RUN_RIVALS)
    metric = board.headline
    finite = [
        label
        for label in boards.main_rows(board)
        if all(math.isfinite(run.summary.get(metric, math.nan)) for run in boards.runs_of(board, label))
    ]
    if not finite:
        raise Missing(f"no finite {boards.metric_name(metric)} on {boards.data_name(board)}", RUN_RIVALS)
    return boards.ranked_board(inputs, boards.with_rows(board, finite), metric)


def split_rankings(inputs: Inputs, split: str) -> list[RankedBoard]:
    """Of each data set and track with this split the rankings with the most methods, in the order of their names."""
    found: dict[tuple[str, str], RankedBoard] = {}
    for ranking in every_ranking(inputs):
        key = ranking.board.runs[0][1].key
        place = key.data, key.track
        if ranking.board.split_name != split:
            continue
        if place not in found or len(ranking.ordered) > len(found[place].ordered):
            found[place] = ranking
    return [found[place] for place in sorted(found, key=lambda place: (place[0], place[1] != "types"))]


def every_ranking(inputs: Inputs) -> list[RankedBoard]:
    """All boards of the protocol ranking by their headline, methods with their defaults where they were run with them.

    Without runs that were fitted for curves, and boards whose runs cannot be compared.
    """
    found = []
    for board in inputs.boards:
        if board.protocol == "ranking" and not board.runs[0][1].key.curves:
            try:
                kept = boards.with_rows(board, boards.main_rows(board))
                found.append(boards.ranked_board(inputs, kept, board.headline))
            except DataError:  # its tables are gone, or are not of the same hidden rules; the leaderboard says so
                continue
    return found


def place_name(ranking: RankedBoard, *, homes: bool = True) -> str:
    """The data, how many homes it has, and what is not usual about its track and split."""
    run = ranking.board.runs[0][1]
    many = run.counts.get("homes")
    split = ranking.board.split_name
    details = [
        f"{many:,} homes" if many and homes else "",
        "" if run.key.track == "types" else TRACKS.get(run.key.track, run.key.track),
        "" if split == "holdout" else SPLIT_TITLES.get(split, split),
    ]
    text = ", ".join(filter(None, details))
    return f"{run.key.data} ({text})" if text else run.key.data


def labels_by_method(ranking: RankedBoard) -> dict[str, str]:
    """Method -> its best row."""
    return {boards.runs_of(ranking.board, label)[0].key.method: label for label in reversed(ranking.ordered)}


def best_label(ranking: RankedBoard, methods: Iterable[str]) -> str | None:
    """The best row of these methods; None where none was run."""
    label_of = labels_by_method(ranking)
    found = [label_of[method] for method in methods if method in label_of]
    return min(found, key=ranking.ordered.index, default=None)


def share_kept(ranking: RankedBoard, federated: str | None, central: str | None) -> float | None:
    """How much of the central method's value the federated one has; None where they have no seed in common."""
    if federated is None or central is None:
        return None
    versus = ranking.against(federated, central)
    return versus.value_a / versus.value_b if versus is not None and versus.value_b else None
