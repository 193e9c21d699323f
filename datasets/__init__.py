"""Rules in: adapters, generators, vocabularies, splits, negatives and the valid-rule tensor; numpy, no torch."""

from datasets import negatives, submission, tables
from datasets.align import align
from datasets.errors import DataError
from datasets.homes import Homes, Provenance, Rules
from datasets.registry import dataset, load, names
from datasets.splits import Hidden, Split, split
from datasets.tables import from_tables
from datasets.valid import ValidRules
from datasets.view import Home, Relation

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
