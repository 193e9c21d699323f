"""A client's flat vectors in the compiled kernel: steps of local training, corrections, state, and exact sums.

The dense part of the model is first, then the rows that the client has. With u the sum of the directions of its steps,
g~ or what Adam makes of it, its model is x = x_0 - eta u, so that

    mu (x - x_0) = -mu eta u,        Delta = eta u,        p = u / tau,

and no digit of Delta or p is lost in the difference of two nearly equal models.

Loops of the kernel are written so that they are vectorised: an innermost loop starts at 0 and writes one or two arrays.
Arrays are taken out of a tuple once, since each access counts references with an atomic instruction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from datasets.common.compiled import as_written, in_any_order
from datasets.homes import Array
from fedrule.federated.optimizers import EPSILON, FIRST_DECAY, SECOND_DECAY, Precise
from fedrule.federated.vectors import ROUND, Vector
from fedrule.federated.vectors import clip_factor as plain_clip_factor

f32 = np.float32  # numbers are made so: a bare 0.5 is a float64, and so becomes all that it touches


class Vectors(NamedTuple):
    """A client's part of the model, or of its GNN or its predictor, which have a rate each."""

    start: Vector  # x_0
    x: Vector
    u: Vector
    gradient: Vector  # g~ of one step of Adam
    total: Vector  # the sum of g~
    first: Vector  # Adam's moments
    second: Vector
    delta: Vector  # delta_k, in the end own_k


@as_written
def vectors(storage: Vector, first: int, last: int) -> Vectors:
    a, b, c, d = storage[0, first:last], storage[1, first:last], storage[2, first:last], storage[3, first:last]
    e, f, g, h = storage[4, first:last], storage[5, first:last], storage[6, first:last], storage[7, first:last]
    return Vectors(a, b, c, d, e, f, g, h)


@as_written
def clear(out: Vector, n: int) -> None:
    for i in range(n):
        out[i] = f32(0)


@as_written
def copy(out: Vector, values: Vector) -> None:
    for i in range(len(out)):
        out[i] = values[i]


@as_written
def gather(out: Vector, vector: Vector, rows: Array, n_dense: int, width: int) -> None:
    """A client's part of a vector of the whole model."""
    copy(out[:n_dense], vector)
    for r in range(len(rows)):
        here, there = n_dense + r * width, n_dense + rows[r] * width
        copy(out[here : here + width], vector[there : there + width])


@as_written
def load_state(out: Vector, dense: Vector, rows: Vector, k: int, first: int, last: int) -> None:
    """The state of client k: its dense part, and rows `first` to `last`."""
    n_dense = dense.shape[1]
    copy(out[:n_dense], dense[k])
    copy(out[n_dense : n_dense + (last - first) * rows.shape[1]], rows[first:last].reshape(-1))


@as_written
def store_state(values: Vector, dense: Vector, rows: Vector, k: int, first: int, last: int) -> None:
    copy(dense[k], values)
    copy(rows[first:last].reshape(-1), values[dense.shape[1] :])


@in_any_order
def add(out: Vector, values: Vector, factor: np.float32, n: int) -> None:
    for i in range(n):
        out[i] += factor * values[i]


@in_any_order
def add_rows_of(out: Vector, vector: Vector, factor: np.float32, rows: Array, n_dense: int, width: int) -> None:
    """Add the client's rows of a vector of the whole model."""
    for r in range(len(rows)):
        here, there = n_dense + r * width, n_dense + rows[r] * width
        add(out[here : here + width], vector[there : there + width], factor, width)


@in_any_order
def load_delta(out: Vector, dense: Vector, shared: Vector) -> None:
    """The dense part of delta_k = own_k - shared_k."""
    for i in range(len(dense)):
        out[i] = dense[i] - shared[i]


@in_any_order
def move(v: Vectors, eta: np.float32, n: int) -> None:
    """x = x_0 - eta u"""
    x, start, u = v.x, v.start, v.u
    for i in range(n):
        x[i] = start[i] - eta * u[i]


@in_any_order
def correct(v: Vectors, eta: np.float32, lam: np.float32, mu: np.float32, n: int) -> None:
    """Add mu (x - x_0) - lambda delta to the sum of plain steps."""
    u, delta = v.u, v.delta
    for i in range(n):
        u[i] -= mu * eta * u[i] + lam * delta[i]


@in_any_order
def move_and_correct(v: Vectors, eta: np.float32, n: int) -> None:
    """`move`, then `correct` with lambda 1 and mu 0, in one pass."""
    x, start, u, delta = v.x, v.start, v.u, v.delta
    for i in range(n):
        x[i] = start[i] - eta * u[i]
        u[i] -= delta[i]


@in_any_order
def set_next_own(v: Vectors, eta: np.float32, per_step: np.float32, n: int) -> bool:
    """own_k of the next round in place of delta_k, after plain steps; whether it and the model are finite."""
    start, u, delta, total = v.start, v.u, v.delta, f32(0)
    for i in range(n):
        delta[i] += per_step * u[i]
        total += f32(0) * (start[i] - eta * u[i]) + f32(0) * delta[i]  # NaN for infinity and NaN
    return bool(total == f32(0))


@in_any_order
def is_finite_model(v: Vectors, eta: np.float32, n: int) -> bool:
    start, u, total = v.start, v.u, f32(0)
    for i in range(n):
        total += f32(0) * (start[i] - eta * u[i])  # NaN for infinity and NaN
    return bool(total == f32(0))


@as_written
def adam_step(v: Vectors, eta: np.float32, lam: np.float32, mu: np.float32, step: int, n: int) -> None:
    """A step of Adam: g~, and its direction from the moments."""
    u, gradient, total, first, second, delta = v.u, v.gradient, v.total, v.first, v.second, v.delta
    decay1, gain1, decay2, gain2 = f32(FIRST_DECAY), f32(1 - FIRST_DECAY), f32(SECOND_DECAY), f32(1 - SECOND_DECAY)
    scale1, scale2 = f32(1 / (1 - FIRST_DECAY**step)), f32(1 / (1 - SECOND_DECAY**step))
    for i in range(n):
        gradient[i] -= mu * eta * u[i] + lam * delta[i]
    for i in range(n):
        total[i] += gradient[i]
    for i in range(n):
        first[i] = decay1 * first[i] + gain1 * gradient[i]
        second[i] = decay2 * second[i] + gain2 * gradient[i] * gradient[i]
    for i in range(n):
        u[i] += scale1 * first[i] / (np.sqrt(scale2 * second[i]) + f32(EPSILON))


@in_any_order
def is_finite(values: Vector, n: int) -> bool:
    total = f32(0)
    for i in range(n):
        total += f32(0) * values[i]  # NaN for infinity and NaN
    return bool(total == f32(0))


@in_any_order
def squared_norm(values: Vector, n: int) -> float:
    """In float64; the last digits depend on the order, which `clip_factor` rounds away."""
    total = 0.0
    for i in range(n):
        total += np.float64(values[i]) * np.float64(values[i])
    return total


clip_factor = as_written(plain_clip_factor)


@as_written
def add_to_sum(
    out: Precise, values: Vector, theta: float, phi: float, rows: Array, n_theta: int, n_dense: int, width: int
) -> None:
    """Add a client's vector, times a factor for the GNN and one for the predictor, to one of the whole model."""
    add_exactly(out[:n_theta], values[:n_theta], theta)
    add_exactly(out[n_theta:n_dense], values[n_theta:n_dense], phi)
    for r in range(len(rows)):
        here, there = n_dense + r * width, n_dense + rows[r] * width
        add_exactly(out[there : there + width], values[here : here + width], phi)


@as_written
def add_exactly(out: Precise, values: Vector, factor: float) -> None:
    for i in range(len(out)):
        out[i] += (factor * values[i] + ROUND) - ROUND
