"""The best candidates of homes: what a search returns, one that works with any graph method, and diversification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from baselines.method import LARGEST_SCORE, Scores
from datasets.candidates import Pairs
from datasets.homes import Array, Homes, HomeSubset, Mask, Relation, Rules, Words
from datasets.valid import ValidRules
from fedrule.inference.encode import Graph

if TYPE_CHECKING:
    from fedrule.network.score import GraphModel

CANDIDATES = 1 << 15  # scored at a time: some kilobytes of evidence each
MORE = 4  # times as many candidates are searched, and again, until enough of them differ


class TopK(NamedTuple):
    """The best candidates of each home, home after home, best first; equal scores in the order of devices."""

    home: Array
    trigger: Array
    action: Array
    relation: Array
    score: Scores

    def take(self, which: Array | Mask) -> TopK:
        """Some of them, in that order."""
        home, trigger, action, relation, score = self
        return TopK(home[which], trigger[which], action[which], relation[which], score[which])

    def best(self, k: int) -> TopK:
        """The `k` highest scores of each home; equal scores in the order of devices."""
        order = np.lexsort((self.relation, self.action, self.trigger, -self.score, self.home))
        home = self.home[order]
        return self.take(order[np.arange(len(home)) - np.searchsorted(home, home) < k])

    @classmethod
    def empty(cls) -> TopK:
        """No candidates."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, none, none, none.astype(np.float32))

    @classmethod
    def concatenate(cls, parts: Sequence[TopK]) -> TopK:
        """One part after the other; at least one."""
        home, trigger, action, relation, score = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(home, trigger, action, relation, score)


class Search(Protocol):
    """Finds the best valid rules that homes lack."""

    def one(self, graph: Graph, k: int) -> TopK:
        """The best `k` of a graph of one home, with the lowest latency."""

    def many(self, homes: Homes, k: int) -> TopK:
        """The best `k` of each of these homes, in the model's vocabulary; memory grows with their number."""


@dataclass(frozen=True, slots=True, eq=False)
class ScorerSearch:
    """For any graph method: its scorer scores all valid candidates."""

    model: GraphModel
    valid: ValidRules
    self_rules: Mask  # [n_valid]  rules that a device may have with itself
    types: tuple[str, ...]
    relations: tuple[Relation, ...]

    def one(self, graph: Graph, k: int) -> TopK:
        home, n_devices = np.zeros(1, dtype=np.int64), len(graph.device_type)
        rules = Rules(np.zeros(len(graph.trigger), dtype=np.int64), graph.trigger, graph.action, graph.relation)
        homes = Homes(
            "one home",
            self.types,
            self.relations,
            users=home,
            device_home=np.zeros(n_devices, dtype=np.int64),
            device_type=graph.device_type,
            device_ids=np.arange(n_devices),
            rules=rules,
            words=Words(graph.word_device, graph.word),
        )
        return self.many(homes, k)

    def many(self, homes: Homes, k: int) -> TopK:
        pairs = Pairs.of(homes, self_pairs=bool(self.self_rules.any()))
        actions = np.diff(pairs.device_start)[homes.device_home] - (not pairs.self_pairs)  # [n_devices]
        end = np.cumsum(actions)  # of each trigger's pairs, which are numbered by home and trigger
        step = np.cumsum(self._candidates(homes)) // CANDIDATES
        bounds = [0, *end[np.flatnonzero(np.diff(step))].tolist(), int(pairs.start[-1])]
        parts = [
            self._best(homes, pairs, np.arange(first, last), k) for first, last in pairwise(bounds) if first < last
        ]
        return TopK.concatenate([TopK.empty(), *parts]).best(k)

    def _candidates(self, homes: Homes) -> Array:
        """[n_devices]: how many candidates have each device as trigger."""
        n_types = self.valid.n_types
        owned = np.bincount(homes.device_home * n_types + homes.device_type, minlength=homes.n_homes * n_types)
        valid = np.diff(self.valid.start).reshape(n_types, n_types)
        of_types = owned.reshape(-1, n_types) @ valid.T  # [n_homes, n_types]  by the trigger's type
        return of_types[homes.device_home, homes.device_type]

    def _best(self, homes: Homes, pairs: Pairs, some: Array, k: int) -> TopK:
        """The best `k` of each home among the candidates of some pairs."""
        import torch

        home, trigger, action = pairs.devices(some)
        pair, number = self.valid.of_pairs(homes.device_type[trigger], homes.device_type[action])
        every = Rules(home[pair], trigger[pair], action[pair], self.valid.relation[number])
        sizes = homes.n_devices, len(homes.relations)
        possible = (every.trigger != every.action) | self.self_rules[number]
        candidates = every.take(possible & ~np.isin(every.keys(*sizes), homes.rules.keys(*sizes)))
        scorer = self.model.scorer
        with torch.no_grad():
            logit = scorer.logits_of(self.model.parameters, scorer.query(homes, candidates)).numpy()
        score = np.clip(logit, -LARGEST_SCORE, LARGEST_SCORE).astype(np.float32)
        columns = (candidates.home, candidates.trigger, candidates.action, candidates.relation, score)
        return TopK(*columns).best(k)


@dataclass(frozen=True, slots=True, eq=False)
class DiverseSearch:
    """A search with at most `max_similar` rules of the same relation and types in the list of a home.

    A house with five door sensors and six lamps could otherwise fill a list with one door switching on one lamp.
    """

    search: Search
    n_types: int
    n_relations: int
    max_similar: int

    def one(self, graph: Graph, k: int) -> TopK:
        wanted = MORE * k
        while True:
            found = self.search.one(graph, wanted)
            kept = np.flatnonzero(self._kept(found, graph.device_type))
            if len(kept) >= k or len(found.home) < wanted:
                return found.take(kept[:k])
            wanted *= MORE

    def many(self, homes: Homes, k: int) -> TopK:
        wanted, pending, pieces = MORE * k, np.arange(homes.n_homes), [TopK.empty()]
        while len(pending):
            some = HomeSubset.of(homes, pending)
            found = self.search.many(some.homes, wanted)
            kept = self._kept(found, some.homes.device_type)
            many = np.bincount(found.home[kept], minlength=len(pending))
            done = (many >= k) | (np.bincount(found.home, minlength=len(pending)) < wanted)
            kept &= done[found.home]
            before: Array = np.cumsum(kept) - kept  # how many are kept before each one
            kept &= before - before[np.searchsorted(found.home, found.home)] < k
            found = found.take(kept)
            shift = some.shift[found.home]
            pieces.append(
                found._replace(home=pending[found.home], trigger=found.trigger - shift, action=found.action - shift)
            )
            wanted, pending = MORE * wanted, pending[~done]
        whole = TopK.concatenate(pieces)
        return whole.take(np.argsort(whole.home, kind="stable"))

    def _kept(self, found: TopK, device_type: Array) -> Mask:
        """The first `max_similar` of each kind in each home."""
        pair = device_type[found.trigger] * self.n_types + device_type[found.action]
        kind = (found.home * self.n_types**2 + pair) * self.n_relations + found.relation
        order = np.argsort(kind, kind="stable")
        kept = np.empty(len(kind), dtype=bool)
        kept[order] = np.arange(len(kind)) - np.searchsorted(kind[order], kind[order]) < self.max_similar
        return kept


@dataclass(frozen=True, slots=True, eq=False)
class SomeDevices:
    """A search of one home for rules that have at least one of some devices, e.g. those of a room."""

    search: Search
    wanted: Mask  # [n_devices]

    def one(self, graph: Graph, k: int) -> TopK:
        many = MORE * k
        while True:
            found = self.search.one(graph, many)
            kept = np.flatnonzero(self.wanted[found.trigger] | self.wanted[found.action])
            if len(kept) >= k or len(found.home) < many:
                return found.take(kept[:k])
            many *= MORE
