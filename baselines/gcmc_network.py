"""The graph of homes and rules, and the network of GC-MC upon it: an encoder each way and one decoder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Generator, Tensor, nn

from baselines.gcmc_layers import Accumulation, BilinearDecoder, Dense, Edges, LevelMessages, Normalisation
from baselines.items import Items
from datasets.homes import Array, Homes


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The bipartite graph: an edge between a home and an item for each rule and for some non-rules."""

    home: Tensor  # [n_edges]
    item: Tensor  # [n_edges]
    level: Tensor  # [n_edges]
    strength: Tensor  # [n_edges]
    home_degree: Tensor  # [n_homes]
    item_degree: Tensor  # [n_items]

    @classmethod
    def of(cls, n_homes: int, n_items: int, rules: tuple[Array, Array], non_rules: tuple[Array, Array]) -> Graph:
        """From home and item of each edge of the two levels."""
        home = torch.from_numpy(np.concatenate([non_rules[0], rules[0]]))
        item = torch.from_numpy(np.concatenate([non_rules[1], rules[1]]))
        level = torch.from_numpy(np.repeat([0, 1], [len(non_rules[0]), len(rules[0])]))
        degree = torch.bincount(home, minlength=n_homes), torch.bincount(item, minlength=n_items)
        at_least_one = [count.clamp(min=1).float() for count in degree]
        return cls(home, item, level, torch.ones(len(home)), *at_least_one)

    @classmethod
    def expected(cls, rules: csr_array, candidates: csr_array, per_rule: int, item_degree: Tensor) -> Graph:
        """Of homes to answer for: their non-rules are not drawn, but each has its expected number of draws.

        So a home's answer hangs neither on chance nor on which other homes are asked about. `item_degree` is that of
        the graph the items' embeddings come from.
        """
        n_rules, n_free = np.diff(rules.indptr), np.diff(candidates.indptr)
        # A draw hits each candidate alike, the rules among them too, and is then left out.
        rate = per_rule * n_rules / np.maximum(n_rules + n_free, 1)
        non_rule_home = np.repeat(np.arange(len(n_free)), n_free)
        home = np.concatenate([non_rule_home, np.repeat(np.arange(len(n_rules)), n_rules)])
        item = np.concatenate([candidates.indices, rules.indices])
        level = np.repeat([0, 1], [len(non_rule_home), rules.nnz])
        strength = np.concatenate([rate[non_rule_home], np.ones(rules.nnz)])
        degree = np.bincount(home, weights=strength, minlength=len(n_rules))
        return cls(
            torch.from_numpy(home),
            torch.from_numpy(item.astype(np.int64)),
            torch.from_numpy(level),
            torch.from_numpy(strength),
            torch.from_numpy(np.maximum(degree, 1.0)),
            item_degree,
        )

    def to_homes(self) -> Edges:
        """Messages from items to homes."""
        return Edges(self.item, self.home, self.level, self.strength, self.item_degree, self.home_degree)

    def to_items(self) -> Edges:
        """Messages from homes to items."""
        return Edges(self.home, self.item, self.level, self.strength, self.home_degree, self.item_degree)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the layers are built with."""

    channels: int
    dimension: int
    bases: int
    accumulation: Accumulation
    normalisation: Normalisation


class Network(nn.Module):
    """Homes gather from their rules, rules from their homes; a decoder compares the two embeddings."""

    def __init__(self, sizes: Sizes, n_homes: int, n_items: int, n_features: int, rng: Generator) -> None:
        super().__init__()
        how = sizes.channels, sizes.accumulation, sizes.normalisation
        self.from_items = LevelMessages(n_items, *how, rng)
        self.from_homes = LevelMessages(n_homes, *how, rng)
        self.home_layer = Dense(sizes.channels, sizes.dimension, n_features, rng)
        self.item_layer = Dense(sizes.channels, sizes.dimension, 0, rng)
        self.decoder = BilinearDecoder(sizes.dimension, sizes.bases, n_items, rng)

    def homes(self, graph: Graph, features: Tensor | None, kept: Tensor | None = None) -> Tensor:
        """[n_homes, dimension]; `kept` scales what each item sends."""
        embedding: Tensor = self.home_layer(self.from_items(graph.to_homes(), kept), features)
        return embedding

    def items(self, graph: Graph, kept: Tensor | None = None) -> Tensor:
        """[n_items, dimension]; `kept` scales what each home sends."""
        embedding: Tensor = self.item_layer(self.from_homes(graph.to_items(), kept))
        return embedding


def device_features(homes: Homes) -> Tensor:
    """[n_homes, n_types]: log(1 + devices of each type), scaled to length 1."""
    counts = np.zeros((homes.n_homes, len(homes.types)), dtype=np.float32)
    np.add.at(counts, (homes.device_home, homes.device_type), 1)
    counts = np.log1p(counts)
    length = np.linalg.norm(counts, axis=1, keepdims=True)
    return torch.from_numpy(counts / np.where(length > 0, length, 1))


def automations(homes: Homes, items: Items) -> Array:
    """[n_entries of the matrix of rules]: entries of one automation share a number; without groups each is its own.

    An entry that several automations make is of the first one. Numbers are from 0 on without a gap.
    """
    rules = homes.rules
    entry, first = np.unique(rules.home * len(items) + items.number(homes), return_index=True)
    if rules.group is None:
        return np.arange(len(entry))
    pairs = np.stack([rules.home[first], rules.group[first]], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
