"""The pruned search of one home: candidates grouped by the types of their devices.

Devices are sorted by type. Between all devices of one type and all of another the same relations are valid, so the
hidden vectors of a block of pairs meet one small matrix [width, n_valid], and nothing is worked out that is not a
candidate. Gathering a row of weights for each candidate would be slower than to score everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from datasets.homes import Array, Mask
from fedrule.inference.graph import LARGEST, Found, Graph, Matrix, Numbers, not_below, nothing
from fedrule.inference.network import NumpyNetwork

CANDIDATES = 1 << 19  # scores kept at a time, 2 MB; larger homes are searched part by part
CELLS = 1 << 17  # of hidden vectors at a time, 0.5 MB: few enough for a cache
ROUGHLY = 1e30  # scores of this size are far from the largest of float32
AGAIN = 1 << 10  # candidates that are scored again at a time


Index = TypeVar("Index", int, Array)


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

    def row(self, trigger: Index, action: Index) -> Index:
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
    rough = _Rough.of(network, as_trigger, as_action)
    found: list[Found] = []
    for blocks in _parts(network, graph.device_type[order]):
        score = _scores(rough, blocks)
        _strike_out(score, blocks, taken)
        _strike_out_self(network, score, blocks, itself)
        chosen = not_below(score, k, rough.error)
        found.append(_spelled(network, blocks, chosen, order, as_trigger, as_action))
        if len(found) > 1:  # of devices that look alike nearly all are in: only the best of the parts so far are kept
            found = [_best(found, k)]
    return _best(found, k) if found else nothing()


class _Rough(NamedTuple):
    """Both sides of all devices and the weights, as candidates are scored for the first time."""

    as_trigger: Numbers
    as_action: Numbers
    weight: Sequence[Numbers]  # by ordered pair of types
    error: float  # more than two scores can be wrong by together

    @classmethod
    def of(cls, network: NumpyNetwork, as_trigger: Matrix, as_action: Matrix) -> _Rough:
        """In float32, or in float64 where that might be too small.

        A sum of n products is off by at most n and a few roundings of the sum of their absolute values (Higham 2002,
        Accuracy and Stability of Numerical Algorithms, section 3.1).
        """
        size = network.largest * sum(float(np.abs(side).max(initial=0.0)) for side in (as_trigger, as_action))
        if size < ROUGHLY:
            error = 2 * (network.width + 8) * float(np.finfo(np.float32).eps) * size
            return cls(as_trigger.astype(np.float32), as_action.astype(np.float32), network.single, error)
        error = 2 * (network.width + 8) * float(np.finfo(np.float64).eps) * size
        return cls(as_trigger, as_action, network.weight, error)


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


def _scores(rough: _Rough, blocks: list[_Block]) -> Numbers:
    """Of all candidates, block after block."""
    n_devices, width = rough.as_action.shape
    score = np.empty(blocks[-1].end, dtype=rough.as_action.dtype)
    # One piece of memory for all hidden vectors: to be given a new one takes longer than to fill it.
    most = max(block.triggers.last - block.triggers.first for block in blocks)
    memory = np.empty((n_devices * most, width), dtype=score.dtype)
    shown: _Run | None = None
    for triggers, actions, pair, valid, start, end in blocks:
        many = triggers.last - triggers.first
        if triggers is not shown:  # the hidden vectors of these triggers with every device
            hidden = memory[: n_devices * many].reshape(n_devices, many, width)
            np.add(rough.as_action[:, None], rough.as_trigger[triggers.first : triggers.last], out=hidden)
            np.maximum(hidden, 0, out=hidden)
            shown = triggers
        rows = memory[actions.first * many : actions.last * many]
        np.matmul(rows, rough.weight[pair], out=score[start:end].reshape(-1, valid))
    return score


def _strike_out(score: Numbers, blocks: list[_Block], taken: list[tuple[int, ...]]) -> None:
    """Rules that the home has."""
    of_pair: dict[int, list[_Block]] = {}
    for block in blocks if taken else ():
        of_pair.setdefault(block.pair, []).append(block)
    for trigger, action, pair, number in taken:
        for block in of_pair.get(pair, ()):
            if number >= 0 and block.triggers.first <= trigger < block.triggers.last:
                score[block.row(trigger, action) + number] = -np.inf


def _strike_out_self(network: NumpyNetwork, score: Numbers, blocks: list[_Block], itself: Mask) -> None:
    """Devices that would act on themselves, by rules with which no home's device ever did."""
    for block in blocks:
        if block.triggers.type == block.actions.type:
            first = int(network.valid.start[block.pair])
            never = np.flatnonzero(~itself[first : first + block.valid])
            devices = np.arange(block.triggers.first, block.triggers.last)
            score[block.row(devices, devices)[:, None] + never] = -np.inf


def _spelled(
    network: NumpyNetwork, blocks: list[_Block], chosen: Array, order: Array, as_trigger: Matrix, as_action: Matrix
) -> Found:
    """Positions among the scores of a part as rules between devices, scored again in float64."""
    columns = [(b.start, b.pair, b.valid, b.triggers.first, b.triggers.last, b.actions.first) for b in blocks]
    table = np.array(columns, dtype=np.int64)
    start, pair, valid, first_trigger, last_trigger, first_action = table[
        np.searchsorted(table[:, 0], chosen, side="right") - 1
    ].T
    row, number = np.divmod(chosen - start, valid)
    action, trigger = np.divmod(row, last_trigger - first_trigger)
    trigger, action = first_trigger + trigger, first_action + action
    rule = network.valid.start[pair] + number
    logit = np.empty(len(chosen))
    for first in range(0, len(chosen), AGAIN):  # all of them, where scores hardly differ
        some = slice(first, first + AGAIN)
        logit[some] = network.logits(as_trigger[trigger[some]], as_action[action[some]], rule[some])
    score = np.clip(logit, -LARGEST, LARGEST).astype(np.float32)
    return Found(np.zeros_like(trigger), order[trigger], order[action], network.valid.relation[rule], score)


def _best(found: list[Found], k: int) -> Found:
    """The best of all parts; equal scores in the order of devices."""
    whole = Found.joined(found)
    return whole.take(np.lexsort((whole.relation, whole.action, whole.trigger, -whole.score))[:k])
