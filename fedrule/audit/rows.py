"""Rules of a home from the rows of its update that are not zero, for models with the paper's network.

A client changes only the rows of the last layer whose relations are in its batch, and only those rows of the first
layer whose types its devices have: `self1` for devices that are candidates or send messages to them, `in1` for devices
that send messages, the triggers of rules. Under cross entropy the bias of relation r has the gradient

    sum over candidates of r of (p - y) / n,

which is negative for a rule and positive for a non-rule, since 0 < p < 1. So signs separate rules from non-rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.homes import Mask
from fedrule.audit.view import Guess, UpdateView, guess_of
from fedrule.federated.optimizers import Precise

SIGMAS = 3.0  # numbers below so many standard deviations are noise


@dataclass(frozen=True, slots=True, eq=False)
class TouchedRows:
    """Which rows of an update are not zero, and what they say."""

    rows: Precise  # [n_relations, row_length]  gradient of the last layer, the bias at the end
    rules: Mask  # [n_relations]  negative bias: relations of rules
    types: Mask  # [n_types]  of devices in the batch
    senders: Mask  # [n_types]  of triggers of rules

    @classmethod
    def of(cls, view: UpdateView) -> TouchedRows:
        layout, gradient, noise = view.layout, view.gradient, view.gradient_noise
        rounding = view.rounding
        bar = np.maximum(rounding, SIGMAS * noise)
        rows = gradient[layout.n_dense :].reshape(layout.n_rows, layout.row_length)
        rules = rows[:, -1] < -bar[layout.n_dense :].reshape(rows.shape)[:, -1]
        found = {}
        for name in ("theta.self1", "theta.in1"):
            place, shape = _place(view, name)
            part, deviation = gradient[place].reshape(shape), noise[place].reshape(shape)
            # The mean square of k standard normal numbers has mean 1 and variance 2 / k.
            size = np.sqrt((part**2).mean(axis=1))
            by_chance = deviation[:, 0] * np.sqrt(1 + SIGMAS * np.sqrt(2 / shape[1]))
            found[name] = size > np.maximum(rounding[place].reshape(shape).max(axis=1), by_chance)
        return cls(rows, rules, found["theta.self1"], found["theta.in1"])


def touched_rows(view: UpdateView) -> Guess:
    """Claims every valid rule whose relation has a negative bias and whose types have rows that are not zero."""
    valid = view.scorer.valid
    trigger, action, relation = valid.typed()
    touched = TouchedRows.of(view)
    senders, types = touched.senders, touched.types
    if view.types is not None:
        senders, types = senders & view.types, types & view.types
    chosen = touched.rules[relation] & senders[trigger] & types[action]
    # Rules of one relation cannot be told apart here, but by how common they are.
    score = np.where(chosen, 1 - touched.rows[relation, -1], 0) + view.prior / 2
    return guess_of(valid, score, chosen, relations=touched.rules, types=types)


def _place(view: UpdateView, name: str) -> tuple[slice, tuple[int, ...]]:
    """Where a parameter is in a vector, and its shape."""
    sizes = [int(np.prod(shape)) for shape in view.layout.shapes]
    at = view.layout.names.index(name)
    begin = sum(sizes[:at])
    return slice(begin, begin + sizes[at]), view.layout.shapes[at]
