"""Which data set reads a file or folder, detected from its content."""

from __future__ import annotations

from pathlib import Path

from datasets.common.errors import DataError
from datasets.readers.ifttt_files import layout_of
from datasets.readers.tables import SUFFIXES
from datasets.readers.wyze import FILES

LAYOUTS = """\
a folder with devices.csv and rules.csv (`tables`), train_device.csv and train_rule.csv (`wyze`),
rules and trainset (`ifttt-full`), or a .parquet file that Homes.save wrote (`saved`)"""
TABLES = {stem + suffix for stem in ("devices", "rules") for suffix in SUFFIXES}
WYZE = {name for files in FILES.values() for name in files}


def detect_format(path: Path) -> str:
    """The name under which `datasets.load` reads this path."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; expected {LAYOUTS}")
    if path.is_file():
        return _detect_file_format(path)
    names = {entry.name.removesuffix(".gz") for entry in path.iterdir()}
    if {"train_device.csv", "train_rule.csv", "rule_group.csv"} <= names:
        return "home-assistant"
    if names & WYZE:  # if only the test part exists, the reader says how to load it
        return "wyze"
    if names & TABLES or any(name.startswith(("devices.", "rules.")) for name in names):
        return "tables"  # also devices.xlsx and the like: the reader says which formats it reads
    if names:
        return "ifttt-full"  # its reader detects several formats and lists them if none fits
    raise DataError(f"{path}: the folder is empty; expected {LAYOUTS}")


def _detect_file_format(path: Path) -> str:
    if path.name.removesuffix(".gz") in TABLES | WYZE and (path.suffix == ".parquet" or layout_of(path) is None):
        raise DataError(f"{path}: it is one table of several; give the folder that holds them, {path.parent}")
    return "saved" if path.suffix == ".parquet" else "ifttt-full"
