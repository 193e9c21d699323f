"""Which rules go together: the linear model of EASE (baselines/ease.py has the formulas), for homes in and out of it.

With the matrix X [n_homes, n_items] of who has what and P = (X^T X + diagonal)^-1, the weight from rule i to rule j is
-P_ij / P_jj, and none from a rule to itself. Whoever learns from scores of training homes needs them as if the home had
not been there. For a home with the rules x, Sherman and Morrison's formula gives the inverse without it,
P + u u^T / (1 - c) with u = P x and c = x^T u. (What the home adds to the diagonal by `dropout` stays; with dropout 0
the scores are exactly those of a fit without the home.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from baselines.items import Items
from baselines.owners import homes_with_both
from datasets.homes import Array, Homes

CELLS = 1 << 22  # scores at a time: 32 MB

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Cooccurrence:
    """The inverse P, and how many homes could have each rule."""

    items: Items
    inverse: Matrix  # [n_items, n_items]
    able: Matrix  # [n_items]  share of homes that own both entity types of the rule

    @classmethod
    def of(cls, train: Homes, *, regularization: float = 30.0, dropout: float = 0.5) -> Cooccurrence:
        """Invert one matrix of items x items; its cost does not grow with the homes."""
        items = Items.of(train)
        have = items.matrix(train)
        together, both = (have.T @ have).toarray(), homes_with_both(train)
        return cls.counted(items, together, both, train.n_homes, regularization=regularization, dropout=dropout)

    @classmethod
    def counted(
        cls,
        items: Items,
        together: Matrix,  # [n_items, n_items]  X^T X: homes with both rules; written over
        both: Matrix,  # [n_types ** 2]  homes that own both types
        n_homes: int,
        *,
        regularization: float = 30.0,
        dropout: float = 0.5,
    ) -> Cooccurrence:
        """From counts, which add up over homes."""
        diagonal = np.diag_indices_from(together)
        together[diagonal] = together[diagonal] / (1 - dropout) + regularization
        able = both[items.valid.cell // items.valid.n_relations] / n_homes
        return cls(items, np.asarray(np.linalg.inv(together), dtype=np.float64), able)

    @property
    def weight(self) -> Matrix:
        """[n_items, n_items]: from the rule that is there to the rule that may come."""
        diagonal = np.diag_indices_from(self.inverse)
        weight = -self.inverse / self.inverse[diagonal]
        weight[diagonal] = 0.0
        return weight

    def scores(self, homes: Homes, home: Array, item: Array, *, leave_out: Homes | None = None) -> Matrix:
        """Of items (-1: 0) for homes, given the other rules that each has; `home` is sorted.

        `leave_out` are the same homes with all rules that they had in training: each is scored as if it had not been
        there.
        """
        count = len(home)
        known = self.items.matrix(homes)
        own = None if leave_out is None else self.items.matrix(leave_out)
        asked = np.flatnonzero(item >= 0)
        home, item = home[asked], item[asked]
        found = np.zeros(len(asked))
        which = np.flatnonzero(np.bincount(home, minlength=homes.n_homes))
        step = max(CELLS // max(len(self.items), 1), 1)
        for first in range(0, len(which), step):
            some = which[first : first + step]
            here = slice(*np.searchsorted(home, [some[0], some[-1] + 1]))
            row = np.searchsorted(some, home[here])
            found[here] = self._scores(known[some], None if own is None else own[some], row, item[here])
        scores = np.zeros(count)
        scores[asked] = found
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
