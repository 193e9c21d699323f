"""EASE: a linear model from the rules a home has to the rules it may want, in closed form.

Steck (2019), "Embarrassingly shallow autoencoders for sparse data", WWW: minimise |X - X B|^2 + lambda |B|^2 with
diag(B) = 0, so that no rule predicts itself. With P = (X^T X + lambda I)^-1 the answer is B_ij = -P_ij / P_jj off the
diagonal. `dropout` adds the term of Steck (2020), "Autoencoders that don't overfit towards the identity", NeurIPS:
training on rules of which each is forgotten with probability p is p / (1 - p) * diag(X^T X) more regularization.
`ownership` is ours: a home without the devices of a rule cannot have it, so its 0 in X says little against the rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from baselines.cooccurrence import Cooccurrence
from baselines.items import Items, UserItemModel
from baselines.method import Fitted, OnRound, ignore
from baselines.registry import register
from datasets.common.errors import DataError
from datasets.homes import Array, Homes


@register("ease")
@dataclass(frozen=True)
class Ease:
    """Which rules go together, as one regularized linear model (Steck 2019)."""

    regularization: float = 30.0  # lambda: the larger, the nearer to what rules have in common with the common ones
    dropout: float = 0.5  # p: the regularization of often used rules grows with their use; 0 is the plain model
    ownership: float = 0.25  # scores are divided by this power of the share of homes with both devices; 0: they are not

    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "regularization": ("log", 1.0, 3000.0),
        "dropout": ("float", 0.0, 0.9),
        "ownership": ("float", 0.0, 1.0),
    }

    def __post_init__(self) -> None:
        if not self.regularization > 0:
            raise DataError(f"ease: regularization {self.regularization} is not above 0, e.g. 30.0")
        if not 0 <= self.dropout < 1:
            raise DataError(f"ease: dropout {self.dropout} is not in [0, 1), e.g. 0.5")
        if not 0 <= self.ownership <= 1:
            raise DataError(f"ease: ownership {self.ownership} is not in [0, 1], e.g. 0.25")

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """Invert one matrix of items x items; its cost does not grow with the homes."""
        del rng
        together = Cooccurrence.of(train, regularization=self.regularization, dropout=self.dropout)
        fitted = EaseModel(together.items, train, together.weight / together.able**self.ownership)
        on_round(1, 1, fitted, {})
        return fitted


class EaseModel(UserItemModel):
    """Scores are the sums of the weights from the rules that a home has; a home without any is not answered."""

    def __init__(self, items: Items, train: Homes, weight: npt.NDArray[np.float64]) -> None:
        super().__init__(items, train)
        self.weight = weight  # [n_items, n_items]  from the rule that is there to the rule that may come

    def score_items(self, homes: Homes, which: Array) -> npt.NDArray[np.floating]:
        """X B, one home at a time inside a sparse product, so that no score depends on who else is asked about."""
        have = self.items.matrix(homes)[which]
        scores = np.asarray(have @ self.weight)
        scores[np.diff(have.indptr) == 0] = np.nan
        return scores
