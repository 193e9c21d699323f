"""Runs that failed, in a sentence: a table that lacks them says so."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.results.results import Result

NAMED = 5  # runs; the others are counted


def failure_notes(failed: Sequence[Result]) -> tuple[str, ...]:
    """One note that names the failed runs with the last line of their errors; none where nothing failed."""
    if not failed:
        return ()
    named = [f"{run.key}: {_reason(run)}" for run in failed[:NAMED]]
    more = f"; and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
    return (f"Failed, and so not in the numbers: {'; '.join(named)}{more}. `python -m benchmarks run` tries again.",)


def _reason(run: Result) -> str:
    lines = run.error.strip().splitlines()
    return lines[-1] if lines else "no reason was kept"
