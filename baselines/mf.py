"""Matrix factorization of homes x rules by the package implicit: three losses behind one method.

- als: Hu, Koren and Volinsky (2008), "Collaborative filtering for implicit feedback datasets", ICDM: least squares with
  weight alpha on the rules that homes have and 1 on all others. The regularization grows with the data, as Rendle,
  Krichene, Zhang and Koren (2022), "Revisiting the performance of iALS on item recommendation benchmarks", RecSys,
  recommend: of a home's factors with the number of rules, of a rule's with the number of homes. implicit has one number
  for both; as only the product of the two decides what X Y^T becomes, theirs is sqrt(homes x rules).
- bpr: Rendle, Freudenthaler, Gantner and Schmidt-Thieme (2009), "BPR: Bayesian personalized ranking from implicit
  feedback", UAI: the rules of a home above sampled others.
- logistic: Johnson (2014), "Logistic matrix factorization for implicit feedback data", NIPS workshop.

Factors of a home that was not in training, or whose known rules have changed since, are computed from its rules with
the factors of the rules held fixed (fold-in); with als those of all homes are. One thread, since with more the order of
additions, and with it the last bits, would change from run to run.

Least squares has its fold-in in closed form. For the two solvers that take steps on sampled rules, a home repeats the
solver's own steps from zero with the expectation in place of the sample: nothing is drawn, so the result depends on the
home's rules alone. Both problems are convex in the home's factors, and the steps end where those of training do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from implicit.cpu.als import AlternatingLeastSquares
from implicit.cpu.bpr import BayesianPersonalizedRanking
from implicit.cpu.lmf import LogisticMatrixFactorization
from implicit.cpu.matrix_factorization_base import MatrixFactorizationBase
from scipy.sparse import csr_array, csr_matrix
from scipy.special import expit
from threadpoolctl import threadpool_limits

from baselines.items import FactorModel, Factors, FoldIn, Items
from baselines.method import Fitted, OnRound, check_range, ignore
from baselines.registry import register
from datasets.common.errors import DataError, unknown
from datasets.homes import Array, Homes

CELLS = 1 << 18  # scores at a time: 2 MB, which stays in the cache over all rounds
SAMPLED_PER_RULE = 30  # other rules that logistic matrix factorization draws for each rule of a home, in implicit


def ranking_fold_in(
    have: csr_array, items: Factors, popularity: Factors, *, learning_rate: float, regularization: float, rounds: int
) -> Factors:
    """BPR's steps: sum over rules i of the home of E_j[sigmoid(s_j - s_i) (y_i - y_j) - regularization x].

    j is drawn by `popularity` [n_items] and skipped if the home has it. The last column of `items` is a bias.
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
    """Consecutive homes with rows of n_items each, about CELLS numbers: at most those and the first home's."""
    number = np.cumsum(rows) * n_items // CELLS
    bounds = [*np.flatnonzero(np.diff(number, prepend=-1)), len(rows)]
    return [slice(first, end) for first, end in pairwise(bounds)]


Solver: TypeAlias = Literal["als", "bpr", "logistic"]


# The best hyperparameters of each solver on validation data, over all data sets; als has no learning rate.
TUNED = {
    "als": {"factors": 124, "regularization": 0.037, "iterations": 25, "alpha": 11.0, "learning_rate": 0.0},
    "bpr": {"factors": 64, "regularization": 0.02, "iterations": 80, "alpha": 0.0, "learning_rate": 0.012},
    "logistic": {"factors": 32, "regularization": 3.3, "iterations": 120, "alpha": 0.0, "learning_rate": 0.5},
}


@register("mf")
@dataclass(frozen=True)
class MatrixFactorization:
    """Homes and rules as short vectors whose product says how well they go together (implicit's ALS, BPR, logistic)."""

    solver: Solver = "als"  # the loss
    factors: int = 0  # length of the vectors; 0, here and below: the tuned value, see TUNED
    regularization: float = 0.0  # on the squared length of the vectors; als: times sqrt(homes x rules)
    iterations: int = 0  # rounds
    alpha: float = 0.0  # als: weight of a rule that a home has, against 1 for one that it lacks
    learning_rate: float = 0.0  # bpr and logistic: size of a step

    # Of als; the others have scales of their own, so `solver` is chosen by hand.
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "factors": ("int", 8, 256),
        "regularization": ("log", 0.01, 0.3),
        "iterations": ("int", 5, 40),
        "alpha": ("log", 1.0, 100.0),
    }

    def __post_init__(self) -> None:
        if self.solver not in TUNED:
            raise unknown("solver of mf", self.solver, TUNED)
        for name, tuned in TUNED[self.solver].items():
            check_range("mf", self, "at least 0", name)
            if getattr(self, name) and not tuned:
                raise DataError(f"mf: solver {self.solver} has no {name}, got {getattr(self, name)}; leave it out")
            if getattr(self, name) == 0:  # stored in full: the parameters are the key of a result
                object.__setattr__(self, name, tuned)

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """Factorize; `on_round` gets the model after every round."""
        items = Items.of(train)
        have = items.matrix(train)
        seed = int(rng.integers(2**31))
        if not len(items):  # the solvers would read beyond an empty list of rules
            return MatrixFactorizationModel(items, train, np.zeros((0, 1)), lambda own: np.zeros((own.shape[0], 1)))
        # ALS is many small products: BLAS threads would slow it down, and implicit warns about them.
        with threadpool_limits(1, "blas"):
            model = self._solver(have, seed)

            def after(done: int, *_: object) -> None:
                on_round(done + 1, model.iterations, self._fitted(items, train, have, model), {})

            model.fit(_for_implicit(have), show_progress=False, callback=after)
            return self._fitted(items, train, have, model)

    def _solver(self, have: csr_array, seed: int) -> MatrixFactorizationBase:
        scale = math.sqrt(math.prod(have.shape)) if self.solver == "als" else 1.0
        options = {
            "factors": self.factors,
            "regularization": self.regularization * scale,
            "iterations": self.iterations,
            "num_threads": 1,
            "random_state": seed,
        }
        if self.solver == "als":
            return AlternatingLeastSquares(alpha=self.alpha, **options)
        solver = BayesianPersonalizedRanking if self.solver == "bpr" else LogisticMatrixFactorization
        return solver(learning_rate=self.learning_rate, **options)

    def _fitted(self, items: Items, train: Homes, have: csr_array, model: MatrixFactorizationBase) -> Fitted:
        """The current state of a solver, copied, since the solver overwrites its own."""
        factors = np.array(model.item_factors, np.float64)
        if self.solver == "als":
            solved = self._solver(have, seed=0)
            solved.item_factors = np.array(model.item_factors)

            def least_squares(own: csr_array) -> Factors:
                with threadpool_limits(1, "blas"):
                    return np.asarray(solved.recalculate_user(np.arange(own.shape[0]), _for_implicit(own)), np.float64)

            return MatrixFactorizationModel(items, train, factors, least_squares)
        fold_in = partial(
            ranking_fold_in if self.solver == "bpr" else logistic_fold_in,
            items=factors,
            popularity=np.asarray(have.sum(axis=0)).ravel() / have.nnz,
            learning_rate=self.learning_rate,
            regularization=self.regularization,
            rounds=self.iterations,
        )
        trained = TrainingFactors(have, np.array(model.user_factors, np.float64))
        return MatrixFactorizationModel(items, train, factors, fold_in, trained)


class TrainingFactors(NamedTuple):
    """The training homes: their rules and the resulting factors."""

    have: csr_array  # [n_homes, n_items]
    factors: Factors  # [n_homes, n_factors]


class MatrixFactorizationModel(FactorModel):
    """A home of the training data whose rules have not changed has its trained factors; others are folded in."""

    def __init__(
        self, items: Items, train: Homes, factors: Factors, fold_in: FoldIn, trained: TrainingFactors | None = None
    ) -> None:
        super().__init__(items, train, factors, fold_in)
        self.trained = trained  # None: every home is folded in

    def home_factors(self, homes: Homes, which: Array, have: csr_array) -> Factors:
        """Trained or folded in."""
        if self.trained is None:
            return self.fold_in(have)
        row = self.training_row(homes, which)
        unchanged = (row >= 0) & (abs(have - self.trained.have[row]).sum(axis=1) == 0)
        factors = np.empty((len(which), self.factors.shape[1]))
        factors[unchanged] = self.trained.factors[row[unchanged]]
        factors[~unchanged] = self.fold_in(have[~unchanged])
        return factors


def _for_implicit(have: csr_array) -> csr_matrix:
    """The only kind of sparse matrix that implicit accepts, with its number types."""
    return csr_matrix(
        (have.data.astype(np.float32), have.indices.astype(np.int32), have.indptr.astype(np.int32)), have.shape
    )
