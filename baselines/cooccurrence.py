"""The matrix of EASE from counts of rules that homes have together; NumPy alone, so that saved models load fast."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
REGULARIZATION, DROPOUT, OWNERSHIP = 30.0, 0.5, 0.25  # defaults of the options of EASE


def regularized_inverse(
    together: Matrix,  # [n_items, n_items]  X^T X: homes with both rules; overwritten
    *,
    regularization: float = REGULARIZATION,
    dropout: float = DROPOUT,
) -> Matrix:
    """P = (X^T X + lambda I + p / (1 - p) diag(X^T X))^-1."""
    diagonal = np.diag_indices_from(together)
    together[diagonal] = together[diagonal] / (1 - dropout) + regularization
    return np.asarray(np.linalg.inv(together), dtype=np.float64)


def share_able(both: Matrix, cell: npt.NDArray[np.int64], n_relations: int, n_homes: int) -> Matrix:
    """[n_items]: the share of homes that own both entity types of each typed rule; `both` is [n_types ** 2]."""
    return both[cell // n_relations] / n_homes
