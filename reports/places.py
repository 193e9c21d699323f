"""The board of a place, which is a data set and track with a split, and rows of it by method."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from benchmarks.results.formulations import FEATURES, FEDERATED_METHODS, FORMULATIONS, GRAPH, PROBE, formulation_of
from benchmarks.results.leaderboard import SPLIT_TITLES, Board
from datasets.common.errors import DataError
from reports import boards
from reports.boards import FAMILIES, RankedBoard
from reports.inputs import IFTTT, PLACES, Inputs, Role
from reports.outputs import RUN_RIVALS, Missing

TRACKS = {"instances": "single devices"}
USER_ITEM = FAMILIES["user-item"]
SIMPLE = (*USER_ITEM, "popularity")  # what a graph has to be better than
NO_COMPETITORS = ("random", *FAMILIES[PROBE])  # chance, and what a hint in the data is worth
# Of the graph formulation: all that rank by a home's graph, central and in the homes.
GRAPH_METHODS = (
    *FAMILIES[GRAPH],
    *FAMILIES[FEATURES],
    *(each.name for each in FEDERATED_METHODS if each.twins[0] in FAMILIES[GRAPH]),
)
_NETWORKS = tuple(
    method for each in FORMULATIONS if each.name.endswith("graph neural network") for method in each.central
)
NETWORKS = (*_NETWORKS, *(each.name for each in FEDERATED_METHODS if each.twins[0] in _NETWORKS))  # message passing


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
    """Of each data set and track with this split the rankings with the most methods, in the order of their names.

    Options other than the number of homes make another data set.
    """
    found: dict[tuple[str, str], RankedBoard] = {}
    for ranking in every_ranking(inputs):
        place = ranking.board.data, track_of(ranking)
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


def formulation_name(ranking: RankedBoard, label: str) -> str:
    """The formulation of a row; its method where that is of none that is known."""
    method = boards.runs_of(ranking.board, label)[0].key.method
    found = formulation_of(method)
    return found.name if found else method


def share_kept(ranking: RankedBoard, federated: str | None, central: str | None) -> float | None:
    """How much of the central method's value the federated one has; None where they have no seed in common."""
    if federated is None or central is None:
        return None
    ratio = ranking.ratio(federated, central)
    return ratio.value if ratio else None


def main_rankings(inputs: Inputs, roles: Sequence[Role] = PLACES) -> list[RankedBoard]:
    """The rankings of each data set and track, with rules of known homes hidden; without what is missing."""
    found = []
    for role in roles:
        try:
            found.append(place_ranking(inputs, role))
        except (Missing, DataError):  # the others may still say something
            continue
    return found


def competitors(ranking: RankedBoard) -> list[str]:
    """All rows but chance and probes, best first."""
    method_of = {label: run.key.method for label, run in ranking.board.runs}
    return [label for label in ranking.ordered if method_of[label] not in NO_COMPETITORS]


def track_of(ranking: RankedBoard) -> str:
    """Types or instances."""
    return ranking.board.runs[0][1].key.track


def paper_boards(inputs: Inputs) -> list[Board]:
    """By the protocol paper, recipes first, those that were fitted to all training rules first."""
    found = [board for board in inputs.boards if board.protocol == "paper" and board.split_name == "holdout"]
    return sorted(found, key=lambda b: (boards.data_name(b) not in IFTTT.data, b.runs[0][1].key.curves, b.title))


def both_protocols(inputs: Inputs, least: int) -> list[tuple[Board, RankedBoard]]:
    """The boards by the paper's protocol with the rankings of the same homes and hidden rules.

    Where at least so many methods were evaluated by both with their defaults, devices merged by type.
    """
    of_place = {_place(each.board): each for each in every_ranking(inputs)}
    found = []
    for board in paper_boards(inputs):
        ranking = of_place.get(_place(board))
        if ranking and not board.runs[0][1].key.curves and track_of(ranking) == "types":
            kept = boards.with_rows(board, boards.main_rows(board))
            if len(set(kept.methods()) & set(competitors(ranking))) >= least:
                found.append((kept, ranking))
    return found


def ranking_beside(inputs: Inputs, board: Board) -> Board | None:
    """By the protocol ranking, on the same homes and hidden rules as a board by the paper's; None where it was not."""
    same = [each for each in inputs.boards if each.protocol == "ranking" and _place(each) == _place(board)]
    return next((each for each in same if each.runs[0][1].key.curves == board.runs[0][1].key.curves), None)


def _place(board: Board) -> str:
    key = board.runs[0][1].key
    split = {name: value for name, value in key.split.items() if name not in ("seed", "validation")}
    return f"{key.fingerprint} {key.track} {sorted(split.items(), key=str)}"


def list_name(ranking: RankedBoard) -> str:
    """The data set, and whether devices of one type are told apart."""
    return _with_track(ranking, boards.data_name(ranking.board))


def list_name_in_full(ranking: RankedBoard) -> str:
    """The same with the options of the data, how many homes it has, and seeds."""
    return _with_track(ranking, boards.heading(ranking.board, boards.seeds_of(ranking.board)).replace(": ", ", "))


def _with_track(ranking: RankedBoard, data: str) -> str:
    return data if track_of(ranking) == "types" else f"single devices of {data}"
