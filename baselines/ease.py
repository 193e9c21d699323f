"""EASE: a linear model from the rules a home has to the rules it may want, in closed form.

Steck (2019), "Embarrassingly shallow autoencoders for sparse data", WWW: minimise |X - X B|^2 + lambda |B|^2 with
diag(B) = 0, so that no rule predicts itself. With P = (X^T X + lambda I)^-1 the answer is B_ij = -P_ij / P_jj off the
diagonal. `dropout` adds the term of Steck (2020), "Autoencoders that don't overfit towards the identity", NeurIPS:
training on rules of which each is dropped with probability p is p / (1 - p) * diag(X^T X) more regularization.
`ownership` is ours: a home without the devices of a rule cannot have it, so its 0 in X says little against the rule.

With `epsilon` all that is counted is released with Gaussian noise, so that the model is (epsilon, delta)-private for
every home (datasets/private_counts.py): which typed rules are items, X^T X, and who owns which types. The classical
private least squares adds noise to X^T X as well (McSherry and Mironov 2009, "Differentially private recommender
systems", KDD). Here pairs of rules that noise would explain are set to zero, and lambda grows with the noise. Much of
what is left is how popular rules are: `popularity` adds it to the scores, which helps without privacy too.
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
from datasets import private_counts
from datasets.common.errors import DataError
from datasets.common.gaussian_mechanism import (
    Normals,
    check_delta,
    default_delta,
    multiplier_for,
    seeded_normals,
    shared,
)
from datasets.homes import Array, Homes

CELLS = 1 << 22  # scores at a time: 32 MB
MAX_RULES = 2  # default of `max_rules`
SHARES = {"rules": 0.5, "pairs": 0.4, "types": 0.1}  # of the budget: private counts, and less noise for a larger share
NOISE_RIDGE = 20.0  # added to lambda, in standard deviations of the noise of a pair of rules


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
    popularity: Matrix  # [n_items]  share of homes that have it

    @classmethod
    def of(cls, train: Homes, *, regularization: float = REGULARIZATION, dropout: float = DROPOUT) -> Cooccurrence:
        """Count the homes of each two rules, which grows with the homes, and invert one matrix of items x items."""
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
        inverse = regularized_inverse(together, regularization=regularization, dropout=dropout)
        return cls(items, inverse, able, np.diagonal(together) / max(n_homes, 1))

    @classmethod
    def private(
        cls,
        train: Homes,
        *,
        multiplier: float,  # of all three sums as one
        normals: Normals,
        max_rules: int,
        regularization: float = REGULARIZATION,
        dropout: float = DROPOUT,
    ) -> Cooccurrence:
        """From noisy sums of bounded addends; see `datasets.private_counts`. The number of homes is taken as known."""
        of_rules, of_pairs, of_types = shared(multiplier, SHARES.values())
        total = private_counts.sum_of_rules(train, max_rules=max_rules)
        rules = private_counts.NoisySum.of(total, private_counts.rule_bound(max_rules), of_rules, normals)
        items = Items(private_counts.valid_rules(rules, train))
        have = items.matrix(train)
        bound = private_counts.pair_bound(max_rules)
        total = private_counts.sum_of_pairs(have, bound=bound)
        pairs = private_counts.NoisySum.of(total, bound, of_pairs, normals)
        bound = private_counts.type_bound()
        total = private_counts.sum_of_pairs(private_counts.owned_types(train), bound=bound, diagonal=True)
        types = private_counts.NoisySum.of(total, bound, of_types, normals)
        together = private_counts.symmetric(
            pairs.above(private_counts.SEEN_AT), len(items), diagonal=rules.values[items.valid.cell]
        )
        both = np.maximum(private_counts.symmetric(types.above(0.0), len(train.types)), 1.0).ravel()
        return cls.counted(
            items,
            private_counts.positive_semidefinite(together),
            both,
            train.n_homes,
            regularization=regularization + NOISE_RIDGE * pairs.deviation,
            dropout=dropout,
        )

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

    NAME: ClassVar[str] = "ease"

    regularization: float = REGULARIZATION  # lambda
    dropout: float = DROPOUT  # p: the regularization of often used rules grows with their use; 0 is the plain model
    ownership: float = OWNERSHIP  # scores are divided by this power of the share of homes with both types; 0: not
    popularity: float = 0.0  # added: so many times the share of homes with the rule, of those with both types; 0: not
    epsilon: float = 0.0  # of differential privacy, for each home; 0: none
    delta: float = 0.0  # 0: 1 / homes^1.1
    max_rules: int = MAX_RULES  # with privacy: homes with more typed rules count less for each

    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "regularization": ("log", 1.0, 3000.0),
        "dropout": ("float", 0.0, 0.9),
        "ownership": ("float", 0.0, 1.0),
    }

    def __post_init__(self) -> None:
        check_range(self.NAME, self, "above 0", "regularization")
        check_range(self.NAME, self, "in [0, 1)", "dropout")
        check_range(self.NAME, self, "in [0, 1]", "ownership")
        check_range(self.NAME, self, "at least 0", "epsilon", "popularity")
        check_range(self.NAME, self, "at least 2", "max_rules")
        check_delta(self.NAME, self.delta)
        if not self.epsilon and (self.delta or self.max_rules != MAX_RULES):
            raise DataError(f"{self.NAME}: delta and max_rules have no effect without privacy; set epsilon, e.g. 4")

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """Count the homes of each two rules, which grows with the homes, and invert one matrix of items x items."""
        together, values = self.count(train, rng)
        weight = together.weight / together.able**self.ownership
        bias = self.popularity * together.popularity / together.able if self.popularity else None
        fitted = LinearModel(together.items, train, weight, bias=bias)
        on_round(1, 1, fitted, values)
        return fitted

    def count(self, train: Homes, rng: np.random.Generator) -> tuple[Cooccurrence, dict[str, float]]:
        """Which rules go together, and what the history says of it; with `epsilon` from noisy sums."""
        if not self.epsilon:
            return Cooccurrence.of(train, regularization=self.regularization, dropout=self.dropout), {}
        delta = self.delta or default_delta(train.n_homes)
        together = Cooccurrence.private(
            train,
            multiplier=multiplier_for(self.epsilon, delta),
            normals=seeded_normals(int(rng.integers(2**62))),
            max_rules=self.max_rules,
            regularization=self.regularization,
            dropout=self.dropout,
        )
        return together, {"epsilon": self.epsilon, "delta": delta}
