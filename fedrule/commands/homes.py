"""Homes that a command is told by one word: the name of a data set, files of one's own, or a database."""

from __future__ import annotations

from pathlib import Path

from datasets.errors import DataError
from datasets.homes import Homes
from datasets.options import parse_options
from datasets.recognise import recognise
from datasets.registry import get, load, names

METAVAR = "NAME[:KEY=VALUE,...]|PATH"
ABOUT = (
    "a data set of `python -m datasets list` with its options, e.g. wyze-synthetic:homes=2000; a .parquet file of "
    "homes; a folder with tables of devices and rules; or a .toml file that describes databases"
)


def homes_of(text: str) -> Homes:
    """Load them; a name goes before a path of the same spelling."""
    name, _, options = text.partition(":")
    if name in names():
        chosen = parse_options(get(name).load, options.split(",") if options else [], of=name)
        return load(name, path=None, **chosen)
    path = Path(text)
    if path.suffix == ".toml":
        from fedrule.pipeline import homes_of as homes_of_databases

        return homes_of_databases(path)
    if not path.exists():
        if len(path.parts) == 1 and not path.suffix:
            get(name)  # says which names there are
        raise DataError(f"{path}: no such file or folder; give {ABOUT}")
    return load(recognise(path), path=path)
