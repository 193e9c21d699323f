"""What the defences leave for the server to see of the updates and counts of homes.

A secure sum (Bonawitz et al. 2017) shows the sum over a cohort and no addend. Differential privacy bounds the L2 norm
of what a home adds and covers it with Gaussian noise (`fedrule.federated.private` says how much for which epsilon). The
noise helps against the server only where the server does not add it itself: here it is added in shares before a secure
sum, or, with a cohort of one, by the home, which then adds all of it to its own update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from scipy.sparse import csr_array

from baselines.gaussian_mechanism import bounded_rows, noise, seeded_normals
from fedrule.federated.optimizers import Precise
from fedrule.federated.rounds import RoundSum


@dataclass(frozen=True, slots=True)
class Defence:
    """What stands between the homes and the server."""

    cohort: int = 1  # homes in a secure sum; 1: the server sees every home's vector
    epsilon: float = 0.0  # of a whole run; 0: no differential privacy
    noise_multiplier: float = 0.0  # z, which follows from epsilon, the cohort and the number of rounds

    @property
    def name(self) -> str:
        private, secure = self.epsilon > 0, self.cohort > 1
        return {
            (False, False): "none",
            (False, True): "secure sum",
            (True, False): "noise in the home",
            (True, True): "secure sum and noise",
        }[private, secure]


def mean_update(
    sums: Sequence[RoundSum], defence: Defence, *, clip: float, key: Sequence[int]
) -> tuple[Precise, float]:
    """The mean update that the server sees of the clients of a cohort, and the standard deviation of its noise.

    `sums` has one client each. With noise updates are clipped to a norm of `clip`, and all count the same.
    """
    if not defence.noise_multiplier:
        total = reduce(add, sums)
        return total.update / total.weight, 0.0
    each = np.stack([one.update / one.weight for one in sums])
    each *= np.minimum(1, clip / np.maximum(np.linalg.norm(each, axis=1), 1e-300))[:, None]
    scale = defence.noise_multiplier * clip
    noisy = each.sum(axis=0) + noise(each.shape[1], scale, seeded_normals(*key))
    return noisy / len(sums), scale / len(sums)


def summed_counts(table: csr_array, defence: Defence, *, key: Sequence[int]) -> tuple[Precise, float]:
    """[n_cells]: the sum of the homes' addends that the server sees, and the standard deviation of its noise.

    With noise a home's addend is scaled down to the median norm of all of them.
    """
    if not defence.noise_multiplier:
        return np.asarray(table.sum(axis=0), dtype=np.float64).ravel(), 0.0
    norms = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    bound = float(np.median(norms[norms > 0])) if (norms > 0).any() else 1.0
    total = np.asarray(bounded_rows(table, bound).sum(axis=0)).ravel()
    scale = defence.noise_multiplier * bound
    return total + noise(len(total), scale, seeded_normals(*key)), scale
