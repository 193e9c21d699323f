"""FedRank: `graphrank`, the graph method we recommend, trained in the homes.

What leaves a home are addends, and what the server uses of them are sums:

- once, before training, the counts over homes that evidence needs (fedrule/evidence/statistics.py), in two sums;
- in each round that the home takes part in, an update of the 7,733 weights, of which the server takes the mean.

Both could be had by secure aggregation, which is not part of this project, so that the server learns how many homes
have a typed rule, two of them together, or devices of two types, and the mean update of a cohort, and of no home what
it has. What sums over few homes give away is another question: a count of 1 is one home's. The counts are sent once and
are many more than the weights; `fit` logs their bytes and hands them to `on_round` in the first round as
`statistics_bytes`. Everybody is told the sums, as many bytes again, and a home leaves out of them what it has added
itself.

The server's Adam and cohorts of a few homes make it nearly the minibatch training of `graphrank`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from baselines.registry import register
from fedrule.evidence.statistics import sent_bytes
from fedrule.federated.rounds import Weighting
from fedrule.methods.federated import Federated
from fedrule.methods.graph_method import Prepared
from fedrule.methods.graphrank import RankingOptions
from fedrule.model.terms import EvidenceNetwork

log = logging.getLogger(__name__)


@register("fedrank")
@dataclass(frozen=True)
class FedRank(RankingOptions, Federated):
    """Ranks what a home could automate as `graphrank` does, and is trained in the homes, which send addends of sums."""

    NAME: ClassVar[str] = "fedrank"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "local_steps": ("choice", 1, 3),
        "learning_rate": ("log", 0.01, 1.0),
        "server_rate": ("log", 0.001, 0.02),
        "cohort": ("choice", 24, 64, 256),
        "rounds": ("int", 100, 1000),
    }

    rounds: int = 400
    local_steps: int = 3
    learning_rate: float = 0.03  # of clients; the server's Adam is blind to it but for how far clients drift apart
    server_rate: float = 0.005
    decay: bool = True
    cohort: int = 64  # homes of a round
    weighting: Weighting = "roots"  # as a home of n rules counts in the loss of `graphrank`

    def sent_before(self, prepared: Prepared) -> dict[str, float]:
        evidence = (term.evidence for term in prepared.scorer.terms if isinstance(term, EvidenceNetwork))
        sent = float(sum(map(sent_bytes, evidence)))
        log.info("%s: each home sends %.1f kB of counts before training", self.NAME, sent / 1e3)
        return {"statistics_bytes": sent}
