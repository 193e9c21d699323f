"""What benchmarks share: a reference timed in the same run, growth, warm methods, the memory of a fresh process."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import datasets
from baselines.registry import build, get
from datasets.common.random import Stream, generator

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

Measured: TypeAlias = dict[int, dict[str, float]]  # homes -> seconds and megabytes, as they come in; sizes grow

# The child reads its own high-water mark: what the kernel counts for it from outside includes the parent's.
PEAK = """
import sys
from datasets.common.environment import peak_megabytes
sys.stdout.write(f"\\n{peak_megabytes()}")
"""


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


def note_growth(benchmark: BenchmarkFixture, measured: Measured, first: int, size: int) -> None:
    """Write into `extra_info` how what was measured grows per 10 times the homes, from the first size to this one."""
    if size <= first or first not in measured:
        return
    few, many, tenfold = measured[first], measured[size], math.log10(size / first)
    for what in few.keys() & many.keys():
        benchmark.extra_info[f"{what} per 10x"] = (many[what] / few[what]) ** (1 / tenfold)


# Parameters by which a fit stops as soon as it has called all that it will and holds all the memory that it ever will.
FEW = {"rounds": 4, "epochs": 4, "least_steps": 4}


def few_rounds(method: str) -> dict[str, int]:
    """Those of these parameters that a method has."""
    return {name: value for name, value in FEW.items() if hasattr(get(method), name)}


@cache
def warm_up(method: str) -> None:
    """Fit 20 homes, once in a process: what is timed behind that is neither loading nor compiling."""
    homes = datasets.load("wyze-synthetic", homes=20).merged_types()
    build(method, **few_rounds(method)).fit(homes, rng=generator(Stream.FITTING, 0))


def peak_megabytes(program: str) -> float:
    """The most memory that a new Python process holds while it runs this program, imports included."""
    done = subprocess.run([sys.executable, "-c", f"{program}\n{PEAK}"], check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])
