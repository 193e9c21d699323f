"""The gradient of the paper's loss on one client's home, for the compiled kernel.

The network is that of fedrule.network.network with GraphSAGE, the loss is the paper's. Nothing is approximated: the
predictor's first layer is a product per device, not per pair, and of the last one a client has its own relations only.
A name `d_x` is the gradient of the loss with respect to x.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from datasets.common.compiled import as_written, in_any_order
from datasets.homes import Array
from fedrule.federated.trainers.kernel_vectors import f32
from fedrule.federated.vectors import Vector

if TYPE_CHECKING:
    from fedrule.federated.trainers.kernel import Shape, Shard


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


@as_written
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


@as_written
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


@as_written
def buffers_for(n_devices: int, shape: Shape) -> Buffers:
    """For the largest home."""
    a = np.zeros((6, n_devices, shape.hidden), f32)
    b = np.zeros((4, n_devices, shape.units), f32)
    return Buffers(a[0], a[1], a[2], a[3], a[4], a[5], b[0], b[1], b[2], b[3], np.zeros(shape.units, f32))


@in_any_order
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


@in_any_order
def set_rows(out: Vector, row: Vector, n: int) -> None:
    for d in range(n):
        for k in range(len(row)):
            out[d, k] = row[k]


@in_any_order
def clear_rows(out: Vector, n: int) -> None:
    for d in range(n):
        for k in range(out.shape[1]):
            out[d, k] = f32(0)


@in_any_order
def add_rows(out: Vector, to: Array, rows: Vector, source: Array, norm: Vector) -> None:
    """Messages: out[to] += norm * rows[source], one after the other."""
    for e in range(len(to)):
        t, s, a = to[e], source[e], norm[e]
        for k in range(out.shape[1]):
            out[t, k] += a * rows[s, k]


@in_any_order
def add_all(out: Vector, rows: Vector, n: int) -> None:
    """Add the first n rows to out."""
    for d in range(n):
        for k in range(len(out)):
            out[k] += rows[d, k]


@in_any_order
def relu(out: Vector, n: int) -> None:
    for d in range(n):
        for k in range(out.shape[1]):
            out[d, k] = f32(0) if out[d, k] <= f32(0) else out[d, k]  # NaN stays


@in_any_order
def relu_back(d_out: Vector, out: Vector, n: int) -> None:
    for d in range(n):
        for k in range(out.shape[1]):
            d_out[d, k] = d_out[d, k] if out[d, k] > f32(0) else f32(0)


@in_any_order
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


@in_any_order
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


@in_any_order
def logit(unit: Vector, as_trigger: Vector, as_action: Vector, rows: Vector, i: int, j: int, r: int) -> np.float32:
    """y = w_r . ReLU(z_i A + z_j B + b) + b_r; writes the units."""
    y: np.float32 = rows[r, len(unit)]
    for k in range(len(unit)):
        a = as_trigger[i, k] + as_action[j, k]
        a = f32(0) if a <= f32(0) else a
        unit[k] = a
        y += a * rows[r, k]
    return y


@in_any_order
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


@in_any_order
def cross_entropy(y: np.float32, positive: np.float32) -> tuple[np.float32, np.float32]:
    """log(1 + e^y) - positive y and its derivative, without overflow."""
    e = math.exp(-abs(y))
    p = f32(1) / (f32(1) + e) if y >= f32(0) else e / (f32(1) + e)
    return max(y, f32(0)) - positive * y + math.log1p(e), p - positive
