"""A small network that weighs the plain graph features of a candidate: the term of a score that is called evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import relu

from datasets.homes import Homes, Rules
from fedrule.model.encoder import Parameters, dropped
from fedrule.evidence.evidence import NAMES, Evidence
from fedrule.model.initial import uniform
from fedrule.model.term import Observed

# Shares of homes are logarithms around -3.5; near 0, as all other features are, training is faster.
IS_SHARE = np.array([name.startswith("share of homes") for name in NAMES])
LEVEL, SPREAD = np.where(IS_SHARE, -3.5, 0.0), np.where(IS_SHARE, 1.5, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class WeighedEvidence:
    """Two fully connected layers and a direct weight for each feature."""

    evidence: Evidence
    hidden: int
    dropout: float = 0.0
    name: ClassVar[str] = "evidence"

    def initial(self, chance: torch.Generator) -> Parameters:
        n, hidden = len(NAMES), self.hidden
        return {
            "direct": torch.zeros(n),
            "first": uniform(n, hidden, fan_in=n, chance=chance),
            "first_bias": uniform(hidden, fan_in=n, chance=chance),
            "second": uniform(hidden, hidden, fan_in=hidden, chance=chance),
            "second_bias": uniform(hidden, fan_in=hidden, chance=chance),
            "last": uniform(hidden, fan_in=hidden, chance=chance),
        }

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:
        features = self.evidence.features(homes, candidates, leave_out=leave_out)
        return {"features": torch.from_numpy(((features - LEVEL) / SPREAD).astype(np.float32))}

    def logits_of(self, parameters: Parameters, observed: Observed, chance: torch.Generator | None) -> Tensor:
        features = observed["features"].to(parameters["direct"].dtype)
        hidden = features
        for layer in ("first", "second"):
            hidden = relu(torch.addmm(parameters[f"{layer}_bias"], hidden, parameters[layer]))
            hidden = dropped(hidden, self.dropout, chance)
        return features @ parameters["direct"] + hidden @ parameters["last"]
