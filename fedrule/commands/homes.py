"""Homes that a command is told by one word: the name of a data set, files of one's own, or a database."""

from __future__ import annotations

from pathlib import Path

from datasets.common.errors import DataError
from datasets.common.options import read_assignments
from datasets.homes import Homes
from datasets.readers.detect import recognise
from datasets.registry import get, load, names

METAVAR = "NAME|PATH[:KEY=VALUE,...]"
ABOUT = (
    "a data set of `python -m datasets list` with its options, e.g. wyze-synthetic:homes=2000; a .parquet file of "
    "homes; a folder with tables of devices and rules, e.g. tables/:columns.user=household; or a .toml file that "
    "describes databases"
)


def homes_of(text: str) -> Homes:
    """Load them; a name goes before a path of the same spelling."""
    name, _, listed = text.partition(":")
    options = listed.split(",") if listed else []
    if name in names():
        places = [option.removeprefix("path=") for option in options if option.startswith("path=")]
        others = [option for option in options if not option.startswith("path=")]
        return load(name, path=places[-1] if places else None, **read_assignments(get(name).load, others, where=name))
    path = Path(text) if Path(text).exists() else Path(name)
    if path.suffix == ".toml":
        from fedrule.pipeline import Pipeline  # when it is used: it needs an extra

        return Pipeline.from_file(path).load()
    if not path.exists():
        if len(path.parts) == 1 and not path.suffix:
            get(name)  # says which names there are
        raise DataError(f"{path}: no such file or folder; give {ABOUT}")
    kind = recognise(path)
    return load(kind, path=path, **read_assignments(get(kind).load, options, where=kind))
