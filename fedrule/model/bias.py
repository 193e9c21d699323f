"""How common a rule is, whoever asks: a bias for each (type, relation, type), learned or from counts.

The paper's network has one bias for each relation; what is common between two types it has to work out from their
embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from datasets.homes import Homes, Rules
from datasets.valid import ValidRules
from fedrule.model.encoder import Parameters
from fedrule.evidence.shares import COULD, HAVE
from fedrule.evidence.statistics import Statistics
from fedrule.model.term import Observed
from fedrule.model.typed_rules import has_item, items


@dataclass(frozen=True, slots=True, eq=False)
class LearnedBias:
    """A parameter for each (type, relation, type) that training has, and one for all that it has not."""

    valid: ValidRules
    name: ClassVar[str] = "bias"

    def initial(self, chance: torch.Generator) -> Parameters:  # noqa: ARG002
        return {"item": torch.zeros(len(self.valid) + 1)}

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:  # noqa: ARG002
        return {"item": torch.from_numpy(items(self.valid, homes, candidates))}

    def logits_of(self, parameters: Parameters, observed: Observed, chance: torch.Generator | None) -> Tensor:  # noqa: ARG002
        return parameters["item"].index_select(0, observed["item"])


@dataclass(frozen=True, slots=True, eq=False)
class CountBias:
    """scale x log((homes that have it + 0.3) / (homes that own both types + 3)), with the scale learned from 1 on."""

    valid: ValidRules
    have: npt.NDArray[np.float64]  # [n_valid + 1]  homes with the typed rule; none for the last, all never-seen ones
    could: npt.NDArray[np.float64]  # [n_types ** 2]  homes that own devices of both types
    name: ClassVar[str] = "bias"

    @classmethod
    def of(cls, counts: Statistics) -> CountBias:
        return cls(counts.valid, np.append(counts.with_rule, 0).astype(np.float64), counts.both)

    def initial(self, chance: torch.Generator) -> Parameters:  # noqa: ARG002
        return {"scale": torch.ones(1)}

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:
        """In training a home is not counted for its own candidates."""
        trigger_type, _, action_type = homes.typed(candidates)
        have = self.have[items(self.valid, homes, candidates)]
        could = self.could[trigger_type * len(homes.types) + action_type]
        if leave_out is not None:
            have = have - (has_item(self.valid, leave_out, candidates) > 0)
            could = could - 1  # whoever can be asked about the rule owns both types
        return {"log_share": torch.from_numpy(np.log((have + HAVE) / (could + COULD)))}

    def logits_of(self, parameters: Parameters, observed: Observed, chance: torch.Generator | None) -> Tensor:  # noqa: ARG002
        scale = parameters["scale"]
        return scale * observed["log_share"].to(scale.dtype)
