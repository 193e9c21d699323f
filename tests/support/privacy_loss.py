"""An account written from the definition, apart from any library: sums of privacy losses by numerical convolution.

One step shows a number x: N(0, z^2), or for a home that is sampled with probability q, (1 - q) N(0, z^2) + q N(1, z^2).
The privacy loss is the logarithm of the ratio of the two densities; losses of several steps add up. With P the
distribution of the summed loss under the numerator's data, delta(epsilon) = E max(0, 1 - e^(epsilon - loss)).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

CELLS = 2**18
WIDE = 12.0  # standard deviations
POINTS = 400_001

Step = tuple[float, float, int]  # noise multiplier, sampling rate, how often


def _losses(multiplier: float, rate: float, step: float, *, removed: bool) -> npt.NDArray[np.float64]:
    """[CELLS]: probabilities of the losses of one step, 0 being in the middle; each point's mass is split over two."""
    edges = np.linspace(-WIDE * multiplier, 1 + WIDE * multiplier, POINTS)
    x = (edges[1:] + edges[:-1]) / 2
    loss = np.log1p(rate * np.expm1((2 * x - 1) / (2 * multiplier**2)))  # of the mixture against N(0, z^2)
    without = np.diff(ndtr(edges / multiplier))
    mixed = (1 - rate) * without + rate * np.diff(ndtr((edges - 1) / multiplier))
    mass, loss = (mixed, loss) if removed else (without, -loss)
    place = loss / step + CELLS // 2
    low = np.floor(place).astype(np.int64)
    upper = place - low
    return np.bincount(low, mass * (1 - upper), CELLS) + np.bincount(low + 1, mass * upper, CELLS)


def reference_epsilon(steps: Sequence[Step], delta: float) -> float:
    """The larger of both directions: a home removed, a home added."""
    return max(_epsilon(steps, delta, removed=removed) for removed in (True, False))


def _epsilon(steps: Sequence[Step], delta: float, *, removed: bool) -> float:
    step = min(5e-4, *(rate / multiplier / 10 for multiplier, rate, _ in steps))  # of losses
    product = np.ones(CELLS // 2 + 1, dtype=np.complex128)
    for multiplier, rate, times in steps:
        centred = np.fft.ifftshift(_losses(multiplier, rate, step, removed=removed))
        product *= np.fft.rfft(centred) ** times
    mass = np.fft.fftshift(np.fft.irfft(product, CELLS))
    loss = (np.arange(CELLS) - CELLS // 2) * step
    low, high = 0.0, float(loss[-1])
    for _ in range(60):
        middle = (low + high) / 2
        above = loss > middle
        found = float(-np.sum(mass[above] * np.expm1(middle - loss[above])))
        low, high = (middle, high) if found > delta else (low, middle)
    return high
