"""What it is worth to know that a device without a known rule may be in a hidden one, by data set.

The probe `orphans` scores a candidate by such devices and by nothing else; closed lists have none of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.results.store import Result
from reports import boards
from reports.inputs import Inputs
from reports.outputs import RUN_RIVALS, About, Cell, Missing, Table, run_files
from reports.places import labels_by_method, main_rankings, place_name
from reports.text.formats import NONE, number_cell, seed_count, short_number

PROBE, CHANCE = "orphans", "random"
METHODS = (CHANCE, PROBE, "popularity", "ease")
METRIC, CLOSED = "hr@10", "hr@10, closed"
COLUMNS = (
    *("data", "devices without rules", "headline", "hidden rules with an orphan"),
    *(f"{lists}{method}" for lists in ("", "closed: ") for method in METHODS),
)
NOTE = (
    "Hit rate at 10 of all valid candidates and of closed lists, an expectation over orders of ties, on seeds that all "
    "of these methods have. In closed lists the probe ties all candidates, which is the expectation of random order; "
    "`random` is one draw per seed and varies around it."
)


def orphans(inputs: Inputs) -> Table:
    """A row per data set and track on which the probe was run: hit rates of both lists."""
    rows, used, gains, seeds = [], [], {}, []
    for ranking in main_rankings(inputs):
        label_of = labels_by_method(ranking)
        if not {PROBE, CHANCE} <= label_of.keys():
            continue
        runs = {
            method: {run.key.seed: run for run in boards.runs_of(ranking.board, label_of[method])}
            for method in METHODS
            if method in label_of
        }
        common = sorted(set.intersection(*map(set, runs.values())))
        if not common:
            continue
        shown = {method: [by_seed[seed] for seed in common] for method, by_seed in runs.items()}
        probe, name = shown[PROBE], place_name(ranking)
        headline = "closed lists" if ranking.metric.endswith(", closed") else "all valid candidates"
        values = (_mean(shown.get(method, ()), metric) for metric in (METRIC, CLOSED) for method in METHODS)
        first = Cell(name), _share(_unused(probe)), Cell(headline), _share(_with_orphan(probe))
        rows.append((*first, *map(number_cell, values)))
        gains[name] = _mean(probe, METRIC) / (_mean(shown[CHANCE], METRIC) or math.nan)
        used += [run for some in shown.values() for run in some]
        seeds.append(len(common))
    if not rows:
        raise Missing(
            f"the probe `{PROBE}` was not run beside `{CHANCE}`", f"{RUN_RIVALS} --methods {','.join(METHODS)}"
        )
    said = "; ".join(f"{short_number(gain)} on {name}" for name, gain in gains.items())
    caption = f"Among all valid candidates the probe has so many times the hit rate of random order: {said}."
    return Table(COLUMNS, tuple(rows), About(caption, run_files(used), RUN_RIVALS, (NOTE, f"{seed_count(seeds)}.")))


def _mean(runs: Sequence[Result], metric: str) -> float:
    return sum(run.summary.get(metric, math.nan) for run in runs) / len(runs) if runs else math.nan


def _unused(runs: Sequence[Result]) -> float:
    """Devices of the data that no rule uses, as a share."""
    return runs[0].counts.get("devices without rules", math.nan) / runs[0].counts.get("devices", math.nan)


def _with_orphan(runs: Sequence[Result]) -> float:
    """Of the hidden rules, the share with a device that has no known rule."""
    return _mean(runs, "with an orphan: hidden") / _mean(runs, "hidden")


def _share(value: float) -> Cell:
    return Cell(NONE, "") if math.isnan(value) else Cell(f"{100 * value:.0f} %", value)
