"""Encoders with weights for each relation: R-GCN, and the heterogeneous graph transformer (HGT).

Both read a rule as an edge of the type (relation, direction): messages along rules and against them are of different
types, a relation and its inverse, where `direction` is "both".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from datasets.common.errors import DataError
from fedrule.lazy import torch
from fedrule.network.batch import Edges, GraphBatch
from fedrule.network.encoders import (
    MAX_PLACES,
    Dropout,
    Parameters,
    Sizes,
    first_product,
    initial_places,
    refuse_options,
    uniform,
)
from fedrule.network.options import EDGES

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rgcn:
    """Relational graph convolutions, two layers (M. Schlichtkrull et al., 2018, https://arxiv.org/abs/1703.06103).

    h_v' = W_0 h_v + sum over relations r of the mean of W_r h_n over N_r(v), with the basis decomposition
    W_r = sum over b of a_rb V_b, and a ReLU after the first layer. N_r(v) are the devices with a message of type r
    to v.

    The same as torch-geometric's `RGCNConv`, and tested equal. That one loops over all relations, of which homes have
    over 2 x 2,000; here a device's state is multiplied by every V_b once, and each message is a sum of these products
    weighted by the a_rb of its relation.
    """

    sizes: Sizes

    def __post_init__(self) -> None:
        refuse_options("rgcn", self.sizes)

    def initial(self, generator: torch.Generator) -> Parameters:
        sizes, bases = self.sizes, self.sizes.num_bases
        theta: Parameters = {}
        for layer, inputs in ((1, sizes.n_features), (2, sizes.hidden)):
            theta[f"self{layer}"] = uniform(inputs, sizes.hidden, fan_in=inputs, generator=generator)
            theta[f"bases{layer}"] = uniform(inputs, bases * sizes.hidden, fan_in=inputs, generator=generator)
            theta[f"bias{layer}"] = uniform(sizes.hidden, fan_in=inputs, generator=generator)
            for way in EDGES[sizes.direction]:
                coefficients = uniform(sizes.n_relations, bases, fan_in=bases, generator=generator)
                theta[f"relation_{way}{layer}"] = coefficients
        return theta | initial_places(sizes, generator)

    def embed(self, theta: Parameters, homes: GraphBatch, dropout: Dropout | None) -> Tensor:
        hidden = self._layer(theta, 1, homes, lambda matrix: first_product(theta, matrix, homes, self.sizes.n_types))
        hidden = torch.relu(hidden if dropout is None else dropout(hidden, self.sizes.dropout))
        return self._layer(theta, 2, homes, lambda matrix: hidden @ matrix)

    def _layer(self, theta: Parameters, layer: int, homes: GraphBatch, times: Callable[[Tensor], Tensor]) -> Tensor:
        """W_0 h_v + sum of W_r h_n / |N_r(v)|; `times` multiplies h by a matrix."""
        out = times(theta[f"self{layer}"]) + theta[f"bias{layer}"]
        products = times(theta[f"bases{layer}"]).view(homes.n_devices, self.sizes.num_bases, self.sizes.hidden)
        for way in EDGES[self.sizes.direction]:
            edges = homes.incoming if way == "in" else homes.outgoing
            coefficients = theta[f"relation_{way}{layer}"].index_select(0, edges.relation)
            message = torch.bmm(coefficients[:, None], products.index_select(0, edges.sender))[:, 0]
            share = _share_of_relation(edges, self.sizes.n_relations)
            out = out.index_add(0, edges.receiver, message * share.to(message.dtype))
        return out


def _share_of_relation(edges: Edges, n_relations: int) -> Tensor:
    """[n_rules, 1]: 1 / how many messages of the same relation the receiver gets, float64."""
    kinds = edges.receiver * n_relations + edges.relation
    _, kind, count = torch.unique(kinds, return_inverse=True, return_counts=True)
    share: Tensor = (1 / count.double()).index_select(0, kind)[:, None]
    return share


@dataclass(frozen=True, slots=True)
class Hgt:
    """The heterogeneous graph transformer, two layers (Z. Hu et al., 2020, https://arxiv.org/abs/2003.01332).

    Node types t are entity types, edge types r are relations and their inverses. A message from device n to device v
    along r has in each head the attention and the content

        a = softmax over all messages to v of (K_t(n) h_n) A_r (Q_t(v) h_v)^T mu_r / sqrt(d),      m = (V_t(n) h_n) M_r

    and h_v' = g O_t(v) GELU(sum of a m) + (1 - g) h_v with a gate g = sigmoid of a number for each entity type.
    K, Q, V and O are matrices with a bias for each entity type, A and M are matrices and mu a number for each relation
    and head.

    The same as torch-geometric's `HGTConv` where that has the same A, M and mu for all types at the ends of a relation,
    and tested equal. That one has weights for each (entity type, relation, entity type), thousands of them, and
    loops over these. In the paper only mu depends on the types at both ends.
    """

    sizes: Sizes

    def __post_init__(self) -> None:
        refuse_options("hgt", self.sizes)
        if self.sizes.direction == "none":
            raise DataError("encoder 'hgt': direction 'none' leaves nothing to attend to; use encoder 'sage' for it")
        if self.sizes.hidden % self.sizes.heads:
            raise DataError(f"encoder 'hgt': hidden {self.sizes.hidden} is not divisible by heads {self.sizes.heads}")

    def initial(self, generator: torch.Generator) -> Parameters:
        """Gates and mu start at 1, as in torch-geometric."""
        sizes, hidden = self.sizes, self.sizes.hidden
        size = hidden // sizes.heads
        theta: Parameters = {"type_state": uniform(sizes.n_types, hidden, fan_in=1, generator=generator)}
        for layer in (1, 2):
            for name, outputs in (("project", 3 * hidden), ("out", hidden)):
                shape = (sizes.n_types, hidden, outputs)
                theta[f"type_{name}{layer}"] = uniform(*shape, fan_in=hidden, generator=generator)
                theta[f"type_{name}_bias{layer}"] = uniform(sizes.n_types, outputs, fan_in=hidden, generator=generator)
            theta[f"type_gate{layer}"] = torch.ones(sizes.n_types)
            for way in EDGES[sizes.direction]:
                for name in ("attention", "message"):
                    shape4 = (sizes.n_relations, sizes.heads, size, size)
                    theta[f"relation_{name}_{way}{layer}"] = uniform(*shape4, fan_in=size, generator=generator)
                theta[f"relation_prior_{way}{layer}"] = torch.ones(sizes.n_relations, sizes.heads)
        places = initial_places(sizes, generator)
        if places:
            places["place_state"] = uniform(
                sizes.node_embedding, hidden, fan_in=sizes.node_embedding, generator=generator
            )
        return theta | places

    def embed(self, theta: Parameters, homes: GraphBatch, dropout: Dropout | None) -> Tensor:
        """The input of a device is an embedding of its type: a matrix for each type times its one-hot input."""
        state = theta["type_state"].index_select(0, homes.type)
        if "place" in theta:
            places = theta["place"] @ theta["place_state"]
            state = state + places.index_select(0, homes.place.clamp(max=MAX_PLACES - 1))
        hidden = self._layer(theta, 1, homes, state)
        hidden = hidden if dropout is None else dropout(hidden, self.sizes.dropout)
        return self._layer(theta, 2, homes, hidden)

    def _layer(self, theta: Parameters, layer: int, homes: GraphBatch, state: Tensor) -> Tensor:
        heads, ways = self.sizes.heads, EDGES[self.sizes.direction]
        by_way = [homes.incoming if way == "in" else homes.outgoing for way in ways]
        sender, receiver = (torch.cat([getattr(e, end) for e in by_way]) for end in ("sender", "receiver"))
        attention, message, prior = (
            torch.cat(
                [
                    theta[f"relation_{name}_{way}{layer}"].index_select(0, edges.relation)
                    for way, edges in zip(ways, by_way, strict=True)
                ]
            )
            for name in ("attention", "message", "prior")
        )
        projected = _by_type(theta, "type_project", layer, homes, state).view(-1, 3, heads, self.sizes.hidden // heads)
        key, query, value = projected.unbind(1)  # [n_devices, heads, size] each
        key = torch.matmul(key.index_select(0, sender)[:, :, None], attention)[:, :, 0]
        score = (key * query.index_select(0, receiver)).sum(dim=2) * prior * key.shape[2] ** -0.5
        share = _softmax(score, receiver, homes.n_devices)  # [n_messages, heads]
        content = torch.matmul(value.index_select(0, sender)[:, :, None], message)[:, :, 0] * share[:, :, None]
        aggregated = torch.zeros_like(state).index_add(0, receiver, content.flatten(1))
        out = _by_type(theta, "type_out", layer, homes, torch.nn.functional.gelu(aggregated))
        gate = torch.sigmoid(theta[f"type_gate{layer}"]).index_select(0, homes.type)[:, None]
        return gate * out + (1 - gate) * state


def _by_type(theta: Parameters, name: str, layer: int, homes: GraphBatch, state: Tensor) -> Tensor:
    """[n_devices, outputs]: the state of each device times the matrix of its entity type, plus the bias."""
    matrix = theta[f"{name}{layer}"].index_select(0, homes.type)
    bias = theta[f"{name}_bias{layer}"].index_select(0, homes.type)
    return torch.bmm(state[:, None], matrix)[:, 0] + bias


def _softmax(score: Tensor, receiver: Tensor, n_devices: int) -> Tensor:
    """[n_messages, heads]: the softmax over the messages that a device receives."""
    index = receiver[:, None].expand_as(score)
    none = score.new_zeros(n_devices, score.shape[1])
    # Relative to the largest so that nothing overflows.
    largest = none.scatter_reduce(0, index, score.detach(), "amax", include_self=False)
    raised = torch.exp(score - largest.index_select(0, receiver))
    return raised / none.index_add(0, receiver, raised).index_select(0, receiver)
