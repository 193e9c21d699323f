"""Homes and their rules: readers, generators, splits, negatives and the valid-rule tensor (numpy and pandas, no torch).

Names are imported on first use, so that `import datasets` loads neither numpy nor pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import negatives, submission
    from datasets.common.errors import DataError
    from datasets.homes import Home, Homes, Provenance, Relation, Rules, Words
    from datasets.readers.tables import from_tables
    from datasets.registry import dataset, load, names
    from datasets.splits import Hidden, Split, split
    from datasets.valid import ValidRules
    from datasets.vocabulary import align

__all__ = [
    "DataError",
    "Hidden",
    "Home",
    "Homes",
    "Provenance",
    "Relation",
    "Rules",
    "Split",
    "ValidRules",
    "Words",
    "align",
    "dataset",
    "from_tables",
    "load",
    "names",
    "negatives",
    "split",
    "submission",
]

_MODULES = {
    "common.errors": ("DataError",),
    "homes": ("Home", "Homes", "Provenance", "Relation", "Rules", "Words"),
    "readers.tables": ("from_tables",),
    "registry": ("dataset", "load", "names"),
    "splits": ("Hidden", "Split", "split"),
    "valid": ("ValidRules",),
    "vocabulary": ("align",),
}


def __getattr__(name: str) -> object:
    if name in ("negatives", "submission"):
        return importlib.import_module(f"datasets.{name}")
    for module, exported in _MODULES.items():
        if name in exported:
            return getattr(importlib.import_module(f"datasets.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
