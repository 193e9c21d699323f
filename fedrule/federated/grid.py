"""Sums that come out the same in every order: addends are rounded to a grid first, and then nothing is rounded.

Floating-point sums depend on the order of their addends, so a mean over clients would depend on chunks and workers.
Multiples of 2^-30 (about 1e-9) add up exactly in float64 as long as no sum passes 2^22, four million. Secure
aggregation works on such numbers as well (Bonawitz et al. 2017).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

STEP = 2.0**-30
# A float64 of this size has its last bit at STEP: what is added to it is rounded to the grid.
ROUND = 1.5 * 2.0**22
LARGEST = 2.0**22  # beyond it sums are rounded


def on_grid(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """The nearest multiples of STEP."""
    rounded: npt.NDArray[np.float64] = (np.asarray(values, dtype=np.float64) + ROUND) - ROUND
    return rounded
