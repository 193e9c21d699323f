"""CompGCN: messages composed of a neighbour's state and the state of the relation (S. Vashishth, S. Sanyal, V. Nitin
and P. Talukdar, 2020, ICLR, "Composition-based multi-relational graph convolutional networks").

Devices and relations have states h_v and z_r. With N_in(v) the pairs (u, r) of rules <u, r, v> that act on device v,
N_out(v) those of rules <v, r, u> that it triggers, and a relation z_T of a device with itself,

    h_v <- f( 1/3 [ W_self phi(h_v, z_T) + mean of W_in phi(h_u, z_r) over N_in(v)
                                         + mean of W_out phi(h_u, z_r^-1) over N_out(v) ] + b ),      z_r <- W_rel z_r

phi composes two states: their difference, their product by element, or their circular correlation,
phi(a, b)_k = sum_i a_i b_(i + k mod d). torch-geometric has no such layer.

As in the paper: relations have a state for each direction, directions have weights of their own, and the sum over
directions is divided by 3 (here by as many as there are). What differs: a device starts from an embedding of its entity
type, since homes have devices of their own; messages are averaged over those that a device gets, and not divided by the
roots of both degrees; there is no batch normalization, which would let homes depend on each other, and which a single
home cannot do; and the last layer has no activation, as those of the other encoders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from datasets.common.errors import unknown
from fedrule.lazy import torch
from fedrule.network.batch import GraphBatch
from fedrule.network.encoders import (
    Dropout,
    Parameters,
    Sizes,
    first_product,
    initial_places,
    refuse_options,
    rows,
    uniform,
)
from fedrule.network.options import EDGES

if TYPE_CHECKING:
    from torch import Tensor

Compositions: TypeAlias = Literal["subtract", "multiply", "correlate"]

LAYERS = 2


@dataclass(frozen=True, slots=True)
class CompGcn:
    """Two layers.

    Messages are linear in the composed state, so that these are averaged first and multiplied by W once per device.
    """

    sizes: Sizes
    composition: Compositions = "subtract"

    def __post_init__(self) -> None:
        refuse_options("compgcn", self.sizes)
        if self.composition not in get_args(Compositions):
            raise unknown("composition", self.composition, get_args(Compositions))

    def initial(self, generator: torch.Generator) -> Parameters:
        """States from +-1, and matrices that keep their size: scores, products of three, then do not start at zero.

        A correlation is a sum of `hidden` products, so that states of relations are smaller for it.
        """
        sizes, size, ways = self.sizes, self.sizes.hidden, EDGES[self.sizes.direction]
        fan_in = size if self.composition == "correlate" else 1
        theta: Parameters = {"device": uniform(sizes.n_features, size, fan_in=1, generator=generator)}
        for way in ways:
            theta[f"relation_{way}"] = uniform(sizes.n_relations, size, fan_in=fan_in, generator=generator)
        theta["itself"] = uniform(size, fan_in=fan_in, generator=generator)
        for layer in range(1, LAYERS + 1):
            for way in ("self", *ways):
                theta[f"message_{way}{layer}"] = square(size, generator)
            if layer < LAYERS:  # what the last layer makes of relations is for a decoder
                theta[f"update{layer}"] = square(size, generator)
            theta[f"bias{layer}"] = torch.zeros(size)
        return theta | initial_places(sizes, generator)

    def embed(self, theta: Parameters, homes: GraphBatch, dropout: Dropout | None) -> Tensor:
        state = first_product(theta, theta["device"], homes, self.sizes.n_types)
        for layer in range(1, LAYERS + 1):
            state = self._layer(theta, layer, homes, state)
            if layer < LAYERS:
                state = torch.tanh(state if dropout is None else dropout(state, self.sizes.dropout))
        return state

    def _layer(self, theta: Parameters, layer: int, homes: GraphBatch, state: Tensor) -> Tensor:
        updates = [theta[f"update{before}"] for before in range(1, layer)]
        itself = updated(theta["itself"].unsqueeze(-2), updates)
        out = self._compose(state, itself) @ theta[f"message_self{layer}"]
        ways = EDGES[self.sizes.direction]
        for way in ways:
            edges = homes.incoming if way == "in" else homes.outgoing
            relation = updated(theta[f"relation_{way}"], updates, edges.relation)
            message = self._compose(rows(state, edges.sender), relation)
            out = out + edges.mean(message) @ theta[f"message_{way}{layer}"]
        return out / (1 + len(ways)) + theta[f"bias{layer}"].unsqueeze(-2)

    def _compose(self, device: Tensor, relation: Tensor) -> Tensor:
        """phi(h_u, z_r), row by row."""
        if self.composition == "subtract":
            return device - relation
        if self.composition == "multiply":
            return device * relation
        return correlation(device, relation)


def updated(states: Tensor, updates: Sequence[Tensor], some: Tensor | None = None) -> Tensor:
    """States of relations after these updates, W_rel ... W_rel z_r; of `some`, or of all.

    `some` are selected before the products where they are fewer than all relations, as in one home, and after them in
    batches of many homes, which repeat each relation many times.
    """
    if some is not None and some.shape[-1] <= states.shape[-2]:
        states, some = rows(states, some), None
    for update in updates:
        states = states @ update
    return states if some is None else rows(states, some)


def correlation(a: Tensor, b: Tensor) -> Tensor:
    """Circular correlation of rows, by Fourier transforms: that of a is conjugated."""
    if not a.numel():
        return a  # the FFT of an empty tensor is an error
    product = torch.fft.rfft(a).conj() * torch.fft.rfft(b)
    out: Tensor = torch.fft.irfft(product, n=a.shape[-1])
    return out


def square(size: int, generator: torch.Generator) -> Tensor:
    """A matrix with entries of variance 1 / size."""
    return uniform(size, size, fan_in=size, generator=generator).mul_(3**0.5)
