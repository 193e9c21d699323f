"""Typed rules by number, the items of the user-item formulation: what biases and the context of a home know of them."""

from __future__ import annotations

import numpy as np

from datasets.homes import Array, Homes, Rules
from datasets.valid import ValidRules


def items(valid: ValidRules, homes: Homes, rules: Rules) -> Array:
    """The number of each rule's (type, relation, type) among the valid ones; all never-seen ones share the last."""
    trigger_type, relation, action_type = homes.typed(rules)
    number = valid.number(trigger_type, action_type, relation)
    return np.where(number >= 0, number, len(valid))


def has_item(valid: ValidRules, homes: Homes, candidates: Rules) -> Array:
    """[n_candidates]: how many rules of the candidate's home are of its (type, relation, type)."""
    width = len(valid) + 1
    own, many = np.unique(homes.rules.home * width + items(valid, homes, homes.rules), return_counts=True)
    asked = candidates.home * width + items(valid, homes, candidates)
    place = np.searchsorted(own, asked)
    return np.where(np.append(own, -1)[place] == asked, np.append(many, 0)[place], 0)
