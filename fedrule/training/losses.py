"""What training minimises: the paper's cross entropy of rules and non-rules, or a loss of each rule's place in a list.

Both are given candidates of many homes at once: logits s [n_candidates], whether each is a rule, and its home.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

Objective: TypeAlias = Callable[[Tensor, Tensor, Tensor, int], Tensor]  # logits, positive, home, n_homes -> loss


def bce(logits: Tensor, positive: Tensor, home: Tensor, n_homes: int) -> Tensor:
    """Mean over homes of the home's mean binary cross entropy: L_k of section 3.2.

    The paper adds the L_k of all homes up; the mean over those that have candidates is that times a constant, to which
    Adam is blind. 0 where no home has any.
    """
    each = binary_cross_entropy_with_logits(logits, positive.to(logits.dtype), reduction="none")
    many = torch.bincount(home, minlength=n_homes)
    asked = (many > 0).sum().clamp(min=1)
    return (each / many.index_select(0, home)).sum() / asked


def ranking(logits: Tensor, positive: Tensor, home: Tensor, n_homes: int) -> Tensor:
    """Softmax cross entropy of each rule i asked for against all non-rules N of its home: log(1 + sum e^(s_j - s_i)).

    The home's other rules asked for stand in no denominator: they are as right. A home of n rules counts n^0.5: with
    one vote per home a rule of a large home would hardly count, with one per rule a few large homes would decide.
    Homes without a non-rule leave nothing to tell apart and are left out; 0 where no home is left.
    """
    against, of_home = logits[~positive], home[~positive]
    # log sum e^(s_j) over the non-rules of each home, from the largest on so that nothing overflows.
    largest = logits.new_zeros(n_homes).scatter_reduce(0, of_home, against.detach(), "amax", include_self=False)
    total = logits.new_zeros(n_homes).index_add(0, of_home, torch.exp(against - largest.index_select(0, of_home)))
    some = torch.bincount(of_home, minlength=n_homes) > 0
    together = largest + torch.log(torch.where(some, total, 1))

    asked = positive & some.index_select(0, home)
    rule, of_home = logits[asked], home[asked]
    each = softplus(together.index_select(0, of_home) - rule)
    # n rules, each with the weight n^-0.5, are n^0.5 together.
    weight = torch.bincount(of_home, minlength=n_homes).index_select(0, of_home).to(logits.dtype) ** -0.5
    return (weight * each).sum() / weight.sum().clamp(min=1)


OBJECTIVES: dict[str, Objective] = {"bce": bce, "ranking": ranking}
