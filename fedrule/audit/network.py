"""Rules of a home from an update of the paper's network: the rows that it touches, and gradient inversion.

A client changes only the rows of the last layer whose relations are in its batch, and only those rows of the first
layer whose types its devices have: `self1` for devices that are candidates or send messages to them, `in1` for devices
that send messages, the triggers of rules. The row of relation r in the last layer, its bias included, has the gradient

    sum over candidates c of r of d_c [h_c ; 1],    d_c = (p_c - y_c) / n  under cross entropy,

with h_c the hidden units of the candidate's pair of devices. The bias alone is negative for a rule and positive for a
non-rule, since 0 < p < 1: signs separate rules from non-rules. And the server can compute h for every pair of types,
from a home with a device of each type and the rules guessed so far, so that the weights -d_c of the pairs follow by
non-negative least squares (Zhu et al. 2019, "Deep leakage from gradients", search for the inputs instead; here there
are few). Several local steps are taken as one at the mean gradient. Under noise there are too few certain numbers for
that: then every possible rule is weighed by itself, by the likelihood ratio of its row with and without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from scipy.optimize import nnls

from datasets.homes import Array, Mask, Rules
from fedrule.audit.view import Guess, UpdateView, guess_of, log_odds, possible_rules
from fedrule.federated.optimizers import Precise
from fedrule.network.batch import GraphBatch

SIGMAS = 3.0  # numbers within so many standard deviations of zero are taken for noise
PASSES = 3  # over the rules: each sees the messages of those that the pass before has found
PART = 0.15  # a rule is claimed from this part of the largest weight of its relation on


@dataclass(frozen=True, slots=True, eq=False)
class TouchedRows:
    """Which rows of an update are not zero, and what they say."""

    rows: Precise  # [n_relations, row_length]  gradient of the last layer, the bias at the end
    rules: Mask  # [n_relations]  whose bias is negative: relations of rules
    types: Mask  # [n_types]  of devices in the batch
    senders: Mask  # [n_types]  of triggers of rules

    @classmethod
    def of(cls, view: UpdateView) -> TouchedRows:
        """Beyond rounding and noise; of the types only those of the target, where they are known."""
        layout, gradient = view.public.layout, view.gradient
        shape = layout.n_rows, layout.row_length
        rows = gradient[layout.n_dense :].reshape(shape)
        bar = np.maximum(view.rounding, SIGMAS * view.deviation)[layout.n_dense :].reshape(shape)
        types, senders = (_touched(view, gradient, name) for name in ("theta.self1", "theta.in1"))
        if view.types is not None:
            types, senders = types & view.types, senders & view.types
        return cls(rows, rows[:, -1] < -bar[:, -1], types, senders)


def _touched(view: UpdateView, gradient: Precise, name: str) -> Mask:
    """[n_types]: rows of a matrix of the first layer that are not zero."""
    layout = view.public.layout
    at = layout.names.index(name)
    begin, shape = sum(map(prod, layout.shapes[:at])), layout.shapes[at]
    place = slice(begin, begin + prod(shape))
    # The mean square of k standard normal numbers has mean 1 and variance 2 / k.
    by_chance = view.deviation[begin] * np.sqrt(1 + SIGMAS * np.sqrt(2 / shape[1]))
    size = np.sqrt((gradient[place].reshape(shape) ** 2).mean(axis=1))
    touched: Mask = size > np.maximum(view.rounding[place].reshape(shape).max(axis=1), by_chance)
    return touched


def touched_rows(view: UpdateView) -> Guess:
    """Claims every valid rule whose relation has a negative bias and whose types have rows that are not zero.

    Rules of one relation cannot be told apart, but by how common they are.
    """
    valid, touched = view.public.valid, TouchedRows.of(view)
    trigger, action, relation = valid.typed()
    chosen = touched.rules[relation] & touched.senders[trigger] & touched.types[action]
    score = np.where(chosen, 1.0, 0.0) + view.prior * possible_rules(view) / 2
    return guess_of(valid, score, chosen, relations=touched.rules, types=touched.types)


def invert_network(view: UpdateView) -> Guess:
    """Claims the rules whose pairs of devices make up the rows of the last layer."""
    touched = TouchedRows.of(view)
    return _weighed(view, touched) if view.noise else _inverted(view, touched)


def _inverted(view: UpdateView, touched: TouchedRows) -> Guess:
    """By least squares, relation by relation."""
    valid = view.public.valid
    trigger, action, relation = valid.typed()
    possible = np.flatnonzero(touched.rules[relation] & touched.senders[trigger] & touched.types[action])
    weight, chosen = np.zeros(len(valid)), np.zeros(len(valid), dtype=bool)
    if len(possible):
        pairs, pair = np.unique(trigger[possible] * valid.n_types + action[possible], return_inverse=True)
        for _ in range(PASSES if view.clients == 1 else 1):  # rules of different homes send each other no messages
            units = pair_units(view, pairs, chosen)
            for r in np.unique(relation[possible]):
                some = np.flatnonzero(relation[possible] == r)
                weight[possible[some]] = nnls(units[pair[some]].T, -touched.rows[r])[0]
            largest = np.zeros(valid.n_relations)
            np.maximum.at(largest, relation, weight)
            chosen = weight > PART * largest[relation]
    score = np.where(chosen, 1.0, 0.0) + view.prior * possible_rules(view) / 2
    return guess_of(valid, score, chosen, relations=touched.rules, types=touched.types)


def _weighed(view: UpdateView, touched: TouchedRows) -> Guess:
    """By the log-odds of each possible rule: prior, and likelihood ratio of its row with it and without."""
    valid, deviation = view.public.valid, view.deviation[-1]
    trigger, action, relation = valid.typed()
    possible = np.flatnonzero(possible_rules(view))
    pairs, pair = np.unique(trigger[possible] * valid.n_types + action[possible], return_inverse=True)
    score = np.full(len(valid), -np.inf)
    if len(possible):
        units = pair_units(view, pairs, np.zeros(len(valid), dtype=bool))[pair]
        layout = view.public.layout
        rows = view.model[layout.n_dense :].reshape(layout.n_rows, layout.row_length).astype(np.float64)
        expected = max(float(view.prior[possible].sum()), 1.0)  # rules, beside as many non-rules
        missing = 1 / (1 + np.exp(np.sum(rows[relation[possible]] * units, axis=1)))  # 1 - p
        weight = missing / (2 * expected * view.clients)
        for r in np.unique(relation[possible]):
            some = np.flatnonzero(relation[possible] == r)
            own, rest = weight[some, None] * units[some], -touched.rows[r]
            prior, found = log_odds(view.prior[possible[some]]), np.full(len(some), -np.inf)
            for _ in some:  # the best explains its part away, else all rules of a relation would be claimed for one
                ratio = prior + (own @ rest - np.sum(own**2, axis=1) / 2) / deviation**2
                best = int(np.where(np.isinf(found), ratio, -np.inf).argmax())
                if ratio[best] <= 0:
                    break
                found[best], rest = ratio[best], rest - own[best]
            score[possible[some]] = np.where(np.isinf(found), np.minimum(ratio, 0), found)
    return guess_of(valid, score, score > 0)


def pair_units(view: UpdateView, pairs: Array, rules: Mask) -> Precise:
    """[n_pairs, row_length]: [h ; 1] of pairs of types, each in a home with a rule between them and these valid rules.

    A pair is trigger type * n_types + action type. A home has a device of each type.
    """
    valid, network = view.public.valid, view.public.scorer.network
    assert network is not None
    known = [column[rules] for column in valid.typed()]
    first, second = np.divmod(pairs, valid.n_types)
    owned = np.unique(np.concatenate([first, second, *known[:2]]))
    n, n_devices = len(pairs), len(owned) * len(pairs)
    home, of_known = np.arange(n), np.repeat(np.arange(n), len(known[0]))

    def device(types: Array, homes: Array) -> Array:
        return np.searchsorted(owned, types) + homes * len(owned)

    at = device(first, home), device(second, home)
    ends = device(np.tile(known[0], n), of_known), device(np.tile(known[1], n), of_known)
    new = ~np.isin(at[0] * n_devices + at[1], ends[0] * n_devices + ends[1])  # else the rule is there already
    messages = Rules(of_known, ends[0], ends[1], np.tile(known[2], n))
    messages = messages.joined(Rules(home[new], at[0][new], at[1][new], np.zeros(new.sum(), dtype=np.int64)))
    parameters = view.public.layout.parameters(view.model)
    with torch.no_grad():
        z = network.embed(parameters, GraphBatch.of(view.public.homes(owned, messages, n))).numpy()
    trigger, action, bias = (parameters[f"phi.{name}"].numpy() for name in ("trigger", "action", "hidden_bias"))
    hidden = np.maximum(z[at[0]] @ trigger + z[at[1]] @ action + bias, 0)
    return np.concatenate([hidden, np.ones((n, 1))], axis=1, dtype=np.float64)
