"""GraphSAGE whose inputs say in which states a device triggers rules, and what rules do to it: that of `sagerank`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from datasets.homes import Array, Mask
from fedrule.evidence.counts import ColumnReader
from fedrule.lazy import torch
from fedrule.network.batch import Edges, GraphBatch
from fedrule.network.encoders import Dropout, Encoder, Parameters, Sage, first_product, initial_places, uniform
from fedrule.network.network import Network
from fedrule.network.options import EDGES

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class RelationHalves:
    """The trigger state and the action of each relation, numbered in the order in which relations first have them.

    So the numbers stay when relations are added, and a saved model can learn new ones.
    """

    state: Array  # [n_relations]
    act: Array  # [n_relations]
    learned: Mask  # [n_relations]  which relations are common enough; rules of others are left out of the graph

    @classmethod
    def of(cls, reader: ColumnReader, learned: Mask) -> RelationHalves:
        return cls(_by_first_use(reader.state.values), _by_first_use(reader.act.values), learned)

    @property
    def n_states(self) -> int:
        return int(self.state.max(initial=-1)) + 1

    @property
    def n_acts(self) -> int:
        return int(self.act.max(initial=-1)) + 1


def _by_first_use(number: Array) -> Array:
    """The same with other numbers, 0 for the first value, 1 for the next one that differs and so on."""
    _, first, of_value = np.unique(number, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[of_value]


@dataclass(frozen=True, slots=True, eq=False)
class EdgeSage(Sage):
    """Two GraphSAGE layers on x_v = [one-hot type ; sum of s over rules that v triggers ; sum of a over rules on v].

    s is an embedding of the rule's trigger state, a is one of its action. Each layer is that of Algorithm 1,
    theta [h_v ; mean of h_n over N(v)], the first to `first_hidden` units, the second to `hidden`.
    """

    halves: RelationHalves
    first_hidden: int
    edge_embedding: int  # length of s, and of a

    def initial(self, generator: torch.Generator) -> Parameters:
        sizes, size, ways = self.sizes, self.edge_embedding, EDGES[self.sizes.direction]
        theta: Parameters = {
            "state": uniform(self.halves.n_states, size, fan_in=size, generator=generator),
            "act": uniform(self.halves.n_acts, size, fan_in=size, generator=generator),
        }
        inputs = sizes.n_features + 2 * size
        for layer, (rows, columns) in ((1, (inputs, self.first_hidden)), (2, (self.first_hidden, sizes.hidden))):
            fan_in = rows * (1 + len(ways))
            for part in ("self", *ways):
                theta[f"{part}{layer}"] = uniform(rows, columns, fan_in=fan_in, generator=generator)
            theta[f"bias{layer}"] = uniform(columns, fan_in=fan_in, generator=generator)
        return theta | initial_places(sizes, generator)

    def embed(self, theta: Parameters, homes: GraphBatch, dropout: Dropout | None) -> Tensor:
        homes = self._learned(homes)
        sums = self.edge_sums(theta, homes)

        def first(matrix: Tensor) -> Tensor:
            features = self.sizes.n_features
            return first_product(theta, matrix[:features], homes, self.sizes.n_types) + sums @ matrix[features:]

        hidden = self._layer(theta, 1, homes, first)
        hidden = torch.relu(hidden if dropout is None else dropout(hidden, self.sizes.dropout))
        return self._layer(theta, 2, homes, lambda matrix: hidden @ matrix)

    def edge_sums(self, theta: Parameters, homes: GraphBatch) -> Tensor:
        """[n_devices, 2 * edge_embedding]: of the rules that a device triggers, and of those that act on it."""
        rules = homes.incoming
        none = theta["state"].new_zeros(homes.n_devices, self.edge_embedding)
        halves = self.halves.state, self.halves.act
        state, act = (torch.from_numpy(half).index_select(0, rules.relation) for half in halves)
        triggered = none.index_add(0, rules.sender, theta["state"].index_select(0, state))
        acting = none.index_add(0, rules.receiver, theta["act"].index_select(0, act))
        return torch.cat([triggered, acting], dim=1)

    def _learned(self, homes: GraphBatch) -> GraphBatch:
        """The same homes without the rules of relations that are not learned."""
        if self.halves.learned.all():
            return homes
        rules = homes.incoming
        kept = torch.from_numpy(self.halves.learned).index_select(0, rules.relation)
        trigger, action, relation = rules.sender[kept], rules.receiver[kept], rules.relation[kept]
        incoming = Edges.of(trigger, action, relation, homes.n_devices)
        outgoing = Edges.of(action, trigger, relation, homes.n_devices)
        return GraphBatch(homes.n_homes, homes.home, homes.type, homes.place, incoming, outgoing)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EdgeSageNetwork(Network):
    """`EdgeSage` and the paper's predictor."""

    halves: RelationHalves
    first_hidden: int
    edge_embedding: int

    @property
    def is_papers(self) -> bool:
        """Never: the encoder has other inputs."""
        return False

    @property
    def _encoder(self) -> Encoder:
        return EdgeSage(self.sizes, self.halves, self.first_hidden, self.edge_embedding)
