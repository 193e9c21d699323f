"""LightGCN: embeddings of homes and rules, smoothed over the graph of who has what, ranked by their product.

X. He et al., LightGCN: Simplifying and Powering Graph Convolution Network for Recommendation, SIGIR 2020,
https://arxiv.org/abs/2002.02126. Layer k + 1 of a node is the sum over its neighbours of their layer k, divided by the
root of both degrees, and its embedding is the mean of layers 0 to K. The propagation is torch-geometric's, the loss is
BPR: a rule of the home before a sampled non-rule.

A home in layer k + 1 is made of rules in layer k. So a home is folded in by its rules as they were trained: one never
seen in training has layer 0 = 0, and one of the training data its own and so its trained embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import softplus
from torch_geometric.nn.models import LightGCN

from baselines.items import Items, NonRules, UserItemModel
from baselines.method import OnRound, check_range, ignore
from baselines.registry import register
from datasets.homes import Array, Homes

Vectors: TypeAlias = npt.NDArray[np.float64]


@register("lightgcn")
@dataclass(frozen=True)
class LightGraphConvolution:
    """Embeddings of homes and rules, smoothed over the graph of who has what (He et al. 2020, BPR loss)."""

    log_odds: ClassVar[bool] = False
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "dimension": ("choice", 16, 32, 64, 128),
        "layers": ("int", 1, 5),
        "non_rules": ("int", 1, 8),
        "epochs": ("int", 50, 400),
        "learning_rate": ("log", 0.001, 0.1),
        "regularization": ("log", 1e-5, 1.0),
    }

    dimension: int = 32  # size of the embeddings
    layers: int = 3  # K: how often embeddings are smoothed
    non_rules: int = 1  # non-rules that each rule is ranked before, drawn anew each epoch
    owned: bool = True  # draw non-rules only among rules whose entity types the home owns
    epochs: int = 150  # steps of Adam, each on all homes
    learning_rate: float = 0.01  # of Adam
    regularization: float = 0.05  # on the squared length of the embeddings in layer 0 that a step uses

    def __post_init__(self) -> None:
        check_range("lightgcn", self, "at least 1", "dimension", "layers", "non_rules", "epochs")
        check_range("lightgcn", self, "at least 0", "regularization")
        check_range("lightgcn", self, "above 0", "learning_rate")

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> LightGcnModel:
        """Full-batch Adam on the ranking loss."""
        items = Items.of(train)
        known = items.matrix(train)
        home, item = np.repeat(np.arange(train.n_homes), np.diff(known.indptr)), known.indices.astype(np.int64)
        non_rules = NonRules.of(train, items, owned=self.owned)
        with torch.random.fork_rng(devices=[]):  # LightGCN draws from torch's global random state
            torch.manual_seed(int(rng.integers(2**63)))
            # Edge weights are computed once, here, and not in every layer.
            model = LightGCN(train.n_homes + len(items), self.dimension, self.layers, normalize=False)
        edges, weights = graph(known)
        optimizer = torch.optim.Adam(model.parameters(), lr=self.learning_rate, fused=True)
        for epoch in range(self.epochs if len(items) else 0):
            repeated = np.tile(np.arange(len(home)), self.non_rules)
            place, drawn = non_rules.draw(home[repeated], rng)
            rule = repeated[place]
            triple = [home[rule], item[rule] + train.n_homes, drawn + train.n_homes]
            users, rules, others = (torch.from_numpy(nodes) for nodes in triple)
            smoothed = model.get_embedding(edges, weights)
            of_home = smoothed.index_select(0, users)
            better = smoothed.index_select(0, rules) - smoothed.index_select(0, others)
            loss = softplus(-(of_home * better).sum(dim=1)).sum() / max(len(rule), 1)
            penalty = self._penalty(model.embedding.weight, (users, rules, others))
            optimizer.zero_grad()
            (loss + self.regularization * penalty).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if on_round is not ignore:
                on_round(epoch + 1, self.epochs, LightGcnModel(items, train, model, known), {"loss": loss.item()})
        return LightGcnModel(items, train, model, known)

    def _penalty(self, weight: Tensor, nodes: tuple[Tensor, ...]) -> Tensor:
        """Mean over the triples of half the squared length of their embeddings."""
        used = torch.bincount(torch.cat(nodes), minlength=len(weight))
        return (used * weight.square().sum(dim=1)).sum() / (2 * max(len(nodes[0]), 1))


def graph(known: csr_array) -> tuple[Tensor, Tensor]:
    """Edges both ways between homes and items (numbered behind the homes), and 1 / root of both degrees for each."""
    home = np.repeat(np.arange(known.shape[0]), np.diff(known.indptr))
    item = known.indices + known.shape[0]
    degree = np.bincount(np.concatenate([home, item]), minlength=sum(known.shape))
    weight = torch.from_numpy((degree[home] * degree[item]) ** -0.5).float()
    edges = np.stack([np.concatenate([home, item]), np.concatenate([item, home])]).astype(np.int64)
    return torch.from_numpy(edges), torch.cat([weight, weight])


def propagated(model: LightGCN, known: csr_array) -> list[Tensor]:
    """Layers 0 to K of all nodes, each [n_homes + n_items, dimension]."""
    edges, weights = graph(known)
    layers = [model.embedding.weight.detach()]
    with torch.no_grad():
        for convolution in model.convs:
            layers += [convolution(layers[-1], edges, weights)]
    return layers


class LightGcnModel(UserItemModel):
    """The trained embeddings; a home without rules gets no scores."""

    def __init__(self, items: Items, train: Homes, model: LightGCN, known: csr_array) -> None:
        super().__init__(items, train)
        # In float64: rounded to float32 the scores do not depend on which homes share a product.
        layers = [layer.double().numpy() / (model.num_layers + 1) for layer in propagated(model, known)]
        rules = [layer[train.n_homes :] for layer in layers]
        degree = np.maximum(np.bincount(known.indices, minlength=len(items)), 1)
        self.rules: Vectors = np.sum(rules, axis=0)  # [n_items, dimension]
        self.first: Vectors = layers[0][: train.n_homes].copy()  # [n_homes, dimension]  the home's own part
        # [n_items, dimension]  what a home gathers from a rule that it has, before dividing by its own degree
        self.sent: Vectors = np.sum(rules[:-1], axis=0) / np.sqrt(degree)[:, None]

    def score_items(self, homes: Homes, which: Array) -> npt.NDArray[np.floating]:
        """Products of embeddings; NaN for a home without a known rule."""
        known = self.items.matrix(homes)[which]
        n_rules = np.diff(known.indptr)
        row = self.training_row(homes, which)
        own = np.where((row >= 0)[:, None], self.first[row], 0.0) if len(self.first) else 0.0
        home = own + (known @ self.sent) / np.sqrt(np.maximum(n_rules, 1))[:, None]
        scores = np.asarray(home @ self.rules.T)
        scores[n_rules == 0] = np.nan
        return scores
