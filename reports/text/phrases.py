"""How numbers, seeds and lists are said in captions and notes: the same words wherever they stand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal

PLAIN = 1e6  # numbers from here on have a power of ten: a loss that ran away has hundreds of digits


def listed(names: Sequence[str]) -> str:
    """As people list things: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def seeds(counts: Iterable[int]) -> str:
    """How many seeds lines, dots or rows are the means of; empty where there are none of these."""
    found = list(counts)
    if not found:
        return ""
    low, high = min(found), max(found)
    return f"{low} to {high} seeds" if low < high else "1 seed" if high == 1 else f"{high} seeds"


def plain(value: float, significant: int = 2) -> str:
    """With so many significant digits, and all of those before the point: 0.012, 5, 99, 1,234."""
    if math.isnan(value):
        return "no number"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    if abs(value) >= PLAIN:
        return f"{value:.{significant - 1}e}"
    if abs(value) >= 10**significant:
        return f"{value:,.0f}"
    return f"{Decimal(f'{value:.{significant}g}'):,f}"  # which has no exponents: 99.9 is 100, and 0.00001 stays so
