"""What the sums of counts that fedrank makes before training tell of a home.

Every home adds zeros and ones (`fedrule.evidence.statistics`). Without a secure sum the server sees them, and with them
the home's typed rules. In a sum over homes a count of 1 is one home's. Where only one home has a typed rule, the row of
this rule in the table of pairs lists all typed rules of that home. Whoever sees two sums that differ by one home sees
what that home added. And whoever knows a home can tell whether it is in a sum by its cells, which are then one higher.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import binom, norm

from datasets.homes import Array
from fedrule.federated.optimizers import Precise


def homes_read(together: csr_array) -> list[Array]:
    """The typed rules of each home that the table of pairs [n_valid, n_valid] gives away, each home once.

    On the diagonal are the homes with a rule. All that goes together with a rule of a single home is that home's.
    """
    single = np.flatnonzero(together.diagonal() == 1)
    rows = {tuple(np.sort(together.indices[together.indptr[i] : together.indptr[i + 1]]).tolist()) for i in single}
    return [np.array(row, dtype=np.int64) for row in sorted(rows)]


def added_cells(before: Precise, after: Precise) -> Array:
    """The cells of the one home by which two sums differ."""
    return np.flatnonzero(after - before > 0.5)


def claimed_cells(total: Precise, deviation: float, share: Precise, *, clients: int) -> Precise:
    """[n_cells]: the log-odds that a home of a cohort has each cell, given the sum over the cohort.

    `share` is of homes that have it. Without noise and with a cohort of one this is the home's addend itself.
    """
    others = share * (clients - 1)
    variance = np.maximum(others * (1 - share) + deviation**2, 1e-6)
    ratio = ((total - others) ** 2 - (total - others - 1) ** 2) / (2 * variance)
    found: Precise = np.log(share / (1 - share)) + ratio
    return found


def is_member(count: Precise, deviation: float, share: Precise, *, homes: int) -> float:
    """How much likelier a home is among so many homes of a sum than not: the log of the ratio.

    `count` are the sum's cells that the home has. The other homes are taken as drawn independently, with each of these
    cells in this `share` of them. Cells of a home are not independent, which costs some power. Minus infinity where a
    cell is empty: then the home cannot be in the sum.
    """
    if deviation:
        spread = np.sqrt(deviation**2 + homes * share * (1 - share))
        inside, outside = norm.logpdf(count, (homes - 1) * share + 1, spread), norm.logpdf(count, homes * share, spread)
        return float(np.sum(inside - outside))
    if (count < 1).any():
        return -np.inf
    return float(np.sum(binom.logpmf(count - 1, homes - 1, share) - binom.logpmf(count, homes, share)))
