"""Numbers, seeds, names and failures in captions and notes; and the numbers of the paper.

The paper is Yao et al., FedRule: Federated Rule Recommendation System with Graph Neural Networks. Its final test
results are loss, AUC, mean rank (MR), and mean rank without the rules of the training graph (MR(RT)). Its hit rates are
in figures only, except for the one in its text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal

from benchmarks.results.store import Result

SCIENTIFIC = 1e6  # numbers from here on have a power of ten: a loss that diverged may have hundreds of digits
MAX_FAILURES = 5  # that are named; the others are counted

PAPER_METHODS = ("graphrule", "fedgnn", "fedrule")  # of its curves by round, final results and federated hit rates
PAPER_METRICS = ("loss", "auc", "mr", "mr_rt")
# role -> method -> PAPER_METRICS
PAPER_RESULTS: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "wyze": {
        "graphrule": (0.1997, 0.9768, 4.349, 3.0970),
        "fedgnn": (0.3878, 0.9521, 6.661, 5.3946),
        "fedrule": (0.1892, 0.9804, 4.156, 2.9150),
    },
    "ifttt": {
        "graphrule": (0.3238, 0.9491, 9.6997, 9.6745),
        "fedgnn": (0.4905, 0.9072, 12.4479, 12.4240),
        "fedrule": (0.3614, 0.9417, 8.8812, 8.8564),
    },
}
HIT_RATE_AT_40 = 0.91  # of GraphRule on Wyze, section 4.2
INFERENCE_MILLISECONDS, INFERENCE_MEGABYTES = 500, 10  # most users got their recommendations with less, section 4.6


def counted(number: int, noun: str) -> str:
    """1 home, 2 homes."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def join_names(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def seed_count(counts: Iterable[int]) -> str:
    """How many seeds lines, points or rows are the mean of; empty where there are none."""
    found = list(counts)
    if not found:
        return ""
    low, high = min(found), max(found)
    return f"{low} to {high} seeds" if low < high else counted(high, "seed")


def short_number(value: float, significant: int = 2) -> str:
    """With so many significant digits, and all of those before the decimal point: 0.012, 5, 99, 1,234."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    if abs(value) >= SCIENTIFIC:
        return f"{value:.{significant - 1}e}"
    if abs(value) >= 10**significant:
        return f"{value:,.0f}"
    return f"{Decimal(f'{value:.{significant}g}'):,f}"  # which has no exponents: 99.9 is 100, and 0.00001 stays so


def round_number(value: float, significant: int = 3) -> str:
    """With so many significant digits, trailing zeros included: 0.300, 12.0."""
    if value != value:
        return "unknown"
    if value in (float("inf"), float("-inf")):
        return "infinity" if value > 0 else "-infinity"
    if abs(value) < 0.5e-4:
        return "0"
    if abs(value) >= 10 ** (significant - 1):
        return f"{value:,.0f}"
    shown = f"{value:#.{significant}g}"
    return f"{value:.4f}" if "e" in shown or abs(value) < 1e-3 else shown


def failure_notes(failed: Sequence[Result]) -> tuple[str, ...]:
    """One note that names the failed runs with the last line of each error; none where nothing failed."""
    if not failed:
        return ()
    named = [f"{run.key}: {last_line(run.error)}" for run in failed[:MAX_FAILURES]]
    more = f"; and {len(failed) - MAX_FAILURES} more" if len(failed) > MAX_FAILURES else ""
    return (
        f"Failed runs, left out of the numbers: {'; '.join(named)}{more}. `python -m benchmarks run` tries them again.",
    )


def last_line(error: str) -> str:
    """Of a traceback: what went wrong."""
    return ([line.strip() for line in error.splitlines() if line.strip()] or ["no message"])[-1]
