"""Paths through a home's rules that would lead where a candidate leads.

With A the matrix [n_devices, n_devices] of who acts on whom, a candidate i -> j is compared with

    A A        i acts on something that acts on j,
    A^T A      something acts on both,
    A A^T      both act on something,
    A A^T A    i acts on what others act on who also act on j: what a recommender does with users and items, with the
               home's triggers as users and its actions as items; once counted, and once with every step a mean.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from datasets.homes import Homes, Rules

NAMES = (
    "by one device",
    "acted on by one device",
    "act on one device",
    "by three rules",
    "by three rules, in the mean",
)
MEAN_SCALE = 5.0  # the means are small; so their logarithm still tells them apart

Counts = npt.NDArray[np.float64]


def path_features(homes: Homes, candidates: Rules) -> npt.NDArray[np.float32]:
    """[n_candidates, 5]: logarithms of the numbers of paths, given the rules that the homes have."""
    n = homes.n_devices
    acts = csr_array((np.ones(homes.n_rules), (homes.rules.trigger, homes.rules.action)), shape=(n, n))
    acts.sum_duplicates()
    acts.data[:] = 1.0
    back = acts.T.tocsr()
    both_act = acts @ back
    to_actions, to_triggers = _mean(acts), _mean(back)
    steps = (
        (acts @ acts, 1.0),
        (back @ acts, 1.0),
        (both_act, 1.0),
        (both_act @ acts, 1.0),
        (to_actions @ to_triggers @ acts, MEAN_SCALE),
    )
    table = np.empty((len(candidates), len(NAMES)), dtype=np.float32)
    for at, (paths, scale) in enumerate(steps):
        table[:, at] = np.log1p(scale * _cells(paths, candidates))
    return table


def _mean(matrix: csr_array) -> csr_array:
    """Every row divided by its sum; a row of zeros stays."""
    return csr_array(diags_array(1 / np.maximum(np.asarray(matrix.sum(axis=1)), 1)) @ matrix)


def _cells(matrix: csr_array, candidates: Rules) -> Counts:
    """The cell [trigger, action] of each candidate. Its own indexing takes longer than a search in sorted numbers."""
    matrix.sort_indices()
    n = matrix.shape[0]
    number = np.append(np.repeat(np.arange(n), np.diff(matrix.indptr)) * n + matrix.indices, n * n)
    asked = candidates.trigger * n + candidates.action
    place = np.searchsorted(number, asked)
    return np.where(number[place] == asked, np.append(matrix.data, 0.0)[place], 0.0)
