"""What speed benchmarks share: a reference timed in the same run, and the peak memory of a fresh process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from pytest_benchmark.fixture import BenchmarkFixture

PEAK = "\nimport resource\nimport sys\nsys.stdout.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))"


def seconds(work: Callable[[], object], *, repeats: int = 1) -> float:
    """The shortest of `repeats` runs."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def note_ratio(benchmark: BenchmarkFixture, units: int, reference: float, **more: float) -> None:
    """Write into `extra_info` how many units of work a second were done, and how many times the reference's rate.

    `reference` is the seconds that the reference needs for one unit, measured in this very run.
    """
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    fastest = benchmark.stats["min"]
    benchmark.extra_info |= {
        "units": units,
        "units per second": units / fastest,
        "units per second of the reference": 1 / reference,
        "ratio": reference * units / fastest,
        **more,
    }


def peak_megabytes(program: str) -> float:
    """The most memory that a new Python process holds while it runs this program, imports included."""
    done = subprocess.run([sys.executable, "-c", program + PEAK], check=True, capture_output=True, text=True)
    return int(done.stdout.splitlines()[-1]) / 1024
