"""The federated methods: one engine with different corrections (paper, section 3.3 and Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from baselines.registry import register
from datasets.common.errors import DataError
from fedrule.methods.method import Federated
from fedrule.federated.plan import Control, Correction, Plan
from fedrule.methods.graph_options import refuse_wrong_numbers

SPACE: dict[str, tuple[object, ...]] = {
    "local_steps": ("choice", 1, 3, 10),
    "learning_rate": ("log", 0.01, 1.0),
    "server_rate": ("log", 0.01, 0.1),
    "rounds": ("int", 50, 200),
}


@register("fedgnn")
@dataclass(frozen=True)
class FedGnn(Federated):
    """FedAvg with the paper's graph neural network: local steps, averaged."""

    NAME: ClassVar[str] = "fedgnn"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE


@register("fedprox")
@dataclass(frozen=True)
class FedProx(Federated):
    """FedAvg whose clients are pulled back to the model they were sent (Li et al. 2020)."""

    NAME: ClassVar[str] = "fedprox"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE | {"proximal": ("log", 0.001, 1.0)}

    proximal: float = 0.1  # mu, strength of the pull

    def __post_init__(self) -> None:
        refuse_wrong_numbers(self, positive=("proximal",))
        super().__post_init__()

    def plan(self) -> Plan:
        return replace(super().plan(), proximal=self.proximal)


@register("fedrule")
@dataclass(frozen=True)
class FedRule(Federated):
    """Algorithm 2: each client corrects its steps by two control parameters, of the GNN and of the predictor."""

    NAME: ClassVar[str] = "fedrule"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE | {"gnn_lambda": ("float", 0.0, 1.0)}
    CORRECTION: ClassVar[Correction] = "gate"

    gnn_lambda: float = 1.0  # how much of the correction is applied, GNN
    predictor_lambda: float = 1.0  # and predictor; other than 1 every client remembers a whole vector
    control: Control = "updates"  # control parameters from updates (the paper), or from gradients: differ with Adam

    def plan(self) -> Plan:
        return replace(
            super().plan(),
            theta_lambda=self.gnn_lambda,
            phi_lambda=self.predictor_lambda,
            control=self.control,
        )


@register("fedgate")
@dataclass(frozen=True)
class FedGate(Federated):
    """Algorithm 2 with one rate and one control parameter, fully applied (Haddadpour et al. 2021)."""

    NAME: ClassVar[str] = "fedgate"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE
    CORRECTION: ClassVar[Correction] = "gate"

    def __post_init__(self) -> None:
        if self.predictor_rate not in (0, self.learning_rate):
            raise DataError(f"fedgate: predictor_rate {self.predictor_rate} differs from learning_rate; use fedrule")
        super().__post_init__()


@register("scaffold")
@dataclass(frozen=True)
class Scaffold(Federated):
    """Clients correct their steps by the difference of their own and everybody's gradient (Karimireddy et al. 2020)."""

    NAME: ClassVar[str] = "scaffold"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE
    CORRECTION: ClassVar[Correction] = "scaffold"

    control: Control = "updates"  # control variates from updates (their option II), or from gradients: differ with Adam

    def plan(self) -> Plan:
        return replace(super().plan(), control=self.control)
