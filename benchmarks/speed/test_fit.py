"""How fitting grows with the number of homes: seconds and peak memory of every method, per ten times the homes."""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from baselines.registry import build, missing_extra, names
from benchmarks.conftest import Peak, SavedHomes
from benchmarks.speed.measure import Measured, few_rounds, note_growth, warm_up
from datasets.common.errors import install_hint
from datasets.homes import Homes

# Homes; the first is what growth is measured from.
SIZES = {"smoke": (50, 200), "default": (100, 1_000), "paper": (1_000, 10_000, 76_218)}
# Seconds; a method that would need more at a size, by its last one, is not run there.
TOO_LONG = {"smoke": 30.0, "default": 60.0, "paper": 120.0}

PROGRAM = """
import numpy as np
import datasets
from baselines.registry import build
homes = datasets.load("saved", path={path!r})
build({name!r}, **{parameters!r}).fit(homes, rng=np.random.default_rng(0))
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("name", names())


def test_fit(
    benchmark: BenchmarkFixture,
    saved: SavedHomes,
    peak: Peak,
    measured: dict[str, Measured],
    scale: str,
    name: str,
    size: int,
) -> None:
    if extra := missing_extra(name):
        pytest.skip(f"{name} needs {install_hint(extra)}")
    known, first = measured[name], SIZES[scale][0]
    smaller = max((n for n in known if n < size), default=0)
    if smaller and (expected := known[smaller]["seconds"] * size / smaller) > TOO_LONG[scale]:
        more = "" if scale == "paper" else "; see --scale paper"
        pytest.skip(
            f"{name} would need about {expected:.0f} s for {size:,} homes, more than {TOO_LONG[scale]:.0f} s{more}"
        )
    path = saved(size, merged=True)
    homes = datasets.load("saved", path=path)
    warm_up(name)
    benchmark.pedantic(fit, args=(name, homes), rounds=3 if size == first and scale == "paper" else 1)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    held = peak(PROGRAM.format(path=str(path), name=name, parameters=few_rounds(name)))
    known[size] = {"seconds": benchmark.stats["min"], **held}
    rate = size / benchmark.stats["min"]
    benchmark.extra_info |= {"homes": size, "rules": homes.n_rules, "homes per second": rate, **held}
    note_growth(benchmark, known, first, size)


def fit(name: str, homes: Homes) -> None:
    build(name).fit(homes, rng=np.random.default_rng(0))
