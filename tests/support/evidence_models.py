"""Saved models of evidence alone with drawn weights, and homes in their words."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st

from baselines.registry import build
from datasets import Homes
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.methods.graph_method import GraphMethod
from fedrule.models.file import SavedModel
from fedrule.models.restore import saved_model
from fedrule.network.score import GraphModel
from tests.support.crowded import crowded_homes
from tests.support.random_models import Case


def evidence_model(
    train: Homes, *, seed: int = 0, hidden: int = 4, words: bool = True, step: float = 0.0, size: float = 0.3
) -> SavedModel:
    """As `graphrank` saves it, with the counts of these homes; weights are multiples of `step`, 0: any numbers."""
    method = build("graphrank", evidence=hidden, words=words)
    assert isinstance(method, GraphMethod)
    counts = Statistics.of(train, ValidRules.of(train))
    scorer = method.scorer(counts.valid, counts)
    chance = torch.Generator().manual_seed(seed)
    parameters = {}
    for name, value in scorer.initial(chance).items():
        drawn = torch.randn(value.shape, generator=chance)
        parameters[name] = size * (torch.round(drawn / step) * step if step else drawn)
    return saved_model(GraphModel("graphrank", scorer, parameters, train.types, train.relations), method, counts)


@st.composite
def evidence_cases(draw: st.DrawFn, *, words: bool | None = None) -> Case:
    """A model of some homes, and these homes with some of their rules and with many devices in the same state."""
    homes = draw(crowded_homes(min_homes=1, words=words))
    seed = draw(st.integers(0, 999))
    saved = evidence_model(
        homes,
        seed=seed,
        hidden=draw(st.integers(1, 5)),
        words=draw(st.booleans()),
        step=draw(st.sampled_from([0.0, 0.5, 8.0])),  # 8: all weights are 0
    )
    return Case(saved, homes.with_rules(np.random.default_rng(seed).random(homes.n_rules) < 0.6))
