"""The graph formulation: each home is a graph of its devices, a rule an edge, recommending is link prediction.

import fedrule
model = fedrule.train(homes, "graphrule")
model.save("model.safetensors")
fedrule.Recommender.load("model.safetensors").recommend(home, k=10)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedrule.inference import Recommender as Recommender
    from fedrule.models.train import train

__all__ = ["Recommender", "train"]

_WHERE = {"train": "fedrule.models.train", "Recommender": "fedrule.inference"}


def __getattr__(name: str) -> object:
    """On first use: importing a part of the package does not load torch."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
