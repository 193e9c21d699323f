"""How fitting grows with the number of homes: seconds and peak memory of every method, per ten times the homes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from baselines.registry import build, missing_extra, names
from benchmarks.measure import note_growth, peak_megabytes
from datasets.homes import Homes

SIZES = (1_000, 10_000, 76_218)  # homes; the first is what growth is measured from
TOO_LONG = 120.0  # seconds; a method that would need more at a size, by its last one, is not run there

PROGRAM = """
import numpy as np
import datasets
from baselines.registry import build
homes = datasets.load("saved", path={path!r})
build({name!r}).fit(homes, rng=np.random.default_rng(0))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Homes of each size in a file, types merged as user-item methods want them."""
    folder = tmp_path_factory.mktemp("homes")
    paths = {size: folder / f"{size}.parquet" for size in SIZES}
    for size, path in paths.items():
        datasets.load("wyze-synthetic", homes=size).merged_types().save(path)
    return paths


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[int, tuple[float, float]]]:
    """Method -> homes -> seconds and megabytes, as they come in; sizes grow."""
    return {}


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("size", SIZES)
def test_fit(
    benchmark: BenchmarkFixture,
    saved: dict[int, Path],
    measured: dict[str, dict[int, tuple[float, float]]],
    name: str,
    size: int,
) -> None:
    if extra := missing_extra(name):
        pytest.skip(f"{name} needs the extra {extra}")
    known = measured.setdefault(name, {})
    smaller = max((n for n in known if n < size), default=0)
    if smaller and (expected := known[smaller][0] * size / smaller) > TOO_LONG:
        pytest.skip(f"{name} would need about {expected:.0f} s for {size:,} homes, more than {TOO_LONG:.0f} s")
    homes = datasets.load("saved", path=saved[size])
    benchmark.pedantic(_fit, args=(name, homes), rounds=1 if size > SIZES[0] else 3)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    known[size] = benchmark.stats["min"], peak_megabytes(PROGRAM.format(path=str(saved[size]), name=name))
    benchmark.extra_info |= {
        "homes": size,
        "rules": homes.n_rules,
        "homes per second": size / known[size][0],
        "peak_megabytes": known[size][1],
    }
    if size > SIZES[0] and SIZES[0] in known:
        note_growth(benchmark, size / SIZES[0], known[SIZES[0]], known[size])


def _fit(name: str, homes: Homes) -> None:
    build(name).fit(homes, rng=np.random.default_rng(0))
