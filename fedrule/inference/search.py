"""Which search a model is asked by: in NumPy for the paper's network alone, by its own scorer for all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from baselines.method import LARGEST_SCORE
from datasets.candidates import Pairs
from datasets.homes import Array, Homes, Mask, Relation, Rules, runs
from datasets.valid import ValidRules
from fedrule.inference.encode import (
    Floats,
    Graph,
    Matrix,
    Scores,
    Search,
    TopK,
    best_of_each,
    no_candidates,
    not_below,
)
from fedrule.inference.network import NumpyNetwork, is_network_alone
from fedrule.models.file import SavedModel

if TYPE_CHECKING:
    from fedrule.model.score import GraphModel


# --- The pruned search of many homes at once: device pairs of all of them grouped by the types of their devices.
#
# As in `one_home`, one small matrix serves all pairs of the same two types, whichever homes they are of. Most homes are
# small and much alike: devices of one type with the same rules around them have the same z. Each pair of
# states is scored once. Each pair of devices has a run of places for its candidates, in the order of homes, so that a
# home's scores stand together.

ROWS = 1024  # pairs whose hidden vectors are worked out at a time: few enough for a cache
FINEST = 2.0**-45  # relative difference of z that makes no difference to a score in float32


def search_homes(network: NumpyNetwork, homes: Homes, k: int, *, itself: Mask) -> TopK:
    """The best rules that each home does not have; `itself` says which a device may have with itself."""
    graph = Graph.of(homes)
    pairs = Pairs.of(homes, self_pairs=bool(itself.any()))
    _, trigger, action = pairs.devices(np.arange(pairs.start[-1]))
    kind = homes.device_type[trigger] * network.valid.n_types + homes.device_type[action]
    start = np.concatenate([[0], np.cumsum(np.diff(network.valid.start)[kind])])
    score = _many_homes_scores(network, graph, trigger, action, kind)
    _many_homes_strike_out(network, homes, graph, pairs, start, score)
    alone = np.flatnonzero(trigger == action)
    score[runs(start, alone)[~itself[runs(network.valid.start, kind[alone])]]] = -np.inf
    place = best_of_each(score, start[pairs.start], k)
    pair = np.searchsorted(start, place, side="right") - 1
    relation = network.valid.relation[network.valid.start[kind[pair]] + place - start[pair]]
    return TopK(homes.device_home[trigger[pair]], trigger[pair], action[pair], relation, score[place])


def _many_homes_scores(network: NumpyNetwork, graph: Graph, trigger: Array, action: Array, kind: Array) -> Scores:
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
            np.clip(logit, -LARGEST_SCORE, LARGEST_SCORE, out=logit)
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


def _many_homes_strike_out(
    network: NumpyNetwork, homes: Homes, graph: Graph, pairs: Pairs, start: Array, score: Scores
) -> None:
    """Rules that the homes have."""
    _, number = network.place(graph)
    among = (number >= 0) & (pairs.self_pairs | (graph.trigger != graph.action))
    score[start[pairs.number(homes.rules.take(among))] + number[among]] = -np.inf


# --- The pruned search of one home: candidates grouped by the types of their devices.
#
# Devices are sorted by type. Between all devices of one type and all of another the same relations are valid, so the
# hidden vectors of a block of pairs meet one small matrix [width, n_valid], and nothing is worked out that is not a
# candidate. Gathering a row of weights for each candidate would be slower than to score everything.

CHUNK = 1 << 19  # scores kept at a time, 2 MB; larger homes are searched part by part
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


def search_home(network: NumpyNetwork, graph: Graph, k: int, *, itself: Mask) -> TopK:
    """The best rules that the home does not have; `itself` says which a device may have with itself."""
    order = np.argsort(graph.device_type, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    as_trigger, as_action = network.sides(network.embed(graph)[order])
    pair, number = network.place(graph)
    rules = (place[graph.trigger], place[graph.action], pair, number)
    taken = list(zip(*(column.tolist() for column in rules), strict=True))
    rough = _Rough.of(network, as_trigger, as_action)
    found: list[TopK] = []
    for blocks in _parts(network, graph.device_type[order]):
        score = _scores(rough, blocks)
        _strike_out(score, blocks, taken)
        _strike_out_self(network, score, blocks, itself)
        chosen = not_below(score, k, rough.error)
        found.append(_spelled(network, blocks, chosen, order, as_trigger, as_action))
        if len(found) > 1:  # of devices that look alike nearly all are in: only the best of the parts so far are kept
            found = [_best(found, k)]
    return _best(found, k) if found else no_candidates()


class _Rough(NamedTuple):
    """Both sides of all devices and the weights, as candidates are scored for the first time."""

    as_trigger: Floats
    as_action: Floats
    weight: Sequence[Floats]  # by ordered pair of types
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


def _scores(rough: _Rough, blocks: list[_Block]) -> Floats:
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


def _strike_out(score: Floats, blocks: list[_Block], taken: list[tuple[int, ...]]) -> None:
    """Rules that the home has."""
    of_pair: dict[int, list[_Block]] = {}
    for block in blocks if taken else ():
        of_pair.setdefault(block.pair, []).append(block)
    for trigger, action, pair, number in taken:
        for block in of_pair.get(pair, ()):
            if number >= 0 and block.triggers.first <= trigger < block.triggers.last:
                score[block.row(trigger, action) + number] = -np.inf


def _strike_out_self(network: NumpyNetwork, score: Floats, blocks: list[_Block], itself: Mask) -> None:
    """Devices that would act on themselves, by rules with which no home's device ever did."""
    for block in blocks:
        if block.triggers.type == block.actions.type:
            first = int(network.valid.start[block.pair])
            never = np.flatnonzero(~itself[first : first + block.valid])
            devices = np.arange(block.triggers.first, block.triggers.last)
            score[block.row(devices, devices)[:, None] + never] = -np.inf


def _spelled(
    network: NumpyNetwork, blocks: list[_Block], chosen: Array, order: Array, as_trigger: Matrix, as_action: Matrix
) -> TopK:
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
    score = np.clip(logit, -LARGEST_SCORE, LARGEST_SCORE).astype(np.float32)
    return TopK(np.zeros_like(trigger), order[trigger], order[action], network.valid.relation[rule], score)


def _best(found: list[TopK], k: int) -> TopK:
    """The best of all parts; equal scores in the order of devices."""
    whole = TopK.concatenate(found)
    return whole.take(np.lexsort((whole.relation, whole.action, whole.trigger, -whole.score))[:k])


CANDIDATES = 1 << 15  # scored at a time: some kilobytes of evidence for each


def search_of(saved: SavedModel) -> Search:
    """The fastest that knows the model; torch is imported for those that need it only."""
    card = saved.card
    if is_network_alone(card.options):
        return NetworkSearch(NumpyNetwork.of(saved), saved.itself)
    from fedrule.models.restore import restored

    return ScorerSearch(restored(saved), saved.valid, saved.itself, card.types, card.relations)


@dataclass(frozen=True, slots=True, eq=False)
class NetworkSearch:
    """Of the paper's network alone."""

    network: NumpyNetwork
    itself: Mask  # [n_valid]  rules that a device may have with itself

    def one(self, graph: Graph, k: int) -> TopK:
        return search_home(self.network, graph, k, itself=self.itself)

    def many(self, homes: Homes, k: int) -> TopK:
        if homes.n_homes == 1:  # it may be so large that not all its pairs fit into memory
            return self.one(Graph.of(homes), k)
        return search_homes(self.network, homes, k, itself=self.itself)


@dataclass(frozen=True, slots=True, eq=False)
class ScorerSearch:
    """Of any graph method: its scorer is asked about all valid candidates."""

    model: GraphModel
    valid: ValidRules
    itself: Mask  # [n_valid]  rules that a device may have with itself
    types: tuple[str, ...]
    relations: tuple[Relation, ...]

    def one(self, graph: Graph, k: int) -> TopK:
        home, n_devices = np.zeros(1, dtype=np.int64), len(graph.device_type)
        rules = Rules(np.zeros(len(graph.trigger), dtype=np.int64), graph.trigger, graph.action, graph.relation)
        everything = np.arange(n_devices)
        homes = Homes(
            "one home", self.types, self.relations, home, np.zeros(n_devices, int), graph.device_type, everything, rules
        )
        return self.many(homes, k)

    def many(self, homes: Homes, k: int) -> TopK:
        pairs = Pairs.of(homes, self_pairs=bool(self.itself.any()))
        devices = np.diff(pairs.device_start)[homes.device_home] - (not pairs.self_pairs)  # that a trigger may act on
        behind = np.cumsum(devices)  # pairs are numbered by home and trigger: where those of each trigger end
        step = np.cumsum(self._candidates(homes)) // CANDIDATES
        bounds = [0, *behind[np.flatnonzero(np.diff(step))].tolist(), int(pairs.start[-1])]
        parts = [
            self._best(homes, pairs, np.arange(first, last), k) for first, last in pairwise(bounds) if first < last
        ]
        return _best_of_each(parts, k) if parts else no_candidates()

    def _candidates(self, homes: Homes) -> Array:
        """[n_devices]: how many candidates each device is the trigger of."""
        n_types = self.valid.n_types
        owned = np.bincount(homes.device_home * n_types + homes.device_type, minlength=homes.n_homes * n_types)
        valid = np.diff(self.valid.start).reshape(n_types, n_types)
        of_types = owned.reshape(-1, n_types) @ valid.T  # [n_homes, n_types]  for a trigger of each type
        return of_types[homes.device_home, homes.device_type]

    def _best(self, homes: Homes, pairs: Pairs, some: Array, k: int) -> TopK:
        """The best `k` of each home among the candidates of some pairs."""
        import torch

        home, trigger, action = pairs.devices(some)
        pair, number = self.valid.of_pairs(homes.device_type[trigger], homes.device_type[action])
        every = Rules(home[pair], trigger[pair], action[pair], self.valid.relation[number])
        sizes = homes.n_devices, len(homes.relations)
        possible = (every.trigger != every.action) | self.itself[number]
        candidates = every.take(possible & ~np.isin(every.keys(*sizes), homes.rules.keys(*sizes)))
        scorer = self.model.scorer
        with torch.no_grad():
            logit = scorer.logits_of(self.model.parameters, scorer.query(homes, candidates)).numpy()
        score = np.clip(logit, -LARGEST_SCORE, LARGEST_SCORE).astype(np.float32)
        columns = (candidates.home, candidates.trigger, candidates.action, candidates.relation, score)
        return _best_of_each([TopK(*columns)], k)


def _best_of_each(parts: list[TopK], k: int) -> TopK:
    """The best `k` of each home of all parts; equal scores in the order of devices."""
    whole = TopK.concatenate(parts)
    whole = whole.take(np.lexsort((whole.relation, whole.action, whole.trigger, -whole.score, whole.home)))
    return whole.take(np.arange(len(whole.home)) - np.searchsorted(whole.home, whole.home) < k)
