"""The best candidates of homes: the k valid rules with the highest scores among those that a home lacks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from datasets.homes import Array
from fedrule.evidence.feature_blocks import Companions
from fedrule.evidence.forward_pass import Weights, score_home
from fedrule.evidence.home_graph import Graphs, Table, Vocabulary, compiled, lower_bound


class BestCandidates(NamedTuple):
    """The best candidates of homes; home h has the first many[h] of its row, best first."""

    many: Array  # [n_homes]
    trigger: Array  # [n_homes, k]  devices by position among all
    action: Array  # [n_homes, k]
    relation: Array  # [n_homes, k]
    score: Table  # [n_homes, k]


@compiled
def best_of_homes(
    best: BestCandidates,  # written
    scores: Table,  # [most candidates of a home]  space
    place: Array,  # [most pairs of a home]  space
    graphs: Graphs,
    vocabulary: Vocabulary,
    companions: Companions,
    inverse: npt.NDArray[np.float64],
    scale: npt.NDArray[np.float64],
    weights: Weights,
    self_rules: npt.NDArray[np.bool_],  # [n_valid]  those that a device may have with itself
) -> None:
    """The best valid rules that each home lacks; equal scores in the order of trigger, action and relation."""
    k = best.score.shape[1]
    heap = np.empty(k, dtype=np.float32)
    for h in range(len(graphs.device_start) - 1):
        first, n = graphs.device_start[h], graphs.device_start[h + 1] - graphs.device_start[h]
        kind, at = graphs.type[first : first + n], 0
        for i in range(n):
            for j in range(n):
                pair = kind[i] * vocabulary.n_types + kind[j]
                place[i * n + j] = at
                at += vocabulary.start[pair + 1] - vocabulary.start[pair]
        score_home(scores, place[: n * n].reshape(n, n), graphs, vocabulary, companions, inverse, scale, weights, h)
        for rule in range(graphs.rule_start[h], graphs.rule_start[h + 1]):
            i, j = graphs.trigger[rule] - first, graphs.action[rule] - first
            pair = kind[i] * vocabulary.n_types + kind[j]
            low, high = vocabulary.start[pair], vocabulary.start[pair + 1]
            item = low + lower_bound(vocabulary.relation[low:high], graphs.relation[rule])
            if item < high and vocabulary.relation[item] == graphs.relation[rule]:
                scores[place[i * n + j] + item - low] = np.nan
        for i in range(n):
            pair = kind[i] * vocabulary.n_types + kind[i]
            for item in range(vocabulary.start[pair], vocabulary.start[pair + 1]):
                if not self_rules[item]:
                    scores[place[i * n + i] + item - vocabulary.start[pair]] = np.nan
        found = 0  # the k highest scores as a heap, the lowest first
        for c in range(at):
            if np.isnan(scores[c]):
                continue
            if found < k:
                heap[found] = scores[c]
                found += 1
                rise(heap, found - 1)
            elif scores[c] > heap[0]:
                heap[0] = scores[c]
                sink(heap, k)
        least = heap[0] if found == k else -np.inf
        above = 0
        for c in range(at):
            above += scores[c] > least
        ties = found - above  # of the lowest score, the first ones
        many = 0
        for i in range(n):
            for j in range(n):
                pair = kind[i] * vocabulary.n_types + kind[j]
                low, begin = vocabulary.start[pair], place[i * n + j]
                for item in range(low, vocabulary.start[pair + 1]):
                    score = scores[begin + item - low]
                    if score > least or (score == least and ties > 0):
                        ties -= score == least
                        insert(best, h, many, first + i, first + j, vocabulary.relation[item], score)
                        many += 1
        best.many[h] = many


@compiled
def rise(heap: Table, at: int) -> None:
    """Put the last number of a heap where it belongs."""
    while at > 0 and heap[at] < heap[(at - 1) // 2]:
        heap[at], heap[(at - 1) // 2] = heap[(at - 1) // 2], heap[at]
        at = (at - 1) // 2


@compiled
def sink(heap: Table, n: int) -> None:
    """Put the first number of a heap where it belongs."""
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and heap[child + 1] < heap[child]:
            child += 1
        if heap[at] <= heap[child]:
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@compiled
def insert(best: BestCandidates, h: int, many: int, trigger: int, action: int, relation: int, score: float) -> None:
    """Put a candidate among those found so far, behind all of the same score."""
    at = many
    while at > 0 and best.score[h, at - 1] < score:
        best.trigger[h, at], best.action[h, at] = best.trigger[h, at - 1], best.action[h, at - 1]
        best.relation[h, at], best.score[h, at] = best.relation[h, at - 1], best.score[h, at - 1]
        at -= 1
    best.trigger[h, at], best.action[h, at] = trigger, action
    best.relation[h, at], best.score[h, at] = relation, score
