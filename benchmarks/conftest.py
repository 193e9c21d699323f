"""What several speed benchmarks start from: homes of a size in a file, and one thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

import datasets
from benchmarks.threads import set_threads


class SavedHomes(Protocol):
    """Where homes of a size are, made when they are first asked for."""

    def __call__(self, size: int, *, merged: bool = False) -> Path: ...


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> SavedHomes:
    """Homes of the paper's kind; `merged` ones have one device of each type."""
    folder = tmp_path_factory.mktemp("homes")

    def path(size: int, *, merged: bool = False) -> Path:
        file = folder / f"{size}{'-merged' * merged}.parquet"
        if not file.exists():
            homes = datasets.load("wyze-synthetic", homes=size)
            (homes.merged_types() if merged else homes).save(file)
        return file

    return path


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As in reported runs."""
    torch = pytest.importorskip("torch", reason="graph methods need the extra graph")
    before = torch.get_num_threads()
    set_threads(1)
    yield
    set_threads(before)
