"""CompGCN with ComplEx and InfoNCE, on all homes at once (`compgcn`) or trained in the homes (`fedcompgcn`)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar

from baselines.method import check_range
from baselines.registry import register
from datasets.common.errors import DataError
from fedrule.federated.rounds import Weighting
from fedrule.methods.federated import Federated
from fedrule.methods.graph_method import GraphMethod, Objectives
from fedrule.methods.graphrule import GraphRule
from fedrule.network.compgcn import CompGcn, Compositions
from fedrule.network.complex_decoder import ComplexNetwork
from fedrule.network.encoders import Sizes
from fedrule.network.options import Direction, Encoders
from fedrule.training.examples import NonRules
from fedrule.training.losses import InfoNce, Objective


@dataclass(frozen=True)
class CompGcnOptions(GraphMethod):
    """The options of `compgcn`, and of `fedcompgcn`, which is trained in the homes."""

    hidden: int = 32  # size of the states of devices and relations, half real and half imaginary parts
    encoder: Encoders = "compgcn"
    direction: Direction = "both"
    objective: Objectives = "infonce"
    non_rules: NonRules = "half-hard"
    candidates: int = 64
    hidden_rules: float = 0.3
    composition: Compositions = field(default="multiply", metadata={"parameters": True})
    temperature: float = 1.0  # of infonce: scores are divided by it

    def __post_init__(self) -> None:
        if self.preset != "paper-text":
            message = f"{self.NAME}: preset {self.preset!r} is for the paper's methods, e.g. graphrule and fedrule"
            raise DataError(f"{message}; set single options of {self.NAME}")
        super().__post_init__()

    @property
    def objective_function(self) -> Objective:
        if self.objective != "infonce":
            return super().objective_function
        return InfoNce(self.temperature)

    def network(self, n_types: int, n_relations: int) -> ComplexNetwork:
        options = {f.name: getattr(self, f.name) for f in fields(Sizes) if hasattr(self, f.name)}
        return ComplexNetwork(CompGcn(Sizes(n_types, n_relations, **options), self.composition))


@register("compgcn")
@dataclass(frozen=True)
class CompGcnMethod(CompGcnOptions, GraphRule):
    """Messages composed of devices and relations, and complex scores of rules, by CompGCN and ComplEx."""

    NAME: ClassVar[str] = "compgcn"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "hidden": ("choice", 16, 32, 64),
    }
    rounds: int = 60
    learning_rate: float = 0.005
    decay: bool = True
    batch_size: int = 24
    least_steps: int = 900
    homes_per_draw: int = 2000


@register("fedcompgcn")
@dataclass(frozen=True)
class FedCompGcn(CompGcnOptions, Federated):
    """CompGCN and ComplEx trained in the homes, one home per client, with Adam at the server."""

    NAME: ClassVar[str] = "fedcompgcn"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "local_steps": ("choice", 1, 3),
        "learning_rate": ("log", 0.01, 1.0),
        "server_rate": ("log", 0.001, 0.02),
        "cohort": ("choice", 24, 64, 256),
        "rounds": ("int", 100, 1000),
    }
    SERVER_RATES: ClassVar[dict[str, float]] = Federated.SERVER_RATES | {"adam": 0.01, "yogi": 0.01}

    rounds: int = 400
    local_steps: int = 3
    learning_rate: float = 0.03  # of clients; with the server's Adam it only decides how far clients drift apart
    decay: bool = True
    cohort: int = 64  # homes in a round
