"""Which search a model is asked by: in NumPy for the paper's network alone, by its own scorer for all others."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from datasets.candidates import Pairs
from datasets.homes import Array, Homes, Mask, Rules
from datasets.valid import ValidRules
from datasets.view import Relation
from fedrule.inference.graph import LARGEST, Found, Graph, Search, nothing
from fedrule.inference.many_homes import search_homes
from fedrule.models.model_file import SavedModel
from fedrule.inference.network import NumpyNetwork, is_network_alone
from fedrule.inference.one_home import search_home

if TYPE_CHECKING:
    from fedrule.model.graph_model import GraphModel

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

    def one(self, graph: Graph, k: int) -> Found:
        return search_home(self.network, graph, k, itself=self.itself)

    def many(self, homes: Homes, k: int) -> Found:
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

    def one(self, graph: Graph, k: int) -> Found:
        home, n_devices = np.zeros(1, dtype=np.int64), len(graph.device_type)
        rules = Rules(np.zeros(len(graph.trigger), dtype=np.int64), graph.trigger, graph.action, graph.relation)
        everything = np.arange(n_devices)
        homes = Homes(
            "one home", self.types, self.relations, home, np.zeros(n_devices, int), graph.device_type, everything, rules
        )
        return self.many(homes, k)

    def many(self, homes: Homes, k: int) -> Found:
        pairs = Pairs.of(homes, self_pairs=bool(self.itself.any()))
        devices = np.diff(pairs.device_start)[homes.device_home] - (not pairs.self_pairs)  # that a trigger may act on
        behind = np.cumsum(devices)  # pairs are numbered by home and trigger: where those of each trigger end
        step = np.cumsum(self._candidates(homes)) // CANDIDATES
        bounds = [0, *behind[np.flatnonzero(np.diff(step))].tolist(), int(pairs.start[-1])]
        parts = [
            self._best(homes, pairs, np.arange(first, last), k) for first, last in pairwise(bounds) if first < last
        ]
        return _best_of_each(parts, k) if parts else nothing()

    def _candidates(self, homes: Homes) -> Array:
        """[n_devices]: how many candidates each device is the trigger of."""
        n_types = self.valid.n_types
        owned = np.bincount(homes.device_home * n_types + homes.device_type, minlength=homes.n_homes * n_types)
        valid = np.diff(self.valid.start).reshape(n_types, n_types)
        of_types = owned.reshape(-1, n_types) @ valid.T  # [n_homes, n_types]  for a trigger of each type
        return of_types[homes.device_home, homes.device_type]

    def _best(self, homes: Homes, pairs: Pairs, some: Array, k: int) -> Found:
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
            logit = scorer.logits_of(self.model.parameters, scorer.ask(homes, candidates)).numpy()
        score = np.clip(logit, -LARGEST, LARGEST).astype(np.float32)
        columns = (candidates.home, candidates.trigger, candidates.action, candidates.relation, score)
        return _best_of_each([Found(*columns)], k)


def _best_of_each(parts: list[Found], k: int) -> Found:
    """The best `k` of each home of all parts; equal scores in the order of devices."""
    whole = Found.joined(parts)
    whole = whole.take(np.lexsort((whole.relation, whole.action, whole.trigger, -whole.score, whole.home)))
    return whole.take(np.arange(len(whole.home)) - np.searchsorted(whole.home, whole.home) < k)
