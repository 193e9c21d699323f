"""The options that win the list a person sees, for `graphrank` and for `fedrank`, which is trained in the homes."""

from __future__ import annotations

from dataclasses import dataclass

from fedrule.methods.graph_method import GraphMethod
from fedrule.methods.graph_options import Objectives
from fedrule.training.examples import NonRules


@dataclass(frozen=True)
class RankingOptions(GraphMethod):
    """Weighed evidence, learned by hiding part of a home's automations and putting them above all it could have."""

    hidden: int = 0  # no network; 16 is the paper's
    dropout: float = 0.3  # of the network that weighs the evidence; 200 homes are few
    objective: Objectives = "ranking"
    non_rules: NonRules = "feasible"
    candidates: int = 300  # of up to 100,000 that a large home has
    draws: int = 8  # evidence is costly to gather, so each draw is used several times
    hidden_rules: float = 0.3
    evidence: int = 64
