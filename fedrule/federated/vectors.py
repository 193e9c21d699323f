"""A model as one flat vector, which clients and server send each other, and exact sums of such vectors.

The parameters `theta.*` of the GNN come first, then the predictor and the other terms of the score. The last layer of
the predictor is at the end, a row of weights and bias for each relation: a client changes only the rows of the few
relations in its batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from datasets.common.gaussian_mechanism import GRID, bounding_factors
from fedrule.lazy import torch
from fedrule.network.encoders import Parameters

if TYPE_CHECKING:
    from torch import Tensor

Vector: TypeAlias = npt.NDArray[np.float32]

ROWS, ROWS_BIAS = "phi.relation", "phi.relation_bias"


@dataclass(frozen=True, slots=True)
class FlatParameters:
    """Where in the vector each parameter is."""

    names: tuple[str, ...]  # of the dense part, in this order
    shapes: tuple[tuple[int, ...], ...]
    n_theta: int  # size of the GNN
    n_rows: int = 0  # after the dense part; 0 for a model without the predictor
    row_length: int = 0

    @classmethod
    def of(cls, parameters: Parameters) -> FlatParameters:
        dense = [name for name in parameters if name not in (ROWS, ROWS_BIAS)]
        names = sorted(dense, key=lambda name: not name.startswith("theta."))  # a stable sort
        shapes = tuple(tuple(parameters[name].shape) for name in names)
        n_theta = sum(parameters[name].numel() for name in names if name.startswith("theta."))
        if ROWS not in parameters:
            return cls(tuple(names), shapes, n_theta)
        n_rows, units = parameters[ROWS].shape
        return cls(tuple(names), shapes, n_theta, n_rows, units + 1)

    @property
    def n_dense(self) -> int:
        """Size of the part before the rows."""
        return sum(prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        return self.n_dense + self.n_rows * self.row_length

    def sent_bytes(self, rows: float, *, vectors: int = 1, number_bytes: int = 4) -> float:
        """Bytes of an update of the dense part and so many rows, each with its number.

        A number is a multiple of STEP: 4 bytes hold those between -2 and 2, which all but a diverging home sends.
        """
        return float(number_bytes * vectors * (self.n_dense + rows * self.row_length) + 4 * rows)

    def flat(self, parameters: Parameters, models: tuple[int, ...] = ()) -> Vector:
        """[size], or [*models, size] of parameters that have these dimensions first, several models at once."""
        sizes = map(prod, self.shapes)
        parts = [parameters[name].detach().reshape(*models, n) for name, n in zip(self.names, sizes, strict=True)]
        if self.n_rows:
            rows = torch.cat([parameters[ROWS], parameters[ROWS_BIAS].unsqueeze(-1)], dim=-1).detach()
            parts.append(rows.reshape(*models, self.n_rows * self.row_length))
        vector: Vector = torch.cat(parts, dim=-1).numpy().astype(np.float32, copy=False)
        return vector

    def parameters(self, vector: Vector) -> Parameters:
        """The parameters in a vector, copied."""
        return self.split(torch.tensor(vector))

    def split(self, vector: Tensor) -> Parameters:
        """The parameters in a tensor [..., size]; dimensions before the last stay first, those of several models."""
        models, sizes = vector.shape[:-1], [*map(prod, self.shapes), self.n_rows * self.row_length]
        values: tuple[Tensor, ...] = torch.split(vector, sizes, dim=-1)
        named = zip(self.names, values, self.shapes, strict=False)
        found = {name: value.reshape(*models, *shape) for name, value, shape in named}
        if self.n_rows:
            rows = values[-1].reshape(*models, self.n_rows, self.row_length)
            found |= {ROWS: rows[..., :-1].contiguous(), ROWS_BIAS: rows[..., -1].contiguous()}
        return found

    def by_part(self, theta: float, phi: float) -> npt.NDArray[np.float64]:
        """[size]: one value for the GNN and another for everything else, such as a rate or a lambda."""
        return np.repeat([theta, phi], [self.n_theta, self.size - self.n_theta])

    def means_by_row(self, total: npt.NDArray[np.float64], weight: float | np.float64) -> npt.NDArray[np.float64]:
        """[size]: a sum of updates divided by the weight of the clients, in each row of those that sent it.

        The last number of a row is the sum of the weights of these clients. It is no parameter: its mean is 0, and so
        is that of a row that nobody sent.
        """
        mean = total / weight
        rows = total[self.n_dense :].reshape(self.n_rows, self.row_length)
        counts = rows[:, -1:]
        means = np.divide(rows, counts, out=np.zeros_like(rows), where=counts > 0)
        means[:, -1] = 0.0
        mean[self.n_dense :] = means.reshape(-1)
        return mean

    def in_rows(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """[n_rows, row_length]: where the numbers of some rows are in the vector."""
        return self.n_dense + rows[:, None] * self.row_length + np.arange(self.row_length)


def zeros(shape: int | Sequence[int]) -> Vector:
    """Zeros that take no memory until they are written to."""
    return np.zeros(shape, dtype=np.float32)


# Exact sums. A floating-point sum depends on the order of its addends: a mean over clients would depend on chunks and
# threads. Multiples of 2^-30 (about 1e-9) add up exactly in float64 as long as no sum passes 2^22, four million;
# addends are rounded to them first. Secure aggregation works on such numbers too (Bonawitz et al. 2017).
STEP = GRID
ROUND = 1.5 * 2.0**52 * STEP  # the last bit of a float64 of this size is STEP: adding it rounds to a multiple of STEP
LARGEST = 2.0**22  # larger sums are rounded


def exact_addends(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """The nearest multiples of STEP."""
    rounded: npt.NDArray[np.float64] = (np.asarray(values, dtype=np.float64) + ROUND) - ROUND
    return rounded


CLIP_STEP = 2.0**-20


def clip_factor(norm: float, clip: float) -> float:
    """What to multiply a vector of this L2 norm by so that it is at most `clip`.

    A multiple of 2^-20, rounded down: then neither the order in which the norm was added up nor its last digits change
    a bit of what is sent.
    """
    return 1.0 if norm <= clip else math.floor(clip / norm / CLIP_STEP) * CLIP_STEP


def clip_factors(norm: npt.NDArray[np.float64], clip: float) -> npt.NDArray[np.float64]:
    """`clip_factor` of several."""
    return bounding_factors(norm, clip, step=CLIP_STEP)
