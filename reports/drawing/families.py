"""Which formulation a method belongs to, and how its dots look.

Results carry the name of a method and not its code, so the methods of this project are listed. Any method whose history
says what homes send is federated; every other one that nobody has listed is "other", and shown all the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.results.results import Result
from reports.drawing.looks import FAINT, Dash, Look

FEDERATED = "federated"
OTHER = "other"
METHODS = {
    "graph": ("graphrule", "graphrank", "graphfeatures"),
    FEDERATED: ("fedgnn", "fedrule", "fedprox", "fedgate", "scaffold", "fedrank"),
    "user-item": ("mf", "gcmc", "lightgcn", "ease", "itemknn"),
    "floor": ("popularity", "random"),
}
NO_LINE: Dash = (0, (0.001, 1000))  # a legend's entry with a marker only
LOOKS = {
    "graph": Look("#000000", NO_LINE, "o", 5.5),
    FEDERATED: Look("#D55E00", NO_LINE, "^", 6),
    "user-item": Look("#0072B2", NO_LINE, "s", 5),
    "floor": Look(FAINT, NO_LINE, "D", 4.5),
    OTHER: Look("#CC79A7", NO_LINE, "P", 6),
}


def family_of(run: Result) -> str:
    """One of LOOKS."""
    if sends(run):
        return FEDERATED
    return next((family for family, methods in METHODS.items() if run.key.method in methods), OTHER)


def sends(run: Result) -> bool:
    """Whether its history says what a home sends."""
    return any("sent_bytes" in row for row in run.history)


def legend(families: Iterable[str]) -> dict[str, Look]:
    """The looks of those that are there, in a fixed order."""
    there = set(families)
    return {family: look for family, look in LOOKS.items() if family in there}
