"""One client of a chunk: its memory out of the chunk's arrays as whole vectors, and what it sends back into them."""

from __future__ import annotations

import numpy as np

from fedrule.federated.client import Memory, Sent
from fedrule.federated.grid import on_grid
from fedrule.federated.layout import Layout, Vector
from fedrule.federated.memories import Part
from fedrule.federated.server import Precise
from fedrule.federated.side_by_side import Moments
from fedrule.federated.work import Work


def remembered(work: Work, i: int, layout: Layout) -> Memory:
    """What client i of a chunk remembers, as whole vectors."""
    memory = work.memory
    own = None if memory.own.empty else _vector(work, memory.own, i, layout)
    if memory.first.empty:
        return Memory(own)
    first, second = (_vector(work, part, i, layout) for part in (memory.first, memory.second))
    return Memory(own, Moments(first[None], second[None], memory.steps[i : i + 1].copy()))


def hand_in(work: Work, i: int, layout: Layout, sent: Sent, memory: Memory, shared: Vector | None) -> None:
    """Add what client i sent to the sums, and write down what it remembers; nothing of it where that is no number."""
    work.loss[i], work.finite[i] = sent.loss, sent.finite and memory.finite
    if not work.finite[i]:
        return
    update = sent.update.astype(float)
    if work.plan.corrects and work.plan.row_sparse and shared is not None:
        moved = work.plan.steps * work.plan.phi_rate * work.plan.phi_lambda
        update[layout.n_dense :] -= moved * shared[layout.n_dense :].astype(float)
        _only_rows(update, work, i, layout)
    work.update[:] += on_grid(work.weight[i] * update)
    if len(work.progress):
        work.progress[:] += on_grid(work.weight[i] * sent.progress.astype(float))
    if memory.own is not None:
        _write(memory.own, work, work.memory.own, i, layout)
    if memory.moments is not None:
        _write(memory.moments.first[0], work, work.memory.first, i, layout)
        _write(memory.moments.second[0], work, work.memory.second, i, layout)
        work.memory.steps[i] = memory.moments.steps[0]


def _rows(work: Work, i: int) -> slice:
    return slice(int(work.memory.row_start[i]), int(work.memory.row_start[i + 1]))


def _vector(work: Work, part: Part, i: int, layout: Layout) -> Vector:
    vector = np.zeros(layout.size, dtype=np.float32)
    vector[: layout.n_dense] = part.dense[i]
    vector[layout.in_rows(work.memory.row[_rows(work, i)])] = part.rows[_rows(work, i)]
    return vector


def _write(vector: Vector, work: Work, part: Part, i: int, layout: Layout) -> None:
    part.dense[i] = vector[: layout.n_dense]
    part.rows[_rows(work, i)] = vector[layout.in_rows(work.memory.row[_rows(work, i)])]


def _only_rows(update: Precise, work: Work, i: int, layout: Layout) -> None:
    """Zero for the rows that the client did not touch: they moved by their base, up to rounding."""
    rest = np.ones(layout.n_rows, dtype=bool)
    rest[work.memory.row[_rows(work, i)]] = False
    update[layout.in_rows(np.flatnonzero(rest))] = 0
