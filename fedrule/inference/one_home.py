"""The pruned search of one home: candidates grouped by the types of their devices.

Devices are sorted by type. Between all devices of one type and all of another the same relations are valid, so the
hidden vectors of a block of pairs meet one small matrix [width, n_valid], and nothing is worked out that is not a
candidate. Gathering a row of weights for each candidate would be slower than to score everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from datasets.homes import Array, Mask
from fedrule.inference.graph import LARGEST, Found, Graph, Matrix, Scores, not_below, nothing
from fedrule.inference.numpy_network import NumpyNetwork

CANDIDATES = 1 << 19  # scores kept at a time, 4 MB; larger homes are searched part by part
CELLS = 1 << 17  # of hidden vectors at a time, 1 MB: few enough for a cache


class _Run(NamedTuple):
    """Devices next to each other in the order by type, all of one type."""

    type: int
    first: int
    last: int


class _Block(NamedTuple):
    """All candidates from a run of triggers to a run of actions: by action, then trigger, then relation."""

    triggers: _Run
    actions: _Run
    pair: int  # of types
    valid: int  # relations
    start: int  # in the scores of its part
    end: int

    def row(self, trigger: int, action: int) -> int:
        """Where the scores of a pair begin."""
        triggers = self.triggers.last - self.triggers.first
        return self.start + ((action - self.actions.first) * triggers + trigger - self.triggers.first) * self.valid


def search_home(network: NumpyNetwork, graph: Graph, k: int, *, itself: Mask) -> Found:
    """The best rules that the home does not have; `itself` says which a device may have with itself."""
    order = np.argsort(graph.device_type, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    as_trigger, as_action = network.sides(network.embed(graph)[order])
    pair, number = network.place(graph)
    rules = (place[graph.trigger], place[graph.action], pair, number)
    taken = list(zip(*(column.tolist() for column in rules), strict=True))
    found: list[Found] = []
    for blocks in _parts(network, graph.device_type[order]):
        score = _scores(network, blocks, as_trigger, as_action)
        _strike_out(score, blocks, taken)
        _strike_out_self(network, score, blocks, itself)
        single = np.clip(score, -LARGEST, LARGEST, where=score > -np.inf, out=score).astype(np.float32)
        found.append(_spelled(network, blocks, not_below(single, k), order, single))
        if len(found) > 1:  # of devices that look alike nearly all are in: only the best of the parts so far are kept
            found = [_best(found, k)]
    return _best(found, k) if found else nothing()


def _parts(network: NumpyNetwork, by_type: Array) -> Iterator[list[_Block]]:
    """Blocks of all candidates, so many together that their scores fit; mostly one part."""
    actions = _runs(by_type)
    at_once = max(CELLS // (network.width * max(len(by_type), 1)), 1)
    blocks: list[_Block] = []
    start, n_types = 0, network.valid.n_types
    for run in actions:
        for first in range(run.first, run.last, at_once):
            triggers = _Run(run.type, first, min(first + at_once, run.last))
            for other in actions:
                pair = run.type * n_types + other.type
                valid = network.n_valid[pair]
                if valid:
                    end = start + (triggers.last - first) * (other.last - other.first) * valid
                    blocks.append(_Block(triggers, other, pair, valid, start, end))
                    start = end
            if start > CANDIDATES:
                yield blocks
                blocks, start = [], 0
    if blocks:
        yield blocks


def _runs(by_type: Array) -> list[_Run]:
    if not len(by_type):
        return []
    bounds = [0, *(np.flatnonzero(by_type[1:] != by_type[:-1]) + 1).tolist(), len(by_type)]
    kinds = by_type[bounds[:-1]].tolist()
    return [_Run(kind, first, last) for kind, first, last in zip(kinds, bounds[:-1], bounds[1:], strict=True)]


def _scores(network: NumpyNetwork, blocks: list[_Block], as_trigger: Matrix, as_action: Matrix) -> Matrix:
    """Of all candidates, block after block."""
    score = np.empty(blocks[-1].end)
    shown: _Run | None = None
    for triggers, actions, pair, valid, start, end in blocks:
        if triggers is not shown:  # the hidden vectors of these triggers with every device
            hidden = as_action[:, None] + as_trigger[triggers.first : triggers.last]
            np.maximum(hidden, 0.0, out=hidden)
            shown = triggers
        rows = hidden[actions.first : actions.last].reshape(-1, network.width)
        np.matmul(rows, network.weight[pair], out=score[start:end].reshape(-1, valid))
    return score


def _strike_out(score: Matrix, blocks: list[_Block], taken: list[tuple[int, ...]]) -> None:
    """Rules that the home has."""
    of_pair: dict[int, list[_Block]] = {}
    for block in blocks if taken else ():
        of_pair.setdefault(block.pair, []).append(block)
    for trigger, action, pair, number in taken:
        for block in of_pair.get(pair, ()):
            if number >= 0 and block.triggers.first <= trigger < block.triggers.last:
                score[block.row(trigger, action) + number] = -np.inf


def _strike_out_self(network: NumpyNetwork, score: Matrix, blocks: list[_Block], itself: Mask) -> None:
    """Devices that would act on themselves, by rules with which no home's device ever did."""
    for block in blocks:
        if block.triggers.type == block.actions.type:
            first = int(network.valid.start[block.pair])
            never = np.flatnonzero(~itself[first : first + block.valid])
            for device in range(block.triggers.first, block.triggers.last):
                score[block.row(device, device) + never] = -np.inf


def _spelled(network: NumpyNetwork, blocks: list[_Block], chosen: Array, order: Array, score: Scores) -> Found:
    """Positions among the scores of a part as rules between devices."""
    columns = [(b.start, b.pair, b.valid, b.triggers.first, b.triggers.last, b.actions.first) for b in blocks]
    table = np.array(columns, dtype=np.int64)
    start, pair, valid, first_trigger, last_trigger, first_action = table[
        np.searchsorted(table[:, 0], chosen, side="right") - 1
    ].T
    row, number = np.divmod(chosen - start, valid)
    action, trigger = np.divmod(row, last_trigger - first_trigger)
    relation = network.valid.relation[network.valid.start[pair] + number]
    trigger, action = order[first_trigger + trigger], order[first_action + action]
    return Found(np.zeros_like(trigger), trigger, action, relation, score[chosen])


def _best(found: list[Found], k: int) -> Found:
    """The best of all parts; equal scores in the order of devices."""
    whole = Found.joined(found)
    return whole.take(np.lexsort((whole.relation, whole.action, whole.trigger, -whole.score))[:k])
