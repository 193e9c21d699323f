"""What a client does in a round: local steps, their rates, and what corrects them (paper, Algorithm 2).

With x the client's model and x_0 the one that it was sent,

    g~ = g - lambda (own_k - shared_k) + mu (x - x_0),        x <- x - eta g~   (or a step of Adam along g~)

where own_k is what client k remembers and shared_k is what the server tells it beside the model. After tau steps it
sends Delta_k = x_0 - x, and remembers own_k <- own_k - shared_k + p_k, with p_k = Delta_k / (eta tau). The server
averages p_k, and

- `gate` (Algorithm 2, FedGATE): shared_k is that average for the last round in which k took part, so that own_k -
  shared_k is the paper's control parameter delta_k;
- `scaffold` (Karimireddy et al. 2020, option II): shared is the server's control variate c, which moves towards that
  average by the share of clients that took part; own_k is then c_k, the client's last mean gradient.

A client that takes part for the first time remembers zeros: `gate` does not correct it, `scaffold` does by c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from datasets.common.errors import DataError, unknown

Correction: TypeAlias = Literal["none", "gate", "scaffold"]
ClientOptimizer: TypeAlias = Literal["sgd", "adam", "kept-adam"]
Control: TypeAlias = Literal["updates", "gradients"]

FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8  # of Adam, as Kingma and Ba 2015 have them


@dataclass(frozen=True, slots=True)
class Plan:
    """The same for all clients."""

    steps: int = 3  # tau
    theta_rate: float = 0.1  # eta of the GNN
    phi_rate: float = 0.1  # eta of the predictor and of all terms
    optimizer: ClientOptimizer = "sgd"  # adam forgets its moments after a round, kept-adam does not
    correction: Correction = "none"
    theta_lambda: float = 1.0  # share of the correction that is applied, GNN
    phi_lambda: float = 1.0  # and predictor
    # p_k: from the update, Delta_k / (eta tau), as Algorithm 2 has it, or the mean of g~. Plain steps make them one.
    control: Control = "updates"
    proximal: float = 0.0  # mu: pull towards the model that was sent (Li et al. 2020)

    def __post_init__(self) -> None:
        for name, choice, known in (
            ("optimizer of clients", self.optimizer, get_args(ClientOptimizer)),
            ("correction", self.correction, get_args(Correction)),
            ("control", self.control, get_args(Control)),
        ):
            if choice not in known:
                raise unknown(name, choice, known)
        if self.steps < 1:
            raise DataError(f"local steps {self.steps}: a client takes at least 1")
        for name, rate in (("GNN", self.theta_rate), ("predictor", self.phi_rate)):
            if not 0 < rate < math.inf:
                raise DataError(f"learning rate {rate} of the {name} is not above 0 and finite, e.g. 0.1")
        for name, value in (
            ("gnn_lambda", self.theta_lambda),
            ("predictor_lambda", self.phi_lambda),
            ("proximal", self.proximal),
        ):
            if not 0 <= value < math.inf:
                raise DataError(f"{name} {value} is negative or no number")

    @property
    def corrects(self) -> bool:
        """Whether clients remember anything for a correction; with both lambda 0 it is FedAvg, and they need not."""
        return self.correction != "none" and (self.theta_lambda > 0 or self.phi_lambda > 0)

    @property
    def adam(self) -> bool:
        return self.optimizer != "sgd"

    @property
    def sends_progress(self) -> bool:
        """Whether p_k cannot be told from Delta_k and is sent beside it."""
        return self.corrects and self.control == "gradients" and self.adam

    @property
    def row_sparse(self) -> bool:
        """Whether a client remembers nothing of relations that it was not asked about.

        own_k = mean gradient + (1 - lambda) delta_k, and plain steps without a gradient move such a row by the
        correction alone, by as much for all clients that were told the same. Moments of Adam differ between clients.
        """
        if self.optimizer == "kept-adam":
            return False
        return not self.corrects or (not self.adam and self.phi_lambda == 1 and self.proximal == 0)
