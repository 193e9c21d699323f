"""Compiled loops: the gradient of one home's loss.

The network is fedrule.model.model's with GraphSAGE, its loss the paper's. Nothing is approximated: the predictor's first
layer is a product for each device and not for each pair, and of its last layer a home has its own relations only.

Loops are written so that they are vectorised: an innermost loop runs from 0, and writes one or two arrays. Arrays are
taken out of a tuple once, since each time counts references with an atomic instruction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numba import njit

from datasets.homes import Array
from fedrule.federated.layout import Vector as Floats

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
