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

from datasets.common.gaussian_mechanism import bounded_rows, noise, seeded_normals
from datasets.private_counts import column_sums
from fedrule.evidence.private_statistics import BOUNDS, multipliers
from fedrule.federated.optimizers import Precise
from fedrule.federated.private import Privacy
from fedrule.federated.rounds import RoundSum
from fedrule.federated.vectors import clip_factors


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

    `sums` has one client each. With noise, weighted updates are clipped to a norm of `clip`, as
    `fedrule.federated.private.Privacy` does it.
    """
    if not defence.noise_multiplier:
        total = reduce(add, sums)
        return total.update / total.weight, 0.0
    each = np.stack([one.update for one in sums])
    each *= clip_factors(np.linalg.norm(each, axis=1), clip)[:, None]
    scale = defence.noise_multiplier * Privacy(clip).sensitivity(each.shape[1])
    noisy = each.sum(axis=0) + noise(each.shape[1], scale, seeded_normals(*key))
    return noisy / len(sums), scale / len(sums)


def summed_counts(table: csr_array, part: str, defence: Defence, *, key: Sequence[int]) -> tuple[Precise, float]:
    """[n_cells]: the sum of the homes' addends that the server sees, and the standard deviation of its noise.

    `table` [n_homes, n_cells] are the zeros and ones of a part of the counts. With noise, they are bounded as
    `fedrule.evidence.private_statistics` does it, and `noise_multiplier` is that of all parts together.
    """
    if not defence.noise_multiplier:
        return column_sums(table), 0.0
    total = column_sums(bounded_rows(table, BOUNDS[part]))
    scale = multipliers(defence.noise_multiplier)[part] * BOUNDS[part]
    return total + noise(len(total), scale, seeded_normals(*key)), scale
