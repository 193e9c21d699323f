"""Which data set's layout a path has, by what it holds."""

from __future__ import annotations

from pathlib import Path

from datasets.errors import DataError
from datasets.tables import SUFFIXES

LAYOUTS = """\
a folder with devices.csv and rules.csv (`tables`), train_device.csv and train_rule.csv (`wyze`),
rules and trainset (`ifttt-full`), or a .parquet file that Homes.save wrote (`saved`)"""


def recognise(path: Path) -> str:
    """The name under which `datasets.load` reads this path."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; expected {LAYOUTS}")
    if path.is_file():
        return "saved" if path.suffix == ".parquet" else "ifttt-full"
    names = {entry.name for entry in path.iterdir()}
    if {"train_rule.csv", "train_device.csv"} & names:
        return "home-assistant" if "rule_group.csv" in names else "wyze"
    if any(f"{stem}{suffix}" in names for stem in ("devices", "rules") for suffix in SUFFIXES):
        return "tables"
    if names:
        return "ifttt-full"  # its reader knows several formats by content and names them if none fits
    raise DataError(f"{path}: the folder is empty; expected {LAYOUTS}")
