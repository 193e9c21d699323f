"""The commands of `python -m fedrule`, modules with `add_arguments` and `run`, and the argument that names homes.

`cluster_lists` and `list_handler` are what `recommend --cluster` does here and on other machines.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from datasets.common.errors import DataError

if TYPE_CHECKING:
    from datasets.homes import Homes

HOMES_METAVAR = "NAME|PATH[:KEY=VALUE,...]"
HOMES_HELP = (
    "a data set of `python -m datasets list` with its options, e.g. wyze-synthetic:homes=2000; a .parquet file of "
    "homes; a folder with tables of devices and rules, e.g. tables/:columns.user=household; or a .toml file that "
    "describes databases"
)


def load_homes(text: str) -> Homes:
    """Homes of a data set, a file or folder, or databases; a name takes precedence over a path of the same spelling."""
    # Imported here: readers bring pandas, which a command about one home does not need.
    from datasets.common.options import read_assignments
    from datasets.readers.tables import detect_format
    from datasets.registry import get, load, names

    name, _, listed = text.partition(":")
    options = listed.split(",") if listed else []
    if name in names():
        paths = [option.removeprefix("path=") for option in options if option.startswith("path=")]
        others = [option for option in options if not option.startswith("path=")]
        return load(name, path=paths[-1] if paths else None, **read_assignments(get(name).load, others, where=name))
    path = Path(text) if Path(text).exists() else Path(name)
    if path.suffix == ".toml":
        from fedrule.pipeline import Pipeline

        return Pipeline.from_file(path).load()
    if not path.exists():
        if len(path.parts) == 1 and not path.suffix:
            get(name)  # says which names there are
        raise DataError(f"{path}: no such file or folder; give {HOMES_HELP}")
    kind = detect_format(path)
    return load(kind, path=path, **read_assignments(get(kind).load, options, where=kind))
