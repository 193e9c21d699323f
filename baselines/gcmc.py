"""Graph convolutional matrix completion on the bipartite graph of homes and rules.

R. van den Berg, T. Kipf and M. Welling, Graph Convolutional Matrix Completion, 2017, https://arxiv.org/abs/1706.02263.
Ratings are two levels here: has the rule, or a sampled non-rule. A home's embedding is made of messages from rules only
and not of weights of its own, so homes never seen in training are folded in by the rules they have.

Two things differ from the paper. There every rating sends messages and is predicted at once; where only the rules that
homes have are known, the model then learns to repeat its input. `hidden` keeps part of the rules from sending messages
and predicts those (0 is the paper). And non-rules have to be drawn, since nobody states which rules they do not want.

All initial weights come from the generator that is passed in; torch's global random state is never touched.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Generator, Tensor, nn
from torch.nn.functional import softplus
from torch_geometric.nn import MessagePassing

from baselines.items import Items, NonRules, UserItemModel, automations
from baselines.method import OnRound, check_range, ignore
from baselines.registry import register
from datasets.common.errors import DataError, unknown
from datasets.homes import Array, Homes

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
        """For homes to score: their non-rules are not drawn, but each has its expected number of draws.

        So a home's scores depend neither on chance nor on which other homes are scored. `item_degree` is that of the
        graph that the items' embeddings come from.
        """
        n_rules, n_free = np.diff(rules.indptr), np.diff(candidates.indptr)
        # A draw hits every candidate with equal probability; one that hits a rule is dropped.
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


class Network(nn.Module):
    """Homes gather from their rules, rules from their homes; a decoder compares the two embeddings."""

    def __init__(self, method: Gcmc, n_homes: int, n_items: int, n_features: int, rng: Generator) -> None:
        super().__init__()
        how = method.channels, method.accumulation, method.normalisation
        self.from_items = LevelMessages(n_items, *how, rng)
        self.from_homes = LevelMessages(n_homes, *how, rng)
        self.home_layer = Dense(method.channels, method.dimension, n_features, rng)
        self.item_layer = Dense(method.channels, method.dimension, 0, rng)
        self.decoder = BilinearDecoder(method.dimension, method.bases, n_items, rng)

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


HOMES_AT_ONCE = 512  # scored at a time: each has a few hundred messages of non-rules


@register("gcmc")
@dataclass(frozen=True)
class Gcmc:
    """Graph convolutional matrix completion: homes and rules exchange messages, a bilinear decoder compares them."""

    log_odds: ClassVar[bool] = False  # its non-rules are those a home could have, not the evaluation's
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "channels": ("choice", 16, 32, 64, 128),
        "dimension": ("choice", 8, 16, 32, 64),
        "bases": ("int", 1, 4),
        "accumulation": ("choice", *get_args(Accumulation)),
        "normalisation": ("choice", *get_args(Normalisation)),
        "node_dropout": ("float", 0.0, 0.7),
        "hidden": ("float", 0.0, 0.8),
        "non_rules": ("int", 1, 10),
        "non_rule_messages": ("int", 0, 2),
        "features": ("choice", False, True),
        "epochs": ("int", 50, 400),
        "learning_rate": ("log", 0.001, 0.05),
        "weight_decay": ("float", 0.0, 2e-4),
    }

    channels: int = 32  # size of the messages; with "stack" each of the two levels has half
    dimension: int = 32  # size of the embeddings that the decoder compares
    bases: int = 4  # matrices that the decoder's levels share
    accumulation: Accumulation = "sum"  # how the levels' messages are combined: "stack" (concatenated) or "sum"
    normalisation: Normalisation = "symmetric"  # messages divided by the root of both degrees; "left": receiver's
    node_dropout: float = 0.18  # share of nodes whose messages an epoch drops
    hidden: float = 0.37  # share of rules, by automation, that an epoch hides and predicts; 0: the paper's way
    non_rules: int = 3  # non-rules for each predicted rule, drawn anew each epoch
    non_rule_messages: int = 0  # non-rules that send messages for each rule that does; 0: only rules do
    owned: bool = True  # draw non-rules only among rules whose entity types the home owns
    features: bool = True  # the home's device counts by type as side features; then homes without rules get scores
    epochs: int = 98  # steps of Adam, each on all homes
    learning_rate: float = 0.0022  # of Adam
    weight_decay: float = 0.000074  # of Adam: pull of all weights towards zero

    def __post_init__(self) -> None:
        for name, known in (("accumulation", get_args(Accumulation)), ("normalisation", get_args(Normalisation))):
            if getattr(self, name) not in known:
                raise unknown(f"{name} of gcmc", getattr(self, name), known)
        if self.accumulation == "stack" and self.channels % LEVELS:
            raise DataError(f"gcmc: {self.channels} channels cannot be halved; use an even number, or accumulation sum")
        check_range("gcmc", self, "in [0, 1)", "node_dropout", "hidden")
        check_range("gcmc", self, "at least 1", "channels", "dimension", "bases", "non_rules", "epochs")
        check_range("gcmc", self, "at least 0", "non_rule_messages", "weight_decay")
        check_range("gcmc", self, "above 0", "learning_rate")

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> GcmcModel:
        """Full-batch Adam on the cross entropy of rules and non-rules, the two weighing the same."""
        items = Items.of(train)
        known = items.matrix(train)
        home, item = np.repeat(np.arange(train.n_homes), np.diff(known.indptr)), known.indices.astype(np.int64)
        automation = automations(train, items)
        non_rules = NonRules.of(train, items, owned=self.owned)
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        n_features = len(train.types) if self.features else 0
        network = Network(self, train.n_homes, len(items), n_features, generator)
        features = device_features(train) if self.features else None

        def graph(sends: Array) -> Graph:
            """Messages of these rules, and of non-rules drawn among all that are not in them."""
            repeated = np.repeat(home[sends], self.non_rule_messages)
            place, drawn = non_rules.draw(repeated, rng, rules=non_rules.rule[sends])
            return Graph.of(train.n_homes, len(items), (home[sends], item[sends]), (repeated[place], drawn))

        # What rules' embeddings are made of when scoring: all rules, and one draw of non-rules.
        whole = graph(np.arange(len(home)))
        optimizer = torch.optim.Adam(
            network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        for epoch in range(self.epochs if len(items) else 0):
            hidden = (rng.random(len(home)) < self.hidden)[automation]
            target = np.flatnonzero(hidden) if self.hidden else np.arange(len(home))
            beside = np.repeat(home[target], self.non_rules)
            place, drawn = non_rules.draw(beside, rng)
            seen = graph(np.flatnonzero(~hidden))
            homes = network.homes(seen, features, self._kept(len(items), generator))
            rules = network.items(seen, self._kept(train.n_homes, generator))
            has = network.decoder.pairs(homes, rules, torch.from_numpy(home[target]), torch.from_numpy(item[target]))
            has_not = network.decoder.pairs(homes, rules, torch.from_numpy(beside[place]), torch.from_numpy(drawn))
            # Each level divided by its own count, so that scores are log-odds against as many non-rules as rules.
            loss = softplus(-has).sum() / max(len(has), 1) + softplus(has_not).sum() / max(len(has_not), 1)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if on_round is not ignore:
                now = GcmcModel(items, train, self, copy.deepcopy(network), whole)
                on_round(epoch + 1, self.epochs, now, {"loss": loss.item()})
        return GcmcModel(items, train, self, network, whole)

    def _kept(self, n_nodes: int, generator: torch.Generator) -> Tensor | None:
        """0 for a dropped node, and more than 1 for the others so that the sum stays the same on average."""
        if not self.node_dropout:
            return None
        return (torch.rand(n_nodes, generator=generator) >= self.node_dropout) / (1 - self.node_dropout)


class GcmcModel(UserItemModel):
    """The network and the graph of the training homes, from which the rules' embeddings are made."""

    def __init__(self, items: Items, train: Homes, method: Gcmc, network: Network, graph: Graph) -> None:
        super().__init__(items, train)
        # In float64: rounded to float32 the scores do not depend on which homes share a product.
        self.method, self.network, self._graph = method, network.double(), graph

    @cached_property
    def rules(self) -> Tensor:
        """[n_items, dimension]; computed on first use, since models of most rounds are never used."""
        with torch.no_grad():
            return self.network.items(self._graph)

    def score_items(self, homes: Homes, which: Array) -> npt.NDArray[np.floating]:
        """Log-odds of having the rule; NaN for a home without a known rule, if there are no side features."""
        scores = np.empty((len(which), len(self.items)))
        for first in range(0, len(which), HOMES_AT_ONCE):
            some = slice(first, first + HOMES_AT_ONCE)
            scores[some] = self._score(homes.subset(which[some]))
        return scores

    def _score(self, homes: Homes) -> npt.NDArray[np.floating]:
        """[n_homes, n_items]."""
        known = self.items.matrix(homes)
        candidates = NonRules.of(homes, self.items, owned=self.method.owned).matrix()
        graph = Graph.expected(known, candidates, self.method.non_rule_messages, self._graph.item_degree)
        features = device_features(homes).double() if self.method.features else None
        with torch.no_grad():
            grid: Tensor = self.network.decoder.grid(self.network.homes(graph, features), self.rules)
        scores: npt.NDArray[np.floating] = grid.numpy()
        if features is None:
            scores[np.diff(known.indptr) == 0] = np.nan
        return scores
