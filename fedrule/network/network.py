"""The paper's network: a graph neural network embeds devices, a predictor scores relations between two of them.

Algorithm 1, with h_v^0 = x_v the one-hot entity type of device v and N(v) the devices whose rules act on v:

    h_v^1 = ReLU(theta^1 [h_v^0 ; mean of h_n^0 over N(v)]),      z_v = theta^2 [h_v^1 ; mean of h_n^1 over N(v)]

and the predictor (section 3.2), one probability for each relation: p_ij = sigmoid(phi^2 ReLU(phi^1 [z_i ; z_j])).

The network is a value, its parameters are a dict of tensors, and every function is pure: centralized training, a
federated client and inference call the same code with parameters of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from datasets.common.errors import DataError, unknown
from fedrule.lazy import torch
from fedrule.network.batch import GraphBatch
from fedrule.network.compgcn import CompGcn
from fedrule.network.encoders import Dropout, Encoder, Gat, Gcn, Parameters, Sage, Sizes, rows, uniform
from fedrule.network.relational import Hgt, Rgcn

if TYPE_CHECKING:
    from torch import Tensor


class LinkPredictor(Protocol):
    """A network as scorers use it: it embeds devices, and scores relations between two of them.

    `Network` is the paper's; another method may bring its own (`GraphMethod.network`).
    """

    @property
    def is_papers(self) -> bool:
        """Whether it is Algorithm 1 and the paper's predictor, for which there are compiled loops."""

    def initial(self, generator: torch.Generator) -> Parameters:
        """Initial parameters; those of the encoder begin with `theta.`."""

    def embed(self, parameters: Parameters, homes: GraphBatch, dropout: Dropout | None = None) -> Tensor:
        """[n_devices, size]; `dropout` is for training, without it nothing is dropped."""

    def logits(self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor) -> Tensor:
        """[n_pairs, n_relations]."""

    def logits_of(self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor, relation: Tensor) -> Tensor:
        """[n_rules]: of one relation for each pair."""


ENCODERS: dict[str, Callable[[Sizes], Encoder]] = {
    "sage": Sage,
    "gcn": Gcn,
    "gat": Gat,
    "compgcn": CompGcn,
    "rgcn": Rgcn,
    "hgt": Hgt,
}


@dataclass(frozen=True, slots=True)
class Network:
    """The shape of a network: what its parameters are and how they turn homes into logits."""

    sizes: Sizes
    encoder: str = "sage"  # a name of ENCODERS
    # Units between the predictor's two layers; 0: as many as relations, as in the paper, and no fewer than `hidden`.
    predictor_hidden: int = 0

    def __post_init__(self) -> None:
        if self.encoder not in ENCODERS:
            raise unknown("encoder", self.encoder, ENCODERS)
        if self.predictor_hidden < 0:
            raise DataError(f"predictor_hidden must be at least 0 (as many as relations), got {self.predictor_hidden}")
        ENCODERS[self.encoder](self.sizes)  # refuses sizes that it cannot be built with, before any training

    @property
    def is_papers(self) -> bool:
        """Whether it is Algorithm 1 and the paper's predictor in whatever sizes: every option has its default."""
        sizes = Sizes(self.sizes.n_types, self.sizes.n_relations, hidden=self.sizes.hidden)
        return self == Network(sizes, predictor_hidden=self.predictor_hidden)

    @property
    def _encoder(self) -> Encoder:
        return ENCODERS[self.encoder](self.sizes)

    def initial(self, generator: torch.Generator) -> Parameters:
        """Initial parameters; those of the encoder begin with `theta.`, those of the predictor with `phi.`."""
        embedding, relations = self.sizes.hidden, self.sizes.n_relations
        # Four ReLUs for four relations fail on toy homes at every third seed, 16 at 1 of 200; real data has over 100.
        hidden = self.predictor_hidden or max(relations, embedding)
        return {
            **{f"theta.{name}": value for name, value in self._encoder.initial(generator).items()},
            "phi.trigger": uniform(embedding, hidden, fan_in=2 * embedding, generator=generator),
            "phi.action": uniform(embedding, hidden, fan_in=2 * embedding, generator=generator),
            "phi.hidden_bias": uniform(hidden, fan_in=2 * embedding, generator=generator),
            "phi.relation": uniform(relations, hidden, fan_in=hidden, generator=generator),
            "phi.relation_bias": uniform(relations, fan_in=hidden, generator=generator),
        }

    def embed(self, parameters: Parameters, homes: GraphBatch, dropout: Dropout | None = None) -> Tensor:
        """z [n_devices, hidden]; `dropout` is for training, without it nothing is dropped."""
        theta = {name.removeprefix("theta."): v for name, v in parameters.items() if name.startswith("theta.")}
        return self._encoder.embed(theta, homes, dropout)

    def logits(self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor) -> Tensor:
        """[n_pairs, n_relations].

        phi^1 [z_i ; z_j] = A z_i + B z_j: the products are made once for each device and not for each pair.
        """
        as_trigger = torch.addmm(parameters["phi.hidden_bias"], z, parameters["phi.trigger"])
        as_action = z @ parameters["phi.action"]
        hidden = torch.relu(as_trigger.index_select(0, trigger) + as_action.index_select(0, action))
        return torch.addmm(parameters["phi.relation_bias"], hidden, parameters["phi.relation"].T)

    def logits_of(self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor, relation: Tensor) -> Tensor:
        """[n_rules]: of one relation for each pair, without computing the others."""
        from fedrule.network.triple_logits import Predictor, triple_logits  # defines a function of torch: not above

        first = torch.cat([parameters["phi.trigger"], parameters["phi.action"]])
        names = ("phi.hidden_bias", "phi.relation", "phi.relation_bias")
        predictor = Predictor(z, first, *(parameters[name] for name in names))
        return triple_logits(predictor, trigger, action, relation)

    def plain_logits_of(
        self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor, relation: Tensor
    ) -> Tensor:
        """The same as `logits_of`, by operations that take the parameters and homes of several models at once."""
        as_trigger = z @ parameters["phi.trigger"] + parameters["phi.hidden_bias"].unsqueeze(-2)
        hidden = torch.relu(rows(as_trigger, trigger) + rows(z @ parameters["phi.action"], action))
        weights = rows(parameters["phi.relation"], relation)
        return (hidden * weights).sum(dim=-1) + rows(parameters["phi.relation_bias"], relation)
