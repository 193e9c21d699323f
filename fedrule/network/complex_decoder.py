"""CompGCN with a ComplEx decoder (T. Trouillon, J. Welbl, S. Riedel, E. Gaussier and G. Bouchard, 2016, ICML, "Complex
embeddings for simple link prediction").

The score of a rule is the real part of a product of three complex vectors,

    s(i, r, j) = Re sum_k z_ik w_rk conj(z_jk)

with z the embeddings of the two devices and w_r the encoder's last state of the relation. Half of a vector are real
parts, half are imaginary ones. As w_r is in it once, s(i, r, j) = <w_r, p_ij> with

    p_ij = [ Re z_i Re z_j + Im z_i Im z_j ; Re z_i Im z_j - Im z_i Re z_j ],

so that the scores of all relations are one product of matrices. Swapping i and j changes the sign of the second half:
unlike DistMult, it tells trigger from action. The only parameter of the decoder is the last W_rel.
torch-geometric's ComplEx is an embedding of all nodes of one graph, which homes that come later are not in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from datasets.common.errors import DataError
from fedrule.lazy import torch
from fedrule.network.batch import GraphBatch
from fedrule.network.compgcn import LAYERS, CompGcn, square, updated
from fedrule.network.encoders import Dropout, Parameters, Sizes, rows, uniform

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "theta."


@dataclass(frozen=True, slots=True)
class ComplexNetwork:
    """The encoder, and its states as complex vectors; a `LinkPredictor`."""

    encoder: CompGcn

    def __post_init__(self) -> None:
        if self.encoder.sizes.hidden % 2:
            raise DataError(f"hidden must be even, half real and half imaginary, got {self.encoder.sizes.hidden}")

    @property
    def is_papers(self) -> bool:
        return False

    @property
    def sizes(self) -> Sizes:
        return self.encoder.sizes

    def initial(self, generator: torch.Generator) -> Parameters:
        """Those of the encoder begin with `theta.`; `phi.update` is the last W_rel."""
        theta = self.encoder.initial(generator)
        if "relation_in" not in theta:  # without messages that need it, relations have a state all the same
            shape = (self.sizes.n_relations, self.sizes.hidden)
            theta["relation_in"] = uniform(*shape, fan_in=1, generator=generator)
        parameters = {f"{PREFIX}{name}": value for name, value in theta.items()}
        return parameters | {"phi.update": square(self.sizes.hidden, generator)}

    def embed(self, parameters: Parameters, homes: GraphBatch, dropout: Dropout | None = None) -> Tensor:
        return self.encoder.embed(_theta(parameters), homes, dropout)

    def logits(self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor) -> Tensor:
        return pair_vectors(z, trigger, action) @ self._relations(parameters).T

    def logits_of(self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor, relation: Tensor) -> Tensor:
        return (pair_vectors(z, trigger, action) * self._relations(parameters, relation)).sum(dim=-1)

    def _relations(self, parameters: Parameters, some: Tensor | None = None) -> Tensor:
        """w_r of all relations, or of some."""
        theta = _theta(parameters)
        updates = [*(theta[f"update{layer}"] for layer in range(1, LAYERS)), parameters["phi.update"]]
        return updated(theta["relation_in"], updates, some)


def pair_vectors(z: Tensor, trigger: Tensor, action: Tensor) -> Tensor:
    """p_ij [n_pairs, size]."""
    real_i, imaginary_i = rows(z, trigger).chunk(2, dim=-1)
    real_j, imaginary_j = rows(z, action).chunk(2, dim=-1)
    same, swapped = real_i * real_j + imaginary_i * imaginary_j, real_i * imaginary_j - imaginary_i * real_j
    return torch.cat([same, swapped], dim=-1)


def _theta(parameters: Parameters) -> Parameters:
    return {name.removeprefix(PREFIX): value for name, value in parameters.items() if name.startswith(PREFIX)}
