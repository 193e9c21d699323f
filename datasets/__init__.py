"""Rules in: adapters, generators, vocabularies, splits, negatives and the valid-rule tensor; numpy, no torch."""

from datasets.errors import DataError
from datasets.homes import Home, Homes, Provenance, Relation, Rules
from datasets.registry import dataset, load, names

__all__ = ["DataError", "Home", "Homes", "Provenance", "Relation", "Rules", "dataset", "load", "names"]
