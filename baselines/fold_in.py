"""The factors of a home from its known rules, the factors of the rules held fixed.

Least squares has its fold-in in closed form. For the two solvers that take steps on sampled rules, a home repeats the
solver's own steps from zero with the expectation in place of the sample: nothing is drawn, so the answer depends on
the home's rules alone. Both problems are convex in the home's factors, and the steps end where those of training do.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import expit

Factors = npt.NDArray[np.float64]

CELLS = 1 << 18  # scores at a time: 2 MB, which stays in the cache over all rounds
SAMPLED_PER_RULE = 30  # other rules that logistic matrix factorization draws for each rule of a home, in implicit


def ranking_fold_in(
    have: csr_array, items: Factors, popularity: Factors, *, learning_rate: float, regularization: float, rounds: int
) -> Factors:
    """BPR's steps: sum over rules i of the home of E_j[sigmoid(s_j - s_i) (y_i - y_j) - regularization x].

    j is drawn by `popularity` [n_items] and passed over if the home has it. The last column of `items` is a bias.
    """
    vectors, bias = items[:, :-1], items[:, -1]
    homes = np.ones((have.shape[0], items.shape[1]))
    for some in _runs(np.diff(have.indptr), len(items)):
        own = have[some]
        home, rule = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr)), own.indices
        belongs = csr_array((np.ones(len(rule)), rule, own.indptr), shape=own.shape)
        rows = csr_array((np.ones(len(rule)), np.arange(len(rule)), own.indptr), shape=(own.shape[0], len(rule)))
        drawn = np.where(belongs.toarray() > 0, 0.0, popularity)[home]  # [n_rules, n_items]
        used = rows @ drawn.sum(axis=1)
        x = np.zeros((own.shape[0], vectors.shape[1]))
        for _ in range(rounds):
            score = x @ vectors.T + bias
            wrong = drawn * expit(score[home] - score[home, rule][:, None])
            step = rows @ (wrong.sum(axis=1)[:, None] * vectors[rule] - wrong @ vectors)
            x += learning_rate * (step - regularization * used[:, None] * x)
        homes[some, :-1] = x
    return homes


def logistic_fold_in(
    have: csr_array, items: Factors, popularity: Factors, *, learning_rate: float, regularization: float, rounds: int
) -> Factors:
    """Logistic MF's AdaGrad steps on sum_i (1 - p_i) y_i - m E_j[p_j y_j] - regularization x, p = sigmoid(x y).

    i are the rules of the home, j is drawn by `popularity`, m times: SAMPLED_PER_RULE for each rule but, in implicit,
    no more than there are columns. The last two columns of `items` are its bias and a 1 that meets the home's bias.
    """
    homes = np.zeros((have.shape[0], items.shape[1]))
    homes[:, -2] = 1.0
    for some in _runs(np.ones(have.shape[0], dtype=np.int64), len(items)):
        own = have[some].toarray()
        drawn = np.minimum(SAMPLED_PER_RULE * own.sum(axis=1), items.shape[1])[:, None] * popularity
        x, squares = homes[some], np.zeros((len(own), items.shape[1]))
        for _ in range(rounds):
            p = expit(x @ items.T)
            step = (own * (1 - p) - drawn * p) @ items - regularization * x
            squares += step**2
            x = x + learning_rate / np.sqrt(1e-6 + squares) * step
            x[:, -2] = 1.0
        homes[some] = x
    return homes


def _runs(rows: npt.NDArray[np.integer], n_items: int) -> list[slice]:
    """Neighbouring homes whose rows [each n_items long] fit into memory together; a larger home stands alone."""
    number = np.cumsum(rows) * n_items // CELLS
    bounds = [*np.flatnonzero(np.diff(number, prepend=-1)), len(rows)]
    return [slice(first, end) for first, end in pairwise(bounds)]
