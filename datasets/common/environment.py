"""The environment of a run: threads, package versions, the commit of this checkout, the peak memory of this process."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import resource
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from datasets.common.errors import DataError

ROOT = Path(__file__).parents[2]
# Packages by whose versions numbers may differ.
NUMBERS = ("numpy", "scipy", "pandas", "pyarrow", "numba", "llvmlite")
LEARNING = ("sklearn", "implicit", "torch", "torch_geometric")
PACKAGES = (*NUMBERS, *LEARNING)
DISTRIBUTIONS = {"sklearn": "scikit-learn", "torch_geometric": "torch-geometric"}  # where the import name differs
# implicit and torch count OpenMP's threads; the others are the BLAS builds that numpy and SciPy may come with.
THREADS = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "BLIS_NUM", "VECLIB_MAXIMUM", "NUMEXPR_NUM")


def thread_variables(threads: int) -> dict[str, str]:
    """The variables for a process that is yet to start."""
    if threads < 1:
        raise DataError(f"threads {threads}: use 1, which repeats exactly, or more")
    return {f"{name}_THREADS": str(threads) for name in THREADS}


def set_threads(threads: int) -> None:
    """Use this many threads in this process: BLAS, OpenMP, torch and implicit, loaded already or later.

    Sums in parallel are added in an order that changes from run to run, so reported runs use one thread and repeat bit
    for bit.
    """
    os.environ.update(thread_variables(threads))
    if importlib.util.find_spec("threadpoolctl"):  # comes with scikit-learn; reaches BLAS and OpenMP once loaded
        importlib.import_module("threadpoolctl").threadpool_limits(threads)
    if "torch" in sys.modules:  # never imported for this: most runs do without
        sys.modules["torch"].set_num_threads(threads)


def thread_count() -> int:
    """How many threads this process is to use: those of torch where it is loaded, which `set_threads` sets."""
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Python, the platform and the packages that this process has loaded."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for module in PACKAGES:
        if module in sys.modules:
            try:
                found[module] = version(DISTRIBUTIONS.get(module, module))
            except PackageNotFoundError:  # on the path without being installed
                found[module] = str(getattr(sys.modules[module], "__version__", "unknown"))
    return found


@cache
def commit() -> str:
    """The commit of this checkout, marked where files differ from it; empty outside of git."""
    if not (ROOT / ".git").exists():
        return ""
    try:
        head = _git("rev-parse", "HEAD").strip()
        return f"{head} with changes" if _git("status", "--porcelain", "--untracked-files=no").strip() else head
    except (OSError, subprocess.CalledProcessError):
        return ""


def peak_megabytes() -> float:
    """The most memory that this process has held.

    Linux counts in `ru_maxrss` what the parent held when it started this process, so its own high-water mark is read.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    except (OSError, StopIteration):
        unit = 1024**2 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True).stdout
