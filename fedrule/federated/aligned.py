"""What the clients of a chunk remember, brought to the rows that they are asked about in this round, and back again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.homes import Array, Mask, runs
from fedrule.federated.memories import Kept, Memories, Part
from fedrule.federated.plan import Plan


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
