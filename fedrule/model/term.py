"""What may be added to the network's logit of a candidate: a bias, the context of the home, evidence from its graph.

A term first observes candidates, once for each example and without parameters, and then scores what it observed. So
what is costly is done once however many steps follow, and the score stays a pure function of parameters and tensors.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from datasets.homes import Homes, Rules
from fedrule.model.encoder import Parameters

Observed: TypeAlias = dict[str, Tensor]


class Term(Protocol):
    """Something that adds to the logits of candidates. Its name goes before the names of its parameters."""

    @property
    def name(self) -> str: ...

    def initial(self, chance: torch.Generator) -> Parameters:
        """Parameters to start from; none for a term that has nothing to learn."""

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:
        """What there is to know of candidates [n] of these homes, given the rules that the homes have.

        `leave_out` is given in training: the same homes with all their training rules. Statistics of all homes then
        leave each home's own contribution out, or they would tell the answer.
        """

    def logits_of(self, parameters: Parameters, observed: Observed, chance: torch.Generator | None) -> Tensor:
        """[n]: what to add to each candidate's logit; `chance` draws dropout in training."""
