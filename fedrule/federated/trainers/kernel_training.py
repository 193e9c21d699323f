"""Compiled loops: the local training of clients one after the other, by the equations of `plan`.

A client's vectors are flat, the dense part first, then the rows that it has. With u the sum of its steps' directions,
g~ or what Adam makes of it, its model is x = x_0 - eta u, so that

    mu (x - x_0) = -mu eta u,        Delta = eta u,        p = u / tau,

and no digit of Delta or p is lost in a difference of models that are nearly the same.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from datasets.homes import Array
from fedrule.federated.trainers.kernel_gradient import F, Home, Parameters, Work, add_gradient, compiled, f32
from fedrule.federated.trainers.kernel_vectors import adam, add, add_rows_of, add_to_sum, clear, correct, finite, finite_model, gather, load, move, store, vectors
from fedrule.federated.layout import Vector as Floats

if TYPE_CHECKING:
    from fedrule.federated.trainers.kernel_arrays import Correction, Moments, Outcome, Shape, Shard, Training


def kept(function: F) -> F:
    """Compile when first called, for the next time as well; the interpreter's lock is free while it runs.

    numba forgets what it kept when the function's file changes. It does not look at the files of what is called, so
    that the name by which it is kept tells the text of all, constants included.
    """
    folder = Path(__file__).parent
    sources = [*sorted(folder.glob("kernel*.py")), folder / "grid.py", folder / "plan.py"]
    function.__qualname__ += f"-{zlib.crc32(b''.join(path.read_bytes() for path in sources)):x}"
    made: F = njit(nogil=True, cache=True, error_model="numpy")(function)
    return made


@kept
def train_clients(
    shape: Shape,
    model: Floats,
    shard: Shard,
    training: Training,
    correction: Correction,
    moments: Moments,
    outcome: Outcome,
) -> None:
    """See `kernel.train_shard`, which checks what it hands over."""
    n_theta = 2 * (shape.n_types + shape.hidden + 1) * shape.hidden
    n_dense = n_theta + (2 * shape.hidden + 1) * shape.units
    width, n_rows = shape.units + 1, longest(shard.row_start)
    most = n_dense + n_rows * width
    memory = np.zeros((8, most), f32)  # each client writes over the one before
    both, theta, phi = vectors(memory, 0, most), vectors(memory, 0, n_theta), vectors(memory, n_theta, most)
    x = parameters(both.x, shape, n_rows)
    slope = parameters(both.slope if training.adam else both.u, shape, n_rows)
    work = space(longest(shard.device_start), shape)
    device, one = np.arange(len(work.z)), np.ones(len(work.z), f32)
    theta_rate, phi_rate, mu = f32(training.theta_rate), f32(training.phi_rate), f32(training.proximal)
    theta_lambda, phi_lambda = f32(correction.theta_lambda), f32(correction.phi_lambda)
    plain_corrects = not training.adam and (correction.used or training.proximal != 0)
    remembers, by_gradients = training.adam and training.kept, training.adam and training.by_gradients
    per_step = f32(1 / training.steps)

    for k in range(len(shard.weight)):
        # What the client is sent, and what it remembers.
        home = home_of(shard, k, device, one)
        row, row_end = shard.row_start[k], shard.row_start[k + 1]
        rows = shard.row[row:row_end]
        n = n_dense + len(rows) * width
        group = correction.group[k] if correction.used else -1
        gather(both.start, model, rows, n_dense, width)
        clear(both.u, n)
        if correction.used:
            load(both.off, correction.own_dense, correction.own_rows, k, row, row_end)
            if group >= 0:
                add(both.off, correction.shared[group], f32(-1), n_dense)
                add_rows_of(both.off, correction.shared[group], f32(-1), rows, n_dense, width)
        done = 0
        if training.adam:
            clear(both.pushed, n)
            clear(both.first, n)
            clear(both.second, n)
        if remembers:
            load(both.first, moments.first_dense, moments.first_rows, k, row, row_end)
            load(both.second, moments.second_dense, moments.second_rows, k, row, row_end)
            done = moments.steps[k]

        loss = f32(0)
        for step in range(training.steps):
            move(theta, theta_rate, n_theta)
            move(phi, phi_rate, n - n_theta)
            if plain_corrects:  # what is added to the gradient is added to u, and the gradient then as well
                correct(theta, theta_rate, theta_lambda, mu, n_theta)
                correct(phi, phi_rate, phi_lambda, mu, n - n_theta)
            if training.adam:
                clear(both.slope, n)
            found = add_gradient(slope, x, home, work)
            loss = found if step == 0 else loss
            if training.adam:
                adam(theta, theta_rate, theta_lambda, mu, done + step + 1, n_theta)
                adam(phi, phi_rate, phi_lambda, mu, done + step + 1, n - n_theta)

        # What it would remember, and whether all is finite.
        weight = shard.weight[k]
        fine = np.isfinite(loss) and np.isfinite(weight)
        fine = fine and finite_model(theta, theta_rate, n_theta) and finite_model(phi, phi_rate, n - n_theta)
        if by_gradients:
            fine = fine and finite(both.pushed, n)
        if remembers:
            fine = fine and finite(both.first, n) and finite(both.second, n)
        if correction.used:
            add(both.off, both.pushed if by_gradients else both.u, per_step, n)
            fine = fine and finite(both.off, n)
        outcome.loss[k], outcome.finite[k] = loss, fine
        if not fine:
            continue

        # It remembers, and sends.
        if correction.used:
            store(both.off, correction.own_dense, correction.own_rows, k, row, row_end)
        if remembers:
            store(both.first, moments.first_dense, moments.first_rows, k, row, row_end)
            store(both.second, moments.second_dense, moments.second_rows, k, row, row_end)
            moments.steps[k] += training.steps
        if by_gradients:
            each = weight / training.steps
            add_to_sum(outcome.progress, both.pushed, each, each, rows, n_theta, n_dense, width)
        if training.without_base and group >= 0:
            add_rows_of(both.u, correction.shared[group], -phi_lambda * f32(training.steps), rows, n_dense, width)
        add_to_sum(outcome.update, both.u, weight * theta_rate, weight * phi_rate, rows, n_theta, n_dense, width)


@compiled
def home_of(shard: Shard, k: int, device: Array, one: Floats) -> Home:
    """Client k's home; `device` is 0, 1, 2, ... and `one` is 1, 1, 1, ... for as many devices as any home has."""
    first, last = shard.device_start[k], shard.device_start[k + 1]
    edge, edge_end = shard.edge_start[k], shard.edge_start[k + 1]
    triple, triple_end = shard.triple_start[k], shard.triple_start[k + 1]
    return Home(
        device[: last - first],
        shard.device_type[first:last],
        one[: last - first],
        shard.sender[edge:edge_end],
        shard.sender_type[edge:edge_end],
        shard.receiver[edge:edge_end],
        shard.share[edge:edge_end],
        shard.triggers[shard.triggers_start[k] : shard.triggers_start[k + 1]],
        shard.actions[shard.actions_start[k] : shard.actions_start[k + 1]],
        shard.trigger[triple:triple_end],
        shard.action[triple:triple_end],
        shard.place[triple:triple_end],
        shard.positive[triple:triple_end],
    )


@compiled
def parameters(flat: Floats, shape: Shape, n_rows: int) -> Parameters:
    """What a flat vector is made of."""
    types, hidden, units = shape.n_types, shape.hidden, shape.units
    one, two, three = types * hidden, hidden * hidden, hidden * units
    self2 = 2 * one + hidden
    bias2 = self2 + 2 * two
    A = bias2 + hidden
    b = A + 2 * three
    return Parameters(
        flat[:one].reshape((types, hidden)),
        flat[one : 2 * one].reshape((types, hidden)),
        flat[2 * one : self2],
        flat[self2 : self2 + two].reshape((hidden, hidden)),
        flat[self2 + two : bias2].reshape((hidden, hidden)),
        flat[bias2:A],
        flat[A : A + three].reshape((hidden, units)),
        flat[A + three : b].reshape((hidden, units)),
        flat[b : b + units],
        flat[b + units :].reshape((n_rows, units + 1)),
    )


@compiled
def space(n_devices: int, shape: Shape) -> Work:
    """Room for the largest home."""
    a = np.zeros((6, n_devices, shape.hidden), f32)
    b = np.zeros((4, n_devices, shape.units), f32)
    return Work(a[0], a[1], a[2], a[3], a[4], a[5], b[0], b[1], b[2], b[3], np.zeros(shape.units, f32))


@compiled
def longest(start: Array) -> int:
    most = 0
    for k in range(len(start) - 1):
        most = max(most, start[k + 1] - start[k])
    return most
