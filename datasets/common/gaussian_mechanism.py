"""The Gaussian mechanism: how much noise hides one home in a sum, and what a sum with noise discloses.

A sum over homes in which each home's addend has at most the L2 norm C changes by at most C when one home is added or
removed. Noise of standard deviation z C on every cell, z being the noise multiplier, makes it (epsilon, delta)-private
exactly where (Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy", ICML, theorem 8)

    delta >= Phi(1 / (2 z) - epsilon z) - e^epsilon Phi(-1 / (2 z) - epsilon z).

Sums with multipliers z_1, z_2, ... disclose together just as much as one with 1 / z^2 = 1 / z_1^2 + 1 / z_2^2 + ...
(Dong, Roth and Su 2022, "Gaussian differential privacy", JRSS B, corollary 3.3), so that a budget is shared by shares
of 1 / z^2.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported at their first use

from datasets.common.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

GRID = 2.0**-30  # addends are multiples of it, so that sums are exact in any order
LARGEST_EPSILON = 1e4  # more discloses everything
LARGEST_MULTIPLIER = 1e6  # more leaves nothing of any sum
DELTA_POWER = 1.1  # of the number of homes: `default_delta`

Cells = npt.NDArray[np.float64]
Normals = Callable[[int], Cells]  # so many independent draws of the standard normal distribution


def default_delta(n_homes: int) -> float:
    """1 / n^1.1: below 1 / n, at which publishing one home in full, drawn at random, would already pass as private."""
    return float(max(n_homes, 2) ** -DELTA_POWER)


def check_delta(name: str, delta: float, *, default: bool = True) -> None:
    """0 stands for the default, where the number of homes is known."""
    if not (0 <= delta < 1 if default else 0 < delta < 1):
        within = f"[0, 1), got {delta}; 0 is 1 / homes^{DELTA_POWER}" if default else f"(0, 1), got {delta}"
        raise DataError(f"{name}: delta must be in {within}")


def disclosed_delta(epsilon: float, multiplier: float) -> float:
    """The least delta at this epsilon."""
    near, far = 0.5 / multiplier - epsilon * multiplier, -0.5 / multiplier - epsilon * multiplier
    return float(scipy.special.ndtr(near) - math.exp(min(epsilon + scipy.special.log_ndtr(far), 0.0)))


def disclosed_epsilon(multiplier: float, delta: float) -> float:
    """The least epsilon at this delta; infinite without noise."""
    if multiplier <= 0:
        return math.inf
    if disclosed_delta(0.0, multiplier) <= delta:
        return 0.0
    if disclosed_delta(LARGEST_EPSILON, multiplier) > delta:
        return math.inf
    root = scipy.optimize.brentq
    return float(root(lambda epsilon: disclosed_delta(epsilon, multiplier) - delta, 0.0, LARGEST_EPSILON, xtol=1e-12))


def multiplier_for(epsilon: float, delta: float) -> float:
    """The least noise multiplier for an epsilon at a delta."""
    if not 0 < epsilon <= LARGEST_EPSILON or not 0 < delta < 1:
        raise DataError(
            f"no noise gives epsilon {epsilon:g} at delta {delta:g}; epsilon must be above 0 and at most "
            f"{LARGEST_EPSILON:g}, delta in (0, 1)"
        )
    if disclosed_delta(epsilon, LARGEST_MULTIPLIER) > delta:
        raise DataError(
            f"epsilon {epsilon:g} at delta {delta:g} needs noise of more than {LARGEST_MULTIPLIER:g} times a home's "
            "part, which leaves nothing; use a larger epsilon or delta"
        )
    root = scipy.optimize.brentq
    return float(root(lambda z: disclosed_delta(epsilon, z) - delta, 1e-4, LARGEST_MULTIPLIER, xtol=1e-12))


def together(multipliers: Iterable[float]) -> float:
    """The multiplier of one sum that discloses as much as sums with these; infinite where there is none."""
    precision = sum(z**-2 if z > 0 else math.inf for z in multipliers)
    return precision**-0.5 if precision else math.inf


def shared(multiplier: float, shares: Iterable[float]) -> list[float]:
    """Multipliers of several sums that together disclose as much as one; a larger share gets less noise."""
    parts = [*shares]
    total = sum(parts)
    return [multiplier * math.sqrt(total / part) for part in parts]


def bounding_factors(norm: Cells, bound: float, *, step: float = GRID) -> Cells:
    """What to multiply addends of these L2 norms by so that none exceeds `bound`: at most 1, multiples of `step`.

    Rounded down, so that the bound holds also after rounding.
    """
    return np.floor(np.minimum(1.0, bound / np.maximum(norm, 1e-300)) / step) * step


def bounded_rows(table: csr_array, bound: float) -> csr_array:
    """Rows of zeros and ones, a home's addend each, scaled down to an L2 norm of at most `bound`."""
    count = np.diff(table.indptr)
    factor = bounding_factors(np.sqrt(count), bound)
    return scipy.sparse.csr_array((np.repeat(factor, count), table.indices, table.indptr), shape=table.shape)


def seeded_normals(*key: int) -> Normals:
    """For simulations: the same key gives the same noise, so that runs repeat. Who knows the key can subtract it."""
    rng = np.random.default_rng([*key])
    return lambda size: rng.standard_normal(size)


def secret_normals(size: int) -> Cells:
    """For deployments: noise from the operating system's generator, by Box and Muller (1958)."""
    half = (size + 1) // 2
    bits = np.frombuffer(secrets.token_bytes(16 * half), dtype=np.uint64) >> np.uint64(11)
    radius = np.sqrt(-2.0 * np.log((bits[:half] + 1.0) * 2.0**-53))  # of numbers in (0, 1]
    angle = 2.0 * np.pi * 2.0**-53 * bits[half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]


def noise(size: int, scale: float, normals: Normals) -> Cells:
    """Gaussian noise of this standard deviation as multiples of GRID, so that a noisy sum shows no digits below it."""
    return np.round(normals(size) * (scale / GRID)) * GRID
