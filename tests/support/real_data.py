"""Real data, reached through the variable FEDRULE_DATA; tests that need it are skipped with a reason elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def real(name: str) -> Path:
    """The folder of a data set, which is there wherever `needs_real` lets a test run."""
    return Path(os.environ["FEDRULE_DATA"]) / name


def needs_real(name: str) -> pytest.MarkDecorator:
    """Skip a test where the data set is not there; an unset variable does not mean the current folder."""
    root = os.environ.get("FEDRULE_DATA", "")
    return pytest.mark.skipif(
        not (root and (Path(root) / name).is_dir()), reason=f"FEDRULE_DATA names no folder {name}"
    )
