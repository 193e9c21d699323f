"""How numbers, seeds and lists are said in captions and notes: the same words wherever they stand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal

from benchmarks.results.store import Result

PLAIN = 1e6  # numbers from here on have a power of ten: a loss that ran away has hundreds of digits


def join_names(names: Sequence[str]) -> str:
    """As people list things: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def seed_count(counts: Iterable[int]) -> str:
    """How many seeds lines, dots or rows are the means of; empty where there are none of these."""
    found = list(counts)
    if not found:
        return ""
    low, high = min(found), max(found)
    return f"{low} to {high} seeds" if low < high else "1 seed" if high == 1 else f"{high} seeds"


def short_number(value: float, significant: int = 2) -> str:
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


# --- Runs that failed, in a sentence: a table that lacks them says so.

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


# --- What the paper reports: Yao et al., FedRule: Federated Rule Recommendation System with Graph Neural Networks.
#
# Its tables of final test results; AUC, mean rank (MR), and mean rank with the rules of the training graph removed
# (MR(RT)). Its hit rates are read from figures, so only the one that its text gives is here.

PAPER_METHODS = ("graphrule", "fedgnn", "fedrule")  # of its curves by round, final results and federated hit rates
METRICS = ("loss", "auc", "mr", "mr_rt")

# role -> method -> METRICS
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
