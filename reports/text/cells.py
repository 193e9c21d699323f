"""The cells of tables: numbers, counts, numbers with an interval, and marks in words.

Of an interval people read "0.2826 [0.2643, 0.3016]" in one cell, and programs three columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from reports.output_types import Cell, Table

NONE = "–"  # noqa: RUF001
WORDS = {"hidden": "hidden rule", "impossible": "cannot be carried out"}  # marks, where there is no colour
PLAIN = 1e6  # numbers from here on are written with a power of ten: a loss that ran away has hundreds of digits


@dataclass(frozen=True, slots=True)
class Interval(Cell):
    """A number and the interval around it; NaN where there is none."""

    low: float = math.nan
    high: float = math.nan


def written_out(value: float, digits: int) -> str:
    """A number as people read it, short however large it is; a dash where there is none."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:,.{digits}f}" if abs(value) < PLAIN else f"{value:.2e}"


def figure(value: float, digits: int = 4, *, strong: bool = False, underlined: bool = False) -> Cell:
    """A cell with a number and no interval."""
    return Cell(written_out(value, digits), _value(value), strong, underlined)


def whole(value: float) -> Cell:
    """A cell with a count."""
    return Cell(NONE, "") if math.isnan(value) else Cell(f"{value:,.0f}", int(value))


def interval(
    value: float, low: float, high: float, digits: int = 4, *, strong: bool = False, underlined: bool = False
) -> Interval:
    """A cell with a number and, where it has one, its interval; an interval around no number is that of other seeds."""
    if math.isnan(value):
        low = high = math.nan
    text = written_out(value, digits)
    if not math.isnan(low) and not math.isnan(high):
        text += f" [{written_out(low, digits)}, {written_out(high, digits)}]"
    return Interval(text, _value(value), strong, underlined, low=low, high=high)


def worded(cell: Cell) -> str:
    """Its text with its mark in words, for readers without colours."""
    return f"{cell.text} ({WORDS[cell.mark]})" if cell.mark in WORDS else cell.text


def numeric(table: Table) -> list[bool]:
    """Which columns are numbers and so stand to the right."""
    return [
        any(isinstance(row[column].value, int | float) for row in table.rows)
        and all(isinstance(row[column].value, int | float) or row[column].value == "" for row in table.rows)
        for column in range(len(table.columns))
    ]


def _value(value: float) -> float | str:
    return "" if math.isnan(value) else value
