"""Quality, time and memory of every method by number of homes: the numbers of the figures, where lines may be grey."""

from __future__ import annotations

import math

from benchmarks.results.speeds import SPEED
from reports.inputs import Inputs
from reports.outputs import About, Cell, Missing, Table
from reports.scaling import COMMAND, DATA, RUN_SIZES, SIZES, Point, Quality, fit_lines, quality_lines
from reports.text.formats import bytes_cell, count_cell, interval_cell, seconds_cell

COLUMNS = ("method", "homes", "MRR", "time of a fit", "memory of a fit")


def by_homes(inputs: Inputs) -> Table:
    """A row per method and number of homes."""
    quality: dict[tuple[str, int], Quality] = {}
    costs: dict[tuple[str, int], Point] = {}
    sources: list[str] = []
    notes: list[str] = []
    absent: list[str] = []
    try:
        ranked = quality_lines(inputs)
        quality = {(method, point.homes): point for method, line in ranked.lines.items() for point in line}
        sources += ranked.sources
        notes += ranked.notes
    except Missing as missing:
        absent.append(missing.what)
    try:
        fits = fit_lines(inputs)
        costs = {(label, point.homes): point for label, line in fits.lines.items() for point in line}
        sources += fits.sources
        notes += [*fits.notes, fits.statistic]
    except Missing as missing:
        absent.append(missing.what)
    if len(absent) == 2:
        raise Missing("; ".join(absent), RUN_SIZES)
    notes += [f"Missing: {what}." for what in absent]
    rows = tuple(
        _row(method, homes, quality.get((method, homes)), costs.get((method, homes)))
        for method, homes in sorted({*quality, *costs})
    )
    methods, sizes = {method for method, _ in (*quality, *costs)}, sorted({homes for _, homes in (*quality, *costs)})
    listed = ", ".join(f"{homes:,}" for homes in sizes)
    caption = (
        f"{len(methods)} methods on {DATA} with {listed} homes; the suite `sizes` has {SIZES[0]:,} to {SIZES[-1]:,}."
    )
    measured = any(source.startswith(f"{SPEED}/") for source in sources)
    command = f"{RUN_SIZES}, or {COMMAND}" if measured else RUN_SIZES
    return Table(COLUMNS, rows, About(caption, tuple(dict.fromkeys(sources)), command, tuple(notes)), sortable=True)


def _row(method: str, homes: int, quality: Quality | None, cost: Point | None) -> tuple[Cell, ...]:
    value = quality or Quality(homes, math.nan, math.nan, math.nan)
    seconds, megabytes = (cost.seconds, cost.megabytes) if cost else (math.nan, math.nan)
    return (
        Cell(method),
        count_cell(homes),
        interval_cell(value.value, value.low, value.high, sign=value.sign),
        seconds_cell(seconds),
        bytes_cell(megabytes * 1e6),
    )
