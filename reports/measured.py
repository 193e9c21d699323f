"""Measurements of pytest-benchmark that may stand beside each other: those of one machine and one scale."""

from __future__ import annotations

import math
from collections.abc import Iterable

from benchmarks.results.speeds import SPEED, Speed


def comparable(speeds: Iterable[Speed], size: str) -> list[Speed]:
    """Those of the scale and machine with most sizes, then of the newest; `size` names a number of `extra_info`.

    Times of different machines say nothing beside each other.
    """
    groups: dict[tuple[str, str], list[Speed]] = {}
    for speed in speeds:
        if number_of(speed, size) > 0:
            groups.setdefault((speed.scale, speed.machine), []).append(speed)

    def rank(place: tuple[str, str]) -> tuple[int, str, tuple[str, str]]:
        group = groups[place]
        return len({number_of(speed, size) for speed in group}), max(speed.made for speed in group), place

    return groups[max(groups, key=rank)] if groups else []


def number_of(speed: Speed, name: str) -> float:
    """A number of its `extra_info`; NaN where there is none, or an infinite one."""
    return as_number(speed.extra_info.get(name))


def as_number(value: object) -> float:
    """NaN where it is none, or an infinite one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else math.nan  # type: ignore[arg-type]


def files_of(speeds: Iterable[Speed]) -> tuple[str, ...]:
    """The files of these measurements in the folder of the results, each once."""
    return tuple(sorted({f"{SPEED}/{speed.file}" for speed in speeds}))


def circumstances(speeds: Iterable[Speed]) -> str:
    """Where comparable measurements were made, as a note."""
    first = next(iter(speeds))
    return f"Measured at scale {first.scale or 'unknown'} on {first.machine or 'an unknown machine'}."
