"""Graph convolutions and graph attention in place of GraphSAGE, for the paper's model selection (section 4.5).

GCN (T. Kipf and M. Welling, 2017, https://arxiv.org/abs/1609.02907) and GAT (P. Velickovic et al., 2018,
https://arxiv.org/abs/1710.10903) by torch-geometric's layers. A device is what it hears: without `self_loops` one that
no rule reaches has the bias alone for a state, which is the paper's reason why GraphSAGE does better.

Kipf and Welling divide a message by the root of both ends' degrees in an undirected graph. Rules are directed, so
without loops the degrees are how many messages the sender sends and the receiver gets. torch-geometric counts what both
ends get, and would silence every device that no rule reaches; with loops, where none is silent, its way is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import one_hot, relu
from torch_geometric.nn import GATConv, GCNConv

from datasets.common.errors import DataError
from fedrule.model.encoder import MOST_PLACES, Direction, Parameters, Sizes, dropped, refuse
from fedrule.model.initial import uniform
from fedrule.model.batch import Packed


@dataclass(frozen=True, slots=True)
class Convolutions(ABC):
    """Two layers of one kind; a layer's parameters have the names that torch-geometric gives them."""

    sizes: Sizes

    @abstractmethod
    def layer(self, inputs: int) -> nn.Module:
        """torch-geometric's layer from so many inputs to the hidden size, without values for its parameters."""

    @abstractmethod
    def strength(self, edges: Tensor, n_devices: int) -> Tensor | None:
        """[n_messages]: what messages are multiplied by, where the layer does not find it out itself."""

    def initial(self, chance: torch.Generator) -> Parameters:
        """From the same range as GraphSAGE's, so that encoders differ in nothing but what they compute."""
        sizes = self.sizes
        theta: Parameters = {}
        for number, inputs in ((1, sizes.n_features), (2, sizes.hidden)):
            for name, value in self.layer(inputs).named_parameters():
                fan_in = inputs if name == "bias" else value.shape[-1]
                theta[f"layer{number}.{name}"] = uniform(*value.shape, fan_in=fan_in, chance=chance)
        if sizes.node_embedding:
            theta["place"] = uniform(MOST_PLACES, sizes.node_embedding, fan_in=sizes.node_embedding, chance=chance)
        return theta

    def embed(self, theta: Parameters, homes: Packed, chance: torch.Generator | None) -> Tensor:
        edges = messages(homes, self.sizes.direction)
        strength = self.strength(edges, homes.n_devices)
        hidden = self._convolve(theta, 1, inputs_of(theta, homes, self.sizes.n_types), edges, strength)
        hidden = relu(dropped(hidden, self.sizes.dropout, chance))
        return self._convolve(theta, 2, hidden, edges, strength)

    def _convolve(self, theta: Parameters, number: int, x: Tensor, edges: Tensor, strength: Tensor | None) -> Tensor:
        prefix = f"layer{number}."
        own = {name.removeprefix(prefix): value for name, value in theta.items() if name.startswith(prefix)}
        arguments = (x, edges) if strength is None else (x, edges, strength.to(x.dtype))
        out: Tensor = functional_call(self.layer(x.shape[1]), own, arguments)
        return out


@dataclass(frozen=True, slots=True)
class Gcn(Convolutions):
    """Two graph convolutions: h_v = theta (sum of h_n / sqrt(messages that n sends * messages that v gets))."""

    def __post_init__(self) -> None:
        refuse("gcn", self.sizes, "messages", "heads")
        _refuse_silence("gcn", self.sizes)

    def layer(self, inputs: int) -> nn.Module:
        return _gcn(inputs, self.sizes.hidden, self.sizes.self_loops)

    def strength(self, edges: Tensor, n_devices: int) -> Tensor | None:
        if self.sizes.self_loops:
            return None
        sent, got = (torch.bincount(end, minlength=n_devices)[end] for end in edges)
        return (sent * got).double().rsqrt()


@dataclass(frozen=True, slots=True)
class Gat(Convolutions):
    """Two layers of graph attention: h_v is a mean over what v hears, weighted by a softmax of learned scores."""

    def __post_init__(self) -> None:
        refuse("gat", self.sizes, "messages")
        _refuse_silence("gat", self.sizes)
        if self.sizes.hidden % self.sizes.heads:
            raise DataError(
                f"encoder 'gat': a hidden state of {self.sizes.hidden} has no {self.sizes.heads} equal heads"
            )

    def layer(self, inputs: int) -> nn.Module:
        return _gat(inputs, self.sizes.hidden, self.sizes.heads, self.sizes.self_loops)

    def strength(self, edges: Tensor, n_devices: int) -> Tensor | None:  # noqa: ARG002
        return None


def messages(homes: Packed, direction: Direction) -> Tensor:
    """[2, n_messages]: sender and receiver. `both` is the undirected graph, where a self rule still is one message."""
    incoming = torch.stack([homes.incoming.sender, homes.incoming.receiver])
    if direction == "in":
        return incoming
    outgoing = incoming.flip(0)
    return outgoing if direction == "out" else torch.cat([incoming, outgoing[:, outgoing[0] != outgoing[1]]], dim=1)


def inputs_of(theta: Parameters, homes: Packed, n_types: int) -> Tensor:
    """x [n_devices, n_features] = [one-hot type ; embedding of the number]."""
    types = one_hot(homes.type, n_types).to(theta["layer1.bias"].dtype)
    if "place" not in theta:
        return types
    return torch.cat([types, theta["place"].index_select(0, homes.place.clamp(max=MOST_PLACES - 1))], dim=1)


def _refuse_silence(encoder: str, sizes: Sizes) -> None:
    if sizes.direction == "none":
        raise DataError(f"encoder {encoder!r}: direction 'none' leaves a device no state; use encoder 'sage' for it")


# Templates have no memory for values (the meta device), so that building one draws nothing from torch's own generator.
# They are built once, since building one takes longer than a small home's messages.


@cache
def _gcn(inputs: int, hidden: int, self_loops: bool) -> nn.Module:
    with torch.device("meta"):
        layer: nn.Module = GCNConv(inputs, hidden, normalize=self_loops)
    return layer


@cache
def _gat(inputs: int, hidden: int, heads: int, self_loops: bool) -> nn.Module:
    with torch.device("meta"):
        layer: nn.Module = GATConv(inputs, hidden // heads, heads=heads, add_self_loops=self_loops)
    return layer
