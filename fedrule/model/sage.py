"""GraphSAGE with the mean as aggregator: Algorithm 1 of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import relu

from fedrule.model.encoder import MOST_PLACES, Parameters, Sizes, dropped, first_product, refuse
from fedrule.inference.network import WAYS
from fedrule.model.initial import uniform
from fedrule.model.batch import Packed


@dataclass(frozen=True, slots=True)
class Sage:
    """Two GraphSAGE layers with the mean as aggregator.

    A layer's matrix is kept in parts, for the device itself and for each direction of messages: theta [h ; m] =
    theta_self h + theta_in m. One-hot inputs make the first layer a look-up.
    """

    sizes: Sizes

    def __post_init__(self) -> None:
        refuse("sage", self.sizes, "self_loops", "heads")  # a device's own state is there without a loop

    def initial(self, chance: torch.Generator) -> Parameters:
        sizes = self.sizes
        theta: Parameters = {}
        for layer, inputs in ((1, sizes.n_features), (2, sizes.hidden)):
            ways = len(WAYS[sizes.direction])
            fan_in = inputs * (1 + ways)
            for part in ("self", *WAYS[sizes.direction]):
                theta[f"{part}{layer}"] = uniform(inputs, sizes.hidden, fan_in=fan_in, chance=chance)
            theta[f"bias{layer}"] = uniform(sizes.hidden, fan_in=fan_in, chance=chance)
            if sizes.messages == "relation":
                for way in WAYS[sizes.direction]:
                    shape = (sizes.n_relations, sizes.hidden)
                    theta[f"relation_{way}{layer}"] = uniform(*shape, fan_in=fan_in, chance=chance)
        if sizes.node_embedding:
            theta["place"] = uniform(MOST_PLACES, sizes.node_embedding, fan_in=sizes.node_embedding, chance=chance)
        return theta

    def embed(self, theta: Parameters, homes: Packed, chance: torch.Generator | None) -> Tensor:
        hidden = self._layer(theta, 1, homes, lambda matrix: first_product(theta, matrix, homes, self.sizes.n_types))
        hidden = relu(dropped(hidden, self.sizes.dropout, chance))
        return self._layer(theta, 2, homes, lambda matrix: hidden @ matrix)

    def _layer(self, theta: Parameters, layer: int, homes: Packed, times: Callable[[Tensor], Tensor]) -> Tensor:
        """theta [h ; mean of h over the neighbours]; `times` is h times a matrix."""
        out = times(theta[f"self{layer}"]) + theta[f"bias{layer}"]
        for way in WAYS[self.sizes.direction]:
            edges = homes.incoming if way == "in" else homes.outgoing
            message = times(theta[f"{way}{layer}"]).index_select(0, edges.sender)
            if self.sizes.messages == "relation":
                message = message + theta[f"relation_{way}{layer}"].index_select(0, edges.relation)
            out = out + edges.mean(message)
        return out
