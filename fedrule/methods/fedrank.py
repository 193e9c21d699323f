"""FedRank: `graphrank`, the graph method we recommend, trained in the homes.

A home sends addends, of which the server uses only the sums:

- once, before training, the counts over homes that evidence needs (fedrule/evidence/statistics.py), in two sums;
- in each round in which it takes part, an update of the 5,133 weights, of which the server takes the mean.

Both can be secure sums (`fedrule.federated.secure_sum`). The server then learns how many homes have a typed rule, two
of them together, two relations on the same devices, rules that stay in one room, or devices of two types, and the mean
update of a cohort, but nothing of a single home, except where a sum is one home's: a count of 1 is, and in diverse
homes such counts give away most rules (docs/privacy.md#counts-of-one-home). Against that, counts and updates can have
noise (`epsilon`). The counts are larger than the weights; `fit` logs their bytes and passes them to `on_round` in the
first round as `statistics_bytes`. Every home receives the sums, as many bytes again, and subtracts its own part.

With the server's Adam and small cohorts it is nearly the minibatch training of `graphrank`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from baselines.registry import register
from fedrule.federated.rounds import Weighting
from fedrule.methods.federated import Federated
from fedrule.methods.graphrank import RankingOptions
from fedrule.network.options import derived


def default_weighting(method: FedRank) -> Weighting:
    """Aggregations other than the mean count all homes the same."""
    return "roots" if method.aggregation == "mean" else "clients"


@register("fedrank")
@dataclass(frozen=True)
class FedRank(RankingOptions, Federated):
    """Ranks possible rules as `graphrank` does, trained in the homes, which send only addends of sums."""

    NAME: ClassVar[str] = "fedrank"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "local_steps": ("choice", 1, 3),
        "learning_rate": ("log", 0.01, 1.0),
        "server_rate": ("log", 0.001, 0.02),
        "cohort": ("choice", 24, 64, 256),
        "rounds": ("int", 100, 1000),
    }

    SERVER_RATES: ClassVar[dict[str, float]] = Federated.SERVER_RATES | {"adam": 0.005, "yogi": 0.005}

    rounds: int = 400
    local_steps: int = 3
    learning_rate: float = 0.03  # of clients; with the server's Adam it only decides how far clients drift apart
    decay: bool = True
    cohort: int = 64  # homes in a round
    weighting: Weighting = derived(default_weighting)  # as homes count in the loss of `graphrank`: by roots
