"""R-GCN and HGT: graph networks for many relations, as rivals of the paper's network.

`rgcn` is the encoder of M. Schlichtkrull, T. Kipf, P. Bloem, R. van den Berg, I. Titov and M. Welling (2018, ESWC,
"Modeling relational data with graph convolutional networks"), with their decoder, DistMult (B. Yang et al., 2015,
"Embedding entities and relations for learning and inference in knowledge bases"), or the paper's predictor.
`hetgnn` is the heterogeneous graph transformer of Z. Hu, Y. Dong, K. Wang and Y. Sun (2020, WWW, "Heterogeneous graph
transformer") with the paper's predictor; the name is that of the family, not of the HetGNN of C. Zhang et al. (2019).
fedrule/network/relational.py has the equations.

What differs from the papers:

- The graphs are homes with devices of their own, so that a device has no embedding: its input is its entity type.
- Part of a home's automations is hidden in every round, and only these are targets (`hidden_rules`).
- They are ranked above sampled non-rules of their home. R-GCN has binary cross entropy of rules and non-rules
  (`objective="bce"`), which found fewer of our validation rules.
- Non-rules are what a home's devices could have: triples of (type, relation, type) that some training home has. All
  others have no score (NaN).
- DistMult scores a rule and its reverse the same. On our validation data the paper's predictor, which does not, was
  better, so that it is the default; `decoder="distmult"` is R-GCN's own.
- R-GCN drops edges (0.2 to 0.4 of them), here hidden units are dropped; HGT samples subgraphs, homes need no sampling.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

from baselines.method import check_range
from baselines.registry import register
from datasets.common.errors import DataError, unknown
from fedrule.lazy import torch
from fedrule.methods.graph_method import Objectives
from fedrule.methods.graphrule import GraphRule
from fedrule.network.encoders import Parameters, uniform
from fedrule.network.network import LinkPredictor, Network
from fedrule.network.options import NETWORK, PAPERS_PRESETS, Direction, Encoders, derived, one_encoder
from fedrule.training.examples import NonRules

if TYPE_CHECKING:
    from torch import Tensor

Decoders: TypeAlias = Literal["distmult", "predictor"]

SPACE: dict[str, tuple[object, ...]] = {
    "hidden": ("choice", 16, 32, 64),
    "dropout": ("float", 0.0, 0.5),
    "hidden_rules": ("float", 0.1, 0.5),
    "learning_rate": ("log", 0.0005, 0.02),
    "candidates": ("choice", 50, 100, 300),
    "decoder": ("choice", "distmult", "predictor"),
}


@dataclass(frozen=True, slots=True)
class DistMult(Network):
    """The decoder of R-GCN: a relation is a vector that weights how two embeddings agree (Yang et al., 2015).

    The logit of a rule <i, r, j> is the sum over k of z_ik w_rk z_jk, plus a bias of the relation. It is the same in
    both directions, <i, r, j> and <j, r, i>. The bias, which the paper's decoder lacks, lets a rare relation score
    lower.
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


@dataclass(frozen=True)
class RelationalOptions(GraphRule):
    """How both are trained: part of a home's automations is hidden, and ranked above what the home could have."""

    hidden: int = 32  # size of hidden states and embeddings
    dropout: float = 0.3  # of hidden states
    decoder: Decoders = field(default="predictor", metadata=NETWORK)  # distmult, or the predictor of the paper
    predictor_hidden: int = derived(lambda self: 64 if self.decoder == "predictor" else 0)  # units in the predictor
    direction: Direction = "both"  # messages along rules and against them, the inverse relations
    objective: Objectives = "ranking"  # over a home's list, or bce, as R-GCN has it
    non_rules: NonRules = "feasible"
    candidates: int = 100  # non-rules of each home, new ones in every round: a few draws used in turn do worse
    hidden_rules: float = 0.3  # chance that an automation is only a target; without it a model repeats its input
    rounds: int = 25  # passes over all homes, more where these would be fewer steps than `least_steps`
    learning_rate: float = 0.005  # of Adam
    weight_decay: float = 0.0
    decay: bool = True  # the learning rate falls to zero along half a cosine over all steps
    batch_size: int = 64  # homes in one step
    homes_per_draw: int = 2000  # most homes in one draw of examples: bounds time and memory
    least_steps: int = 200  # more rounds where few homes would have fewer steps; 0: never

    def __post_init__(self) -> None:
        if self.decoder not in get_args(Decoders):
            raise unknown(f"decoder of {self.NAME}", self.decoder, get_args(Decoders))
        check_range(self.NAME, self, "at least 1", "hidden")
        super().__post_init__()

    def network(self, n_types: int, n_relations: int) -> LinkPredictor | None:
        network = super().network(n_types, n_relations)
        if self.decoder == "distmult" and isinstance(network, Network):
            return DistMult(network.sizes, network.encoder, network.predictor_hidden)
        return network


@register("rgcn")
@dataclass(frozen=True)
class RelationalGcn(RelationalOptions):
    """Relational graph convolutions: messages with weights of their relation and direction."""

    NAME: ClassVar[str] = "rgcn"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE | {"num_bases": ("choice", 4, 8, 16)}
    UNAVAILABLE: ClassVar[dict[str, str]] = PAPERS_PRESETS | one_encoder("rgcn")

    encoder: Encoders = "rgcn"  # nothing else
    num_bases: int = field(default=8, metadata=NETWORK)  # matrices that those of all relations are sums of


@register("hetgnn")
@dataclass(frozen=True)
class HeterogeneousGnn(RelationalOptions):
    """The heterogeneous graph transformer: attention with weights of entity types and relations."""

    NAME: ClassVar[str] = "hetgnn"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE | {"heads": ("choice", 1, 2, 4)}
    UNAVAILABLE: ClassVar[dict[str, str]] = PAPERS_PRESETS | one_encoder("hgt")

    encoder: Encoders = "hgt"  # nothing else
    hidden: int = 16  # size of hidden states and embeddings
    heads: int = 2  # of attention
