"""The compiled kernel: the same as `algorithm.client_round` for one client after the other, faster; tested equal.

A client's vectors are flat, the dense part first, then the rows that it has. With u the sum of the directions of its
steps, g~ or what Adam makes of it, its model is x = x_0 - eta u, so that

    mu (x - x_0) = -mu eta u,        Delta = eta u,        p = u / tau,

and no digit of Delta or p is lost in the difference of two nearly equal models.

The network is that of fedrule.network.network with GraphSAGE, the loss is the paper's. Nothing is approximated: the
predictor's first layer is a product per device, not per pair, and of the last one a client has its own relations only.

Loops are written so that they are vectorised: an innermost loop starts at 0 and writes one or two arrays. Arrays are
taken out of a tuple once, since each access counts references with an atomic instruction. A name `d_x` is the gradient
of the loss with respect to x.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numba import njit

from datasets.common import gaussian_mechanism
from datasets.homes import Array
from fedrule.federated.optimizers import EPSILON, FIRST_DECAY, SECOND_DECAY, Precise
from fedrule.federated.vectors import ROUND, Vector
from fedrule.federated.vectors import clip_factor as plain_clip_factor

if TYPE_CHECKING:
    from fedrule.federated.trainers.kernel import Correction, Moments, Outcome, Shape, Shard, Training

F = TypeVar("F", bound=Callable[..., object])
f32 = np.float32  # numbers are made so: a bare 0.5 is a float64, and so becomes all that it touches


def compiled(function: F) -> F:
    """Compile as written; by default numba would compile it as the first caller is."""
    made: F = njit(error_model="numpy", fastmath=False)(function)
    return made


def vectorised(function: F) -> F:
    """Compile with sums in any order, and products that are not rounded before they are added; NaN stays NaN.

    As a part of each caller, so that it is rounded alike where numba compiles and where it loads from its cache: see
    `baselines.knowledge_graph.gradients.compiled`.
    """
    made: F = njit(error_model="numpy", fastmath={"reassoc", "contract", "nsz"}, forceinline=True)(function)
    return made


class Parameters(NamedTuple):
    """Views of a flat vector: a client's model, or the gradient of its loss."""

    self1: Vector  # [n_types, hidden]
    in1: Vector  # [n_types, hidden]
    bias1: Vector  # [hidden]
    self2: Vector  # [hidden, hidden]
    in2: Vector  # [hidden, hidden]
    bias2: Vector  # [hidden]
    A: Vector  # [hidden, units]  of the trigger
    B: Vector  # [hidden, units]  of the action
    b: Vector  # [units]
    rows: Vector  # [n_rows, units + 1]  the weights of a relation, then its bias


class Home(NamedTuple):
    """One client's home."""

    device: Array  # [n_devices]  0, 1, 2, ...
    kind: Array  # [n_devices]  type
    one: Vector  # [n_devices]  1, 1, 1, ...
    sender: Array  # [n_edges]
    sender_kind: Array  # [n_edges]
    receiver: Array  # [n_edges]
    norm: Vector  # [n_edges]  1 / how many messages the receiver gets
    triggers: Array  # devices that are the trigger of a triple, each once
    actions: Array  # devices that are the action of one
    trigger: Array  # [n_triples]  by place in `triggers`
    action: Array  # [n_triples]  by place in `actions`
    place: Array  # [n_triples]  of the relation among the client's rows
    positive: Vector  # [n_triples]


class Buffers(NamedTuple):
    """Intermediate results of a gradient."""

    state: Vector  # [n_devices, hidden]  h^1
    heard: Vector  # [n_devices, hidden]  mean of the senders' h^1
    z: Vector  # [n_devices, hidden]
    d_state: Vector
    d_heard: Vector
    d_z: Vector
    as_trigger: Vector  # [n_triggers, units]  z_i A + b
    as_action: Vector  # [n_actions, units]  z_j B
    d_trigger: Vector
    d_action: Vector
    unit: Vector  # [units]  ReLU(z_i A + z_j B + b) of one triple


@vectorised
def add_gradient(gradient: Parameters, x: Parameters, home: Home, buffers: Buffers) -> np.float32:
    """Add the gradient of the home's loss at x and return the loss; both are 0 without triples."""
    self1, in1, bias1, self2, in2, bias2, A, B, b, rows = x
    d_self1, d_in1, d_bias1, d_self2, d_in2, d_bias2, d_A, d_B, d_b, d_rows = gradient
    device, kind, one, sender, sender_kind, receiver, norm, triggers, actions, trigger, action, place, positive = home
    state, heard, z, d_state, d_heard, d_z, as_trigger, as_action, d_trigger, d_action, unit = buffers
    n, n_triggers, n_actions, n_triples = len(device), len(triggers), len(actions), len(trigger)
    if n_triples == 0:
        return f32(0)

    # h^1 = ReLU(theta^1 [x ; mean of x]); a matrix times a one-hot x is one of its rows.
    set_rows(state, bias1, n)
    add_rows(state, device, self1, kind, one)
    add_rows(state, receiver, in1, sender_kind, norm)
    relu(state, n)
    # z = theta^2 [h^1 ; mean of h^1]
    clear_rows(heard, n)
    add_rows(heard, receiver, state, sender, norm)
    set_rows(z, bias2, n)
    add_product(z, state, device, self2)
    add_product(z, heard, device, in2)
    # phi^1 [z_i ; z_j] + b = z_i A + z_j B + b
    set_rows(as_trigger, b, n_triggers)
    add_product(as_trigger, z, triggers, A)
    clear_rows(as_action, n_actions)
    add_product(as_action, z, actions, B)

    loss = f32(0)
    clear_rows(d_trigger, n_triggers)
    clear_rows(d_action, n_actions)
    for t in range(n_triples):
        i, j, r = trigger[t], action[t], place[t]
        y = logit(unit, as_trigger, as_action, rows, i, j, r)
        each, d_y = cross_entropy(y, positive[t])
        loss += each / f32(n_triples)
        add_back(d_trigger, d_action, d_rows, unit, rows, i, j, r, d_y / f32(n_triples))

    add_all(d_b, d_trigger, n_triggers)
    clear_rows(d_z, n)
    add_product_back(d_A, d_z, z, triggers, A, d_trigger)
    add_product_back(d_B, d_z, z, actions, B, d_action)
    add_all(d_bias2, d_z, n)
    clear_rows(d_state, n)
    clear_rows(d_heard, n)
    add_product_back(d_self2, d_state, state, device, self2, d_z)
    add_product_back(d_in2, d_heard, heard, device, in2, d_z)
    add_rows(d_state, sender, d_heard, receiver, norm)  # messages, backwards
    relu_back(d_state, state, n)
    add_all(d_bias1, d_state, n)
    add_rows(d_self1, kind, d_state, device, one)
    add_rows(d_in1, sender_kind, d_state, receiver, norm)
    return loss


@vectorised
def set_rows(out: Vector, row: Vector, n: int) -> None:
    for d in range(n):
        for k in range(len(row)):
            out[d, k] = row[k]


@vectorised
def clear_rows(out: Vector, n: int) -> None:
    for d in range(n):
        for k in range(out.shape[1]):
            out[d, k] = f32(0)


@vectorised
def add_rows(out: Vector, to: Array, rows: Vector, source: Array, norm: Vector) -> None:
    """Messages: out[to] += norm * rows[source], one after the other."""
    for e in range(len(to)):
        t, s, a = to[e], source[e], norm[e]
        for k in range(out.shape[1]):
            out[t, k] += a * rows[s, k]


@vectorised
def add_all(out: Vector, rows: Vector, n: int) -> None:
    """Add the first n rows to out."""
    for d in range(n):
        for k in range(len(out)):
            out[k] += rows[d, k]


@vectorised
def relu(out: Vector, n: int) -> None:
    for d in range(n):
        for k in range(out.shape[1]):
            out[d, k] = f32(0) if out[d, k] <= f32(0) else out[d, k]  # NaN stays


@vectorised
def relu_back(d_out: Vector, out: Vector, n: int) -> None:
    for d in range(n):
        for k in range(out.shape[1]):
            d_out[d, k] = d_out[d, k] if out[d, k] > f32(0) else f32(0)


@vectorised
def add_product(out: Vector, x: Vector, which: Array, matrix: Vector) -> None:
    """out[d] += x[which[d]] matrix; four rows of the matrix at a time, to read and write `out` less."""
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
def add_product_back(d_matrix: Vector, d_x: Vector, x: Vector, which: Array, matrix: Vector, d_out: Vector) -> None:
    """The gradients of `add_product` with respect to the matrix and x."""
    n_in, n_out = matrix.shape
    for d in range(len(which)):
        v = which[d]
        for i in range(n_in):
            a, total = x[v, i], f32(0)
            for k in range(n_out):
                total += d_out[d, k] * matrix[i, k]
                d_matrix[i, k] += a * d_out[d, k]
            d_x[v, i] += total


@vectorised
def logit(unit: Vector, as_trigger: Vector, as_action: Vector, rows: Vector, i: int, j: int, r: int) -> np.float32:
    """y = w_r . ReLU(z_i A + z_j B + b) + b_r; writes the units."""
    y: np.float32 = rows[r, len(unit)]
    for k in range(len(unit)):
        a = as_trigger[i, k] + as_action[j, k]
        a = f32(0) if a <= f32(0) else a
        unit[k] = a
        y += a * rows[r, k]
    return y


@vectorised
def add_back(
    d_trigger: Vector,
    d_action: Vector,
    d_rows: Vector,
    unit: Vector,
    rows: Vector,
    i: int,
    j: int,
    r: int,
    d_y: np.float32,
) -> None:
    """The gradients of `logit`, given that of y."""
    d_rows[r, len(unit)] += d_y
    for k in range(len(unit)):
        d_unit = d_y * rows[r, k]
        d_unit = d_unit if unit[k] > f32(0) else f32(0)
        d_rows[r, k] += d_y * unit[k]
        d_trigger[i, k] += d_unit
        d_action[j, k] += d_unit


@vectorised
def cross_entropy(y: np.float32, positive: np.float32) -> tuple[np.float32, np.float32]:
    """log(1 + e^y) - positive y and its derivative, without overflow."""
    e = math.exp(-abs(y))
    p = f32(1) / (f32(1) + e) if y >= f32(0) else e / (f32(1) + e)
    return max(y, f32(0)) - positive * y + math.log1p(e), p - positive


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


@compiled
def vectors(storage: Vector, first: int, last: int) -> Vectors:
    a, b, c, d = storage[0, first:last], storage[1, first:last], storage[2, first:last], storage[3, first:last]
    e, f, g, h = storage[4, first:last], storage[5, first:last], storage[6, first:last], storage[7, first:last]
    return Vectors(a, b, c, d, e, f, g, h)


@compiled
def clear(out: Vector, n: int) -> None:
    for i in range(n):
        out[i] = f32(0)


@compiled
def copy(out: Vector, values: Vector) -> None:
    for i in range(len(out)):
        out[i] = values[i]


@compiled
def gather(out: Vector, vector: Vector, rows: Array, n_dense: int, width: int) -> None:
    """A client's part of a vector of the whole model."""
    copy(out[:n_dense], vector)
    for r in range(len(rows)):
        here, there = n_dense + r * width, n_dense + rows[r] * width
        copy(out[here : here + width], vector[there : there + width])


@compiled
def load(out: Vector, dense: Vector, rows: Vector, k: int, first: int, last: int) -> None:
    """The state of client k: its dense part, and rows `first` to `last`."""
    n_dense = dense.shape[1]
    copy(out[:n_dense], dense[k])
    copy(out[n_dense : n_dense + (last - first) * rows.shape[1]], rows[first:last].reshape(-1))


@compiled
def store(values: Vector, dense: Vector, rows: Vector, k: int, first: int, last: int) -> None:
    copy(dense[k], values)
    copy(rows[first:last].reshape(-1), values[dense.shape[1] :])


@vectorised
def add(out: Vector, values: Vector, factor: np.float32, n: int) -> None:
    for i in range(n):
        out[i] += factor * values[i]


@vectorised
def add_rows_of(out: Vector, vector: Vector, factor: np.float32, rows: Array, n_dense: int, width: int) -> None:
    """Add the client's rows of a vector of the whole model."""
    for r in range(len(rows)):
        here, there = n_dense + r * width, n_dense + rows[r] * width
        add(out[here : here + width], vector[there : there + width], factor, width)


@vectorised
def load_delta(out: Vector, dense: Vector, shared: Vector) -> None:
    """The dense part of delta_k = own_k - shared_k."""
    for i in range(len(dense)):
        out[i] = dense[i] - shared[i]


@vectorised
def move(v: Vectors, eta: np.float32, n: int) -> None:
    """x = x_0 - eta u"""
    x, start, u = v.x, v.start, v.u
    for i in range(n):
        x[i] = start[i] - eta * u[i]


@vectorised
def correct(v: Vectors, eta: np.float32, lam: np.float32, mu: np.float32, n: int) -> None:
    """Add mu (x - x_0) - lambda delta to the sum of plain steps."""
    u, delta = v.u, v.delta
    for i in range(n):
        u[i] -= mu * eta * u[i] + lam * delta[i]


@vectorised
def move_and_correct(v: Vectors, eta: np.float32, n: int) -> None:
    """`move`, then `correct` with lambda 1 and mu 0, in one pass."""
    x, start, u, delta = v.x, v.start, v.u, v.delta
    for i in range(n):
        x[i] = start[i] - eta * u[i]
        u[i] -= delta[i]


@vectorised
def finite_next_own(v: Vectors, eta: np.float32, per_step: np.float32, n: int) -> bool:
    """own_k of the next round in place of delta_k, after plain steps; whether it and the model are finite."""
    start, u, delta, total = v.start, v.u, v.delta, f32(0)
    for i in range(n):
        delta[i] += per_step * u[i]
        total += f32(0) * (start[i] - eta * u[i]) + f32(0) * delta[i]  # NaN for infinity and NaN
    return bool(total == f32(0))


@vectorised
def finite_model(v: Vectors, eta: np.float32, n: int) -> bool:
    start, u, total = v.start, v.u, f32(0)
    for i in range(n):
        total += f32(0) * (start[i] - eta * u[i])  # NaN for infinity and NaN
    return bool(total == f32(0))


@compiled
def adam(v: Vectors, eta: np.float32, lam: np.float32, mu: np.float32, step: int, n: int) -> None:
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


@vectorised
def finite(values: Vector, n: int) -> bool:
    total = f32(0)
    for i in range(n):
        total += f32(0) * values[i]  # NaN for infinity and NaN
    return bool(total == f32(0))


@vectorised
def squared_norm(values: Vector, n: int) -> float:
    """In float64; the last digits depend on the order, which `clip_factor` rounds away."""
    total = 0.0
    for i in range(n):
        total += np.float64(values[i]) * np.float64(values[i])
    return total


clip_factor = compiled(plain_clip_factor)


@compiled
def add_to_sum(
    out: Precise, values: Vector, theta: float, phi: float, rows: Array, n_theta: int, n_dense: int, width: int
) -> None:
    """Add a client's vector, times a factor for the GNN and one for the predictor, to one of the whole model."""
    add_exactly(out[:n_theta], values[:n_theta], theta)
    add_exactly(out[n_theta:n_dense], values[n_theta:n_dense], phi)
    for r in range(len(rows)):
        here, there = n_dense + r * width, n_dense + rows[r] * width
        add_exactly(out[there : there + width], values[here : here + width], phi)


@compiled
def add_exactly(out: Precise, values: Vector, factor: float) -> None:
    for i in range(len(out)):
        out[i] += (factor * values[i] + ROUND) - ROUND


def cached(function: F) -> F:
    """Compile on the first call and keep the code on disk; the interpreter's lock is released while it runs.

    numba compiles again when the function's file changes, but ignores the files of the functions and constants that it
    uses. The name under which the code is kept therefore has a hash of all these files.
    """
    folder = Path(__file__).parent
    others = folder.parent / "vectors.py", folder.parent / "optimizers.py", Path(gaussian_mechanism.__file__)
    sources = [*sorted(folder.glob("kernel*.py")), *others]
    function.__qualname__ += f"-{zlib.crc32(b''.join(path.read_bytes() for path in sources)):x}"
    made: F = njit(nogil=True, cache=True, error_model="numpy")(function)
    return made


@cached
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
            load(both.delta, correction.own_dense, correction.own_rows, k, row, row_end)
        done = 0
        if training.adam:
            clear(both.total, n)
            clear(both.first, n)
            clear(both.second, n)
        if keeps_moments:
            load(both.first, moments.first_dense, moments.first_rows, k, row, row_end)
            load(both.second, moments.second_dense, moments.second_rows, k, row, row_end)
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
                adam(theta, theta_rate, theta_lambda, mu, done + step + 1, n_theta)
                adam(phi, phi_rate, phi_lambda, mu, done + step + 1, n - n_theta)

        # Its next state, and whether all is finite.
        weight = shard.weight[k]
        fine = np.isfinite(loss) and np.isfinite(weight)
        if correction.used and not training.adam:
            theta_fine = finite_next_own(theta, theta_rate, per_step, n_theta)
            fine = finite_next_own(phi, phi_rate, per_step, n - n_theta) and theta_fine and fine
        else:
            fine = fine and finite_model(theta, theta_rate, n_theta) and finite_model(phi, phi_rate, n - n_theta)
        if by_gradients:
            fine = fine and finite(both.total, n)
        if keeps_moments:
            fine = fine and finite(both.first, n) and finite(both.second, n)
        if correction.used and training.adam:
            add(both.delta, both.total if by_gradients else both.u, per_step, n)
            fine = fine and finite(both.delta, n)
        outcome.loss[k], outcome.finite[k] = loss, fine
        if not fine:
            continue

        if correction.used:
            store(both.delta, correction.own_dense, correction.own_rows, k, row, row_end)
        if keeps_moments:
            store(both.first, moments.first_dense, moments.first_rows, k, row, row_end)
            store(both.second, moments.second_dense, moments.second_rows, k, row, row_end)
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


@compiled
def home_of(shard: Shard, k: int, device: Array, one: Vector) -> Home:
    """Client k's home; `device` is 0, 1, 2, ... and `one` is 1, 1, 1, ... as long as the largest home."""
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
        shard.norm[edge:edge_end],
        shard.triggers[shard.triggers_start[k] : shard.triggers_start[k + 1]],
        shard.actions[shard.actions_start[k] : shard.actions_start[k + 1]],
        shard.trigger[triple:triple_end],
        shard.action[triple:triple_end],
        shard.place[triple:triple_end],
        shard.positive[triple:triple_end],
    )


@compiled
def parameters(flat: Vector, shape: Shape, n_rows: int) -> Parameters:
    """Views of the parameters in a flat vector."""
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
def buffers_for(n_devices: int, shape: Shape) -> Buffers:
    """For the largest home."""
    a = np.zeros((6, n_devices, shape.hidden), f32)
    b = np.zeros((4, n_devices, shape.units), f32)
    return Buffers(a[0], a[1], a[2], a[3], a[4], a[5], b[0], b[1], b[2], b[3], np.zeros(shape.units, f32))


@compiled
def longest(start: Array) -> int:
    most = 0
    for k in range(len(start) - 1):
        most = max(most, start[k + 1] - start[k])
    return most
