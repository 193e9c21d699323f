"""Formulations and where they are trained: each central method beside its federated twin, on one data set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.results.formulations import (
    CENTRAL_LEAVES,
    FEDERATED,
    FEDERATED_METHODS,
    FORMULATIONS,
    OTHER,
    PROBE,
    federated_method,
    formulation_of,
)
from reports import boards
from reports.inputs import Inputs, Role
from reports.outputs import RUN_RIVALS, About, Cell, Table, run_files
from reports.places import labels_by_method, place_ranking, share_kept
from reports.text.formats import NONE, bytes_cell, count_cell, failure_notes, interval_cell, number_cell

CHANCE = "random"  # not a method that one would train anywhere
COLUMNS = (
    *("formulation", "central", "{metric}, central", "federated", "{metric}, federated", "federated / central"),
    *("leaves a home", "sent by a home"),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A central method and its twin that is trained in the homes; None where there is none."""

    formulation: str
    central: str | None
    federated: str | None


def formulations(inputs: Inputs, role: Role) -> Table:
    """Every formulation on the data of a role; a method that was not run has a dash."""
    ranking = place_ranking(inputs, role)
    board, metric = ranking.board, ranking.metric
    label_of = labels_by_method(ranking)
    pairs = [*_known_pairs(), *_other_pairs(ranking)]
    rows = tuple(_row(ranking, pair, label_of) for pair in pairs)
    name = boards.metric_name(metric)
    about = About(
        _caption(ranking, pairs, label_of),
        run_files([run for _, run in board.runs]),
        RUN_RIVALS,
        _notes(inputs, role, ranking, pairs, label_of),
    )
    return Table(tuple(column.format(metric=name) for column in COLUMNS), rows, about)


def _known_pairs() -> Iterator[Pair]:
    """All that `benchmarks.results.formulations` knows, but for chance and probes."""
    for formulation in FORMULATIONS:
        for central in formulation.central if formulation.family != PROBE else ():
            twins = [each.name for each in FEDERATED_METHODS if central in each.twins]
            if central != CHANCE:
                yield from (Pair(formulation.name, central, federated) for federated in twins or (None,))


def _other_pairs(ranking: boards.RankedBoard) -> Iterator[Pair]:
    """Methods that nobody knows: federated where their homes send something."""
    seen: set[str] = set()
    for label in ranking.ordered:
        run = boards.runs_of(ranking.board, label)[0]
        method = run.key.method
        if formulation_of(method) is None and method not in seen:
            seen.add(method)
            federated = boards.family_of(run) == FEDERATED
            yield Pair(OTHER, None if federated else method, method if federated else None)


def _row(ranking: boards.RankedBoard, pair: Pair, label_of: Mapping[str, str]) -> tuple[Cell, ...]:
    central, federated = (label_of.get(method or "") for method in (pair.central, pair.federated))
    known = federated_method(pair.federated or "")
    leaves = CENTRAL_LEAVES if pair.federated is None else known.leaves if known else NONE
    return (
        Cell(pair.formulation),
        Cell(central or pair.central or NONE),
        _value(ranking, central),
        Cell(federated or pair.federated or NONE),
        _value(ranking, federated),
        _ratio(ranking, federated, central),
        Cell(leaves),
        _sent(ranking, federated),
    )


def _value(ranking: boards.RankedBoard, label: str | None) -> Cell:
    """The metric of a row with its interval; a dash where there is none."""
    if label is None:
        return interval_cell(math.nan, math.nan, math.nan)
    row = ranking.table[ranking.table["method"] == label].iloc[0]
    leads = label == ranking.ordered[0] and len(ranking.ordered) > 1
    style = {"strong": leads, "underlined": label in ranking.tied}
    sign = boards.row_sign(ranking.board, label)
    return interval_cell(row[ranking.metric], row["low"], row["high"], **style, sign=sign)


def _ratio(ranking: boards.RankedBoard, federated: str | None, central: str | None) -> Cell:
    """On common seeds; underlined where the two cannot be told apart."""
    if (share := share_kept(ranking, federated, central)) is None:
        return count_cell(math.nan)
    versus = ranking.against(federated or "", central or "")
    signs = {boards.row_sign(ranking.board, label) for label in (federated, central) if label}
    equal = versus is not None and versus.low <= 0 <= versus.high
    return number_cell(share, 2, underlined=equal, sign=max(signs))


def _sent(ranking: boards.RankedBoard, label: str | None) -> Cell:
    runs = boards.runs_of(ranking.board, label) if label else []
    found = sum(map(boards.sent, runs)) / len(runs) if runs else math.nan
    return bytes_cell(found)


def _caption(ranking: boards.RankedBoard, pairs: list[Pair], label_of: Mapping[str, str]) -> str:
    """The best of each place, and the pairs that lose least and most."""
    where = boards.short_title(ranking.board)
    shares = {
        (pair.federated, pair.central): share
        for pair in pairs
        if (known := federated_method(pair.federated or ""))
        and known.twins[0] == pair.central  # the same kind of model
        if (share := share_kept(ranking, label_of.get(pair.federated or ""), label_of.get(pair.central or "")))
        is not None
    }
    said = []
    for place, methods in (
        ("with all data in one place", {pair.central for pair in pairs}),
        ("of those trained in the homes", {pair.federated for pair in pairs}),
    ):
        shown = [label_of[method] for method in methods if method is not None and method in label_of]
        if shown:
            best = min(shown, key=ranking.ordered.index)
            value = ranking.table.loc[ranking.table["method"] == best, ranking.metric].iloc[0]
            said.append(f"{best} is first {place}, {value:.3f}{boards.row_sign(ranking.board, best)}")
    text = f"{where}: {'; '.join(said)}."
    if shares:
        ends = [min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)]
        kept = " to ".join(f"{100 * shares[each]:.0f} % ({each[0]} of {each[1]})" for each in dict.fromkeys(ends))
        text += f" Federated methods have {kept} of the {boards.metric_name(ranking.metric)} of their twins."
    return text


def _notes(
    inputs: Inputs, role: Role, ranking: boards.RankedBoard, pairs: list[Pair], label_of: Mapping[str, str]
) -> tuple[str, ...]:
    board = ranking.board
    wanted = dict.fromkeys(method for pair in pairs for method in (pair.central, pair.federated) if method)
    absent = [method for method in wanted if method not in label_of]
    name = boards.metric_name(ranking.metric)
    status = boards.boards_note([board])
    notes = [status] if status else []
    notes += [
        f"{name} [{boards.interval_name([board])}], mean over seeds; methods with their defaults where they were run "
        "with them. Each hidden rule is ranked among the candidates that some training home has, without the home's "
        "other hidden rules; closed: only devices that have a known rule.",
        "Federated / central: on common seeds; underlined: the two cannot be told apart (95 % interval of the paired "
        "difference). Each has the defaults of its own way of training. Elsewhere bold is the best of the data set, "
        f"underlined what cannot be told apart from it ({boards.TIE_TEST}).",
        "Sent by a home: bytes in the whole training, mean over homes, from the history of the runs: those of each "
        "round that it takes part in, and of counts that it sends before. Secure sums add to them.",
    ]
    if absent:
        command = f"{RUN_RIVALS} --methods {','.join(absent)}"
        more = f"`{command}` runs them on the data of the suite rivals; for other homes name the suite that made these"
        notes.append(f"Not run on {boards.data_name(board)}: {', '.join(absent)}. {more}.")
    failed = [
        run
        for run in inputs.failed
        if run.key.data in role.data and run.key.track == role.track and run.key.protocol == board.protocol
    ]
    return (*notes, *failure_notes(failed))
