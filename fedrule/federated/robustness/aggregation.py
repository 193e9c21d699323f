"""How the server makes one update of those of a cohort: the mean, or an aggregate that bounds what a few can do.

With u_1 ... u_n the updates of the cohort, u_k in R^d, sorted by coordinate where that is said:

- mean: sum of w_k u_k / sum of w_k. One client can move it anywhere.
- median: the median of every coordinate (Yin et al. 2018, ICML, "Byzantine-robust distributed learning: towards optimal
  statistical rates", Definition 1).
- trimmed-mean: the mean of every coordinate without its b = floor(trim n) smallest and b largest values (Definition 2).
- krum: the update with the lowest score, the sum of squared distances to its n - f - 2 nearest others, where
  f = floor(assumed_attackers n) (Blanchard et al. 2017, NeurIPS, "Machine learning with adversaries: Byzantine tolerant
  gradient descent").
- multi-krum: the mean of the n - f updates with the lowest scores (the same paper, section 4, with m = n - f).

Before that updates longer than `norm_bound` are scaled down to it (Sun et al. 2019, "Can you really backdoor federated
learning?"), or to that multiple of the cohort's median length.

All but the mean count every client once: a weight is claimed by the client, and one that claims to have a thousand
rules would outvote the others. All need single updates, which a secure sum hides from the server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
import scipy  # its parts are imported at their first use

from datasets.common.errors import DataError, unknown
from datasets.homes import Mask
from fedrule.federated.optimizers import Precise
from fedrule.federated.states import free_bytes
from fedrule.federated.vectors import Vector, exact_addends, zeros

if TYPE_CHECKING:
    from fedrule.federated.robustness.attacks import Attackers
    from fedrule.federated.trainers.trainer import ClientChunk

Aggregations: TypeAlias = Literal["mean", "median", "trimmed-mean", "krum", "multi-krum"]

TRIM = 0.2
ASSUMED_ATTACKERS = 0.2
COLUMNS = 1024  # coordinates that are sorted at a time: as much memory again as so much of the updates
BYTES = 12  # of a number of an update: as it is sent, and in float64 for distances


class TooFewClients(DataError):
    """What a round has cannot be made one update; the next round may have more."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One of the above, with its options."""

    name: Aggregations = "mean"
    trim: float = TRIM  # share of the cohort, at either end
    assumed_attackers: float = ASSUMED_ATTACKERS  # share of the cohort that Krum tolerates
    norm_bound: float = 0.0  # largest L2 norm of an update; 0: none
    norm_relative: bool = False  # norm_bound is a multiple of the cohort's median norm

    def __post_init__(self) -> None:
        if self.name not in get_args(Aggregations):
            raise unknown("aggregation", self.name, get_args(Aggregations))
        for name, used_by in (("trim", ("trimmed-mean",)), ("assumed_attackers", ("krum", "multi-krum"))):
            value, default = getattr(self, name), {"trim": TRIM, "assumed_attackers": ASSUMED_ATTACKERS}[name]
            if not 0 <= value < 0.5:  # also NaN
                raise DataError(f"{name} must be in [0, 0.5), got {value}: against a majority there is no defence")
            if value != default and self.name not in used_by:
                raise DataError(f"{name} has no effect with aggregation {self.name}; use {' or '.join(used_by)}")
        if not 0 <= self.norm_bound < math.inf:
            raise DataError(f"norm_bound must be non-negative and finite, got {self.norm_bound}")
        if self.norm_relative and not self.norm_bound:
            raise DataError("norm_relative has no effect without norm_bound; set norm_bound, e.g. 1")

    @property
    def is_mean(self) -> bool:
        """Whether sums are enough for it."""
        return self.name == "mean" and not self.norm_bound

    @property
    def needs(self) -> str:
        """The options by which it needs single updates, for messages."""
        names = [f"aggregation {self.name}"] if self.name != "mean" else []
        return " and ".join([*names, *(["norm_bound"] if self.norm_bound else [])])

    @property
    def may_refuse(self) -> bool:
        """Whether a cohort can be too small for it; of a trimmed mean and a median always one value is left."""
        return self.name in ("krum", "multi-krum")

    def check_cohort(self, n: int) -> None:
        """An error where n updates are too few."""
        f = math.floor(self.assumed_attackers * n)
        if self.may_refuse and n < 2 * f + 3:
            raise TooFewClients(
                f"aggregation {self.name} needs at least 2 f + 3 updates to tolerate f attackers, got {n} with f = {f} "
                f"(assumed_attackers {self.assumed_attackers:g}); use larger cohorts"
            )

    def __call__(self, updates: Vector, weight: Precise) -> Precise:
        """[size], of updates [n, size] and weights [n] with n at least 1; `updates` may be overwritten."""
        if not np.isfinite(updates).all():
            raise DataError(f"aggregation {self.name}: an update is NaN or infinite; leave it out before")
        if self.norm_bound:
            bound_norms(updates, self.norm_bound, relative=self.norm_relative)
        n = len(updates)
        match self.name:
            case "median":
                return trimmed_mean(updates, (n - 1) // 2)  # one value is left, or two
            case "trimmed-mean":
                return trimmed_mean(updates, math.floor(self.trim * n))
            case "krum" | "multi-krum":
                self.check_cohort(n)
                f = math.floor(self.assumed_attackers * n)
                return krum(updates, f, n_chosen=1 if self.name == "krum" else n - f)
            case "mean":
                return weighted_mean(updates, weight)


@dataclass(frozen=True, slots=True, eq=False)
class SingleUpdates:
    """What the clients of a round send, each in a chunk of its own."""

    updates: Vector  # [n_clients, size]  written as they come
    aggregation: Aggregation
    attackers: Attackers | None

    @classmethod
    def of(
        cls, n_clients: int, size: int, *, aggregation: Aggregation, attackers: Attackers | None, needed_by: str
    ) -> SingleUpdates:
        """Room for so many; an error where they would not fit into memory, which names what they are `needed_by`."""
        needed, free = BYTES * n_clients * size, free_bytes()
        if needed > free:
            raise DataError(
                f"{needed_by} keeps the updates of all {n_clients:,} clients of a round, which need "
                f"{needed / 1e9:.3g} GB; {free / 1e9:.3g} GB are free. Set cohort, e.g. 100"
            )
        return cls(zeros((n_clients, size)), aggregation, attackers)

    @np.errstate(over="ignore")  # an attack may be too large to be sent, and is then refused
    def receive(self, chunk: ClientChunk, client: int) -> bool:
        """Keep Delta_k of the only client of a chunk, with its base, as attackers change it; whether it is finite."""
        h, n_dense, update = chunk.h, chunk.layout.n_dense, chunk.update / chunk.weight[0]
        shared = chunk.shared(slice(0, 1)) if h.corrects and h.row_sparse else None
        if shared is not None:
            update[n_dense:] += h.steps * h.phi_rate * h.phi_lambda * shared[0, n_dense:].astype(float)
        if self.attackers is not None:
            update = self.attackers.sent(update, chunk.broadcast.round, client)
        self.updates[chunk.first] = update
        return bool(np.isfinite(self.updates[chunk.first]).all())

    def total(self, finite: Mask, weight: Precise) -> Precise:
        """The aggregate of the finite ones times their weight [n_finite], in place of their sum."""
        updates = self.updates if finite.all() else self.updates[finite]
        return float(weight.sum()) * self.aggregation(updates, weight)


def bound_norms(updates: Vector, bound: float, *, relative: bool = False) -> None:
    """Scale longer updates down to the bound, u <- u min(1, bound / |u|), in place."""
    norms = np.array([np.linalg.norm(update.astype(float)) for update in updates])
    largest = bound * float(np.median(norms)) if relative else bound
    for update, norm in zip(updates, norms, strict=True):
        if norm > largest:
            update *= np.float32(largest / norm)


def weighted_mean(updates: Vector, weight: Precise) -> Precise:
    """By exact sums, so that the order of clients does not matter."""
    total = np.zeros(updates.shape[1])
    for update, w in zip(updates, weight, strict=True):
        total += exact_addends(w * update.astype(float))
    mean: Precise = total / weight.sum()
    return mean


def trimmed_mean(updates: Vector, b: int) -> Precise:
    """Of every coordinate, without its b smallest and b largest values."""
    n, size = updates.shape
    mean = np.zeros(size)
    for first in range(0, size, COLUMNS):
        some = slice(first, first + COLUMNS)
        ordered = np.sort(np.ascontiguousarray(updates[:, some].T), axis=1)  # ten times as fast as down the columns
        mean[some] = ordered[:, b : n - b].mean(axis=1, dtype=float)
    return mean


def krum(updates: Vector, f: int, *, n_chosen: int) -> Precise:
    """The mean of the updates with the lowest scores; among equal scores those of the smaller coordinates."""
    score = krum_scores(updates, f)
    order = np.argsort(score, kind="stable")
    last = score[order[n_chosen - 1]]
    chosen = order[score[order] < last]
    tied = order[score[order] == last]  # which client comes first must not matter
    tied = np.array(sorted(tied.tolist(), key=lambda k: tuple(updates[k].tolist())) if len(tied) > 1 else tied)
    chosen = np.concatenate([chosen, tied[: n_chosen - len(chosen)]])
    return weighted_mean(updates[chosen], np.ones(len(chosen)))


def krum_scores(updates: Vector, f: int) -> Precise:
    """[n]: the sum of squared distances to the n - f - 2 nearest other updates."""
    n = len(updates)
    apart = scipy.spatial.distance
    distance = apart.squareform(apart.pdist(updates, "sqeuclidean"))
    np.fill_diagonal(distance, np.inf)
    # Sorted, so that the sum does not depend on the order of clients.
    score: Precise = np.sort(distance, axis=1)[:, : n - f - 2].sum(axis=1)
    return score
