"""The layers of GC-MC: per-level messages over a bipartite graph, a dense layer, and a bilinear decoder.

R. van den Berg, T. Kipf and M. Welling, Graph Convolutional Matrix Completion, 2017, https://arxiv.org/abs/1706.02263.
All initial weights come from the generator that is handed in; torch's own random state is never touched.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Generator, Tensor, nn
from torch_geometric.nn import MessagePassing

LEVELS = 2  # 0: a sampled non-rule, 1: has the rule
Accumulation: TypeAlias = Literal["stack", "sum"]
Normalisation: TypeAlias = Literal["left", "symmetric"]


class Edges(NamedTuple):
    """Edges of the bipartite graph, pointing at the nodes that gather."""

    source: Tensor  # [n_edges]
    target: Tensor  # [n_edges]
    level: Tensor  # [n_edges]
    strength: Tensor  # [n_edges]  how many messages it stands for: 1, or the expected number
    source_degree: Tensor  # [n_sources]  at least 1
    target_degree: Tensor  # [n_targets]  at least 1


class LevelMessages(MessagePassing):  # type: ignore[misc]  # torch-geometric ships no types
    """h_i = relu(accumulated over levels r: the sum over neighbours j at level r of W_r x_j / c_ij).

    The input x_j is one-hot, so W_r x_j is a row of W_r: every node has a row for each level. c_ij is |N_i| ("left")
    or sqrt(|N_i| |N_j|) ("symmetric"), with neighbours of both levels. `stack` gives each level its own part of h_i,
    `sum` adds them.
    """

    def __init__(
        self, n_sources: int, channels: int, accumulation: Accumulation, normalisation: Normalisation, rng: Generator
    ) -> None:
        super().__init__(aggr="sum")
        self.channels = channels
        self.stacked = accumulation == "stack"
        self.symmetric = normalisation == "symmetric"
        width = channels // LEVELS if self.stacked else channels
        self.weight = nn.Parameter(glorot(LEVELS, n_sources, width, rng=rng))

    def forward(self, edges: Edges, kept: Tensor | None = None) -> Tensor:
        """[n_targets, channels]. `kept` [n_sources] scales all messages of a source: node dropout in training."""
        n_sources, n_targets = self.weight.shape[1], len(edges.target_degree)
        norm = edges.target_degree[edges.target]
        if self.symmetric:
            norm = (norm * edges.source_degree[edges.source]).sqrt()
        weight = edges.strength / norm
        if kept is not None:
            weight = weight * kept[edges.source]
        # The row of the level is the message; where levels are stacked, each (node, level) gathers on its own.
        row = edges.level * n_sources + edges.source
        place = edges.target * LEVELS + edges.level if self.stacked else edges.target
        gathered: Tensor = self.propagate(
            torch.stack([row, place]),
            x=(self.weight.flatten(0, 1), None),
            weight=weight,
            size=(LEVELS * n_sources, n_targets * (LEVELS if self.stacked else 1)),
        )
        return torch.relu(gathered.reshape(n_targets, self.channels))

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        """W_r x_j / c_ij: [n_edges, width]."""
        return x_j * weight[:, None]


class Dense(nn.Module):
    """z_i = W h_i + W_2 f_i with f_i = relu(W_1 x_i + b), the second part only where nodes have side features x_i."""

    def __init__(self, channels: int, dimension: int, n_features: int, rng: Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(glorot(channels, dimension, rng=rng))
        inner = channels if n_features else 0
        self.inner = nn.Parameter(glorot(n_features, inner, rng=rng))
        self.bias = nn.Parameter(torch.zeros(inner))
        self.outer = nn.Parameter(glorot(inner, dimension, rng=rng))

    def forward(self, hidden: Tensor, features: Tensor | None = None) -> Tensor:
        """[n, dimension]."""
        embedding = hidden @ self.weight
        if features is None:
            return embedding
        return embedding + torch.relu(features @ self.inner + self.bias) @ self.outer


class BilinearDecoder(nn.Module):
    """p(level r) = softmax over r of u^T Q_r v + b_r(v), where Q_r is the sum over bases s of a_rs P_s.

    With two levels the softmax depends on the difference of their logits alone, which is the log-odds of having the
    rule. The rule's bias b, which carries its popularity, is not in the paper's equation.
    """

    def __init__(self, dimension: int, bases: int, n_items: int, rng: Generator) -> None:
        super().__init__()
        self.basis = nn.Parameter(glorot(bases, dimension, dimension, rng=rng))
        self.coefficient = nn.Parameter(glorot(LEVELS, bases, rng=rng))
        self.bias = nn.Parameter(torch.zeros(LEVELS, n_items))

    def levels(self) -> Tensor:
        """Q: [LEVELS, dimension, dimension]."""
        return torch.einsum("rs,sij->rij", self.coefficient, self.basis)

    def pairs(self, homes: Tensor, items: Tensor, home: Tensor, item: Tensor) -> Tensor:
        """Log-odds [n] of having the rule, for n pairs of a row of `homes` and a row of `items`."""
        turned, bias = self._difference(homes)
        return (turned.index_select(0, home) * items.index_select(0, item)).sum(dim=1) + bias[item]

    def grid(self, homes: Tensor, items: Tensor) -> Tensor:
        """Log-odds [n_homes, n_items] of every home with every item."""
        turned, bias = self._difference(homes)
        return turned @ items.T + bias

    def _difference(self, homes: Tensor) -> tuple[Tensor, Tensor]:
        non_rule, rule = self.levels()
        return homes @ (rule - non_rule), self.bias[1] - self.bias[0]


def glorot(*shape: int, rng: Generator) -> Tensor:
    """Uniform within sqrt(6 / (rows + columns)) of the last two axes."""
    bound = math.sqrt(6 / max(shape[-1] + shape[-2], 1))
    return (torch.rand(*shape, generator=rng) * 2 - 1) * bound
