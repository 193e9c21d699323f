"""Runs whose training went wrong: the sign beside their numbers, and sentences that count them.

What counts as wrong, and which of it gets the sign, is in datasets/common/training_warnings.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.results.store import Result
from datasets.common.training_warnings import MANY, Kind

SIGN = "†"
PHRASES: dict[Kind, tuple[str, str]] = {  # and how one or several such seeds count
    "diverged": ("diverged", " and counts with its last good model| and count with their last good models"),
    "non-finite": ("reported a loss that is NaN or infinite", ""),
    "refused": (f"refused more than {100 * MANY:g} % of the updates of a round", ""),
    "stopped": ("ended before the last round, without a reason given", ""),
    "early stopping": ("stopped early", ""),
}


def sign_of(runs: Iterable[Result]) -> str:
    """The sign where the training of some of these runs went wrong; else nothing."""
    return SIGN if any(warning.marked for run in runs for warning in run.warnings) else ""


def status_of(runs: Sequence[Result]) -> str:
    """What went wrong in the seeds of a row, counted; empty where nothing did.

    E.g. "1 of 5 seeds diverged (seed 3, round 41) and counts with its last good model".
    """
    found = []
    for kind, (phrase, counting) in PHRASES.items():
        first = {run.key.seed: each.round for run in runs for each in reversed(run.warnings) if each.kind == kind}
        if first:
            where = "; ".join(f"seed {seed}, round {number}" for seed, number in sorted(first.items()))
            one, _, several = counting.partition("|")
            seeds = f"{len(first)} of {len(runs)} seed{'s' if len(runs) > 1 else ''}"
            found.append(f"{seeds} {phrase} ({where}){several if len(first) > 1 else one}")
    return "; ".join(found)


def status_note(rows: Iterable[tuple[str, str, str]]) -> str:
    """What the sign means in each row (label, data, status), in one sentence; empty where none has a status."""
    found = dict.fromkeys(f"{label} on {data}: {status}" for label, data, status in rows if status)
    return f"{SIGN} {'; '.join(found)}." if found else ""


def refused_count(runs: Iterable[Result]) -> int:
    """The refused updates of runs in which they were few, or simulated."""
    return sum(each.count for run in runs for each in run.warnings if each.kind == "few refused")


def warning_lines(results: Iterable[Result]) -> list[str]:
    """A line for each thing that went wrong, with the sign where numbers get it; a fit by two protocols is one."""
    lines = [
        f"{SIGN + ' ' if warning.marked else ''}{_fit(result)}: {warning.text}"
        for result in results
        for warning in result.warnings
    ]
    return list(dict.fromkeys(lines))


def _fit(result: Result) -> str:
    """With the settings that are not the defaults, since a suite may have several rows of one method."""
    settings = ", ".join(f"{name}={value}" for name, value in result.overrides.parameters.items())
    method = result.key.method
    return f"{method} ({settings}){result.key.fit.removeprefix(method)}" if settings else result.key.fit
