"""Homes that were saved before, as a data set by name."""

from __future__ import annotations

from pathlib import Path

from datasets.homes import Homes
from datasets.registry import dataset
from datasets.storage import load_file


@dataset(
    "saved",
    files=("FILE.parquet",),
    origin="`python -m datasets generate NAME --out FILE.parquet`",
    keeps_name=True,
)
def saved(path: Path) -> Homes:
    """A file written by Homes.save or `python -m datasets generate`."""
    return load_file(path)
