"""Graph convolutional matrix completion on the bipartite graph of homes and rules.

R. van den Berg, T. Kipf and M. Welling, Graph Convolutional Matrix Completion, 2017, https://arxiv.org/abs/1706.02263.
Ratings are two levels here: has the rule, or a sampled non-rule. A home's embedding is made of messages from rules only
and not of weights of its own, so homes never seen in training are folded in by the rules they have.

Two things differ from the paper. There every rating sends messages and is predicted at once; where only the rules that
homes have are known, the model then learns to repeat what it is told. `hidden` keeps part of the rules from sending and
asks for those (0 is the paper). And non-rules have to be drawn, since nobody states which rules they do not want.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import softplus

from baselines.gcmc_layers import LEVELS, Accumulation, Normalisation
from baselines.gcmc_network import Graph, Network, Sizes, automations, device_features
from baselines.items import Items, UserItemModel
from baselines.method import OnRound, ignore
from baselines.non_rules import NonRules
from baselines.registry import register
from datasets.common.errors import DataError, unknown
from datasets.homes import Array, Homes

HOMES_AT_ONCE = 512  # when answering: a few hundred messages of non-rules for each, in memory at the same time


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
    dimension: int = 16  # size of the embeddings that the decoder compares
    bases: int = 2  # matrices that the decoder's levels share
    accumulation: Accumulation = "sum"  # how the levels' messages come together: "stack" side by side, or "sum"
    normalisation: Normalisation = "left"  # messages divided by the receiver's degree; "symmetric": by the root of both
    node_dropout: float = 0.2  # share of nodes whose messages an epoch drops
    hidden: float = 0.5  # share of rules, by automation, that an epoch hides and asks for; 0: all send and are asked
    non_rules: int = 5  # non-rules asked for beside each rule asked for, drawn anew each epoch
    non_rule_messages: int = 1  # non-rules that send messages for each rule that does; 0: only rules do
    owned: bool = True  # draw non-rules only among rules whose entity types the home owns
    features: bool = True  # the home's device counts by type as side features; then homes without a rule are answered
    epochs: int = 200  # steps of Adam, each on all homes
    learning_rate: float = 0.02  # of Adam
    weight_decay: float = 0.0  # of Adam: pull of all weights towards zero

    def __post_init__(self) -> None:
        if self.accumulation not in get_args(Accumulation):
            raise unknown("accumulation of gcmc", self.accumulation, get_args(Accumulation))
        if self.normalisation not in get_args(Normalisation):
            raise unknown("normalisation of gcmc", self.normalisation, get_args(Normalisation))
        if self.accumulation == "stack" and self.channels % LEVELS:
            raise DataError(f"gcmc: {self.channels} channels cannot be halved; use an even number, or sum")
        if not (0 <= self.node_dropout < 1 and 0 <= self.hidden < 1):
            raise DataError(f"gcmc: node_dropout {self.node_dropout} and hidden {self.hidden} must be in [0, 1)")

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> GcmcModel:
        """Full-batch Adam on the cross entropy of rules and non-rules, the two weighing the same."""
        items = Items.of(train)
        known = items.matrix(train)
        home, item = np.repeat(np.arange(train.n_homes), np.diff(known.indptr)), known.indices.astype(np.int64)
        automation = automations(train, items)
        non_rules = NonRules.of(train, items, owned=self.owned)
        chance = torch.Generator().manual_seed(int(rng.integers(2**63)))
        sizes = Sizes(self.channels, self.dimension, self.bases, self.accumulation, self.normalisation)
        n_features = len(train.types) if self.features else 0
        network = Network(sizes, train.n_homes, len(items), n_features, chance)
        features = device_features(train) if self.features else None

        def graph(sends: Array) -> Graph:
            """Messages of these rules, and of non-rules drawn among all that are not in them."""
            asked = np.repeat(home[sends], self.non_rule_messages)
            place, drawn = non_rules.draw(asked, rng, rules=non_rules.rule[sends])
            return Graph.of(train.n_homes, len(items), (home[sends], item[sends]), (asked[place], drawn))

        # What rules' embeddings are made of when answering: all rules, and one draw of non-rules.
        whole = graph(np.arange(len(home)))
        optimizer = torch.optim.Adam(
            network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        for epoch in range(self.epochs if len(items) else 0):
            hidden = (rng.random(len(home)) < self.hidden)[automation]
            asked = np.flatnonzero(hidden) if self.hidden else np.arange(len(home))
            beside = np.repeat(home[asked], self.non_rules)
            place, drawn = non_rules.draw(beside, rng)
            seen = graph(np.flatnonzero(~hidden))
            homes = network.homes(seen, features, self._kept(len(items), chance))
            rules = network.items(seen, self._kept(train.n_homes, chance))
            has = network.decoder.pairs(homes, rules, torch.from_numpy(home[asked]), torch.from_numpy(item[asked]))
            has_not = network.decoder.pairs(homes, rules, torch.from_numpy(beside[place]), torch.from_numpy(drawn))
            # Each level by its own number, so that scores are log-odds against as many non-rules as rules.
            loss = softplus(-has).sum() / max(len(has), 1) + softplus(has_not).sum() / max(len(has_not), 1)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if on_round is not ignore:
                now = GcmcModel(items, train, self, copy.deepcopy(network), whole)
                on_round(epoch + 1, self.epochs, now, {"loss": loss.item()})
        return GcmcModel(items, train, self, network, whole)

    def _kept(self, n_nodes: int, chance: torch.Generator) -> Tensor | None:
        """0 for a dropped node, and more than 1 for the others so that the sum stays the same on average."""
        if not self.node_dropout:
            return None
        return (torch.rand(n_nodes, generator=chance) >= self.node_dropout) / (1 - self.node_dropout)


class GcmcModel(UserItemModel):
    """The network and the graph of the training homes, from which the rules' embeddings are made."""

    def __init__(self, items: Items, train: Homes, method: Gcmc, network: Network, graph: Graph) -> None:
        super().__init__(items, train)
        # Answers in float64: in the float32 of scores it then does not matter which homes share a product.
        self.method, self.network, self._graph = method, network.double(), graph

    @cached_property
    def rules(self) -> Tensor:
        """[n_items, dimension]; made when first asked for, since most rounds are only counted."""
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
