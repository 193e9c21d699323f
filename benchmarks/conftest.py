"""Options and fixtures of `pytest benchmarks/`: the scale, where results are stored, saved homes, peak memory.

Measurements are saved in the folder of the results, those of pytest-benchmark as
`speed/<machine>/<number>_<scale>.json` (`benchmarks.results.speeds` reads them, `pytest-benchmark compare` compares
them), results of methods beside those of `python -m benchmarks run`. With `--benchmark-disable` nothing is saved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

import pytest

import datasets
from benchmarks.results.speeds import SPEED
from benchmarks.results.store import results_folder
from benchmarks.speed.measure import Measured, peak_megabytes
from datasets.common.environment import set_threads
from datasets.common.errors import DataError, install_hint

SCALES = ("smoke", "default", "paper")
Peak: TypeAlias = Callable[[str], dict[str, float]]  # the peak memory of a program, as an entry of `extra_info`
DEFAULT_STORAGE = "file://./.benchmarks"  # of pytest-benchmark


class SavedHomes(Protocol):
    """The path of a file with this many homes, generated on first use."""

    def __call__(self, size: int, *, merged: bool = False) -> Path: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fedrule", "rule recommendation")
    about = "smoke has the smallest sizes, paper the full ones, which take hours (default: default)"
    group.addoption("--scale", choices=SCALES, default="default", help=about)
    about = "where results and saved runs are stored (default: $FEDRULE_RESULTS, else results)"
    group.addoption("--results", metavar="DIR", help=about)


def pytest_configure(config: pytest.Config) -> None:
    """Save the run in the folder of the results, unless the user gave another place."""
    if not config.pluginmanager.hasplugin("benchmark"):
        raise pytest.UsageError(f"benchmarks need {install_hint('bench')}")
    option = config.option
    elsewhere = option.benchmark_storage != DEFAULT_STORAGE or option.benchmark_save or option.benchmark_json
    measures = option.benchmark_enable or not (option.benchmark_disable or option.benchmark_skip)
    if elsewhere or not measures or option.collectonly or option.help:
        return
    try:
        folder = results_folder(option.results)
    except DataError as error:
        raise pytest.UsageError(str(error)) from None
    option.benchmark_storage = f"file://{folder / SPEED}"
    option.benchmark_save = option.benchmark_autosave or option.scale


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A benchmark that takes `size` runs at each size that its module has for the scale."""
    if "size" in metafunc.fixturenames:
        metafunc.parametrize("size", metafunc.module.SIZES[metafunc.config.getoption("scale")])


@pytest.fixture(scope="module")
def measured() -> dict[str, Measured]:
    """What each method of a module needs by size."""
    return defaultdict(dict)


@pytest.fixture(scope="session")
def scale(pytestconfig: pytest.Config) -> str:
    """One of `SCALES`."""
    return str(pytestconfig.getoption("scale"))


@pytest.fixture(autouse=True)
def _note_scale(request: pytest.FixtureRequest, scale: str) -> None:
    """Saved measurements include their scale."""
    if "benchmark" in request.fixturenames:
        request.getfixturevalue("benchmark").extra_info["scale"] = scale


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """As in reported runs."""
    set_threads(1)


@pytest.fixture
def peak(scale: str) -> Peak:
    """Not at the scale smoke, where importing a method's packages takes longer than its benchmark."""

    return lambda program: {} if scale == "smoke" else {"peak_megabytes": peak_megabytes(program)}


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> SavedHomes:
    """Synthetic Wyze homes; `merged` ones have one device of each type."""
    folder = tmp_path_factory.mktemp("homes")

    def path(size: int, *, merged: bool = False) -> Path:
        file = folder / f"{size}{'-merged' * merged}.parquet"
        if not file.exists():
            homes = datasets.load("wyze-synthetic", homes=size)
            (homes.merged_types() if merged else homes).save(file)
        return file

    return path
