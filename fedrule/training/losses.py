"""Losses: the paper's cross entropy of rules and non-rules (section 3.2), a ranking loss over a home's list, InfoNCE.

All take candidates of many homes at once: logits s [n_candidates], whether each is a rule, its home, and for each home
how many non-rules one of those that were drawn stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fedrule.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

Objective: TypeAlias = "Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]"  # logits, positive, home, stands_for
# Of several homes: logits, positive, whether a candidate counts [n_homes, n each], and stands_for [n_homes].
PaddedObjective: TypeAlias = "Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]"


def bce(logits: Tensor, positive: Tensor, home: Tensor, stands_for: Tensor) -> Tensor:
    """Mean over homes of the home's mean binary cross entropy: L_k of section 3.2.

    The paper adds up the L_k of all homes; the mean over those that have candidates is that times a constant, which
    does not change Adam's steps. 0 where no home has any. The paper has as many non-rules as rules, whatever they stand
    for.
    """
    n_homes = len(stands_for)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    each = entropy(logits, positive.to(logits.dtype), reduction="none")
    count = torch.bincount(home, minlength=n_homes)
    return (each / count.index_select(0, home)).sum() / (count > 0).sum().clamp(min=1)


def ranking(logits: Tensor, positive: Tensor, home: Tensor, stands_for: Tensor) -> Tensor:
    """Softmax cross entropy of each rule i against all non-rules j of its home: log(1 + sum e^(s_j - s_i)).

    Only some non-rules were drawn. Each stands for w of them, so that w times their sum is expected to be the sum over
    all: a rule has to be above the whole list of a large home, and not only above the few hundred that were drawn.

    The home's other rules are in no denominator: they are right answers too. A home of n rules counts n^0.5: with equal
    weight for homes a rule of a large home would hardly count, with equal weight for rules a few large homes would
    decide. Homes without a non-rule are left out; 0 where no home is left.
    """
    each, of_home = _against_non_rules(logits, positive, home, stands_for)
    # n rules, each with the weight n^-0.5, are n^0.5 together.
    weight = torch.bincount(of_home, minlength=len(stands_for)).index_select(0, of_home).to(logits.dtype) ** -0.5
    return (weight * each).sum() / weight.sum().clamp(min=1)


@dataclass(frozen=True, slots=True)
class InfoNce:
    """Mean over rules i of -log(e^(s_i / T) / (e^(s_i / T) + sum e^(s_j / T))), over the drawn non-rules j of its home.

    InfoNCE (A. van den Oord, Y. Li and O. Vinyals, 2018, "Representation learning with contrastive predictive coding"):
    which of the candidates is the rule? Non-rules stand for themselves only, as hard ones are no sample of all. Every
    rule counts the same. Homes without a non-rule are left out; 0 where no home is left.
    """

    temperature: float = 1.0  # T

    def __call__(self, logits: Tensor, positive: Tensor, home: Tensor, stands_for: Tensor) -> Tensor:
        each, _ = _against_non_rules(logits / self.temperature, positive, home, torch.ones_like(stands_for))
        return each.sum() / max(len(each), 1)


def _against_non_rules(logits: Tensor, positive: Tensor, home: Tensor, stands_for: Tensor) -> tuple[Tensor, Tensor]:
    """[n] each: log(1 + w sum e^(s_j - s_i)) of each rule i of a home that has non-rules j, and its home."""
    n_homes = len(stands_for)
    against, of_home = logits[~positive], home[~positive]
    # log sum e^(s_j) over the non-rules of each home, relative to the largest so that nothing overflows.
    largest = logits.new_zeros(n_homes).scatter_reduce(0, of_home, against.detach(), "amax", include_self=False)
    total = logits.new_zeros(n_homes).index_add(0, of_home, torch.exp(against - largest.index_select(0, of_home)))
    some = torch.bincount(of_home, minlength=n_homes) > 0
    log_sum = largest + torch.log(torch.where(some, total, 1)) + torch.log(stands_for.to(logits.dtype))

    counted = positive & some.index_select(0, home)
    rule, of_home = logits[counted], home[counted]
    return torch.nn.functional.softplus(log_sum.index_select(0, of_home) - rule), of_home


OBJECTIVES: dict[str, Objective] = {"bce": bce, "ranking": ranking, "infonce": InfoNce()}


def padded(objective: Objective) -> PaddedObjective | None:
    """[n_homes]: the loss of each home, whose candidates are a row and followed by others that do not count.

    None for other objectives.
    """
    if objective is bce:
        return _padded_bce
    if objective is ranking:
        return _padded_ranking
    if isinstance(objective, InfoNce):
        temperature = objective.temperature
        return lambda logits, positive, counts, _: _padded_ranking(
            logits / temperature, positive, counts, torch.ones_like(logits[:, 0])
        )
    return None


def _padded_bce(logits: Tensor, positive: Tensor, counts: Tensor, stands_for: Tensor) -> Tensor:  # noqa: ARG001
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    each = entropy(logits, positive.to(logits.dtype), reduction="none")
    return torch.where(counts, each, 0).sum(dim=1) / counts.sum(dim=1)


def _padded_ranking(logits: Tensor, positive: Tensor, counts: Tensor, stands_for: Tensor) -> Tensor:
    """Of each home the mean over its rules, however they are weighted; 0 without a non-rule."""
    rules, against = counts & positive, counts & ~positive
    some = against.any(dim=1)
    # A sum over nothing has no gradient: without a non-rule, it is over zeros, and not used.
    log_sum = torch.logsumexp(torch.where(against, logits, torch.where(some, -torch.inf, 0.0)[:, None]), dim=1)
    each = torch.nn.functional.softplus((log_sum + torch.log(stands_for.to(logits.dtype)))[:, None] - logits)
    mean = torch.where(rules, each, 0).sum(dim=1) / rules.sum(dim=1).clamp(min=1)
    return torch.where(some, mean, 0)
