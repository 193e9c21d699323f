"""What graph neural networks that embed the devices of homes have in common: sizes, inputs and dropout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Literal, Protocol, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import one_hot, relu
from torch_geometric.nn import GATConv, GCNConv

from datasets.common.errors import DataError, unknown
from fedrule.inference.network import WAYS
from fedrule.model.batch import GraphBatch

Parameters: TypeAlias = dict[str, Tensor]
Direction = Literal["in", "out", "both", "none"]
Messages = Literal["type", "relation"]

MOST_PLACES = 32  # devices of one type in a home that a node embedding tells apart; all further ones share the last


@dataclass(frozen=True, slots=True)
class Sizes:
    """What all encoders have in common."""

    n_types: int
    n_relations: int
    hidden: int = 16  # size of the hidden state and of the embedding
    dropout: float = 0.0  # share of the hidden state that training drops, before the ReLU
    direction: Direction = "in"  # messages come from triggers that act on a device, from its actions, both or nobody
    messages: Messages = "type"  # what a message says: the neighbour's state, or also the relation of the rule
    node_embedding: int = 0  # size of an embedding that tells devices of one type apart by their number; 0: none
    self_loops: bool = False  # gcn, gat: a device hears itself too; without, one that no rule reaches has the bias only
    heads: int = 1  # gat: parts of the hidden state, each with an attention of its own

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise DataError(f"dropout = {self.dropout}: give a share from 0 to below 1")
        for name, least in (("hidden", 1), ("node_embedding", 0), ("heads", 1)):
            if getattr(self, name) < least:
                raise DataError(f"{name} = {getattr(self, name)}: give at least {least}")
        for name, known in (("direction", get_args(Direction)), ("messages", get_args(Messages))):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if self.direction == "none" and self.messages != "type":
            raise DataError(f"messages = {self.messages!r}: direction 'none' sends none; leave messages at 'type'")

    @property
    def n_features(self) -> int:
        """Length of a device's input: its one-hot type, and the embedding of its number."""
        return self.n_types + self.node_embedding


class Encoder(Protocol):
    """Parameters in, embeddings out. Names of its parameters are its own; the network puts `theta.` before them."""

    def initial(self, generator: torch.Generator) -> Parameters: ...

    def embed(self, theta: Parameters, homes: GraphBatch, generator: torch.Generator | None) -> Tensor:
        """[n_devices, hidden]."""


def refuse(encoder: str, sizes: Sizes, *names: str) -> None:
    """An error for what an encoder has no use for, where it is not left at its default."""
    for field in fields(sizes):
        value = getattr(sizes, field.name)
        if field.name in names and value != field.default:
            raise DataError(f"encoder {encoder!r} knows no {field.name} = {value!r}; leave it at {field.default!r}")


def first_product(theta: Parameters, matrix: Tensor, homes: GraphBatch, n_types: int) -> Tensor:
    """x times a matrix [n_features, dim] for inputs x = [one-hot type ; embedding of the number]."""
    product = matrix[:n_types].index_select(0, homes.type)
    if "place" in theta:
        by_place = theta["place"] @ matrix[n_types:]
        product = product + by_place.index_select(0, homes.place.clamp(max=MOST_PLACES - 1))
    return product


def dropped(hidden: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Dropout from a generator of its own, so that it repeats; none without a generator."""
    if generator is None or not share:
        return hidden
    kept = torch.rand(hidden.shape, generator=generator) >= share
    return hidden * kept / (1 - share)


# --- Weights to start from.


def uniform(*shape: int, fan_in: int, generator: torch.Generator) -> Tensor:
    """Uniform in +-1 / sqrt(fan_in), the usual start of a fully connected layer with so many inputs."""
    bound = max(fan_in, 1) ** -0.5
    return torch.rand(*shape, generator=generator).mul_(2).sub_(1).mul_(bound)


# --- GraphSAGE with the mean as aggregator: Algorithm 1 of the paper.


@dataclass(frozen=True, slots=True)
class Sage:
    """Two GraphSAGE layers with the mean as aggregator.

    A layer's matrix is kept in parts, for the device itself and for each direction of messages: theta [h ; m] =
    theta_self h + theta_in m. One-hot inputs make the first layer a look-up.
    """

    sizes: Sizes

    def __post_init__(self) -> None:
        refuse("sage", self.sizes, "self_loops", "heads")  # a device's own state is there without a loop

    def initial(self, generator: torch.Generator) -> Parameters:
        sizes = self.sizes
        theta: Parameters = {}
        for layer, inputs in ((1, sizes.n_features), (2, sizes.hidden)):
            ways = len(WAYS[sizes.direction])
            fan_in = inputs * (1 + ways)
            for part in ("self", *WAYS[sizes.direction]):
                theta[f"{part}{layer}"] = uniform(inputs, sizes.hidden, fan_in=fan_in, generator=generator)
            theta[f"bias{layer}"] = uniform(sizes.hidden, fan_in=fan_in, generator=generator)
            if sizes.messages == "relation":
                for way in WAYS[sizes.direction]:
                    shape = (sizes.n_relations, sizes.hidden)
                    theta[f"relation_{way}{layer}"] = uniform(*shape, fan_in=fan_in, generator=generator)
        if sizes.node_embedding:
            theta["place"] = uniform(
                MOST_PLACES, sizes.node_embedding, fan_in=sizes.node_embedding, generator=generator
            )
        return theta

    def embed(self, theta: Parameters, homes: GraphBatch, generator: torch.Generator | None) -> Tensor:
        hidden = self._layer(theta, 1, homes, lambda matrix: first_product(theta, matrix, homes, self.sizes.n_types))
        hidden = relu(dropped(hidden, self.sizes.dropout, generator))
        return self._layer(theta, 2, homes, lambda matrix: hidden @ matrix)

    def _layer(self, theta: Parameters, layer: int, homes: GraphBatch, times: Callable[[Tensor], Tensor]) -> Tensor:
        """theta [h ; mean of h over the neighbours]; `times` is h times a matrix."""
        out = times(theta[f"self{layer}"]) + theta[f"bias{layer}"]
        for way in WAYS[self.sizes.direction]:
            edges = homes.incoming if way == "in" else homes.outgoing
            message = times(theta[f"{way}{layer}"]).index_select(0, edges.sender)
            if self.sizes.messages == "relation":
                message = message + theta[f"relation_{way}{layer}"].index_select(0, edges.relation)
            out = out + edges.mean(message)
        return out


# --- Graph convolutions and graph attention in place of GraphSAGE, for the paper's model selection (section 4.5).
#
# GCN (T. Kipf and M. Welling, 2017, https://arxiv.org/abs/1609.02907) and GAT (P. Velickovic et al., 2018,
# https://arxiv.org/abs/1710.10903) by torch-geometric's layers. A device is what it hears: without `self_loops` one that
# no rule reaches has the bias alone for a state, which is the paper's reason why GraphSAGE does better.
#
# Kipf and Welling divide a message by the root of both ends' degrees in an undirected graph. Rules are directed, so
# without loops the degrees are how many messages the sender sends and the receiver gets. torch-geometric counts what both
# ends get, and would silence every device that no rule reaches; with loops, where none is silent, its way is kept.


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

    def initial(self, generator: torch.Generator) -> Parameters:
        """From the same range as GraphSAGE's, so that encoders differ in nothing but what they compute."""
        sizes = self.sizes
        theta: Parameters = {}
        for number, inputs in ((1, sizes.n_features), (2, sizes.hidden)):
            for name, value in self.layer(inputs).named_parameters():
                fan_in = inputs if name == "bias" else value.shape[-1]
                theta[f"layer{number}.{name}"] = uniform(*value.shape, fan_in=fan_in, generator=generator)
        if sizes.node_embedding:
            theta["place"] = uniform(
                MOST_PLACES, sizes.node_embedding, fan_in=sizes.node_embedding, generator=generator
            )
        return theta

    def embed(self, theta: Parameters, homes: GraphBatch, generator: torch.Generator | None) -> Tensor:
        edges = messages(homes, self.sizes.direction)
        strength = self.strength(edges, homes.n_devices)
        hidden = self._convolve(theta, 1, inputs_of(theta, homes, self.sizes.n_types), edges, strength)
        hidden = relu(dropped(hidden, self.sizes.dropout, generator))
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


def messages(homes: GraphBatch, direction: Direction) -> Tensor:
    """[2, n_messages]: sender and receiver. `both` is the undirected graph, where a self rule still is one message."""
    incoming = torch.stack([homes.incoming.sender, homes.incoming.receiver])
    if direction == "in":
        return incoming
    outgoing = incoming.flip(0)
    return outgoing if direction == "out" else torch.cat([incoming, outgoing[:, outgoing[0] != outgoing[1]]], dim=1)


def inputs_of(theta: Parameters, homes: GraphBatch, n_types: int) -> Tensor:
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
