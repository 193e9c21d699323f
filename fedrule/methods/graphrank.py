"""GraphRank: GraphRule with the options that make the best recommendation list.

Everything here is an option of `graphrule`; docs/graph.md shows what each one brings. Part of a home's automations is
hidden, and the model learns to rank these above all that the home could have instead. The score is a small network on
plain evidence: rules of this home that agree with the candidate in some of trigger, state, act and action, paths
between its devices, and what other homes have. The paper's network is off, since on our validation data it added
nothing to the evidence; `hidden=16` switches it on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from baselines.registry import register
from fedrule.methods.graph_method import GraphMethod, Objectives
from fedrule.methods.graphrule import GraphRule
from fedrule.network.options import PAPERS_PRESETS, derived
from fedrule.training.examples import NonRules


@dataclass(frozen=True)
class RankingOptions(GraphMethod):
    """The options of `graphrank`, and of `fedrank`, which is trained in the homes."""

    UNAVAILABLE: ClassVar[dict[str, str]] = PAPERS_PRESETS

    hidden: int = 0  # size of the paper's network, e.g. 16; 0: none
    dropout: float = derived(lambda self: 0.3 if self.hidden or self.evidence else 0.0)  # helps where homes are few
    objective: Objectives = "ranking"
    non_rules: NonRules = "feasible"
    candidates: int = 300  # of up to 100,000 that a large home has
    draws: int = 8  # evidence is costly to compute, so each draw is used several times
    hidden_rules: float = 0.3
    evidence: int = 64
    words: bool = True


@register("graphrank")
@dataclass(frozen=True)
class GraphRank(RankingOptions, GraphRule):
    """Ranks what a home could automate by how its graph already agrees with it; the graph method we recommend."""

    NAME: ClassVar[str] = "graphrank"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "hidden_rules": ("float", 0.1, 0.5),
        "evidence": ("choice", 32, 64, 128),
        "dropout": ("float", 0.1, 0.5),
        "learning_rate": ("log", 0.0005, 0.01),
        "rounds": ("int", 20, 160),
        "candidates": ("choice", 100, 300, 1000),
    }

    rounds: int = 80  # passes over all homes, more where these would be fewer steps than `least_steps`
    learning_rate: float = 0.005  # of Adam
    weight_decay: float = 0.0
    decay: bool = True
    batch_size: int = 24  # many small steps, which large homes need
    homes_per_draw: int = 2000
    least_steps: int = 900  # more rounds where few homes would have fewer steps; 0: never. See docs/graph.md
