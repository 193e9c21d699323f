"""Compiled loops: the loss of many clients that score by weighed evidence, and its slopes, each with its own model.

A client is worked out by itself, in products of its own matrices, so that nothing depends on who else is in the loop.
With features f of its candidates and the names of `fedrule.model.weighed`,

    h1 = dropout(relu(f first + first_bias)),  h2 = dropout(relu(h1 second + second_bias)),  s = f direct + h2 last

and backwards by the chain rule. What dropout keeps is a function of the client's seed and the place in h1 and h2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from datasets.homes import Array, Mask
from fedrule.federated.layout import Vector as Floats

Bits = npt.NDArray[np.uint64]
F = TypeVar("F", bound=Callable[..., object])

ZERO = np.float32(0)
WORDS = 2.0**32  # different words


def compiled(function: F) -> F:
    """Compile as written."""
    made: F = njit(nogil=True, cache=True, error_model="numpy")(function)
    return made


@compiled
def slopes(
    x: Floats,  # [n_clients, size]  direct, first, first_bias, second, second_bias and last, one after the other
    hidden: int,
    features: Floats,  # [n, n_features]  of candidates of all clients
    positive: Mask,  # [n]  which of them are rules
    begin: Array,  # [n_clients]  where the candidates of each client begin
    many: Array,  # [n_clients]  how many it has, one at least
    seeds: Bits,  # [n_clients]  of dropout
    share: float,  # that dropout drops
    ranks: bool,  # by the ranking loss; otherwise by cross entropy
    loss: npt.NDArray[np.float64],  # [n_clients]  written
    slope: Floats,  # [n_clients, size]  written
) -> None:
    """Write the loss of every client, and its slopes at the client's model."""
    bar, scale = np.uint64(math.ceil(share * WORDS)), np.float32(1 / (1 - share))
    for c in range(len(begin)):
        n = many[c]
        f, is_rule = features[begin[c] : begin[c] + n], positive[begin[c] : begin[c] + n]
        direct, first, first_bias, second, second_bias, last = parts(x[c], f.shape[1], hidden)
        h1 = np.dot(f, first)
        activate(h1, first_bias, seeds[c], 0, bar, scale)
        h2 = np.dot(h1, second)
        activate(h2, second_bias, seeds[c], n * hidden, bar, scale)
        s = np.dot(f, direct) + np.dot(h2, last)
        of_s = np.zeros(n, dtype=np.float32)  # the slope of each logit
        loss[c] = ranking(s, is_rule, of_s) if ranks else cross_entropy(s, is_rule, of_s)

        of_direct, of_first, of_first_bias, of_second, of_second_bias, of_last = parts(slope[c], f.shape[1], hidden)
        of_direct[:] = np.dot(of_s, f)
        of_last[:] = np.dot(of_s, h2)
        turn_back(np.outer(of_s, last), h2, of_second_bias, scale)
        of_second[:] = np.dot(h1.T, h2)
        turn_back(np.dot(h2, second.T), h1, of_first_bias, scale)
        of_first[:] = np.dot(f.T, h1)


@compiled
def parts(vector: Floats, n: int, hidden: int) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
    """The parameters in a vector, without a copy."""
    first_bias = n + n * hidden
    second_bias = first_bias + hidden + hidden * hidden
    return (
        vector[:n],
        vector[n:first_bias].reshape(n, hidden),
        vector[first_bias : first_bias + hidden],
        vector[first_bias + hidden : second_bias].reshape(hidden, hidden),
        vector[second_bias : second_bias + hidden],
        vector[second_bias + hidden :],
    )


@compiled
def activate(h: Floats, bias: Floats, seed: np.uint64, place: int, bar: np.uint64, scale: np.float32) -> None:
    """dropout(relu(h + bias)), written over h, whose elements take their words from this place on."""
    n, width = h.shape
    for i in range(n):
        for j in range(width):
            value = h[i, j] + bias[j]
            if value <= 0:  # what is no number stays what it is
                value = ZERO
            elif bar > 0:
                value = value * scale if word(seed, np.uint64(place + i * width + j)) >= bar else ZERO
            h[i, j] = value


@compiled
def turn_back(slope: Floats, h: Floats, of_bias: Floats, scale: np.float32) -> None:
    """From the slope of what `activate` made to that of what it was given, written over h; its sums are the bias's."""
    of_bias[:] = 0
    for i in range(h.shape[0]):
        for j in range(h.shape[1]):
            h[i, j] = slope[i, j] * scale if h[i, j] != 0 else ZERO
            of_bias[j] += h[i, j]


@compiled
def ranking(s: Floats, positive: Mask, of_s: Floats) -> float:
    """`fedrule.training.losses.ranking` of one home, whose rules all weigh the same: their mean. `of_s` comes as zeros."""
    rules = positive.sum()
    if rules == 0 or rules == len(s):
        return 0.0
    largest = s[~positive].max()
    against = np.where(positive, 0.0, np.exp((s - largest).astype(np.float64)))
    total = against.sum()
    together = largest + math.log(total)
    loss, pushed = 0.0, 0.0
    for i in range(len(s)):
        if positive[i]:
            over = together - s[i]
            loss += softplus(over)
            of_s[i] = -sigmoid(over) / rules
            pushed += sigmoid(over) / rules
    for i in range(len(s)):
        if not positive[i]:
            of_s[i] = pushed * against[i] / total
    return float(loss / rules)


@compiled
def cross_entropy(s: Floats, positive: Mask, of_s: Floats) -> float:
    """`fedrule.training.losses.bce` of one home: the mean over its candidates, -log p of a rule and -log (1 - p) else."""
    loss = 0.0
    for i in range(len(s)):
        logit = float(s[i])
        loss += softplus(-logit if positive[i] else logit)
        of_s[i] = (sigmoid(logit) - positive[i]) / len(s)
    return loss / len(s)


@compiled
def softplus(value: float) -> float:
    """log(1 + e^value) without overflow."""
    return (value if value > 0 else 0.0) + math.log1p(math.exp(-abs(value)))


@compiled
def sigmoid(value: float) -> float:
    """Its slope."""
    return 1 / (1 + math.exp(-value))


@compiled
def word(seed: np.uint64, place: np.uint64) -> np.uint64:
    """32 bits: the upper half of this output of SplitMix64 (`datasets.common.chance.output`)."""
    bits = seed + (place + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits >> np.uint64(32)
