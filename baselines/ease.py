"""EASE: a linear model from the rules a home has to the rules it may want, in closed form.

Steck (2019), "Embarrassingly shallow autoencoders for sparse data", WWW: minimise |X - X B|^2 + lambda |B|^2 with
diag(B) = 0, so that no rule predicts itself. With P = (X^T X + lambda I)^-1 the answer is B_ij = -P_ij / P_jj off the
diagonal. `dropout` adds the term of Steck (2020), "Autoencoders that don't overfit towards the identity", NeurIPS:
training on rules of which each is dropped with probability p is p / (1 - p) * diag(X^T X) more regularization.
`ownership` is ours: a home without the devices of a rule cannot have it, so its 0 in X says little against the rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from baselines.cooccurrence import DROPOUT, OWNERSHIP, REGULARIZATION, Matrix, regularized_inverse, share_able
from baselines.items import Items, LinearModel, homes_with_both
from baselines.method import Fitted, OnRound, check_range, ignore
from baselines.registry import register
from datasets.homes import Array, Homes

CELLS = 1 << 22  # scores at a time: 32 MB


@dataclass(frozen=True, slots=True, eq=False)
class Cooccurrence:
    """Which rules go together: the inverse P, and how many homes could have each rule.

    To learn from the scores of training homes one needs them as if the home had not been there. For a home with the
    rules x, the Sherman-Morrison formula gives the inverse without it, P + u u^T / (1 - c) with u = P x and c = x^T u.
    (What the home adds to the diagonal by `dropout` stays; with dropout 0 the scores are exactly those of a fit without
    the home.)
    """

    items: Items
    inverse: Matrix  # [n_items, n_items]
    able: Matrix  # [n_items]  share of homes that own both entity types of the rule

    @classmethod
    def of(cls, train: Homes, *, regularization: float = REGULARIZATION, dropout: float = DROPOUT) -> Cooccurrence:
        """Invert one matrix of items x items; its cost does not grow with the homes."""
        items = Items.of(train)
        have = items.matrix(train)
        together, both = (have.T @ have).toarray(), homes_with_both(train)
        return cls.counted(items, together, both, train.n_homes, regularization=regularization, dropout=dropout)

    @classmethod
    def counted(
        cls,
        items: Items,
        together: Matrix,  # [n_items, n_items]  X^T X: homes with both rules
        both: Matrix,  # [n_types ** 2]  homes that own both types
        n_homes: int,
        *,
        regularization: float = REGULARIZATION,
        dropout: float = DROPOUT,
    ) -> Cooccurrence:
        """From counts, which add up over homes."""
        able = share_able(both, items.valid.cell, items.valid.n_relations, n_homes)
        return cls(items, regularized_inverse(together, regularization=regularization, dropout=dropout), able)

    @property
    def weight(self) -> Matrix:
        """[n_items, n_items]: -P_ij / P_jj, from the rule that a home has to the one that it may want."""
        diagonal = np.diag_indices_from(self.inverse)
        weight = -self.inverse / self.inverse[diagonal]
        weight[diagonal] = 0.0
        return weight

    def scores(self, homes: Homes, home: Array, item: Array, *, leave_out: Homes | None = None) -> Matrix:
        """Of items (-1: 0) for homes, given the other rules that each has; `home` is sorted.

        `leave_out` are the same homes with all rules that they had in training: each is scored as if it had not been
        in the training data.
        """
        count = len(home)
        known = self.items.matrix(homes)
        own = None if leave_out is None else self.items.matrix(leave_out)
        known_items = np.flatnonzero(item >= 0)
        home, item = home[known_items], item[known_items]
        found = np.zeros(len(known_items))
        which = np.flatnonzero(np.bincount(home, minlength=homes.n_homes))
        step = max(CELLS // max(len(self.items), 1), 1)
        for first in range(0, len(which), step):
            some = which[first : first + step]
            here = slice(*np.searchsorted(home, [some[0], some[-1] + 1]))
            row = np.searchsorted(some, home[here])
            found[here] = self._scores(known[some], None if own is None else own[some], row, item[here])
        scores = np.zeros(count)
        scores[known_items] = found
        return scores

    def _scores(self, known: csr_array, own: csr_array | None, row: Array, item: Array) -> Matrix:
        """known - known P / diagonal of P, which leaves a rule's own weight out, at these rows and items."""
        diagonal = np.diag(self.inverse)[item]
        has = known.toarray()[row, item]
        product = (known @ self.inverse)[row, item]
        if own is None:
            return np.asarray(has - product / diagonal)
        u = np.asarray(own @ self.inverse)
        left = 1.0 - np.asarray(own.multiply(u).sum(axis=1))[row]  # 1 - c
        among = np.asarray(known.multiply(u).sum(axis=1))[row]
        u = u[row, item]
        return np.asarray(has - (product + u * (among / left)) / (diagonal + u**2 / left))


@register("ease")
@dataclass(frozen=True)
class Ease:
    """Which rules go together, as one regularized linear model (Steck 2019)."""

    regularization: float = REGULARIZATION  # lambda
    dropout: float = DROPOUT  # p: the regularization of often used rules grows with their use; 0 is the plain model
    ownership: float = OWNERSHIP  # scores are divided by this power of the share of homes with both types; 0: not

    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "regularization": ("log", 1.0, 3000.0),
        "dropout": ("float", 0.0, 0.9),
        "ownership": ("float", 0.0, 1.0),
    }

    def __post_init__(self) -> None:
        check_range("ease", self, "above 0", "regularization")
        check_range("ease", self, "in [0, 1)", "dropout")
        check_range("ease", self, "in [0, 1]", "ownership")

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """Invert one matrix of items x items; its cost does not grow with the homes."""
        del rng
        together = Cooccurrence.of(train, regularization=self.regularization, dropout=self.dropout)
        fitted = LinearModel(together.items, train, together.weight / together.able**self.ownership)
        on_round(1, 1, fitted, {})
        return fitted
