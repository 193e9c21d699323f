"""What all clients remember from round to round, as a few flat arrays.

The dense part of a client's vector is a row of an array. Of the rows of relations only those are kept that may differ
from zero, client after client in one list: for 76,218 homes of the paper's size 2 GB in place of 10.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.homes import Array, Mask, runs
from fedrule.federated.algorithm import Moved, Plan
from fedrule.federated.vectors import Layout, Vector, zeros


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


# --- What the clients of a chunk remember, brought to the rows that they are asked about in this round, and back again.


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """The memories of some clients: parts of the arrays of all where these lie as needed, copies where they do not."""

    clients: Array
    row_start: Array
    row: Array
    own: Part
    first: Part
    second: Part
    steps: Array
    before: Mask | None = None  # [n_rows]  rows that were remembered; None where the rows stay the same
    asked: Mask | None = None  # [n_rows]  rows that this round asks about


def align(memories: Memories, clients: Array, start: Array, row: Array, plan: Plan) -> Aligned:
    """Of some clients that are asked about the relations `row`, client i about those from start[i] to start[i + 1]."""
    if not plan.row_sparse:
        all_start, all_row = memories.rows_of(clients)
        parts = (memories.own, memories.first, memories.second)
        own, first, second = (_taken(part, memories, clients) for part in parts)
        steps = memories.steps[clients] if len(memories.steps) else memories.steps
        return Aligned(clients, all_start, all_row, own, first, second, steps)
    if not plan.corrects:
        return Aligned(clients, start, row, memories.own, memories.first, memories.second, memories.steps)
    old_start, old_row = memories.rows_of(clients)
    dense = memories.own.dense[_span(clients)]
    if np.array_equal(old_start, start) and np.array_equal(old_row, row):
        own = _taken(memories.own, memories, clients)
        return Aligned(clients, start, row, own, memories.first, memories.second, memories.steps)
    width = int(max(row.max(initial=0), old_row.max(initial=0))) + 1
    old, new = (
        np.repeat(np.arange(len(clients)), np.diff(s)) * width + r for s, r in ((old_start, old_row), (start, row))
    )
    both = np.union1d(old, new)
    values = np.zeros((len(both), memories.own.rows.shape[1]), dtype=np.float32)
    values[np.searchsorted(both, old)] = memories.own.rows[runs(memories.row_start, clients)]
    return Aligned(
        clients,
        np.searchsorted(both, np.arange(len(clients) + 1) * width),
        both % width,
        Part(dense, values),
        memories.first,
        memories.second,
        memories.steps,
        np.isin(both, old),
        np.isin(both, new),
    )


def put_back(memories: Memories, chunk: Aligned, finite: Mask, number: int) -> Kept | None:
    """Write down what the clients of a chunk remember after round `number`; some may not have ended finite.

    All but changed rows goes into the arrays of all at once, so that copies of chunks do not pile up; no two chunks
    share a client. Rows that changed are returned for `Memories.with_rows`. A client forgets the rows that it was not
    asked about, which are zero by now. One that did not end finite remembers what it did before.
    """
    memories.last[chunk.clients[finite]] = number
    if len(memories.steps):
        memories.steps[chunk.clients] = chunk.steps
    if chunk.before is None or chunk.asked is None:
        for part in ("own", "first", "second"):
            _put(getattr(chunk, part), getattr(memories, part), memories, chunk.clients)
        return None
    if not np.shares_memory(chunk.own.dense, memories.own.dense):
        memories.own.dense[chunk.clients] = chunk.own.dense
    client = np.repeat(np.arange(len(finite)), np.diff(chunk.row_start))
    keep = np.where(finite[client], chunk.asked, chunk.before)
    many = np.bincount(client[keep], minlength=len(finite))
    return Kept(chunk.clients, many, chunk.row[keep], chunk.own.rows[keep])


def _span(clients: Array) -> slice | Array:
    """Neighbours as a slice, which numpy takes without a copy."""
    if len(clients) and clients[-1] - clients[0] + 1 == len(clients):
        return slice(int(clients[0]), int(clients[-1]) + 1)
    return clients


def _row_span(memories: Memories, clients: Array) -> slice | Array:
    span = _span(clients)
    if isinstance(span, slice):
        return slice(int(memories.row_start[span.start]), int(memories.row_start[span.stop]))
    return runs(memories.row_start, clients)


def _taken(part: Part, memories: Memories, clients: Array) -> Part:
    if part.empty:
        return part
    return Part(part.dense[_span(clients)], part.rows[_row_span(memories, clients)])


def _put(part: Part, into: Part, memories: Memories, clients: Array) -> None:
    """Back into the arrays of all, where it is not one with them."""
    if not part.empty and not np.shares_memory(part.dense, into.dense):
        into.dense[clients] = part.dense
        into.rows[runs(memories.row_start, clients)] = part.rows


# --- All that outlives a round: saving it is the checkpoint, and whoever has it can go on.

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class ServerState:
    """Of the server, and what all clients remember."""

    round: int  # rounds that are over
    model: Vector
    moved: Moved  # what the server's optimizer remembers
    shared: Vector  # [n_groups, size]  what corrections share, one vector for each round that some client needs
    shared_round: Array  # [n_groups]
    clients: Memories

    def arrays(self) -> dict[str, AnyArray]:
        """By name, nested ones with dots between; `of` takes them back."""
        return {name: np.asarray(value) for name, value in _leaves(self)}

    @classmethod
    def of(cls, arrays: Mapping[str, AnyArray]) -> ServerState:
        moved = Moved(arrays["moved.first"], arrays["moved.second"], int(arrays["moved.steps"]))
        parts = (Part(arrays[f"clients.{n}.dense"], arrays[f"clients.{n}.rows"]) for n in ("own", "first", "second"))
        last, row_start, row, steps = (arrays[f"clients.{name}"] for name in ("last", "row_start", "row", "steps"))
        own, first, second = parts
        return cls(
            int(arrays["round"]),
            arrays["model"],
            moved,
            arrays["shared"],
            arrays["shared_round"],
            Memories(last, row_start, row, steps, own, first, second),
        )


def _leaves(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for field in fields(value):
        inner = getattr(value, field.name)
        name = f"{prefix}{field.name}"
        found += _leaves(inner, f"{name}.") if is_dataclass(inner) else [(name, inner)]
    return found
