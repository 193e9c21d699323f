"""Clients of matrix factorization: each solves for its own factors and sends the gradient of the items' factors.

Hu, Koren and Volinsky (2008): with factors x of a home and y_i of the items, the loss of a home is

    sum_i c_i (p_i - x y_i)^2 + lambda |x|^2 + lambda / n sum_i |y_i|^2

where p_i = 1 and c_i = alpha for items that it has, p_i = 0 and c_i = 1 for all others, and n is the number of homes
with rules: the sum over homes is the loss of `mf`. The minimum in x has a closed form, with the rows Y_u of the home's
own items and 1 a vector of ones:

    x = (Y^T Y + lambda I + (alpha - 1) Y_u^T Y_u)^-1 alpha Y_u^T 1

or gradient steps lead to it. With A = Y^T Y + lambda I, which is the same for all homes, x is (by Woodbury's formula)

    x = A^-1 Y_u^T z,   (I + (alpha - 1) Y_u A^-1 Y_u^T) z = alpha 1

where the system is only as large as the home has items. The gradient for the items, which a home sends in Ammad-ud-din
et al. (2019), is

    2 c_i (x y_i - p_i) x + 2 lambda / n y_i

a dense table, of which the server learns the mean. It is a product of two vectors and a part that is the same for all
homes, and is added to the sum without ever being stored, client after client in compiled loops: no client depends on
the others in the loop. Every number is rounded to a multiple of 2^-30 before, as if the home had sent it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from baselines.items import Factors, FoldIn
from datasets.common.compiled import entry_point
from datasets.common.environment import thread_count
from datasets.homes import Array, Mask
from fedrule.federated.optimizers import Precise
from fedrule.federated.trainers.trainer import ClientChunk
from fedrule.federated.vectors import ROUND, FlatParameters, Vector, clip_factors


@dataclass(frozen=True, slots=True)
class LeastSquares:
    """The loss of a home, and how it finds its own factors."""

    alpha: float  # weight of an item that the home has, against 1 for one that it lacks
    regularization: float  # lambda
    share: float  # of the penalty on the items' factors that is a home's: 1 / n
    steps: int = 0  # of gradient descent from zero to a home's factors; 0: closed form

    def solver(self, factors: Factors) -> FoldIn:
        """The function that gives x of homes by their items, zeros for a home that has none."""
        gram = np.einsum("if,ig->fg", factors, factors)  # not by BLAS, whose threads change the last digits
        gram[np.diag_indices_from(gram)] += self.regularization
        return self._descent(factors, gram) if self.steps else self._closed_form(factors, gram)

    def _closed_form(self, factors: Factors, gram: Factors) -> FoldIn:
        solved = np.einsum("if,fg->ig", factors, np.linalg.inv(gram))

        def solve_homes(own: csr_array) -> Factors:
            found = np.zeros((own.shape[0], factors.shape[1]))
            solve(factors, solved, *places(own), self.alpha, found)
            return found

        return solve_homes

    def _descent(self, factors: Factors, gram: Factors) -> FoldIn:
        """In the basis of the eigenvectors of A, where its product with x takes n multiplications and not n^2."""
        values, vectors = np.linalg.eigh(gram)
        rotated = np.einsum("if,fg->ig", factors, vectors)

        def solve_homes(own: csr_array) -> Factors:
            found = np.zeros((own.shape[0], factors.shape[1]))
            descend(rotated, values, *places(own), self.alpha, self.steps, found)
            back: Factors = np.einsum("hg,fg->hf", found, vectors)
            return back

        return solve_homes


@dataclass(frozen=True, eq=False)
class FactorTrainer:
    """The training homes as clients."""

    have: csr_array  # [n_homes, n_items]  1 where a home has the item
    loss: LeastSquares
    n_factors: int

    @property
    def layout(self) -> FlatParameters:
        """The table of the items' factors."""
        return FlatParameters(("items",), ((self.have.shape[1], self.n_factors),), 0)

    @property
    def rule_counts(self) -> Array:
        return np.diff(self.have.indptr).astype(np.int64)

    @property
    def threads(self) -> int:
        return thread_count()

    def begin(self, number: int, clients: Array, model: Vector) -> FactorRound:  # noqa: ARG002  nothing is drawn
        factors = model.reshape(-1, self.n_factors).astype(np.float64)
        return FactorRound(clients, self.have[clients], factors, self.loss.solver(factors), self.loss)


@dataclass(frozen=True, slots=True, eq=False)
class FactorRound:
    """A round of `FactorTrainer`."""

    clients: Array
    own: csr_array  # [n_clients, n_items]
    factors: Factors  # [n_items, n_factors]  y_i
    solve_homes: FoldIn  # x of each client, which never leaves it
    task: LeastSquares

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        return np.zeros(end - first + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)  # the table is dense

    @np.errstate(over="ignore", invalid="ignore")  # updates that are not finite are left out of the sums
    def train(self, chunk: ClientChunk) -> None:
        """Add rate * gradient of every client, clipped where wanted."""
        some, task = slice(chunk.first, chunk.end), self.task
        own, y = self.own[some], self.factors
        x = self.solve_homes(own)
        error = np.zeros((len(x), len(y)))  # c_i (x y_i - p_i)
        loss = np.zeros(len(x))
        errors(x, np.ascontiguousarray(y.T), *places(own), task.alpha, error, loss)
        loss += task.regularization * ((x**2).sum(axis=1) + task.share * (y**2).sum())
        chunk.loss[:] = loss
        chunk.finite[:] = np.isfinite(chunk.loss) & ~chunk.faulty
        shrink, weight = task.regularization * task.share, 2 * chunk.h.phi_rate * chunk.weight
        if chunk.clip:
            norm = np.zeros(len(x))
            gradient_norms(error, x, y, shrink, norm)
            weight = weight * clip_factors(weight * norm, chunk.clip)
        add_gradients(chunk.update, error, x, y, shrink, weight, chunk.finite, ROUND)


def places(own: csr_array) -> tuple[Array, Array]:
    """Where the items of each home begin, and the items, in the one number type that the loops are compiled for."""
    return own.indptr.astype(np.int64), own.indices.astype(np.int64)


@entry_point()
def solve(y: Factors, solved: Factors, start: Array, item: Array, alpha: float, x: Factors) -> None:
    """Write the closed form of every home with items; `solved` is Y A^-1. By Cholesky's factorization, U^T U."""
    n = y.shape[1]
    for home in range(len(start) - 1):
        own = item[start[home] : start[home + 1]]
        m = len(own)
        u, z = np.zeros((m, m)), np.full(m, alpha)
        for i in range(m):
            u[i, i] = 1.0
            for j in range(i, m):
                product = 0.0
                for f in range(n):
                    product += y[own[i], f] * solved[own[j], f]
                u[i, j] += (alpha - 1) * product
        for k in range(m):
            root = np.sqrt(u[k, k])
            for j in range(k, m):
                u[k, j] /= root
            for i in range(k + 1, m):
                factor = u[k, i]
                for j in range(i, m):
                    u[i, j] -= factor * u[k, j]
        for k in range(m):  # of U^T first, then of U
            z[k] /= u[k, k]
            for j in range(k + 1, m):
                z[j] -= u[k, j] * z[k]
        for k in range(m - 1, -1, -1):
            for j in range(k + 1, m):
                z[k] -= u[k, j] * z[j]
            z[k] /= u[k, k]
        for i in range(m):
            for f in range(n):
                x[home, f] += z[i] * solved[own[i], f]


@entry_point()
def descend(y: Factors, values: Precise, start: Array, item: Array, alpha: float, steps: int, x: Factors) -> None:
    """Write what gradient steps from zero give, H x - b each, of a rate 1 / L that is safe for the home's own items.

    A is diagonal here, with the eigenvalues `values` in ascending order. L = the largest + (alpha - 1) |Y_u|^2 is no
    smaller than any eigenvalue of H.
    """
    n = y.shape[1]
    gradient = np.zeros(n)
    for home in range(len(start) - 1):
        if start[home] == start[home + 1]:
            continue
        own, bound = x[home], values[-1]
        for r in range(start[home], start[home + 1]):
            for i in range(n):
                bound += (alpha - 1) * y[item[r], i] ** 2
        for _ in range(steps):
            for i in range(n):
                gradient[i] = values[i] * own[i]
            for r in range(start[home], start[home + 1]):
                score = 0.0
                for i in range(n):
                    score += y[item[r], i] * own[i]
                pull = (alpha - 1) * score - alpha
                for i in range(n):
                    gradient[i] += pull * y[item[r], i]
            for i in range(n):
                own[i] -= gradient[i] / bound


@entry_point()
def errors(
    x: Factors, columns: Factors, start: Array, item: Array, alpha: float, error: Factors, loss: Precise
) -> None:
    """Write c_i (x y_i - p_i) of all items of every home, and the sum of c_i (x y_i - p_i)^2; error is zeros before.

    `columns` is Y^T: adding up row after row, a loop without a sum in it, is what the compiler makes fast.
    """
    for home in range(len(x)):
        own = error[home]
        for f in range(x.shape[1]):
            for i in range(len(own)):
                own[i] += x[home, f] * columns[f, i]
        total = 0.0
        for i in range(len(own)):
            total += own[i] ** 2
        for r in range(start[home], start[home + 1]):
            difference = own[item[r]] - 1
            total += alpha * difference**2 - own[item[r]] ** 2
            own[item[r]] = alpha * difference
        loss[home] = total


@entry_point()
def gradient_norms(error: Factors, x: Factors, y: Factors, shrink: float, norm: Precise) -> None:
    """Write the L2 norm of error_i x + shrink y_i over all items, of every home."""
    for home in range(len(x)):
        total = 0.0
        for i in range(len(y)):
            for f in range(y.shape[1]):
                total += (error[home, i] * x[home, f] + shrink * y[i, f]) ** 2
        norm[home] = np.sqrt(total)


@entry_point()
def add_gradients(
    out: Precise,  # [n_items * n_factors]
    error: Factors,  # [n_homes, n_items]
    x: Factors,  # [n_homes, n_factors]
    y: Factors,  # [n_items, n_factors]
    shrink: float,
    weight: Precise,  # [n_homes]
    finite: Mask,  # [n_homes]  only these are added
    round: float,  # `vectors.ROUND`
) -> None:
    """Add weight * (error_i x + shrink y_i), rounded as by `vectors.exact_addends`: the order does not matter."""
    n = y.shape[1]
    for home in range(len(x)):
        if not finite[home]:
            continue
        for i in range(len(y)):
            push, pull, row = weight[home] * error[home, i], weight[home] * shrink, out[i * n : (i + 1) * n]
            for f in range(n):
                row[f] += (push * x[home, f] + pull * y[i, f] + round) - round
