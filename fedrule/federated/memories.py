"""What all clients remember from round to round, as a few flat arrays.

The dense part of a client's vector is a row of an array. Of the rows of relations only those are kept that may differ
from zero, client after client in one list: for 76,218 homes of the paper's size 2 GB in place of 10.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array, runs
from fedrule.federated.layout import Layout, Vector, zeros
from fedrule.federated.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One vector of each client, in pieces; no vectors at all where the plan needs none."""

    dense: Vector  # [n_clients or 0, n_dense]
    rows: Vector  # [n_kept or 0, row_length]

    @property
    def empty(self) -> bool:
        return not len(self.dense)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The rows that some clients keep, one client after the other."""

    clients: Array
    many: Array  # [n_clients]  rows of each
    row: Array  # [n_rows]
    values: Vector  # [n_rows, row_length]


@dataclass(frozen=True, slots=True, eq=False)
class Memories:
    """Of all clients; those that never took part remember zeros."""

    last: Array  # [n_clients]  the last round that counted each client's update; -1: none did
    row_start: Array  # [n_clients + 1]
    row: Array  # [n_kept]  relations whose rows are kept, sorted within a client
    steps: Array  # [n_clients or 0]  that kept-adam has taken
    own: Part  # own_k of corrections
    first: Part  # moments of kept-adam
    second: Part

    @classmethod
    def empty(cls, rules: Array, layout: Layout, plan: Plan) -> Memories:
        """Of clients with so many rules, before the first round; an error where there will not be memory enough."""
        n_clients, kept = len(rules), plan.optimizer == "kept-adam"
        refuse_too_much(rules, layout, plan)
        all_rows = 0 if plan.row_sparse else layout.n_rows
        row = np.tile(np.arange(all_rows), n_clients)

        def part(used: bool) -> Part:
            n = n_clients if used else 0
            return Part(zeros((n, layout.n_dense)), zeros((n * all_rows, layout.row_length)))

        never = np.full(n_clients, -1)
        start = np.arange(n_clients + 1) * all_rows
        steps = np.zeros(n_clients if kept else 0, dtype=np.int64)
        return cls(never, start, row, steps, part(plan.corrects), part(kept), part(kept))

    def copy(self) -> Memories:
        """The same in arrays of its own."""
        last, row_start, row, steps = (array.copy() for array in (self.last, self.row_start, self.row, self.steps))
        own, first, second = (Part(part.dense.copy(), part.rows.copy()) for part in (self.own, self.first, self.second))
        return Memories(last, row_start, row, steps, own, first, second)

    @property
    def nbytes(self) -> int:
        """What clients remember, all together: without the few numbers that say whose it is."""
        return sum(array.nbytes for part in (self.own, self.first, self.second) for array in (part.dense, part.rows))

    def rows_of(self, clients: Array) -> tuple[Array, Array]:
        """Start [n + 1] and relation of the rows that some clients keep."""
        many = self.row_start[clients + 1] - self.row_start[clients]
        return np.concatenate([[0], np.cumsum(many)]), self.row[runs(self.row_start, clients)]

    def with_rows(self, moved: list[Kept]) -> Memories:
        """With other rows of own_k for some clients; the list is used up, since each part of it is large."""
        if not moved:
            return self
        counts = np.diff(self.row_start)
        others = np.ones(len(counts), dtype=bool)
        for some in moved:
            counts[some.clients], others[some.clients] = some.many, False
        start = np.concatenate([[0], np.cumsum(counts)])
        row = np.empty(start[-1], dtype=np.int64)
        values = np.empty((start[-1], self.own.rows.shape[1]), dtype=np.float32)
        stayed = np.flatnonzero(others)
        into, before = runs(start, stayed), runs(self.row_start, stayed)
        row[into], values[into] = self.row[before], self.own.rows[before]
        while moved:
            some = moved.pop()
            into = runs(start, some.clients)
            row[into], values[into] = some.row, some.values
        return replace(self, row_start=start, row=row, own=Part(self.own.dense, values))


def refuse_too_much(rules: Array, layout: Layout, plan: Plan) -> None:
    """An error where clients with so many rules would remember more than the machine has free."""
    vectors = int(plan.corrects) + 2 * int(plan.optimizer == "kept-adam")
    # A rule and a non-rule touch two rows at most; while rows change, the old and the new ones are there.
    touched = 2 * np.minimum(2 * rules, layout.n_rows).sum() if plan.row_sparse else len(rules) * layout.n_rows
    needed = 4 * vectors * (len(rules) * layout.n_dense + int(touched) * layout.row_length)
    free = _free_bytes()
    if needed <= free:
        return
    why = "corrections keep the dense part of a vector for each client"
    if plan.optimizer == "kept-adam":
        why = "kept-adam keeps two whole vectors for each client"
    elif not plan.row_sparse:
        why = "corrections with Adam, with a proximal pull or with a predictor lambda other than 1 keep whole vectors"
    raise DataError(
        f"{len(rules):,} clients would remember {needed / 1e9:.3g} GB ({needed / len(rules) / 1e3:.0f} kB each) and "
        f"{free / 1e9:.3g} GB are free: {why}. Use fewer homes, or plain steps (sgd) with predictor_lambda 1"
    )


def _free_bytes() -> int:
    """Memory that programs can still have."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024
    except (OSError, StopIteration):  # not Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
