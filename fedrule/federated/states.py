"""States that outlive a round: those of all clients as a few flat arrays, and the server's.

The dense part of a client's vector is a row of an array. Of the rows of relations only those are stored that may differ
from zero, client after client in one list: 2 GB in place of 10 for 76,218 homes of the paper's size.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array, Mask, runs
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.array_file import AnyArray
from fedrule.federated.optimizers import OptimizerState
from fedrule.federated.packed import UNSAVED, PackedVectors, resized
from fedrule.federated.trainers.state_loops import copy_rows, keep_rows, merge_rows
from fedrule.federated.vectors import FlatParameters, Vector, zeros

PACK_FROM = 2**32  # bytes: larger dense parts are packed, which takes more time and a third to a half less memory
PACKED = 0.75  # the part that is then needed; at most 0.71 was seen, with the flags


@dataclass(frozen=True, slots=True, eq=False)
class ClientVectors:
    """One vector of each client, or none at all where the algorithm keeps none."""

    dense: Vector  # [n_clients or 0, n_dense]
    rows: Vector  # [n_stored or 0, row_length]

    @property
    def empty(self) -> bool:
        return not len(self.dense)


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
    packed: PackedVectors | None = None  # the numbers of own_k, which is then empty
    spare: Vector | None = field(default=None, metadata=UNSAVED)  # memory for the rows of the next round

    @classmethod
    def initial(cls, rules: Array, layout: FlatParameters, h: Hyperparameters) -> ClientStates:
        """Of clients with so many rules; an error where the states would not fit into memory."""
        n_clients, kept = len(rules), h.optimizer == "kept-adam"
        check_memory(rules, layout, h)
        all_rows = 0 if h.row_sparse else layout.n_rows
        packs = packs_dense(n_clients, layout, h)
        packed = PackedVectors.zeros(n_clients, layout.n_dense) if packs else None

        def vectors(used: bool) -> ClientVectors:
            n = n_clients if used else 0
            return ClientVectors(zeros((n, layout.n_dense)), zeros((n * all_rows, layout.row_length)))

        start = np.arange(n_clients + 1) * all_rows
        row = np.tile(np.arange(all_rows), n_clients)
        steps = np.zeros(n_clients if kept else 0, dtype=np.int64)
        own = vectors(h.corrects and not packs)
        return cls(np.full(n_clients, -1), start, row, steps, own, vectors(kept), vectors(kept), packed)

    @classmethod
    def nothing(cls, n_clients: int, layout: FlatParameters) -> ClientStates:
        """Without any vector: what a server knows of clients that keep their states themselves."""
        empty = ClientVectors(zeros((0, layout.n_dense)), zeros((0, layout.row_length)))
        no = np.zeros(0, dtype=np.int64)
        return cls(np.full(n_clients, -1), np.zeros(n_clients + 1, dtype=np.int64), no, no, empty, empty, empty)

    def copy(self) -> ClientStates:
        return self.from_arrays({name: array.copy() for name, array in self.arrays().items()})

    def arrays(self) -> dict[str, AnyArray]:
        """By name, nested ones with dots."""
        return _arrays(self)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> ClientStates:
        own, first, second = (ClientVectors(**_within(name, arrays)) for name in ("own", "first", "second"))
        packed = _within("packed", arrays)
        again = PackedVectors.from_arrays(packed) if packed else None
        return cls(arrays["last"], arrays["row_start"], arrays["row"], arrays["steps"], own, first, second, again)

    @property
    def nbytes(self) -> int:
        """Of the vectors, without the indices; those of packed ones as the clients themselves would store them."""
        arrays = [array for part in (self.own, self.first, self.second) for array in (part.dense, part.rows)]
        return sum(array.nbytes for array in arrays) + (0 if self.packed is None else self.packed.unpacked_bytes)

    def rows_of(self, clients: Array) -> tuple[Array, Array]:
        """Start [n + 1] and relation of the rows stored for some clients."""
        counts = self.row_start[clients + 1] - self.row_start[clients]
        return np.concatenate([[0], np.cumsum(counts)]), self.row[runs(self.row_start, clients)]

    def next_rows(self, clients: Array, start: Array, row: Array) -> NextRows:
        """Those after a round in which these clients have the relations `row` in their batches.

        The rows of the other clients are there already.
        """
        counts = np.diff(self.row_start)
        counts[clients] = np.diff(start)
        new_start = np.concatenate([[0], np.cumsum(counts)])
        others = np.setdiff1d(np.arange(len(counts)), clients, assume_unique=True)
        new_row = row
        if len(others):
            new_row = np.empty(new_start[-1], dtype=np.int64)
            new_row[runs(new_start, clients)] = row
            new_row[runs(new_start, others)] = self.row[runs(self.row_start, others)]
        if self.packed is not None:
            return NextRows(new_start, new_row, self.own.rows)
        if np.array_equal(new_start, self.row_start) and np.array_equal(new_row, self.row):
            return NextRows(self.row_start, self.row, self.own.rows, in_place=True)
        values = resized(zeros((0, self.own.rows.shape[1])) if self.spare is None else self.spare, len(new_row))
        copy_rows(others, self.row_start, self.own.rows, new_start, values)
        return NextRows(new_start, new_row, values)

    def with_rows(self, rows: NextRows, failed: Array) -> ClientStates:
        """With the rows of the next round, except for clients that failed, which keep theirs."""
        if rows.in_place:
            return self
        start, row, values = rows.start, rows.row, rows.values
        if len(failed):
            others = np.setdiff1d(np.arange(len(self.last)), failed, assume_unique=True)
            counts = np.diff(rows.start)
            counts[failed] = np.diff(self.row_start)[failed]
            start = np.concatenate([[0], np.cumsum(counts)])
            row = np.empty(start[-1], dtype=np.int64)
            values = np.empty((0 if self.packed else len(row), values.shape[1]), dtype=np.float32)
            for which, of in ((others, rows), (failed, NextRows(self.row_start, self.row, self.own.rows))):
                row[runs(start, which)] = of.row[runs(of.start, which)]
                if self.packed is None:
                    copy_rows(which, of.start, of.values, start, values)
        own = ClientVectors(self.own.dense, values)
        return replace(self, row_start=start, row=row, own=own, spare=self.own.rows)


@dataclass(frozen=True, slots=True, eq=False)
class NextRows:
    """The rows that all clients store after a round: those in their batches, written while the round goes on."""

    start: Array  # [n_clients + 1]
    row: Array  # [n_stored]
    values: Vector  # [n_stored, row_length]; empty where they are packed
    in_place: bool = False  # the same rows as before, and the same array


def packs_dense(n_clients: int, layout: FlatParameters, h: Hyperparameters) -> bool:
    """Whether the dense part of own_k is packed; that changes no number."""
    return h.corrects and h.row_sparse and 4 * n_clients * layout.n_dense > PACK_FROM


def check_memory(rules: Array, layout: FlatParameters, h: Hyperparameters) -> None:
    """An error where the states of clients with so many rules need more memory than is free."""
    vectors = int(h.corrects) + 2 * int(h.optimizer == "kept-adam")
    packs = packs_dense(len(rules), layout, h)
    # A rule and a non-rule touch at most two rows. Unless they are packed, the old and the new ones exist.
    touched = (2 - packs) * np.minimum(2 * rules, layout.n_rows).sum() if h.row_sparse else len(rules) * layout.n_rows
    dense = len(rules) * layout.n_dense * (PACKED if packs else 1)
    needed = 4 * vectors * (int(dense) + int(touched) * layout.row_length)
    free = free_bytes()
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


def free_bytes() -> int:
    """Memory that is free."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024
    except (OSError, StopIteration):  # not Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Scratch(threading.local):
    """Memory that chunks use one after the other, for each thread: new memory costs more than what is done in it."""

    def __init__(self) -> None:
        self._arrays: dict[str, Vector] = {}

    def array(self, name: str, n: int, width: int) -> Vector:
        """[n, width], not cleared; valid until the next call with this name."""
        self._arrays[name] = resized(self._arrays.get(name, zeros((0, width))), n)
        return self._arrays[name]


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
    is_stored: Mask | None = None  # [n_rows]  rows that were stored before; None: the rows stay the same
    in_batch: Mask | None = None  # [n_rows]  rows of the relations in this round's batch; None: likewise

    def kept(self, finite: Mask) -> Mask:
        """[n_rows]: rows to store; a client that is not finite keeps its old ones."""
        assert self.is_stored is not None
        assert self.in_batch is not None
        return np.where(np.repeat(finite, np.diff(self.row_start)), self.in_batch, self.is_stored)


def view_states(
    states: ClientStates,
    rows: NextRows | None,
    clients: Array,
    start: Array,
    row: Array,
    h: Hyperparameters,
    scratch: Scratch,
) -> StateView:
    """With the rows of the relations `row` in the clients' batches, those of client i from start[i] to start[i + 1].

    `rows` are those of the next round where they change.
    """
    if not h.row_sparse:
        start, row = states.rows_of(clients)
    if not h.row_sparse or (rows is not None and rows.in_place):
        own, first, second = (_taken(part, states, clients) for part in (states.own, states.first, states.second))
        steps = states.steps[clients] if len(states.steps) else states.steps
        return StateView(clients, start, row, own, first, second, steps)
    if rows is None:
        return StateView(clients, start, row, states.own, states.first, states.second, states.steps)
    stored = (clients, states.row_start, states.row, states.own.rows)
    n_stored, width = int((states.row_start[clients + 1] - states.row_start[clients]).sum()), states.own.rows.shape[1]
    if states.packed is None:
        dense = states.own.dense[_span(clients)]
    else:
        dense = scratch.array("dense", len(clients), states.own.dense.shape[1])
        values = scratch.array("stored", n_stored, width)
        states.packed.unpack(clients, dense, values.reshape(-1))
        stored = (np.arange(len(clients)), *states.rows_of(clients), values)
    most = n_stored + len(row)
    both_start, both, values = np.empty_like(start), np.empty(most, dtype=np.int64), scratch.array("rows", most, width)
    is_stored, in_batch = np.empty(most, dtype=bool), np.empty(most, dtype=bool)
    n = merge_rows(*stored, start, row, both_start, both, values, is_stored, in_batch)
    own, unused = ClientVectors(dense, values[:n]), (states.first, states.second, states.steps)
    return StateView(clients, both_start, both[:n], own, *unused, is_stored[:n], in_batch[:n])


def write_back(
    states: ClientStates, rows: NextRows | None, view: StateView, finite: Mask, number: int, scratch: Scratch
) -> None:
    """Store the states of a chunk's clients after round `number`; those that are not `finite` keep their old state.

    All is written into `states` and `rows` at once, so that copies do not pile up; no two chunks share a client. Rows
    that are not in the batch are zero by now and dropped.
    """
    states.last[view.clients[finite]] = number
    if len(states.steps):
        states.steps[view.clients] = view.steps
    if states.packed is not None:
        kept = view.kept(finite)
        ends = np.concatenate([[0], np.cumsum(kept)])[view.row_start]
        tails = scratch.array("kept", int(ends[-1]), view.own.rows.shape[1])
        keep_rows(kept, view.row_start, view.own.rows, ends[:-1], tails)
        states.packed.pack(view.clients, view.own.dense, ends * tails.shape[1], tails.reshape(-1))
        return
    for part, into in ((view.own, states.own), (view.first, states.first), (view.second, states.second)):
        if not part.empty and not np.shares_memory(part.dense, into.dense):
            into.dense[view.clients] = part.dense
            if view.in_batch is None:
                into.rows[runs(states.row_start, view.clients)] = part.rows
    if rows is not None and view.in_batch is not None:
        in_batch = view.in_batch & np.repeat(finite, np.diff(view.row_start))
        keep_rows(in_batch, view.row_start, view.own.rows, rows.start[view.clients], rows.values)


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
class Broadcast:
    """What the server sends to the clients of a round."""

    round: int  # rounds done before
    model: Vector  # [size]
    shared: Vector  # [n_shared, size]  one vector for all clients, or those of the rounds that were the last of some
    shared_round: Array  # [n_shared]  these rounds, sorted; -1: for all clients

    def group(self, last: Array) -> Array:
        """[n]: which of the shared vectors is shared_k, of clients that last took part in these rounds; -1: none."""
        if not len(self.shared):
            return np.full(len(last), -1)
        if self.shared_round[0] < 0:
            return np.zeros(len(last), dtype=np.int64)
        found = np.minimum(np.searchsorted(self.shared_round, last), len(self.shared_round) - 1)
        if (unknown := (last >= 0) & (self.shared_round[found] != last)).any():
            raise DataError(
                f"round {self.round + 1}: the server sent no shared vector of round {last[unknown][0] + 1}, in which "
                f"client {np.flatnonzero(unknown)[0]} last took part; its state is of another run"
            )
        return np.where(last >= 0, found, -1)


@dataclass(frozen=True, slots=True, eq=False)
class ServerState:
    """All that outlives a round: a checkpoint is its arrays."""

    round: int  # rounds done
    model: Vector
    optimizer: OptimizerState
    shared: Vector  # [n_shared, size]  one vector for all clients, or one of each round that was some client's last
    shared_round: Array  # [n_shared]  these rounds
    clients: ClientStates

    def broadcast(self) -> Broadcast:
        """What the server sends in the next round."""
        return Broadcast(self.round, self.model, self.shared, self.shared_round)

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
    for each in fields(value):
        if each.metadata == UNSAVED:
            continue
        inner, name = getattr(value, each.name), f"{prefix}{each.name}"
        if isinstance(inner, list):
            found |= {f"{name}.{i}": array for i, array in enumerate(inner)}
        elif inner is not None:
            found |= _arrays(inner, f"{name}.") if is_dataclass(inner) else {name: np.asarray(inner)}
    return found
