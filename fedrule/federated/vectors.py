"""A model as one vector: what clients and server send each other, add up and keep.

All `theta.*` come first (the GNN), then everything else (the predictor and the terms of a score). The predictor's last
layer comes at the end, one row for each relation with its weights and its bias side by side: a client moves the rows of
the few relations that it is asked about, and all others stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedrule.model.encoders import Parameters

Vector: TypeAlias = npt.NDArray[np.float32]

ROWS, ROWS_BIAS = "phi.relation", "phi.relation_bias"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in the vector each parameter stands."""

    names: tuple[str, ...]  # of the dense part, in order
    shapes: tuple[tuple[int, ...], ...]
    n_theta: int  # numbers of the GNN, from the first on
    n_rows: int = 0  # rows behind the dense part; 0 for a model without the predictor
    row_length: int = 0

    @classmethod
    def of(cls, parameters: Parameters) -> Layout:
        """The layout of a model with these parameters."""
        dense = [name for name in parameters if name not in (ROWS, ROWS_BIAS)]
        names = sorted(dense, key=lambda name: not name.startswith("theta."))  # stable: otherwise as they come
        shapes = tuple(tuple(parameters[name].shape) for name in names)
        n_theta = sum(parameters[name].numel() for name in names if name.startswith("theta."))
        if ROWS not in parameters:
            return cls(tuple(names), shapes, n_theta)
        n_rows, units = parameters[ROWS].shape
        return cls(tuple(names), shapes, n_theta, n_rows, units + 1)

    @property
    def n_dense(self) -> int:
        """Numbers before the rows."""
        return sum(prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        """Numbers in all."""
        return self.n_dense + self.n_rows * self.row_length

    def flat(self, parameters: Parameters) -> Vector:
        """The vector of these parameters."""
        parts = [parameters[name].detach().reshape(-1) for name in self.names]
        if self.n_rows:
            parts.append(torch.cat([parameters[ROWS], parameters[ROWS_BIAS][:, None]], dim=1).detach().reshape(-1))
        vector: Vector = torch.cat(parts).numpy().astype(np.float32)
        return vector

    def parameters(self, vector: Vector) -> Parameters:
        """The parameters of a vector, in memory of their own."""
        sizes = [*map(prod, self.shapes), self.n_rows * self.row_length]
        values: tuple[Tensor, ...] = torch.split(torch.tensor(vector), sizes)
        found = {name: v.reshape(shape) for name, v, shape in zip(self.names, values, self.shapes, strict=False)}
        if self.n_rows:
            rows = values[-1].reshape(self.n_rows, self.row_length)
            found |= {ROWS: rows[:, :-1].contiguous(), ROWS_BIAS: rows[:, -1].contiguous()}
        return found

    def by_part(self, theta: float, phi: float) -> npt.NDArray[np.float64]:
        """A vector with one number for the GNN and another for all the rest: a rate, or a lambda."""
        return np.repeat([theta, phi], [self.n_theta, self.size - self.n_theta])

    def in_rows(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Where the numbers of some rows stand in the vector: [n_rows, row_length]."""
        return self.n_dense + rows[:, None] * self.row_length + np.arange(self.row_length)


def zeros(shape: int | Sequence[int]) -> Vector:
    """Zeros that take no memory before they are written to."""
    return np.zeros(shape, dtype=np.float32)


# --- Sums that come out the same in every order: addends are rounded to a grid first, and then nothing is rounded.
#
# Floating-point sums depend on the order of their addends, so a mean over clients would depend on chunks and workers.
# Multiples of 2^-30 (about 1e-9) add up exactly in float64 as long as no sum passes 2^22, four million. Secure
# aggregation works on such numbers as well (Bonawitz et al. 2017).

STEP = 2.0**-30
# A float64 of this size has its last bit at STEP: what is added to it is rounded to the grid.
ROUND = 1.5 * 2.0**22
LARGEST = 2.0**22  # beyond it sums are rounded


def on_grid(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """The nearest multiples of STEP."""
    rounded: npt.NDArray[np.float64] = (np.asarray(values, dtype=np.float64) + ROUND) - ROUND
    return rounded
