"""Compiled loops: the local training of clients one after the other, by the equations of `plan`.

A client's vectors are flat, the dense part first, then the rows that it has. With u the sum of its steps' directions,
g~ or what Adam makes of it, its model is x = x_0 - eta u, so that

    mu (x - x_0) = -mu eta u,        Delta = eta u,        p = u / tau,

and no digit of Delta or p is lost in a difference of models that are nearly the same.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numba import njit

from datasets.homes import Array
from fedrule.federated.algorithm import EPSILON, FIRST_DECAY, SECOND_DECAY, Precise
from fedrule.federated.vectors import ROUND
from fedrule.federated.vectors import Vector as Floats

if TYPE_CHECKING:
    from fedrule.federated.trainers.kernel import Correction, Moments, Outcome, Shape, Shard, Training


# --- Compiled loops: the gradient of one home's loss.
#
# The network is fedrule.model.network's with GraphSAGE, its loss the paper's. Nothing is approximated: the predictor's first
# layer is a product for each device and not for each pair, and of its last layer a home has its own relations only.
#
# Loops are written so that they are vectorised: an innermost loop runs from 0, and writes one or two arrays. Arrays are
# taken out of a tuple once, since each time counts references with an atomic instruction.

F = TypeVar("F", bound=Callable[..., object])
f32 = np.float32  # numbers are made so: a bare 0.5 is a float64, and so becomes all that it touches


def compiled(function: F) -> F:
    """Compile as written."""
    made: F = njit(error_model="numpy")(function)
    return made


def vectorised(function: F) -> F:
    """Compile with sums in any order, and products that are not rounded before they are added; NaN stays NaN."""
    made: F = njit(error_model="numpy", fastmath={"reassoc", "contract", "nsz"})(function)
    return made


class Parameters(NamedTuple):
    """Views of a flat vector: a client's model, or the slope of its loss there."""

    self1: Floats  # [n_types, hidden]
    in1: Floats  # [n_types, hidden]
    bias1: Floats  # [hidden]
    self2: Floats  # [hidden, hidden]
    in2: Floats  # [hidden, hidden]
    bias2: Floats  # [hidden]
    A: Floats  # [hidden, units]  of the trigger
    B: Floats  # [hidden, units]  of the action
    b: Floats  # [units]
    rows: Floats  # [n_rows, units + 1]  the weights of a relation, then its bias


class Home(NamedTuple):
    """One client's home."""

    device: Array  # [n_devices]  0, 1, 2, ...
    kind: Array  # [n_devices]  type
    one: Floats  # [n_devices]  1, 1, 1, ...
    sender: Array  # [n_edges]
    sender_kind: Array  # [n_edges]
    receiver: Array  # [n_edges]
    share: Floats  # [n_edges]  1 / how many messages the receiver gets
    triggers: Array  # devices that are the trigger of a triple, each once
    actions: Array  # devices that are the action of one
    trigger: Array  # [n_triples]  by place in `triggers`
    action: Array  # [n_triples]  by place in `actions`
    place: Array  # [n_triples]  of the relation among the client's rows
    positive: Floats  # [n_triples]


class Work(NamedTuple):
    """What the gradient writes down on its way; `at_` is the slope of the loss at what follows."""

    state: Floats  # [n_devices, hidden]  h^1
    heard: Floats  # [n_devices, hidden]  mean of the senders' h^1
    z: Floats  # [n_devices, hidden]
    at_state: Floats
    at_heard: Floats
    at_z: Floats
    as_trigger: Floats  # [n_triggers, units]  z_i A + b
    as_action: Floats  # [n_actions, units]  z_j B
    at_trigger: Floats
    at_action: Floats
    unit: Floats  # [units]  ReLU(z_i A + z_j B + b) of one triple


@vectorised
def add_gradient(slope: Parameters, x: Parameters, home: Home, work: Work) -> np.float32:
    """Add the slope of the home's loss at x; returned is the loss itself. Both are 0 without triples."""
    self1, in1, bias1, self2, in2, bias2, A, B, b, rows = x
    at_self1, at_in1, at_bias1, at_self2, at_in2, at_bias2, at_A, at_B, at_b, at_rows = slope
    device, kind, one, sender, sender_kind, receiver, share, triggers, actions, trigger, action, place, positive = home
    state, heard, z, at_state, at_heard, at_z, as_trigger, as_action, at_trigger, at_action, unit = work
    n, n_triggers, n_actions, n_triples = len(device), len(triggers), len(actions), len(trigger)
    if n_triples == 0:
        return f32(0)

    # h^1 = ReLU(theta^1 [x ; mean of x]); what a matrix makes of a one-hot x is one of its rows.
    set_rows(state, bias1, n)
    add_rows(state, device, self1, kind, one)
    add_rows(state, receiver, in1, sender_kind, share)
    relu(state, n)
    # z = theta^2 [h^1 ; mean of h^1]
    clear_rows(heard, n)
    add_rows(heard, receiver, state, sender, share)
    set_rows(z, bias2, n)
    add_product(z, state, device, self2)
    add_product(z, heard, device, in2)
    # phi^1 [z_i ; z_j] + b = z_i A + z_j B + b
    set_rows(as_trigger, b, n_triggers)
    add_product(as_trigger, z, triggers, A)
    clear_rows(as_action, n_actions)
    add_product(as_action, z, actions, B)

    loss = f32(0)
    clear_rows(at_trigger, n_triggers)
    clear_rows(at_action, n_actions)
    for t in range(n_triples):
        i, j, r = trigger[t], action[t], place[t]
        y = logit(unit, as_trigger, as_action, rows, i, j, r)
        each, at_y = cross_entropy(y, positive[t])
        loss += each / f32(n_triples)
        add_back(at_trigger, at_action, at_rows, unit, rows, i, j, r, at_y / f32(n_triples))

    add_all(at_b, at_trigger, n_triggers)
    clear_rows(at_z, n)
    add_product_back(at_A, at_z, z, triggers, A, at_trigger)
    add_product_back(at_B, at_z, z, actions, B, at_action)
    add_all(at_bias2, at_z, n)
    clear_rows(at_state, n)
    clear_rows(at_heard, n)
    add_product_back(at_self2, at_state, state, device, self2, at_z)
    add_product_back(at_in2, at_heard, heard, device, in2, at_z)
    add_rows(at_state, sender, at_heard, receiver, share)  # the messages' way back
    relu_back(at_state, state, n)
    add_all(at_bias1, at_state, n)
    add_rows(at_self1, kind, at_state, device, one)
    add_rows(at_in1, sender_kind, at_state, receiver, share)
    return loss


@vectorised
def set_rows(out: Floats, row: Floats, n: int) -> None:
    for d in range(n):
        for k in range(len(row)):
            out[d, k] = row[k]


@vectorised
def clear_rows(out: Floats, n: int) -> None:
    for d in range(n):
        for k in range(out.shape[1]):
            out[d, k] = f32(0)


@vectorised
def add_rows(out: Floats, to: Array, rows: Floats, source: Array, share: Floats) -> None:
    """Messages: out[to] += share * rows[source], one after the other."""
    for e in range(len(to)):
        t, s, a = to[e], source[e], share[e]
        for k in range(out.shape[1]):
            out[t, k] += a * rows[s, k]


@vectorised
def add_all(out: Floats, rows: Floats, n: int) -> None:
    """Add the first n rows to out."""
    for d in range(n):
        for k in range(len(out)):
            out[k] += rows[d, k]


@vectorised
def relu(out: Floats, n: int) -> None:
    for d in range(n):
        for k in range(out.shape[1]):
            out[d, k] = f32(0) if out[d, k] <= f32(0) else out[d, k]  # NaN stays


@vectorised
def relu_back(at: Floats, out: Floats, n: int) -> None:
    for d in range(n):
        for k in range(out.shape[1]):
            at[d, k] = at[d, k] if out[d, k] > f32(0) else f32(0)


@vectorised
def add_product(out: Floats, x: Floats, which: Array, matrix: Floats) -> None:
    """out[d] += x[which[d]] matrix; by four rows of the matrix, so that out is read and written less."""
    n_in, n_out = matrix.shape
    fours = n_in - n_in % 4
    for d in range(len(which)):
        v = which[d]
        for i in range(0, fours, 4):
            a, b, c, e = x[v, i], x[v, i + 1], x[v, i + 2], x[v, i + 3]
            for k in range(n_out):
                out[d, k] += a * matrix[i, k] + b * matrix[i + 1, k] + c * matrix[i + 2, k] + e * matrix[i + 3, k]
        for i in range(fours, n_in):
            a = x[v, i]
            for k in range(n_out):
                out[d, k] += a * matrix[i, k]


@vectorised
def add_product_back(at_matrix: Floats, at_x: Floats, x: Floats, which: Array, matrix: Floats, at_out: Floats) -> None:
    """The slopes of `add_product` at the matrix and at x."""
    n_in, n_out = matrix.shape
    for d in range(len(which)):
        v = which[d]
        for i in range(n_in):
            a, total = x[v, i], f32(0)
            for k in range(n_out):
                total += at_out[d, k] * matrix[i, k]
                at_matrix[i, k] += a * at_out[d, k]
            at_x[v, i] += total


@vectorised
def logit(unit: Floats, as_trigger: Floats, as_action: Floats, rows: Floats, i: int, j: int, r: int) -> np.float32:
    """y = w_r . ReLU(z_i A + z_j B + b) + b_r; the units are written down."""
    y: np.float32 = rows[r, len(unit)]
    for k in range(len(unit)):
        a = as_trigger[i, k] + as_action[j, k]
        a = f32(0) if a <= f32(0) else a
        unit[k] = a
        y += a * rows[r, k]
    return y


@vectorised
def add_back(
    at_trigger: Floats,
    at_action: Floats,
    at_rows: Floats,
    unit: Floats,
    rows: Floats,
    i: int,
    j: int,
    r: int,
    at_y: np.float32,
) -> None:
    """The slopes of `logit`, given the one at y."""
    at_rows[r, len(unit)] += at_y
    for k in range(len(unit)):
        at_unit = at_y * rows[r, k]
        at_unit = at_unit if unit[k] > f32(0) else f32(0)
        at_rows[r, k] += at_y * unit[k]
        at_trigger[i, k] += at_unit
        at_action[j, k] += at_unit


@compiled
def cross_entropy(y: np.float32, positive: np.float32) -> tuple[np.float32, np.float32]:
    """log(1 + e^y) - positive y and its slope, written so that nothing overflows."""
    e = math.exp(-abs(y))
    p = f32(1) / (f32(1) + e) if y >= f32(0) else e / (f32(1) + e)
    return max(y, f32(0)) - positive * y + math.log1p(e), p - positive


# --- Compiled loops over the flat vectors of a client: its dense part first, then the rows of relations that it has.


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


def kept(function: F) -> F:
    """Compile when first called, for the next time as well; the interpreter's lock is free while it runs.

    numba forgets what it kept when the function's file changes. It does not look at the files of what is called, so
    that the name by which it is kept tells the text of all, constants included.
    """
    folder = Path(__file__).parent
    sources = [*sorted(folder.glob("kernel*.py")), *(folder.parent / name for name in ("vectors.py", "algorithm.py"))]
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
