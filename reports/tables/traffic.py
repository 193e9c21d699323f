"""What a home sends, receives and stores in a round of federated training, from the histories of runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from benchmarks.results.compare import refuse_mixed
from benchmarks.results.store import Result
from datasets.common.errors import counted
from reports.boards import sends, sent
from reports.inputs import Inputs, Role, group_runs, is_ranking
from reports.outputs import RUN, About, Cell, Missing, Table, run_files
from reports.text.formats import bytes_cell, count_cell, in_bytes, seed_count

COLUMNS = (
    *("method", "rounds", "homes in a round", "sends in a round", "receives in a round", "stores"),
    *("sends before training", "sends in all"),
)
NOTE = (
    "Means over the homes of a round, over rounds and seeds. Before training: counts or the like, once. In all: mean "
    "over all homes, of which not every one is in each round. Headers, and keys and shares of secure sums, come on top."
)


def by_round(inputs: Inputs, role: Role) -> Table:
    """A row per federated method with its settings, on the data of a role where most of them were run."""
    groups = [
        group.runs
        for group in group_runs([run for run in inputs.ranked_runs if is_ranking(run) and sends(run)])
        if group.data in role.data
        and group.runs[0].key.track == role.track
        and group.runs[0].key.split["split"] == "holdout"
    ]
    if not groups:
        raise Missing(f"no federated method was run on {' or '.join(role.data)}", RUN)

    def order(runs: Sequence[Result]) -> tuple[int, int, int]:
        labels = {inputs.label(run) for run in runs}
        return role.data.index(runs[0].key.data), -len(labels), -runs[0].counts.get("homes", 0)

    runs = min(groups, key=order)
    refuse_mixed(runs)
    by_label: dict[str, list[Result]] = {}
    for run in runs:
        by_label.setdefault(inputs.label(run), []).append(run)
    first = runs[0]
    where = f"{first.key.data}, {counted(first.counts.get('homes', 0), 'home')}"
    where += f", {first.counts['relations']:,} relations" if "relations" in first.counts else ""
    notes = (NOTE, f"{where}; {seed_count(map(len, by_label.values()))}.")
    rows = tuple(_row(label, some) for label, some in sorted(by_label.items()))
    return Table(COLUMNS, rows, About(_caption(by_label), run_files(runs), RUN, notes), sortable=True)


def _row(label: str, runs: Sequence[Result]) -> tuple[Cell, ...]:
    return (
        Cell(label),
        count_cell(_mean(max(_column(run, "round"), default=math.nan) for run in runs)),
        count_cell(_of_rounds(runs, "clients")),
        bytes_cell(_of_rounds(runs, "sent_bytes")),
        bytes_cell(_of_rounds(runs, "received_bytes")),
        bytes_cell(_mean(next(reversed(_column(run, "state_bytes")), math.nan) for run in runs)),
        bytes_cell(_mean(sum(_column(run, "statistics_bytes")) for run in runs)),
        bytes_cell(_mean(map(sent, runs))),
    )


def _caption(by_label: dict[str, list[Result]]) -> str:
    """The least and the most that is sent and received."""
    said = []
    for verb, name in (("sends", "sent_bytes"), ("receives", "received_bytes")):
        amounts = {label: amount for label, runs in by_label.items() if (amount := _of_rounds(runs, name)) >= 0}
        if amounts:
            ends = dict.fromkeys(pick(amounts, key=amounts.__getitem__) for pick in (min, max))
            said.append(f"{verb} {' to '.join(f'{in_bytes(amounts[end])} ({end})' for end in ends)}")
    return f"In a round a home {' and '.join(said)}."


def _of_rounds(runs: Iterable[Result], name: str) -> float:
    return _mean(_mean(_column(run, name)) for run in runs)


def _column(run: Result, name: str) -> list[float]:
    return [row[name] for row in run.history if name in row]


def _mean(values: Iterable[float]) -> float:
    """NaN where there are none."""
    found = list(values)
    return sum(found) / len(found) if found else math.nan
