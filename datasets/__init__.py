"""Rules in: adapters, generators, vocabularies, splits, negatives and the valid-rule tensor; numpy, no torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from datasets import negatives
from datasets.common.errors import DataError
from datasets.homes import Home, Homes, Provenance, Relation, Rules
from datasets.registry import dataset, load, names
from datasets.splits import Hidden, Split, split
from datasets.valid import ValidRules
from datasets.vocabulary import align

if TYPE_CHECKING:
    from datasets import submission as submission
    from datasets.readers import tables
    from datasets.readers.tables import from_tables

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
    "align",
    "dataset",
    "from_tables",
    "load",
    "names",
    "negatives",
    "split",
    "submission",
    "tables",
]


def __getattr__(name: str) -> object:
    """What reads tables is loaded on first use: it brings pandas along, which a recommendation does without."""
    if name in ("submission", "tables"):
        return importlib.import_module(f"datasets.{name}")
    if name == "from_tables":
        return importlib.import_module("datasets.readers.tables").from_tables
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
