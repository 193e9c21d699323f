"""The environment of a run: package versions, the commit of this checkout, the peak memory of this process."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Import name -> distribution, for what can change a number.
PACKAGES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "sklearn": "scikit-learn",
    "implicit": "implicit",
    "torch": "torch",
    "torch_geometric": "torch-geometric",
}


def versions() -> dict[str, str]:
    """Python, the platform and the packages that this process has loaded."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for module, distribution in PACKAGES.items():
        if module in sys.modules:
            try:
                found[module] = version(distribution)
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
