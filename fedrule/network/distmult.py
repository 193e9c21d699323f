"""DistMult, the decoder of R-GCN: a relation is a vector that weights how two embeddings agree (Yang et al., 2015,
"Embedding entities and relations for learning and inference in knowledge bases")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from datasets.common.errors import DataError
from fedrule.lazy import torch
from fedrule.network.encoders import Parameters, uniform
from fedrule.network.network import Network

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class DistMult(Network):
    """A network whose logit of a rule <i, r, j> is the sum over k of z_ik w_rk z_jk, plus a bias of the relation.

    It is the same in both directions, <i, r, j> and <j, r, i>. The bias, which the paper's has not, lets a rare
    relation score lower.
    """

    def __post_init__(self) -> None:
        Network.__post_init__(self)
        if self.predictor_hidden:
            raise DataError(
                f"decoder 'distmult' has no hidden units; set predictor_hidden {self.predictor_hidden} to 0"
            )

    @property
    def is_papers(self) -> bool:
        """Never: the predictor is another one."""
        return False

    def initial(self, generator: torch.Generator) -> Parameters:
        relations, size = self.sizes.n_relations, self.sizes.hidden
        theta = self._encoder.initial(generator).items()
        return {f"theta.{name}": value for name, value in theta} | {
            "phi.diagonal": uniform(relations, size, fan_in=1, generator=generator),
            "phi.diagonal_bias": torch.zeros(relations),
        }

    def logits(self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor) -> Tensor:
        """[n_pairs, n_relations]."""
        product = z.index_select(0, trigger) * z.index_select(0, action)
        return torch.addmm(parameters["phi.diagonal_bias"], product, parameters["phi.diagonal"].T)

    def logits_of(self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor, relation: Tensor) -> Tensor:
        """[n_rules]: of one relation for each pair, without computing the others."""
        product = z.index_select(0, trigger) * z.index_select(0, action)
        weighted = product * parameters["phi.diagonal"].index_select(0, relation)
        return weighted.sum(dim=1) + parameters["phi.diagonal_bias"].index_select(0, relation)
