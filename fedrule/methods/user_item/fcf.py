"""Matrix factorization in the homes: `fcf` and `fedmf`, the loss of `mf` with solver als.

- fcf: Ammad-ud-din, Ivannikova, Khan, Oyomno, Fu, Tan and Flanagan (2019), "Federated collaborative filtering for
  privacy-preserving personalized recommendation system", arXiv:1901.09888. In a round every home solves for its own
  factors in closed form and sends the gradient of the items' factors; the server takes a step of Adam.
- fedmf: Chai, Wang, Chen and Yang (2020), "Secure federated matrix factorization", IEEE Intelligent Systems. A home
  takes gradient steps to its own factors, and sends the gradient of the items' factors encrypted by an additively
  homomorphic scheme (Paillier), so that the server learns the sum only.

The equations are in fedrule/federated/trainers/factors.py. Both are written from the papers' descriptions and not
compared with code of the authors (that of fedmf is github.com/Di-Chai/FedMF). What differs:

- The regularization is that of `mf`, lambda = `regularization` * sqrt(homes x items) in all, for homes and items alike,
  of which a home adds its share to the gradient. The server's rate falls to zero along half a cosine.
- fedmf's paper has the squared error of ratings alone. Rules are not rated: a loss on rules that homes have is zero
  where all scores are 1, so the loss is that of fcf, with weight 1 on all rules that a home lacks. For it a home sends
  the gradients of all items (the full version of the authors), not only of those it has, which would give them away.
- In fedmf's paper homes keep their factors and take a step in each round. Here a home starts at zero in every round and
  takes `home_steps`, of a rate that is safe for its own rules: a home then keeps nothing, one that was away for long
  has no stale factors, and a home that was never seen is folded in by the same steps.
- Nothing is encrypted here: sums are plain, or secure sums by masks (`secure_threshold`), which have the same purpose.
  The history says as `encrypted_bytes` what a home would send as Paillier ciphertexts, a computed number: one of 512
  bytes, a number modulo n^2 of a 2,048-bit n, for each number of the table. benchmarks/speed/test_private.py
  measures the time of real ciphertexts beside that of a secure sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from baselines.items import FactorModel, Items
from baselines.method import check_range
from baselines.registry import register
from datasets.homes import Homes
from fedrule.federated.rounds import RoundReport
from fedrule.federated.trainers.factors import FactorTrainer, LeastSquares
from fedrule.federated.vectors import Vector
from fedrule.methods.user_item.federated_items import ItemMethod
from fedrule.network.options import derived

INITIAL = 0.01  # standard deviation of the items' factors before the first round
CIPHERTEXT_BYTES = 512  # of Paillier with a 2,048-bit n


@register("fcf")
@dataclass(frozen=True)
class FederatedCollaborativeFiltering(ItemMethod):
    """Matrix factorization whose homes solve for their own factors and send gradients (Ammad-ud-din et al. 2019)."""

    NAME: ClassVar[str] = "fcf"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "factors": ("int", 8, 256),
        "regularization": ("log", 0.01, 0.3),
        "alpha": ("log", 1.0, 100.0),
        "server_rate": ("log", 0.01, 0.5),
        "rounds": ("int", 30, 200),
    }
    SERVER_RATES: ClassVar[dict[str, float]] = ItemMethod.SERVER_RATES | {"adam": 0.16, "yogi": 0.16}
    UNAVAILABLE: ClassVar[dict[str, str]] = ItemMethod.UNAVAILABLE | {
        "local_steps": "has no effect: a home sends one gradient in a round"
    }

    rounds: int = 60
    local_steps: int = derived(1)  # a home sends one gradient in a round
    learning_rate: float = derived(0.01)  # of the gradient that is sent; the server's Adam undoes it
    decay: bool = True
    # Those of `mf`: the same loss has the same minimum. Tuned alone they lost 6 % of its MRR at 10,000 homes.
    factors: int = 124  # length of the vectors
    regularization: float = 0.037  # on the squared length of the vectors, times sqrt(homes x rules)
    alpha: float = 11.0  # weight of a rule that a home has, against 1 for one that it lacks

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "at least 1", "factors", "alpha")
        check_range(self.NAME, self, "above 0", "regularization")

    def least_squares(self, train: Homes, items: Items) -> LeastSquares:
        """The loss of a home; n, the number of homes with rules, is known to the server."""
        regularization = self.regularization * math.sqrt(max(train.n_homes, 1) * max(len(items), 1))
        return LeastSquares(self.alpha, regularization, 1 / max(len(np.unique(train.rules.home)), 1))

    def trainer(self, train: Homes, items: Items, seed: int) -> FactorTrainer:  # noqa: ARG002  nothing is drawn
        return FactorTrainer(items.matrix(train), self.least_squares(train, items), self.factors)

    def initial(self, items: Items, rng: np.random.Generator) -> Vector:
        return (INITIAL * rng.standard_normal(len(items) * self.factors)).astype(np.float32)

    def model(self, train: Homes, items: Items, vector: Vector) -> FactorModel:
        factors = vector.reshape(-1, self.factors).astype(np.float64)
        return FactorModel(items, train, factors, self.least_squares(train, items).solver(factors))


@register("fedmf")
@dataclass(frozen=True)
class FederatedMatrixFactorization(FederatedCollaborativeFiltering):
    """Matrix factorization by gradient steps at home (Chai et al. 2020); sums plain or secure, nothing is encrypted."""

    NAME: ClassVar[str] = "fedmf"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = FederatedCollaborativeFiltering.SPACE | {
        "home_steps": ("int", 10, 100)
    }

    home_steps: int = 50  # gradient steps from zero to a home's own factors

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "at least 1", "home_steps")

    def least_squares(self, train: Homes, items: Items) -> LeastSquares:
        exact = super().least_squares(train, items)
        return LeastSquares(exact.alpha, exact.regularization, exact.share, self.home_steps)

    def round_values(self, report: RoundReport, items: Items) -> dict[str, float]:
        """With the bytes of ciphertexts, one for each number of the table."""
        encrypted = float(CIPHERTEXT_BYTES * len(items) * self.factors)
        return super().round_values(report, items) | {"encrypted_bytes": encrypted}
