"""The pruned search of many homes at once: device pairs of all of them grouped by the types of their devices.

As in `one_home`, one small matrix serves all pairs of the same two types, whichever homes they are of. Most homes are
small and much alike: devices of one type with the same rules around them have the same z. Each pair of
states is scored once. Each pair of devices has a run of places for its candidates, in the order of homes, so that a
home's scores stand together.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from datasets.candidates import Pairs
from datasets.homes import Array, Homes, Mask, runs
from fedrule.inference.graph import LARGEST, Found, Graph, Matrix, Scores, best_of_each
from fedrule.inference.network import NumpyNetwork

ROWS = 1024  # pairs whose hidden vectors are worked out at a time: few enough for a cache
FINEST = 2.0**-45  # relative difference of z that makes no difference to a score in float32


def search_homes(network: NumpyNetwork, homes: Homes, k: int, *, itself: Mask) -> Found:
    """The best rules that each home does not have; `itself` says which a device may have with itself."""
    graph = Graph.of(homes)
    pairs = Pairs.of(homes, self_pairs=bool(itself.any()))
    _, trigger, action = pairs.devices(np.arange(pairs.start[-1]))
    kind = homes.device_type[trigger] * network.valid.n_types + homes.device_type[action]
    start = np.concatenate([[0], np.cumsum(np.diff(network.valid.start)[kind])])
    score = _scores(network, graph, trigger, action, kind)
    _strike_out(network, homes, graph, pairs, start, score)
    alone = np.flatnonzero(trigger == action)
    score[runs(start, alone)[~itself[runs(network.valid.start, kind[alone])]]] = -np.inf
    place = best_of_each(score, start[pairs.start], k)
    pair = np.searchsorted(start, place, side="right") - 1
    relation = network.valid.relation[network.valid.start[kind[pair]] + place - start[pair]]
    return Found(homes.device_home[trigger[pair]], trigger[pair], action[pair], relation, score[place])


def _scores(network: NumpyNetwork, graph: Graph, trigger: Array, action: Array, kind: Array) -> Scores:
    """Of all candidates: pair after pair, and the relations of each in order."""
    z = network.embed(graph)
    device, state = _alike(graph.device_type, z)
    as_trigger, as_action = network.sides(z[device])
    trigger, action = state[trigger], state[action]
    _, pair, which = np.unique(trigger * len(device) + action, return_index=True, return_inverse=True)
    trigger, action, kind = trigger[pair], action[pair], kind[pair]
    start = np.concatenate([[0], np.cumsum(np.diff(network.valid.start)[kind])])
    score = np.empty(start[-1], dtype=np.float32)
    order = np.argsort(kind, kind="stable")
    present = np.unique(kind)
    bounds = np.append(np.searchsorted(kind[order], present), len(order))
    for types, (first, last) in zip(present.tolist(), pairwise(bounds.tolist()), strict=True):
        for at in range(first, last, ROWS) if network.n_valid[types] else ():
            rows = order[at : min(at + ROWS, last)]
            hidden = as_trigger[trigger[rows]]
            hidden += as_action[action[rows]]
            np.maximum(hidden, 0.0, out=hidden)
            logit = hidden @ network.weight[types]
            np.clip(logit, -LARGEST, LARGEST, out=logit)
            score[start[rows][:, None] + np.arange(network.n_valid[types])] = logit
    return score[runs(start, which)]


def _alike(kind: Array, z: Matrix) -> tuple[Array, Array]:
    """One device of each state, type and z, and the number of each device's state.

    What differs by less than a share of FINEST is the same: products of matrices need not give two equal rows the same
    last bits. States are told apart by one sum, which wraps around; should two of them ever share it, each device is a
    state.
    """
    share, power = np.frexp(z)  # z = share * 2 ** power: small numbers are told apart as well as large ones
    digits = np.rint(share / FINEST).astype(np.int64) + (power.astype(np.int64) << 47)
    cell = np.column_stack([digits, kind])
    odd = np.random.default_rng(0).integers(2**62, size=cell.shape[1]) | 1
    _, device, state = np.unique(cell @ odd, return_index=True, return_inverse=True)
    if np.array_equal(cell[device][state], cell):
        return device, state
    return np.arange(len(z)), np.arange(len(z))


def _strike_out(network: NumpyNetwork, homes: Homes, graph: Graph, pairs: Pairs, start: Array, score: Scores) -> None:
    """Rules that the homes have."""
    _, number = network.place(graph)
    among = (number >= 0) & (pairs.self_pairs | (graph.trigger != graph.action))
    score[start[pairs.number(homes.rules.take(among))] + number[among]] = -np.inf
