"""The whole home in the score of one rule: what else it has automated, and which entity types it owns.

A device's embedding sees what is two rules away; this sees everything, as matrix factorization does. With e an
embedding for each typed rule and s one for each entity type,

    c = ReLU(sum of e over the home's typed rules / sqrt(their number + 1) + mean of s over its types),

and a candidate of typed rule m gets <c, v_m>. A rule is never context for itself: where the home has the candidate
already, c is made of its other rules, or training would learn to repeat what it was told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import relu

from datasets.homes import Homes, Rules
from datasets.valid import ValidRules
from fedrule.model.encoder import Parameters
from fedrule.model.initial import uniform
from fedrule.model.term import Observed
from fedrule.model.typed_rules import has_item, items


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """A vector for each home, made of its typed rules and types, against one for each typed rule."""

    valid: ValidRules
    size: int
    name: ClassVar[str] = "context"

    def initial(self, chance: torch.Generator) -> Parameters:
        """Rules' vectors start at zero, so that training starts from the network's own score."""
        known = len(self.valid) + 1
        return {
            "rule": uniform(known, self.size, fan_in=self.size, chance=chance),
            "type": uniform(self.valid.n_types, self.size, fan_in=self.size, chance=chance),
            "candidate": torch.zeros(known, self.size),
        }

    def observe(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Observed:  # noqa: ARG002
        """Each typed rule and each type of a home counts once, however many devices carry it out or are of it."""
        width, n_types, n_relations = len(self.valid) + 1, self.valid.n_types, self.valid.n_relations
        rule = np.unique(homes.rules.home * width + items(self.valid, homes, homes.rules))
        owned = np.unique(homes.device_home * n_types + homes.device_type)
        asked, known = (some.keys(homes.n_devices, n_relations) for some in (candidates, homes.rules))
        alone = np.isin(asked, known) & (has_item(self.valid, homes, candidates) == 1)
        columns = {
            "rule_home": rule // width,
            "rule": rule % width,
            "type_home": owned // max(n_types, 1),
            "type": owned % max(n_types, 1),
            "rules": np.bincount(rule // width, minlength=homes.n_homes),
            "types": np.bincount(owned // max(n_types, 1), minlength=homes.n_homes),
            "home": candidates.home,
            "candidate": items(self.valid, homes, candidates),
            "itself": alone.astype(np.int64),  # 1 where the candidate is a rule that the home has
        }
        return {name: torch.tensor(column) for name, column in columns.items()}

    def logits_of(self, parameters: Parameters, observed: Observed, chance: torch.Generator | None) -> Tensor:  # noqa: ARG002
        home, candidate = observed["home"], observed["candidate"]
        rule, kind = parameters["rule"], parameters["type"]
        none = rule.new_zeros(len(observed["rules"]), self.size)
        rules = none.index_add(0, observed["rule_home"], rule.index_select(0, observed["rule"]))
        types = none.index_add(0, observed["type_home"], kind.index_select(0, observed["type"]))
        types = types / observed["types"].clamp(min=1)[:, None]
        itself = observed["itself"][:, None]
        others = rules.index_select(0, home) - itself * rule.index_select(0, candidate)
        many = observed["rules"].index_select(0, home)[:, None] - itself
        context = relu(others * (many + 1).to(rule.dtype).rsqrt() + types.index_select(0, home))
        return (context * parameters["candidate"].index_select(0, candidate)).sum(dim=1)
