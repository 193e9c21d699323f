"""Compiled loops over the flat vectors of a client: its dense part first, then the rows of relations that it has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from datasets.homes import Array
from fedrule.federated.grid import ROUND
from fedrule.federated.trainers.kernel_gradient import compiled, f32, vectorised
from fedrule.federated.layout import Vector as Floats
from fedrule.federated.plan import EPSILON, FIRST_DECAY, SECOND_DECAY
from fedrule.federated.server import Precise


class Vectors(NamedTuple):
    """What a client has of the model, or the part of it that has one rate: the GNN, or all the rest."""

    start: Floats  # x_0
    x: Floats
    u: Floats
    slope: Floats  # g~ of one step of Adam
    pushed: Floats  # the sum of these
    first: Floats  # Adam's moments
    second: Floats
    off: Floats  # delta_k, and own_k in the end


@compiled
def vectors(memory: Floats, first: int, last: int) -> Vectors:
    a, b, c, d = memory[0, first:last], memory[1, first:last], memory[2, first:last], memory[3, first:last]
    e, f, g, h = memory[4, first:last], memory[5, first:last], memory[6, first:last], memory[7, first:last]
    return Vectors(a, b, c, d, e, f, g, h)


@compiled
def clear(out: Floats, n: int) -> None:
    for i in range(n):
        out[i] = f32(0)


@compiled
def copy(out: Floats, values: Floats) -> None:
    for i in range(len(out)):
        out[i] = values[i]


@compiled
def gather(out: Floats, vector: Floats, rows: Array, n_dense: int, width: int) -> None:
    """A client's part of a vector of the whole model."""
    copy(out[:n_dense], vector)
    for r in range(len(rows)):
        here, there = n_dense + r * width, n_dense + rows[r] * width
        copy(out[here : here + width], vector[there : there + width])


@compiled
def load(out: Floats, dense: Floats, rows: Floats, k: int, first: int, last: int) -> None:
    """What client k remembers: its dense part, and rows `first` to `last`."""
    n_dense = dense.shape[1]
    copy(out[:n_dense], dense[k])
    copy(out[n_dense : n_dense + (last - first) * rows.shape[1]], rows[first:last].reshape(-1))


@compiled
def store(values: Floats, dense: Floats, rows: Floats, k: int, first: int, last: int) -> None:
    copy(dense[k], values)
    copy(rows[first:last].reshape(-1), values[dense.shape[1] :])


@vectorised
def add(out: Floats, values: Floats, factor: np.float32, n: int) -> None:
    for i in range(n):
        out[i] += factor * values[i]


@vectorised
def add_rows_of(out: Floats, vector: Floats, factor: np.float32, rows: Array, n_dense: int, width: int) -> None:
    """Add the client's rows of a vector of the whole model."""
    for r in range(len(rows)):
        here, there = n_dense + r * width, n_dense + rows[r] * width
        add(out[here : here + width], vector[there : there + width], factor, width)


@vectorised
def move(v: Vectors, eta: np.float32, n: int) -> None:
    """x = x_0 - eta u"""
    x, start, u = v.x, v.start, v.u
    for i in range(n):
        x[i] = start[i] - eta * u[i]


@vectorised
def correct(v: Vectors, eta: np.float32, share: np.float32, mu: np.float32, n: int) -> None:
    """Add mu (x - x_0) - lambda delta to the sum of plain steps; `share` is lambda."""
    u, off = v.u, v.off
    for i in range(n):
        u[i] -= mu * eta * u[i] + share * off[i]


@vectorised
def finite_model(v: Vectors, eta: np.float32, n: int) -> bool:
    start, u, total = v.start, v.u, f32(0)
    for i in range(n):
        total += f32(0) * (start[i] - eta * u[i])  # NaN for infinity and NaN
    return bool(total == f32(0))


@vectorised
def adam(v: Vectors, eta: np.float32, share: np.float32, mu: np.float32, step: int, n: int) -> None:
    """Steps of Adam: g~ of the gradient, and the direction that the moments make of it."""
    u, slope, pushed, first, second, off = v.u, v.slope, v.pushed, v.first, v.second, v.off
    decay1, gain1, decay2, gain2 = f32(FIRST_DECAY), f32(1 - FIRST_DECAY), f32(SECOND_DECAY), f32(1 - SECOND_DECAY)
    scale1, scale2 = f32(1 / (1 - FIRST_DECAY**step)), f32(1 / (1 - SECOND_DECAY**step))
    for i in range(n):
        slope[i] -= mu * eta * u[i] + share * off[i]
    for i in range(n):
        pushed[i] += slope[i]
    for i in range(n):
        first[i] = decay1 * first[i] + gain1 * slope[i]
        second[i] = decay2 * second[i] + gain2 * slope[i] * slope[i]
    for i in range(n):
        u[i] += scale1 * first[i] / (np.sqrt(scale2 * second[i]) + f32(EPSILON))


@vectorised
def finite(values: Floats, n: int) -> bool:
    total = f32(0)
    for i in range(n):
        total += f32(0) * values[i]  # NaN for infinity and NaN
    return bool(total == f32(0))


@compiled
def add_to_sum(
    total: Precise, values: Floats, theta: float, phi: float, rows: Array, n_theta: int, n_dense: int, width: int
) -> None:
    """Add a client's vector, times one number for the GNN and another for all the rest, to one of the whole model."""
    add_on_grid(total[:n_theta], values[:n_theta], theta)
    add_on_grid(total[n_theta:n_dense], values[n_theta:n_dense], phi)
    for r in range(len(rows)):
        here, there = n_dense + r * width, n_dense + rows[r] * width
        add_on_grid(total[there : there + width], values[here : here + width], phi)


@compiled
def add_on_grid(total: Precise, values: Floats, factor: float) -> None:
    for i in range(len(total)):
        total[i] += (factor * values[i] + ROUND) - ROUND
