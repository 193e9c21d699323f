"""The pruned search for models that are the paper's network alone, in NumPy; tested equal to a search of everything.

Between all devices of one type and all of another the same relations are valid. Pairs of devices are grouped by their
two types, and the hidden vectors of a group are multiplied by one small matrix [width, n_valid], so that only
candidates are scored. Gathering a row of weights for each candidate would be slower than scoring everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from baselines.method import LARGEST_SCORE, Scores
from datasets.candidates import Pairs
from datasets.homes import Array, Homes, Mask, runs
from fedrule.inference.encode import Graph
from fedrule.inference.network import Matrix, NumpyNetwork
from fedrule.inference.search import TopK

Floats: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float64]

Index = TypeVar("Index", int, Array)

# Many homes
ROWS = 1024  # pairs whose hidden vectors are computed at a time: few enough for a cache
FINEST = 2.0**-45  # relative difference of z that makes no difference to a score in float32
# One home
CHUNK = 1 << 19  # scores kept at a time, 2 MB; larger homes are searched in parts
CELLS = 1 << 17  # of hidden vectors at a time, 0.5 MB: few enough for a cache
SAFE = 1e30  # scores up to this size are far from the largest float32
RESCORED = 1 << 10  # candidates that are scored again at a time
RUN = 32  # scores of which only the highest is looked at first


@dataclass(frozen=True, slots=True, eq=False)
class NetworkSearch:
    """The search of one home, or of many at once."""

    network: NumpyNetwork
    self_rules: Mask  # [n_valid]  rules that a device may have with itself

    def one(self, graph: Graph, k: int) -> TopK:
        """The best rules that the home does not have, grouped by device types.

        Everything is scored in float32 first, and what may be among the best again in float64.
        """
        network = self.network
        order = np.argsort(graph.device_type, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        as_trigger, as_action = network.sides(network.embed(graph)[order])
        pair, number = network.place(graph)
        rules = (place[graph.trigger], place[graph.action], pair, number)
        taken = list(zip(*(column.tolist() for column in rules), strict=True))
        approximate = _Approximate.of(network, as_trigger, as_action)
        found: list[TopK] = []
        for blocks in _chunks(network, graph.device_type[order]):
            score = _block_scores(approximate, blocks)
            _mask_rules(score, blocks, taken)
            _mask_self(network, score, blocks, self.self_rules)
            chosen = not_below(score, k, approximate.error)
            found.append(_rescore(network, blocks, chosen, order, as_trigger, as_action))
            if len(found) > 1:  # bounds memory where nearly all scores are equal
                found = [TopK.concatenate(found).best(k)]
        return found[0].best(k) if found else TopK.empty()

    def many(self, homes: Homes, k: int) -> TopK:
        """The best rules that each home does not have.

        Most homes are small and similar: devices of one type with the same rules around them have the same z, so that
        each pair of distinct states is scored once for all homes. Each pair of devices has a run of positions for its
        candidates, in the order of homes, so that a home's scores are consecutive.
        """
        if homes.n_homes == 1:  # it may be so large that its pairs do not fit into memory
            return self.one(Graph.of(homes), k)
        network, graph = self.network, Graph.of(homes)
        pairs = Pairs.of(homes, self_pairs=bool(self.self_rules.any()))
        _, trigger, action = pairs.devices(np.arange(pairs.start[-1]))
        kind = homes.device_type[trigger] * network.valid.n_types + homes.device_type[action]
        start = np.concatenate([[0], np.cumsum(np.diff(network.valid.start)[kind])])
        score = _pair_scores(network, graph, trigger, action, kind)
        _, number = network.place(graph)
        among = (number >= 0) & (pairs.self_pairs | (graph.trigger != graph.action))
        score[start[pairs.number(homes.rules.take(among))] + number[among]] = -np.inf  # rules that the homes have
        alone = np.flatnonzero(trigger == action)
        score[runs(start, alone)[~self.self_rules[runs(network.valid.start, kind[alone])]]] = -np.inf
        place = best_of_each(score, start[pairs.start], k)
        pair = np.searchsorted(start, place, side="right") - 1
        relation = network.valid.relation[network.valid.start[kind[pair]] + place - start[pair]]
        return TopK(homes.device_home[trigger[pair]], trigger[pair], action[pair], relation, score[place])


class _Run(NamedTuple):
    """Consecutive devices of one type; devices are sorted by type."""

    type: int
    first: int
    last: int


class _Block(NamedTuple):
    """All candidates from a run of triggers to a run of actions: by action, then trigger, then relation."""

    triggers: _Run
    actions: _Run
    pair: int  # of types
    valid: int  # number of valid relations
    start: int  # in the scores of its chunk
    end: int

    def row(self, trigger: Index, action: Index) -> Index:
        """The position of a pair's first score."""
        triggers = self.triggers.last - self.triggers.first
        return self.start + ((action - self.actions.first) * triggers + trigger - self.triggers.first) * self.valid


class _Approximate(NamedTuple):
    """Both sides of all devices and the weights for the first scoring."""

    as_trigger: Floats
    as_action: Floats
    weight: Sequence[Floats]  # by ordered pair of types
    error: float  # bound on the sum of the errors of two scores

    @classmethod
    def of(cls, network: NumpyNetwork, as_trigger: Matrix, as_action: Matrix) -> _Approximate:
        """In float32, or in float64 if values might overflow.

        A sum of n products is off by at most n and a few roundings of the sum of their absolute values (Higham 2002,
        Accuracy and Stability of Numerical Algorithms, section 3.1).
        """
        size = network.largest * sum(float(np.abs(side).max(initial=0.0)) for side in (as_trigger, as_action))
        if size < SAFE:
            error = 2 * (network.width + 8) * float(np.finfo(np.float32).eps) * size
            return cls(as_trigger.astype(np.float32), as_action.astype(np.float32), network.single, error)
        error = 2 * (network.width + 8) * float(np.finfo(np.float64).eps) * size
        return cls(as_trigger, as_action, network.weight, error)


def _chunks(network: NumpyNetwork, by_type: Array) -> Iterator[list[_Block]]:
    """Blocks of all candidates, in chunks of bounded size; mostly one chunk."""
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
            if start > CHUNK:
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


def _block_scores(approximate: _Approximate, blocks: list[_Block]) -> Floats:
    """The scores of all candidates, block after block."""
    n_devices, width = approximate.as_action.shape
    score = np.empty(blocks[-1].end, dtype=approximate.as_action.dtype)
    # One buffer for all hidden vectors: allocating takes longer than filling.
    most = max(block.triggers.last - block.triggers.first for block in blocks)
    buffer = np.empty((n_devices * most, width), dtype=score.dtype)
    shown: _Run | None = None
    for triggers, actions, pair, valid, start, end in blocks:
        many = triggers.last - triggers.first
        if triggers is not shown:  # the hidden vectors of these triggers with every device
            hidden = buffer[: n_devices * many].reshape(n_devices, many, width)
            np.add(approximate.as_action[:, None], approximate.as_trigger[triggers.first : triggers.last], out=hidden)
            np.maximum(hidden, 0, out=hidden)
            shown = triggers
        rows = buffer[actions.first * many : actions.last * many]
        np.matmul(rows, approximate.weight[pair], out=score[start:end].reshape(-1, valid))
    return score


def _mask_rules(score: Floats, blocks: list[_Block], taken: list[tuple[int, ...]]) -> None:
    """Exclude the rules that the home has."""
    of_pair: dict[int, list[_Block]] = {}
    for block in blocks if taken else ():
        of_pair.setdefault(block.pair, []).append(block)
    for trigger, action, pair, number in taken:
        for block in of_pair.get(pair, ()):
            if number >= 0 and block.triggers.first <= trigger < block.triggers.last:
                score[block.row(trigger, action) + number] = -np.inf


def _mask_self(network: NumpyNetwork, score: Floats, blocks: list[_Block], self_rules: Mask) -> None:
    """Exclude devices acting on themselves by rules for which no training home has an example."""
    for block in blocks:
        if block.triggers.type == block.actions.type:
            first = int(network.valid.start[block.pair])
            never = np.flatnonzero(~self_rules[first : first + block.valid])
            devices = np.arange(block.triggers.first, block.triggers.last)
            score[block.row(devices, devices)[:, None] + never] = -np.inf


def _rescore(
    network: NumpyNetwork, blocks: list[_Block], chosen: Array, order: Array, as_trigger: Matrix, as_action: Matrix
) -> TopK:
    """Positions among the scores of a chunk as rules between devices, scored again in float64."""
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
    for first in range(0, len(chosen), RESCORED):  # all of them, where scores hardly differ
        some = slice(first, first + RESCORED)
        logit[some] = network.logits(as_trigger[trigger[some]], as_action[action[some]], rule[some])
    score = np.clip(logit, -LARGEST_SCORE, LARGEST_SCORE).astype(np.float32)
    return TopK(np.zeros_like(trigger), order[trigger], order[action], network.valid.relation[rule], score)


def _pair_scores(network: NumpyNetwork, graph: Graph, trigger: Array, action: Array, kind: Array) -> Scores:
    """The scores of all candidates: pair after pair, and the relations of each in order."""
    z = network.embed(graph)
    device, state = _distinct_states(graph.device_type, z)
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
            np.clip(logit, -LARGEST_SCORE, LARGEST_SCORE, out=logit)
            score[start[rows][:, None] + np.arange(network.n_valid[types])] = logit
    return score[runs(start, which)]


def _distinct_states(kind: Array, z: Matrix) -> tuple[Array, Array]:
    """One device for each distinct state (type and z), and the number of each device's state.

    Relative differences below FINEST are ignored: a matrix product need not give equal rows the same last bits. States
    are compared by a hash; on a collision each device is a state of its own.
    """
    mantissa, power = np.frexp(z)  # relative, so that small numbers are as distinct as large ones
    digits = np.rint(mantissa / FINEST).astype(np.int64) + (power.astype(np.int64) << 47)
    cell = np.column_stack([digits, kind])
    odd = np.random.default_rng(0).integers(2**62, size=cell.shape[1]) | 1
    _, device, state = np.unique(cell @ odd, return_index=True, return_inverse=True)
    if np.array_equal(cell[device][state], cell):
        return device, state
    return np.arange(len(z)), np.arange(len(z))


def best_of_each(score: Scores, start: Array, k: int) -> Array:
    """Positions of the `k` highest scores of each home, home after home, highest first, equal ones in order.

    The scores of home h are those from start[h] to start[h + 1]. Homes with about as many scores form one table, so
    that there is no loop over homes.
    """
    many = np.diff(start)
    size = np.frexp(many.astype(np.float64))[1]  # homes of one table differ by less than a factor of 2
    kept = [np.zeros(0, dtype=np.int64)]
    for each in np.unique(size[many > 0]).tolist():
        homes = np.flatnonzero(size == each)
        width = int(many[homes].max())
        place = start[homes][:, None] + np.arange(width)
        inside = np.arange(width) < many[homes][:, None]
        table = np.where(inside, score[np.minimum(place, len(score) - 1)], -np.inf)
        if width > k:
            least = np.partition(table, width - k, axis=1)[:, width - k, None]
            inside &= table >= least
        kept.append(place[inside & (table > -np.inf)])
    positions = np.sort(np.concatenate(kept))
    home = np.searchsorted(start, positions, side="right") - 1
    order = np.lexsort((positions, -score[positions], home))
    rank = np.arange(len(home)) - np.searchsorted(home, home)
    return positions[order[rank < k]]


def not_below(score: Floats, k: int, error: float) -> Array:
    """Positions of all scores that may be among the `k` highest, if `error` bounds the sum of two scores' errors."""
    least = max(_low(score, k) - error, float(np.finfo(score.dtype).min))  # minus infinity is never among them
    return np.flatnonzero(score >= score.dtype.type(least))


def _low(score: Floats, k: int) -> float:
    """A close lower bound of the k-th highest score: the k-th highest maximum of short runs."""
    whole = len(score) // RUN
    if whole < 4 * k:
        return float(np.partition(score, len(score) - k)[len(score) - k]) if len(score) > k else -np.inf
    highest = score[: whole * RUN].reshape(whole, RUN).max(axis=1)
    return float(np.partition(highest, whole - k)[whole - k])
