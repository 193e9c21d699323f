"""The compiled kernel: the same as `algorithm.client_round` for one client after the other, faster; tested equal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from datasets.common import gaussian_mechanism
from datasets.common.compiled import as_written, entry_point
from datasets.homes import Array
from fedrule.federated.trainers.kernel_gradient import add_gradient, buffers_for, home_of, parameters
from fedrule.federated.trainers.kernel_vectors import (
    adam_step,
    add,
    add_rows_of,
    add_to_sum,
    clear,
    clip_factor,
    copy,
    correct,
    f32,
    gather,
    is_finite,
    is_finite_model,
    load_delta,
    load_state,
    move,
    move_and_correct,
    set_next_own,
    squared_norm,
    store_state,
    vectors,
)
from fedrule.federated.vectors import Vector

if TYPE_CHECKING:
    from fedrule.federated.trainers.kernel import Correction, Moments, Outcome, Shape, Shard, Training

FOLDER = Path(__file__).parent
# Files with the functions and constants that become a part of the machine code.
SOURCES = (
    *sorted(FOLDER.glob("kernel*.py")),
    FOLDER.parent / "vectors.py",
    FOLDER.parent / "optimizers.py",
    Path(gaussian_mechanism.__file__),
)


@entry_point(*SOURCES)
def train_clients(
    shape: Shape,
    model: Vector,
    shard: Shard,
    training: Training,
    correction: Correction,
    moments: Moments,
    outcome: Outcome,
) -> None:
    """See `kernel.train_shard`, which checks the arguments."""
    n_theta = 2 * (shape.n_types + shape.hidden + 1) * shape.hidden
    n_dense = n_theta + (2 * shape.hidden + 1) * shape.units
    width, n_rows = shape.units + 1, longest(shard.row_start)
    most = n_dense + n_rows * width
    storage = np.zeros((8, most), f32)  # used by one client after the other
    both, theta, phi = vectors(storage, 0, most), vectors(storage, 0, n_theta), vectors(storage, n_theta, most)
    x = parameters(both.x, shape, n_rows)
    gradient = parameters(both.gradient if training.adam else both.u, shape, n_rows)
    buffers = buffers_for(longest(shard.device_start), shape)
    device, one = np.arange(len(buffers.z)), np.ones(len(buffers.z), f32)
    theta_rate, phi_rate, mu = f32(training.theta_rate), f32(training.phi_rate), f32(training.proximal)
    theta_lambda, phi_lambda = f32(correction.theta_lambda), f32(correction.phi_lambda)
    plain_corrects = not training.adam and (correction.used or training.proximal != 0)
    is_whole = training.proximal == 0 and correction.theta_lambda == 1 and correction.phi_lambda == 1
    keeps_moments, by_gradients = training.adam and training.kept, training.adam and training.by_gradients
    per_step = f32(1 / training.steps)

    for k in range(len(shard.weight)):
        # The client's model, state and delta_k.
        home = home_of(shard, k, device, one)
        row, row_end = shard.row_start[k], shard.row_start[k + 1]
        rows = shard.row[row:row_end]
        n = n_dense + len(rows) * width
        group = correction.group[k] if correction.used else -1
        gather(both.start, model, rows, n_dense, width)
        clear(both.u, n)
        if correction.used and group >= 0:
            load_delta(both.delta, correction.own_dense[k], correction.shared[group])
            copy(both.delta[n_dense:n], correction.own_rows[row:row_end].reshape(-1))
            add_rows_of(both.delta, correction.shared[group], f32(-1), rows, n_dense, width)
        elif correction.used:
            load_state(both.delta, correction.own_dense, correction.own_rows, k, row, row_end)
        done = 0
        if training.adam:
            clear(both.total, n)
            clear(both.first, n)
            clear(both.second, n)
        if keeps_moments:
            load_state(both.first, moments.first_dense, moments.first_rows, k, row, row_end)
            load_state(both.second, moments.second_dense, moments.second_rows, k, row, row_end)
            done = moments.steps[k]

        loss = f32(0)
        for step in range(training.steps):
            if plain_corrects and is_whole:
                move_and_correct(theta, theta_rate, n_theta)
                move_and_correct(phi, phi_rate, n - n_theta)
            else:
                move(theta, theta_rate, n_theta)
                move(phi, phi_rate, n - n_theta)
                if plain_corrects:  # added to u before the gradient is
                    correct(theta, theta_rate, theta_lambda, mu, n_theta)
                    correct(phi, phi_rate, phi_lambda, mu, n - n_theta)
            if training.adam:
                clear(both.gradient, n)
            found = add_gradient(gradient, x, home, buffers)
            loss = found if step == 0 else loss
            if training.adam:
                adam_step(theta, theta_rate, theta_lambda, mu, done + step + 1, n_theta)
                adam_step(phi, phi_rate, phi_lambda, mu, done + step + 1, n - n_theta)

        # Its next state, and whether all is finite.
        weight = shard.weight[k]
        fine = np.isfinite(loss) and np.isfinite(weight)
        if correction.used and not training.adam:
            theta_fine = set_next_own(theta, theta_rate, per_step, n_theta)
            fine = set_next_own(phi, phi_rate, per_step, n - n_theta) and theta_fine and fine
        else:
            fine = fine and is_finite_model(theta, theta_rate, n_theta) and is_finite_model(phi, phi_rate, n - n_theta)
        if by_gradients:
            fine = fine and is_finite(both.total, n)
        if keeps_moments:
            fine = fine and is_finite(both.first, n) and is_finite(both.second, n)
        if correction.used and training.adam:
            add(both.delta, both.total if by_gradients else both.u, per_step, n)
            fine = fine and is_finite(both.delta, n)
        outcome.loss[k], outcome.finite[k] = loss, fine
        if not fine:
            continue

        if correction.used:
            store_state(both.delta, correction.own_dense, correction.own_rows, k, row, row_end)
        if keeps_moments:
            store_state(both.first, moments.first_dense, moments.first_rows, k, row, row_end)
            store_state(both.second, moments.second_dense, moments.second_rows, k, row, row_end)
            moments.steps[k] += training.steps
        if by_gradients:
            each = weight / training.steps
            add_to_sum(outcome.mean_gradient, both.total, each, each, rows, n_theta, n_dense, width)
        if training.without_base and group >= 0:
            add_rows_of(both.u, correction.shared[group], -phi_lambda * f32(training.steps), rows, n_dense, width)
        if training.clip > 0:  # Delta = eta u
            theta_part = np.float64(theta_rate) ** 2 * squared_norm(theta.u, n_theta)
            phi_part = np.float64(phi_rate) ** 2 * squared_norm(phi.u, n - n_theta)
            weight *= clip_factor(weight * math.sqrt(theta_part + phi_part), training.clip)
        add_to_sum(outcome.update, both.u, weight * theta_rate, weight * phi_rate, rows, n_theta, n_dense, width)


@as_written
def longest(start: Array) -> int:
    most = 0
    for k in range(len(start) - 1):
        most = max(most, start[k + 1] - start[k])
    return most
