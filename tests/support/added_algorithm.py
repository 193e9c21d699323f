"""An algorithm that somebody adds: FedRule whose clients are also pulled towards the global model."""

from __future__ import annotations

from fedrule.federated.algorithm import ALGORITHMS, FedProx, FedRule


class PulledFedRule(FedProx, FedRule):
    """g~ = g - lambda delta_k + mu (x - x_0)"""


PULLED = "pulled-fedrule"
ALGORITHMS[PULLED] = PulledFedRule()
