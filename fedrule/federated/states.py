"""States that outlive a round: those of all clients as a few flat arrays, and the server's.

The dense part of a client's vector is a row of an array. Of the rows of relations only those are stored that may differ
from zero, client after client in one list: 2 GB in place of 10 for 76,218 homes of the paper's size.
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
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.optimizers import OptimizerState
from fedrule.federated.vectors import FlatParameters, Vector, zeros

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class ClientVectors:
    """One vector of each client, or none at all where the algorithm keeps none."""

    dense: Vector  # [n_clients or 0, n_dense]
    rows: Vector  # [n_stored or 0, row_length]

    @property
    def empty(self) -> bool:
        return not len(self.dense)


@dataclass(frozen=True, slots=True, eq=False)
class StoredRows:
    """New rows of some clients, client after client."""

    clients: Array
    counts: Array  # [n_clients]
    row: Array  # [n_rows]
    values: Vector  # [n_rows, row_length]


@dataclass(frozen=True, slots=True, eq=False)
class ClientStates:
    """Of all clients; zeros for those that never took part."""

    last: Array  # [n_clients]  the last round in which each client's update counted; -1: none
    row_start: Array  # [n_clients + 1]
    row: Array  # [n_stored]  relations whose rows are stored, sorted within a client
    steps: Array  # [n_clients or 0]  that kept-adam has taken
    own: ClientVectors  # own_k
    first: ClientVectors  # moments of kept-adam
    second: ClientVectors

    @classmethod
    def initial(cls, rules: Array, layout: FlatParameters, h: Hyperparameters) -> ClientStates:
        """Of clients with so many rules; an error where the states would not fit into memory."""
        n_clients, kept = len(rules), h.optimizer == "kept-adam"
        check_memory(rules, layout, h)
        all_rows = 0 if h.row_sparse else layout.n_rows

        def vectors(used: bool) -> ClientVectors:
            n = n_clients if used else 0
            return ClientVectors(zeros((n, layout.n_dense)), zeros((n * all_rows, layout.row_length)))

        start = np.arange(n_clients + 1) * all_rows
        row = np.tile(np.arange(all_rows), n_clients)
        steps = np.zeros(n_clients if kept else 0, dtype=np.int64)
        return cls(np.full(n_clients, -1), start, row, steps, vectors(h.corrects), vectors(kept), vectors(kept))

    def copy(self) -> ClientStates:
        return self.from_arrays({name: array.copy() for name, array in _arrays(self).items()})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> ClientStates:
        vectors = (ClientVectors(**_within(name, arrays)) for name in ("own", "first", "second"))
        return cls(arrays["last"], arrays["row_start"], arrays["row"], arrays["steps"], *vectors)

    @property
    def nbytes(self) -> int:
        """Of the vectors, without the indices."""
        return sum(array.nbytes for part in (self.own, self.first, self.second) for array in (part.dense, part.rows))

    def rows_of(self, clients: Array) -> tuple[Array, Array]:
        """Start [n + 1] and relation of the rows stored for some clients."""
        counts = self.row_start[clients + 1] - self.row_start[clients]
        return np.concatenate([[0], np.cumsum(counts)]), self.row[runs(self.row_start, clients)]

    def with_rows(self, changed: list[StoredRows]) -> ClientStates:
        """With other rows of own_k for some clients; empties the list as it goes, since each item is large."""
        if not changed:
            return self
        counts = np.diff(self.row_start)
        unchanged = np.ones(len(counts), dtype=bool)
        for some in changed:
            counts[some.clients], unchanged[some.clients] = some.counts, False
        start = np.concatenate([[0], np.cumsum(counts)])
        row = np.empty(start[-1], dtype=np.int64)
        values = np.empty((start[-1], self.own.rows.shape[1]), dtype=np.float32)
        others = np.flatnonzero(unchanged)
        into, before = runs(start, others), runs(self.row_start, others)
        row[into], values[into] = self.row[before], self.own.rows[before]
        while changed:
            some = changed.pop()
            into = runs(start, some.clients)
            row[into], values[into] = some.row, some.values
        return replace(self, row_start=start, row=row, own=ClientVectors(self.own.dense, values))


def check_memory(rules: Array, layout: FlatParameters, h: Hyperparameters) -> None:
    """An error where the states of clients with so many rules need more memory than is free."""
    vectors = int(h.corrects) + 2 * int(h.optimizer == "kept-adam")
    # A rule and a non-rule touch at most two rows; while rows change, the old and the new ones exist.
    touched = 2 * np.minimum(2 * rules, layout.n_rows).sum() if h.row_sparse else len(rules) * layout.n_rows
    needed = 4 * vectors * (len(rules) * layout.n_dense + int(touched) * layout.row_length)
    free = _free_bytes()
    if needed <= free:
        return
    why = "corrections keep the dense part of a vector for each client"
    if h.optimizer == "kept-adam":
        why = "kept-adam keeps two whole vectors for each client"
    elif not h.row_sparse:
        why = "corrections with Adam, a proximal term or a predictor lambda other than 1 keep a whole vector"
    raise DataError(
        f"the states of {len(rules):,} clients need {needed / 1e9:.3g} GB ({needed / len(rules) / 1e3:.0f} kB each), "
        f"{free / 1e9:.3g} GB are free: {why}. Use fewer homes, or client_optimizer sgd with predictor_lambda 1"
    )


def _free_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024
    except (OSError, StopIteration):  # not Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, eq=False)
class StateView:
    """States of the clients of a chunk: views of `ClientStates` where these lie as needed, copies where they do not."""

    clients: Array
    row_start: Array
    row: Array
    own: ClientVectors
    first: ClientVectors
    second: ClientVectors
    steps: Array
    stored: Mask | None = None  # [n_rows]  rows that were stored before; None where the rows stay the same
    in_batch: Mask | None = None  # [n_rows]  rows of the relations in this round's batch


def view_states(states: ClientStates, clients: Array, start: Array, row: Array, h: Hyperparameters) -> StateView:
    """With the rows of the relations `row` in the clients' batches, those of client i from start[i] to start[i + 1]."""
    if not h.row_sparse:
        all_start, all_row = states.rows_of(clients)
        own, first, second = (_taken(part, states, clients) for part in (states.own, states.first, states.second))
        steps = states.steps[clients] if len(states.steps) else states.steps
        return StateView(clients, all_start, all_row, own, first, second, steps)
    if not h.corrects:
        return StateView(clients, start, row, states.own, states.first, states.second, states.steps)
    old_start, old_row = states.rows_of(clients)
    if np.array_equal(old_start, start) and np.array_equal(old_row, row):
        own = _taken(states.own, states, clients)
        return StateView(clients, start, row, own, states.first, states.second, states.steps)
    width = int(max(row.max(initial=0), old_row.max(initial=0))) + 1
    old, new = (
        np.repeat(np.arange(len(clients)), np.diff(s)) * width + r for s, r in ((old_start, old_row), (start, row))
    )
    both = np.union1d(old, new)
    values = np.zeros((len(both), states.own.rows.shape[1]), dtype=np.float32)
    values[np.searchsorted(both, old)] = states.own.rows[runs(states.row_start, clients)]
    return StateView(
        clients,
        np.searchsorted(both, np.arange(len(clients) + 1) * width),
        both % width,
        ClientVectors(states.own.dense[_span(clients)], values),
        states.first,
        states.second,
        states.steps,
        np.isin(both, old),
        np.isin(both, new),
    )


def write_back(states: ClientStates, view: StateView, finite: Mask, number: int) -> StoredRows | None:
    """Store the states of a chunk's clients after round `number`; those that are not `finite` keep their old state.

    All but changed rows is written into `states` at once, so that copies do not pile up; no two chunks share a client.
    Changed rows are returned, for `ClientStates.with_rows`. Rows that are not in the batch are zero by now and dropped.
    """
    states.last[view.clients[finite]] = number
    if len(states.steps):
        states.steps[view.clients] = view.steps
    if view.stored is None or view.in_batch is None:
        for part, into in ((view.own, states.own), (view.first, states.first), (view.second, states.second)):
            if not part.empty and not np.shares_memory(part.dense, into.dense):
                into.dense[view.clients] = part.dense
                into.rows[runs(states.row_start, view.clients)] = part.rows
        return None
    if not np.shares_memory(view.own.dense, states.own.dense):
        states.own.dense[view.clients] = view.own.dense
    client = np.repeat(np.arange(len(finite)), np.diff(view.row_start))
    keep = np.where(finite[client], view.in_batch, view.stored)
    counts = np.bincount(client[keep], minlength=len(finite))
    return StoredRows(view.clients, counts, view.row[keep], view.own.rows[keep])


def _span(clients: Array) -> slice | Array:
    """Neighbours as a slice, which numpy takes without a copy."""
    if len(clients) and clients[-1] - clients[0] + 1 == len(clients):
        return slice(int(clients[0]), int(clients[-1]) + 1)
    return clients


def _taken(part: ClientVectors, states: ClientStates, clients: Array) -> ClientVectors:
    if part.empty:
        return part
    span = _span(clients)
    if isinstance(span, slice):
        return ClientVectors(part.dense[span], part.rows[states.row_start[span.start] : states.row_start[span.stop]])
    return ClientVectors(part.dense[span], part.rows[runs(states.row_start, clients)])


@dataclass(frozen=True, slots=True, eq=False)
class ServerState:
    """All that outlives a round: a checkpoint is its arrays."""

    round: int  # rounds done
    model: Vector
    optimizer: OptimizerState
    shared: Vector  # [n_shared, size]  one vector for all clients, or one of each round that was some client's last
    shared_round: Array  # [n_shared]  these rounds
    clients: ClientStates

    def without_unused(self) -> ServerState:
        """Without the shared vectors of rounds that were no client's last."""
        needed = np.isin(self.shared_round, self.clients.last)
        return replace(self, shared=self.shared[needed], shared_round=self.shared_round[needed])

    def arrays(self) -> dict[str, AnyArray]:
        """By name, nested ones with dots."""
        return _arrays(self)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> ServerState:
        optimizer = _within("optimizer", arrays)
        return cls(
            int(arrays["round"]),
            arrays["model"],
            OptimizerState(optimizer["first"], optimizer["second"], int(optimizer["steps"])),
            arrays["shared"],
            arrays["shared_round"],
            ClientStates.from_arrays(_within("clients", arrays)),
        )


def _within(prefix: str, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {name.removeprefix(f"{prefix}."): array for name, array in arrays.items() if name.startswith(f"{prefix}.")}


def _arrays(value: Any, prefix: str = "") -> dict[str, AnyArray]:
    found: dict[str, AnyArray] = {}
    for field in fields(value):
        inner, name = getattr(value, field.name), f"{prefix}{field.name}"
        found |= _arrays(inner, f"{name}.") if is_dataclass(inner) else {name: np.asarray(inner)}
    return found
