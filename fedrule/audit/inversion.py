"""Gradient inversion: candidate gradients at the known model that add up to the update, by non-negative least squares.

For the paper's network the gradient of the last layer's row of relation r is

    sum over candidates of r of d_c [h_c ; 1],    d_c = (p_c - y_c) / n,

with h_c the hidden units of the candidate's pair of devices, which the server can compute for every pair of types: from
a home with a device of each type and the rules guessed so far. A rule has d_c < 0, so that the row is a sum of its
candidates' hidden units with non-negative weights -d_c. Several local steps are taken as one at the mean gradient.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import nnls

from datasets.homes import Array, Homes, Mask, Relation, Rules
from fedrule.audit.rows import SIGMAS, TouchedRows
from fedrule.audit.view import Guess, UpdateView, guess_of
from fedrule.federated.optimizers import Precise
from fedrule.network.batch import GraphBatch

PASSES = 3  # over the rules: each sees the messages of those that the pass before has found
PART = 0.15  # a rule is claimed from this part of its relation's weight on


def invert_network(view: UpdateView) -> Guess:
    """For models with the paper's network."""
    valid, touched = view.scorer.valid, TouchedRows.of(view)
    trigger, action, relation = valid.typed()
    senders, types = touched.senders, touched.types
    if view.types is not None:
        senders, types = senders & view.types, types & view.types
    possible = np.flatnonzero(touched.rules[relation] & senders[trigger] & types[action])
    weight, chosen = np.zeros(len(valid)), np.zeros(len(valid), dtype=bool)
    if len(possible):
        pairs, pair = np.unique(trigger[possible] * valid.n_types + action[possible], return_inverse=True)
        noise = view.gradient_noise[-1]
        for _ in range(PASSES if view.clients == 1 else 1):  # rules of different homes send each other no messages
            hidden = pair_units(view, pairs, chosen)
            for r in np.unique(relation[possible]):
                some = np.flatnonzero(relation[possible] == r)
                weight[possible[some]] = nnls(hidden[pair[some]].T, -touched.rows[r])[0]
            total = np.zeros(valid.n_relations)
            np.maximum.at(total, relation, weight)
            chosen = (weight > PART * total[relation]) & (weight > SIGMAS * noise)
    score = np.where(chosen, 2.0, 0.0) + weight / max(weight.max(), 1e-300) + view.prior / 2
    return guess_of(valid, score, chosen, relations=touched.rules, types=types)


def pair_units(view: UpdateView, pairs: Array, rules: Mask) -> Precise:
    """[n_pairs, row_length]: [h ; 1] of pairs of types in a home that has a rule between them and these valid rules."""
    valid, network = view.scorer.valid, view.scorer.network
    assert network is not None
    trigger, action, relation = (column[rules] for column in valid.typed())
    first, second = np.divmod(pairs, valid.n_types)
    owned = np.unique(np.concatenate([first, second, trigger, action]))
    n, devices = len(pairs), len(owned)
    home, edge_home = np.arange(n), np.repeat(np.arange(n), len(trigger))
    at = np.searchsorted(owned, first) + home * devices, np.searchsorted(owned, second) + home * devices
    ends = (np.searchsorted(owned, np.tile(end, n)) + edge_home * devices for end in (trigger, action))
    columns = np.stack([edge_home, *ends, np.tile(relation, n)])
    known = columns[1] * n * devices + columns[2]
    new = ~np.isin(at[0] * n * devices + at[1], known)  # a rule that is there already sends its message once
    columns = np.concatenate([columns, np.stack([home, *at, np.zeros(n, dtype=np.int64)])[:, new]], axis=1)
    homes = Homes(
        name="guess",
        types=tuple(map(str, range(valid.n_types))),
        relations=tuple(Relation(str(r), "") for r in range(valid.n_relations)),
        users=home,
        device_home=np.repeat(home, devices),
        device_type=np.tile(owned, n),
        device_ids=np.arange(n * devices),
        rules=Rules(*columns[:, np.argsort(columns[0], kind="stable")]),
    )
    with torch.no_grad():
        parameters = view.layout.parameters(view.model)
        z = network.embed(parameters, GraphBatch.of(homes)).numpy()
    first_layer = (parameters[name].numpy() for name in ("phi.trigger", "phi.action"))
    units = sum(z[end] @ matrix for end, matrix in zip(at, first_layer, strict=True)) + parameters["phi.hidden_bias"].numpy()
    return np.concatenate([np.maximum(units, 0), np.ones((n, 1))], axis=1, dtype=np.float64)
