"""The pruned search for models that are the paper's network alone, in NumPy; tested equal to a search of everything.

Devices of one type with the same rules around them have the same z: they are one state, and each pair of states is
scored once for all their devices. Between all states of one type and all of another the same relations are valid.
Pairs are grouped by their two types, and the hidden vectors of a group are multiplied by one small matrix
[width, n_valid], so that only candidates are scored. Gathering a row of weights for each candidate would be slower
than scoring everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush, heapreplace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from baselines.method import LARGEST_SCORE, Scores
from datasets.candidates import Pairs
from datasets.homes import Array, Homes, Mask, runs
from fedrule.inference.encode import Graph
from fedrule.inference.network import Matrix, NumpyNetwork, run_bounds
from fedrule.inference.search import TopK

Floats: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Rule: TypeAlias = tuple[float, int, int, int]  # minus its score, trigger, action and relation: sorts as lists do

IGNORED = 7  # last bits of z: a relative difference of 2 ** -45 makes no difference to a score in float32
# Many homes
ROWS = 1024  # pairs whose hidden vectors are computed at a time: few enough for a cache
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
    never: tuple[Array, ...] = field(init=False)  # by type, of its rules with itself: those that a device may not have

    def __post_init__(self) -> None:
        valid = self.network.valid
        pairs = np.arange(valid.n_types) * (valid.n_types + 1)
        bounds = zip(valid.start[pairs].tolist(), valid.start[pairs + 1].tolist(), strict=True)
        never = tuple(np.flatnonzero(~self.self_rules[first:last]) for first, last in bounds)
        object.__setattr__(self, "never", never)

    def one(self, graph: Graph, k: int) -> TopK:
        """The best rules that the home does not have: first the best between states, then those of their devices.

        Everything is scored in float32 first, and what may be among the best again in float64.
        """
        if not len(graph.device_type):
            return TopK.empty()
        network = self.network
        states = _States.of(network, graph)
        approximate = _Approximate.of(network, states)
        wanted = k + len(graph.trigger)  # each rule of the home may be the first, or all, of a candidate
        found: list[TopK] = []
        for blocks in _Blocks.of(network, states.type).chunks():
            score = _block_scores(approximate, blocks)
            _mask_self(score, blocks, states, self.never)
            chosen = not_below(score, wanted, approximate.error)
            for first in range(0, len(chosen), RESCORED):  # mostly once; often where scores hardly differ
                candidates = blocks.candidates(network, chosen[first : first + RESCORED])
                found.append(self._first_rules(states, *candidates))
                if len(found) > 1:  # bounds memory where nearly all scores are equal
                    found = [TopK.concatenate(found).best(wanted)]
        return _of_devices(found[0], states, graph, k) if found else TopK.empty()

    def many(self, homes: Homes, k: int) -> TopK:
        """The best rules that each home does not have.

        Most homes are small and similar: many have the same states, so that each pair of distinct states is scored once
        for all homes. Each pair of devices has a run of positions for its
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
        rule = network.numbers(graph)
        among = (rule >= 0) & (pairs.self_pairs | (graph.trigger != graph.action))
        number = rule - network.valid.start[network.type_pairs(graph)]
        score[start[pairs.number(homes.rules.take(among))] + number[among]] = -np.inf  # rules that the homes have
        alone = np.flatnonzero(trigger == action)
        score[runs(start, alone)[~self.self_rules[runs(network.valid.start, kind[alone])]]] = -np.inf
        place = best_of_each(score, start[pairs.start], k)
        pair = np.searchsorted(start, place, side="right") - 1
        relation = network.valid.relation[network.valid.start[kind[pair]] + place - start[pair]]
        return TopK(homes.device_home[trigger[pair]], trigger[pair], action[pair], relation, score[place])

    def _first_rules(self, states: _States, trigger: Array, action: Array, rule: Array) -> TopK:
        """Candidates between states, scored in float64; each as the first rule between devices that it stands for."""
        as_trigger, as_action = self.network.split(states.sides)
        logit = self.network.logits(as_trigger[trigger], as_action[action], rule)
        score = np.clip(logit, -LARGEST_SCORE, LARGEST_SCORE).astype(np.float32)
        others = (trigger == action) & ~self.self_rules[rule]  # at least two devices have such a state
        trigger, action = states.device[states.start[trigger]], states.device[states.start[action] + others]
        return TopK(np.zeros_like(trigger), trigger, action, self.network.valid.relation[rule], score)


class _States(NamedTuple):
    """The distinct states of the devices of one home or many, sorted by type."""

    type: Array  # [n_states]
    of_device: Array  # [n_devices]  the state of each device
    device: Array  # [n_devices]  the devices by state, in order within each
    start: Array  # [n_states + 1]  where those of each state begin
    size: Array  # [n_states]  how many devices have it
    sides: Matrix  # [n_states, 2 * width]  what each contributes to a pair as its trigger, and as its action

    @classmethod
    def of(cls, network: NumpyNetwork, graph: Graph) -> _States:
        """By type and z.

        The last bits of z are ignored: a matrix product need not give equal rows the same ones. States are compared by
        a hash; on a collision each device is a state of its own.
        """
        kind, z = graph.device_type, network.embed(graph)
        # Relative, so that small numbers are as distinct as large ones: the last bits of a float are of its mantissa.
        digits = (z.view(np.int64) + (1 << (IGNORED - 1))) >> IGNORED
        hashed = digits @ _odd_numbers(digits.shape[1])
        device = np.lexsort((hashed, kind))
        differs = np.ones(len(kind) + 1, dtype=bool)
        differs[1:-1] = (np.diff(hashed[device]) != 0) | (np.diff(kind[device]) != 0)
        equal = np.flatnonzero(~differs[:-1])
        if not np.array_equal(digits[device[equal]], digits[device[equal - 1]]):
            differs[:] = True
        start = np.flatnonzero(differs)
        of_device = np.empty_like(device)
        of_device[device] = np.cumsum(differs[:-1]) - 1
        one = device[start[:-1]]
        return cls(kind[one], of_device, device, start, np.diff(start), network.sides(z[one]))


def _of_devices(first: TopK, states: _States, graph: Graph, k: int) -> TopK:
    """The best rules between devices that the home does not have, from the first rule of each candidate.

    A candidate stands for the rules between all devices of two states, which have the same score. Those of the
    candidates are merged in order, and no more of them are made than are needed.
    """
    device, start, state = states.device.tolist(), states.start.tolist(), states.of_device.tolist()
    taken = set(zip(graph.trigger.tolist(), graph.action.tolist(), graph.relation.tolist(), strict=True))

    def left(candidate: Rule) -> Iterator[Rule]:
        score, trigger, action, relation = candidate
        triggers, actions = (device[start[state[one]] : start[state[one] + 1]] for one in (trigger, action))
        with_itself = trigger == action
        for one in triggers:
            for other in actions:
                if (one != other or with_itself) and (one, other, relation) not in taken:
                    yield score, one, other, relation

    columns = ((-first.score).tolist(), first.trigger.tolist(), first.action.tolist(), first.relation.tolist())
    found: list[Rule] = []
    merged: list[tuple[Rule, Iterator[Rule]]] = []  # a heap
    for candidate in (*sorted(zip(*columns, strict=True)), None):
        while merged and len(found) < k and (candidate is None or merged[0][0] < candidate):
            rule, rest = merged[0]
            found.append(rule)
            if (following := next(rest, None)) is None:
                heappop(merged)
            else:
                heapreplace(merged, (following, rest))
        if candidate is None or len(found) == k:
            break
        rest = left(candidate)
        if (begin := next(rest, None)) is not None:
            heappush(merged, (begin, rest))
    if not found:
        return TopK.empty()
    score, *rule_columns = zip(*found, strict=True)
    trigger, action, relation = np.array(rule_columns, dtype=np.int64)
    return TopK(np.zeros_like(trigger), trigger, action, relation, -np.array(score, dtype=np.float32))


class _Approximate(NamedTuple):
    """Both sides of all states and the weights for the first scoring."""

    as_trigger: Floats
    as_action: Floats
    weight: Sequence[Floats]  # by ordered pair of types
    error: float  # bound on the sum of the errors of two scores

    @classmethod
    def of(cls, network: NumpyNetwork, states: _States) -> _Approximate:
        """In float32, or in float64 if values might overflow.

        A sum of n products is off by at most n and a few roundings of the sum of their absolute values (Higham 2002,
        Accuracy and Stability of Numerical Algorithms, section 3.1).
        """
        size = 2 * network.largest * float(np.abs(states.sides).max(initial=0.0))
        error = 2 * (network.width + 8) * size
        if size < SAFE:
            single = network.split(states.sides.astype(np.float32))
            return cls(*single, network.single, error * float(np.finfo(np.float32).eps))
        return cls(*network.split(states.sides), network.weight, error * float(np.finfo(np.float64).eps))


class _Blocks(NamedTuple):
    """Candidates from runs of triggers to runs of actions, one block after the other; states are sorted by type.

    The states of a run are of one type. In a block candidates stand by action, then trigger, then relation.
    """

    pair: Array  # [n_blocks]  of types
    trigger: Array  # [n_blocks]  the first of the run
    triggers: Array  # [n_blocks]  how many
    action: Array  # [n_blocks]
    actions: Array  # [n_blocks]
    valid: Array  # [n_blocks]  number of valid relations
    start: Array  # [n_blocks]  position of the first score
    end: Array  # [n_blocks]

    @classmethod
    def of(cls, network: NumpyNetwork, kind: Array) -> _Blocks:
        """All candidates between states of these types, of which there is at least one."""
        bounds = run_bounds(kind)
        at_once = max(CELLS // (network.width * len(kind)), 1)
        parts = [at for first, last in pairwise(bounds.tolist()) for at in range(first, last, at_once)]
        triggers, actions = np.array([*parts, len(kind)]), bounds
        row, column = np.divmod(np.arange(len(parts) * (len(bounds) - 1)), len(bounds) - 1)
        pair = kind[triggers[row]] * network.valid.n_types + kind[actions[column]]
        some = np.flatnonzero(network.valid.start[pair + 1] > network.valid.start[pair])
        row, column, pair = row[some], column[some], pair[some]
        trigger, action = triggers[row], actions[column]
        triggers, actions = triggers[row + 1] - trigger, actions[column + 1] - action
        valid = network.valid.start[pair + 1] - network.valid.start[pair]
        end = np.cumsum(size := triggers * actions * valid)
        return cls(pair, trigger, triggers, action, actions, valid, end - size, end)

    def chunks(self) -> Iterator[_Blocks]:
        """Blocks of about CHUNK scores at a time, with all actions of each trigger."""
        if not len(self.end):
            return
        if self.end[-1] <= CHUNK:  # nearly always
            yield self
            return
        strip = self.start[np.searchsorted(self.trigger, self.trigger)]  # where the scores of each one's triggers begin
        for first, last in pairwise(run_bounds(strip // CHUNK).tolist()):
            some = _Blocks(*(column[first:last] for column in self))
            yield some._replace(start=some.start - some.start[0], end=some.end - some.start[0])

    def candidates(self, network: NumpyNetwork, position: Array) -> tuple[Array, Array, Array]:
        """Trigger, action and number among the valid rules of the candidates at these positions."""
        block = np.searchsorted(self.end, position, side="right")
        row, number = np.divmod(position - self.start[block], self.valid[block])
        action, trigger = np.divmod(row, self.triggers[block])
        rule = network.valid.start[self.pair[block]] + number
        return self.trigger[block] + trigger, self.action[block] + action, rule


def _mask_self(score: Floats, blocks: _Blocks, states: _States, never: Sequence[Array]) -> None:
    """Exclude rules that only a device with itself could have, and may not."""
    alone = states.size == 1
    same = np.flatnonzero((blocks.action <= blocks.trigger) & (blocks.trigger < blocks.action + blocks.actions))
    columns = (states.type[blocks.trigger], *blocks[1:])
    for kind, trigger, triggers, action, actions, valid, start, end in zip(
        *(column[same].tolist() for column in columns), strict=True
    ):
        single = np.flatnonzero(alone[trigger : trigger + triggers])[:, None]
        table = score[start:end].reshape(actions, triggers, valid)
        table[single + (trigger - action), single, never[kind]] = -np.inf


def _block_scores(approximate: _Approximate, blocks: _Blocks) -> Floats:
    """The scores of all candidates, block after block."""
    n_states, width = approximate.as_action.shape
    score = np.empty(blocks.end[-1], dtype=approximate.as_action.dtype)
    # One buffer for all hidden vectors: allocating takes longer than filling.
    buffer = np.empty((n_states * int(blocks.triggers.max()), width), dtype=score.dtype)
    zero, shown = np.zeros(width, dtype=score.dtype), -1  # a maximum with a number takes twice as long
    for pair, trigger, triggers, action, actions, valid, start, end in zip(*(c.tolist() for c in blocks), strict=True):
        if trigger != shown:  # the hidden vectors of these triggers with every action
            hidden = buffer[: n_states * triggers].reshape(n_states, triggers, width)
            np.add(approximate.as_action[:, None], approximate.as_trigger[trigger : trigger + triggers], out=hidden)
            np.maximum(hidden, zero, out=hidden)
            shown = trigger
        rows = buffer[action * triggers : (action + actions) * triggers]
        np.dot(rows, approximate.weight[pair], out=score[start:end].reshape(-1, valid))
    if score.dtype == np.float64:  # large ones, which are equal once they are clipped
        np.clip(score, -LARGEST_SCORE, LARGEST_SCORE, out=score)
    return score


def _pair_scores(network: NumpyNetwork, graph: Graph, trigger: Array, action: Array, kind: Array) -> Scores:
    """The scores of all candidates: pair after pair, and the relations of each in order."""
    states = _States.of(network, graph)
    as_trigger, as_action = map(np.ascontiguousarray, network.split(states.sides))
    trigger, action = states.of_device[trigger], states.of_device[action]
    _, pair, which = np.unique(trigger * len(states.type) + action, return_index=True, return_inverse=True)
    trigger, action, kind = trigger[pair], action[pair], kind[pair]
    start = np.concatenate([[0], np.cumsum(np.diff(network.valid.start)[kind])])
    score = np.empty(start[-1], dtype=np.float32)
    zero = np.zeros(network.width)  # a maximum with a number takes twice as long
    order = np.argsort(kind, kind="stable")
    present = np.unique(kind)
    bounds = np.append(np.searchsorted(kind[order], present), len(order))
    for types, (first, last) in zip(present.tolist(), pairwise(bounds.tolist()), strict=True):
        for at in range(first, last, ROWS) if network.n_valid[types] else ():
            rows = order[at : min(at + ROWS, last)]
            hidden = as_trigger[trigger[rows]]
            hidden += as_action[action[rows]]
            np.maximum(hidden, zero, out=hidden)
            logit = hidden @ network.weight[types]
            np.clip(logit, -LARGEST_SCORE, LARGEST_SCORE, out=logit)
            score[start[rows][:, None] + np.arange(network.n_valid[types])] = logit
    return score[runs(start, which)]


@cache
def _odd_numbers(many: int) -> Array:
    """Random factors of a hash."""
    return np.random.default_rng(0).integers(2**62, size=many) | 1


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
    kept = np.flatnonzero(score >= score.dtype.type(least))
    if len(kept) <= k:
        return kept
    among = score[kept]  # all of the highest: the bound can be exact
    return kept[among >= score.dtype.type(float(np.partition(among, len(among) - k)[len(among) - k]) - error)]


def _low(score: Floats, k: int) -> float:
    """A close lower bound of the k-th highest score: the k-th highest maximum of short runs."""
    whole = len(score) // RUN
    if whole < 4 * k:
        return float(np.partition(score, len(score) - k)[len(score) - k]) if len(score) > k else -np.inf
    highest = score[: whole * RUN].reshape(whole, RUN).max(axis=1)
    return float(np.partition(highest, whole - k)[whole - k])
