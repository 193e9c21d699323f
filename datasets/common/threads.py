"""How many threads numbers are computed with, set in one place: BLAS, OpenMP, torch and implicit.

Sums in parallel are added in an order that changes from run to run, so reported runs use one thread and repeat bit for
bit. Libraries read these variables when they are loaded; those already loaded are set directly.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

from datasets.common.errors import DataError

# implicit and torch count OpenMP's; the others are the BLAS builds that numpy and SciPy may come with.
VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def environment(threads: int) -> dict[str, str]:
    """The variables for a process that is yet to start."""
    if threads < 1:
        raise DataError(f"threads {threads}: use 1, which repeats exactly, or more")
    return dict.fromkeys(VARIABLES, str(threads))


def set_threads(threads: int) -> None:
    """Use this many threads in this process, in libraries that are loaded and in those that will be."""
    os.environ.update(environment(threads))
    if importlib.util.find_spec("threadpoolctl"):  # comes with scikit-learn; reaches BLAS and OpenMP once loaded
        importlib.import_module("threadpoolctl").threadpool_limits(threads)
    if "torch" in sys.modules:  # never imported for this: most runs do without
        sys.modules["torch"].set_num_threads(threads)
