"""Graph neural networks that embed the devices of homes: GraphSAGE (Algorithm 1), GCN and GAT (section 4.5)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeAlias, get_args

import numpy as np

from datasets.common.errors import DataError, unknown
from datasets.common.random import output
from fedrule.lazy import torch
from fedrule.network.batch import GraphBatch
from fedrule.network.options import EDGES, UNUSED, Direction, Encoders, Messages

if TYPE_CHECKING:
    from torch import Tensor, nn

Parameters: TypeAlias = "dict[str, Tensor]"

MAX_PLACES = 32  # devices of one type in a home that a node embedding distinguishes; all further ones share the last
DRAWN = 2**16  # different numbers that dropout draws


@dataclass(slots=True, eq=False)
class Dropout:
    """Drops units at random, the same ones for the same seed, in whatever way the rest is computed.

    Each unit has 16 of the bits that SplitMix64 gives for the seed, and is kept where they are not below the rate.
    """

    seed: int
    drawn: int = 0  # numbers of 64 bits so far

    def __call__(self, hidden: Tensor, rate: float) -> Tensor:
        kept = self.kept(tuple(hidden.shape), rate)
        return hidden if kept is None else hidden * kept / (1 - rate)

    def kept(self, shape: tuple[int, ...], rate: float) -> Tensor | None:
        """Which units are kept; None: all."""
        if not rate:
            return None
        units = math.prod(shape)
        numbers = np.arange(self.drawn, self.drawn + (units + 3) // 4, dtype=np.uint64)
        self.drawn += len(numbers)
        bits = output(np.array([self.seed], dtype=np.uint64), numbers).view("<u2")[:units]
        return torch.from_numpy(bits >= math.ceil(rate * DRAWN)).reshape(shape)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What all encoders are built from; fedrule/network/options.py explains the options."""

    n_types: int
    n_relations: int
    hidden: int = 16
    dropout: float = 0.0
    direction: Direction = "in"
    messages: Messages = "type"
    node_embedding: int = 0
    self_loops: bool = False
    heads: int = 1
    num_bases: int = 8  # of rgcn

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise DataError(f"dropout must be in [0, 1), got {self.dropout}")
        for name, least in (("hidden", 1), ("node_embedding", 0), ("heads", 1), ("num_bases", 1)):
            if getattr(self, name) < least:
                raise DataError(f"{name} must be at least {least}, got {getattr(self, name)}")
        for name, known in (("direction", get_args(Direction)), ("messages", get_args(Messages))):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if self.direction == "none" and self.messages != "type":
            raise DataError(f"messages {self.messages!r}: direction 'none' sends none; leave messages at 'type'")

    @property
    def n_features(self) -> int:
        """Length of a device's input: its one-hot type, and the embedding of its number."""
        return self.n_types + self.node_embedding


class Encoder(Protocol):
    """Parameters in, embeddings out. Names of its parameters are its own; the network prefixes them with `theta.`.

    GraphSAGE and CompGCN also take parameters of several models at once, each with a first dimension for the models,
    and homes whose tensors have it too, one home for each model (`fedrule.federated.trainers.batched`).
    """

    def initial(self, generator: torch.Generator) -> Parameters: ...

    def embed(self, theta: Parameters, homes: GraphBatch, dropout: Dropout | None) -> Tensor:
        """[n_devices, hidden]."""


@dataclass(frozen=True, slots=True)
class Sage:
    """Algorithm 1: two GraphSAGE layers with the mean as aggregator.

    A layer's matrix is stored in parts, one for the device itself and one for each direction of messages:
    theta [h_v ; mean of h_n over N(v)] = theta_self h_v + mean of theta_in h_n. One-hot inputs make the first layer a
    look-up.
    """

    sizes: Sizes

    def __post_init__(self) -> None:
        refuse_options("sage", self.sizes)

    def initial(self, generator: torch.Generator) -> Parameters:
        sizes, edges = self.sizes, EDGES[self.sizes.direction]
        theta: Parameters = {}
        for layer, inputs in ((1, sizes.n_features), (2, sizes.hidden)):
            fan_in = inputs * (1 + len(edges))
            for part in ("self", *edges):
                theta[f"{part}{layer}"] = uniform(inputs, sizes.hidden, fan_in=fan_in, generator=generator)
            theta[f"bias{layer}"] = uniform(sizes.hidden, fan_in=fan_in, generator=generator)
            if sizes.messages == "relation":
                for way in edges:
                    shape = (sizes.n_relations, sizes.hidden)
                    theta[f"relation_{way}{layer}"] = uniform(*shape, fan_in=fan_in, generator=generator)
        return theta | initial_places(sizes, generator)

    def embed(self, theta: Parameters, homes: GraphBatch, dropout: Dropout | None) -> Tensor:
        """h_v^1 = ReLU(theta^1 [h_v^0 ; mean of h_n^0 over N(v)]), z_v = theta^2 [h_v^1 ; mean of h_n^1 over N(v)]."""
        hidden = self._layer(theta, 1, homes, lambda matrix: first_product(theta, matrix, homes, self.sizes.n_types))
        hidden = torch.relu(hidden if dropout is None else dropout(hidden, self.sizes.dropout))
        return self._layer(theta, 2, homes, lambda matrix: hidden @ matrix)

    def _layer(self, theta: Parameters, layer: int, homes: GraphBatch, times: Callable[[Tensor], Tensor]) -> Tensor:
        """theta [h_v ; mean of h_n over N(v)]; `times` multiplies h by a matrix."""
        out = times(theta[f"self{layer}"]) + theta[f"bias{layer}"].unsqueeze(-2)
        for way in EDGES[self.sizes.direction]:
            edges = homes.incoming if way == "in" else homes.outgoing
            message = rows(times(theta[f"{way}{layer}"]), edges.sender)
            if self.sizes.messages == "relation":
                message = message + rows(theta[f"relation_{way}{layer}"], edges.relation)
            out = out + edges.mean(message)
        return out


@dataclass(frozen=True, slots=True)
class Convolutions(ABC):
    """Two layers of torch-geometric in place of GraphSAGE; parameters have the names that it gives them.

    Without `self_loops` the state of a device that no rule reaches is the bias alone, which is the paper's reason why
    GraphSAGE does better.
    """

    sizes: Sizes

    def __post_init__(self) -> None:
        if self.sizes.direction == "none":
            name = type(self).__name__.lower()
            raise DataError(f"encoder {name!r}: direction 'none' leaves a device no state; use encoder 'sage' for it")
        self.layer(self.sizes.n_features)  # loads torch-geometric now, and not when a fit is timed

    @abstractmethod
    def layer(self, inputs: int) -> nn.Module:
        """torch-geometric's layer from so many inputs to the hidden size, without values for its parameters."""

    def edge_weight(self, edges: Tensor, n_devices: int) -> Tensor | None:  # noqa: ARG002
        """[n_messages]: what messages are multiplied by; None where the layer works it out."""
        return None

    def initial(self, generator: torch.Generator) -> Parameters:
        """From the same range as GraphSAGE's, so that encoders differ in nothing but what they compute."""
        theta: Parameters = {}
        for number, inputs in ((1, self.sizes.n_features), (2, self.sizes.hidden)):
            for name, value in self.layer(inputs).named_parameters():
                fan_in = inputs if name == "bias" else value.shape[-1]
                theta[f"layer{number}.{name}"] = uniform(*value.shape, fan_in=fan_in, generator=generator)
        return theta | initial_places(self.sizes, generator)

    def embed(self, theta: Parameters, homes: GraphBatch, dropout: Dropout | None) -> Tensor:
        edges = message_edges(homes, self.sizes.direction)
        weight = self.edge_weight(edges, homes.n_devices)
        hidden = self._convolve(theta, 1, _inputs(theta, homes, self.sizes.n_types), edges, weight)
        hidden = torch.relu(hidden if dropout is None else dropout(hidden, self.sizes.dropout))
        return self._convolve(theta, 2, hidden, edges, weight)

    def _convolve(self, theta: Parameters, number: int, x: Tensor, edges: Tensor, weight: Tensor | None) -> Tensor:
        prefix = f"layer{number}."
        own = {name.removeprefix(prefix): value for name, value in theta.items() if name.startswith(prefix)}
        arguments = (x, edges) if weight is None else (x, edges, weight.to(x.dtype))
        out: Tensor = torch.func.functional_call(self.layer(x.shape[1]), own, arguments)
        return out


@dataclass(frozen=True, slots=True)
class Gcn(Convolutions):
    """Graph convolutions (T. Kipf and M. Welling, 2017, https://arxiv.org/abs/1609.02907).

    h_v = theta (sum of h_n / sqrt(messages that n sends * messages that v gets)): Kipf and Welling divide by the
    degrees of both ends in an undirected graph, and rules are directed. torch-geometric counts what both ends get, and
    would silence every device that no rule reaches; with self-loops, where none is silent, its way is kept.
    """

    def __post_init__(self) -> None:
        refuse_options("gcn", self.sizes)
        Convolutions.__post_init__(self)

    def layer(self, inputs: int) -> nn.Module:
        return _gcn(inputs, self.sizes.hidden, self.sizes.self_loops)

    def edge_weight(self, edges: Tensor, n_devices: int) -> Tensor | None:
        if self.sizes.self_loops:
            return None
        sent, received = (torch.bincount(end, minlength=n_devices)[end] for end in edges)
        return (sent * received).double().rsqrt()


@dataclass(frozen=True, slots=True)
class Gat(Convolutions):
    """Graph attention (P. Velickovic et al., 2018, https://arxiv.org/abs/1710.10903).

    h_v is a mean over the messages to v, weighted by a softmax of learned scores.
    """

    def __post_init__(self) -> None:
        refuse_options("gat", self.sizes)
        if self.sizes.hidden % self.sizes.heads:
            raise DataError(f"encoder 'gat': hidden {self.sizes.hidden} is not divisible by heads {self.sizes.heads}")
        Convolutions.__post_init__(self)

    def layer(self, inputs: int) -> nn.Module:
        return _gat(inputs, self.sizes.hidden, self.sizes.heads, self.sizes.self_loops)


def uniform(*shape: int, fan_in: int, generator: torch.Generator) -> Tensor:
    """Uniform in +-1 / sqrt(fan_in), the usual initial weights of a fully connected layer with so many inputs."""
    bound = max(fan_in, 1) ** -0.5
    return torch.rand(*shape, generator=generator).mul_(2).sub_(1).mul_(bound)


def message_edges(homes: GraphBatch, direction: Direction) -> Tensor:
    """[2, n_messages]: sender and receiver. `both` is the undirected graph, where a self rule is one message."""
    incoming = torch.stack([homes.incoming.sender, homes.incoming.receiver])
    if direction == "in":
        return incoming
    outgoing = incoming.flip(0)
    return outgoing if direction == "out" else torch.cat([incoming, outgoing[:, outgoing[0] != outgoing[1]]], dim=1)


def initial_places(sizes: Sizes, generator: torch.Generator) -> Parameters:
    """The embedding of a device's number among those of its type, where there is one."""
    size = sizes.node_embedding
    return {"place": uniform(MAX_PLACES, size, fan_in=size, generator=generator)} if size else {}


def rows(table: Tensor, index: Tensor) -> Tensor:
    """Rows `index` [..., k] of a table [..., n_rows, dim], or entries of a vector [..., n_rows].

    The dimensions before are those of several models, each with a table and an index of its own.
    """
    if index.ndim == 1:
        return table.index_select(0, index)
    n_models, n_rows = index.shape[0], table.shape[1]
    place = (index + n_rows * torch.arange(n_models)[:, None]).flatten()
    return table.flatten(0, 1).index_select(0, place).view(*index.shape, *table.shape[2:])


def first_product(theta: Parameters, matrix: Tensor, homes: GraphBatch, n_types: int) -> Tensor:
    """x times a matrix [n_features, dim] for inputs x = [one-hot type ; embedding of the number]."""
    product = rows(matrix[..., :n_types, :], homes.type)
    if "place" in theta:
        by_place = theta["place"] @ matrix[..., n_types:, :]
        product = product + rows(by_place, homes.place.clamp(max=MAX_PLACES - 1))
    return product


def _inputs(theta: Parameters, homes: GraphBatch, n_types: int) -> Tensor:
    """x [n_devices, n_features] = [one-hot type ; embedding of the number]."""
    types = torch.nn.functional.one_hot(homes.type, n_types).to(theta["layer1.bias"].dtype)
    if "place" not in theta:
        return types
    return torch.cat([types, theta["place"].index_select(0, homes.place.clamp(max=MAX_PLACES - 1))], dim=1)


def refuse_options(encoder: Encoders, sizes: Sizes) -> None:
    """An error for an option that the encoder has no use for, unless it is at its default."""
    for field in fields(sizes):
        value = getattr(sizes, field.name)
        if field.name in UNUSED[encoder] and value != field.default:
            raise DataError(f"encoder {encoder!r} has no {field.name}, got {value!r}; leave it at {field.default!r}")


# Templates have no memory for values (the meta device), so that building one draws nothing from torch's own generator.
# They are built once, since building one takes longer than a small home's messages. torch-geometric is imported here,
# not above: that takes longer than importing torch, and neither GraphSAGE nor methods without a network need it.


@cache
def _gcn(inputs: int, hidden: int, self_loops: bool) -> nn.Module:
    from torch_geometric.nn import GCNConv

    with torch.device("meta"):
        layer: nn.Module = GCNConv(inputs, hidden, normalize=self_loops)
    return layer


@cache
def _gat(inputs: int, hidden: int, heads: int, self_loops: bool) -> nn.Module:
    from torch_geometric.nn import GATConv

    with torch.device("meta"):
        layer: nn.Module = GATConv(inputs, hidden // heads, heads=heads, add_self_loops=self_loops)
    return layer
