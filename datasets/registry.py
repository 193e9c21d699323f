"""The registry of data sets: `load` one by name, register one with the decorator `dataset`."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from datasets.common.errors import DataError, unknown
from datasets.common.options import options_of, read, read_options
from datasets.homes import Homes

# Imported on first use, so that `import datasets` does no work. A module outside joins by being imported.
DATASET_MODULES = (
    "datasets.readers.wyze",
    "datasets.readers.ifttt",
    "datasets.readers.tables",
    "datasets.storage",
    "datasets.synthetic.ifttt",
    "datasets.synthetic.wyze",
    "fedrule.homeassistant.dataset",
)

Loader = Callable[..., Homes]


@dataclass(frozen=True, slots=True)
class Dataset:
    """How a data set is loaded and, where it must be brought along, which files are expected."""

    name: str
    load: Loader  # takes the folder first if `files` are expected, then keyword options
    folder: str = ""  # below $FEDRULE_DATA; empty for data that needs none
    files: tuple[str, ...] = ()
    origin: str = ""  # where the files come from
    keeps_name: bool = False  # the homes carry a name of their own
    editions: Mapping[int, str] = field(default_factory=dict)  # folders of earlier ones, by the option `edition`

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.load) or "").partition("\n")[0]

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """The keyword options of `load`."""
        return options_of(self.load)

    @property
    def meanings(self) -> dict[str, str]:
        """What options mean, from lines of the loader's docstring such as "min_rules, min_devices: of a home"."""
        lines = (line.partition(": ") for line in (inspect.getdoc(self.load) or "").splitlines())
        said = {name: meaning for names, _, meaning in lines for name in names.split(", ")}
        return {name: said[name] for name in self.options if said.get(name)}


_DATASETS: dict[str, Dataset] = {}


def dataset(
    name: str,
    *,
    folder: str = "",
    files: tuple[str, ...] = (),
    origin: str = "",
    keeps_name: bool = False,
    editions: Mapping[int, str] | None = None,
) -> Callable[[Loader], Loader]:
    """Register a loader under a name."""

    def add(load: Loader) -> Loader:
        if name in _DATASETS and _DATASETS[name].load is not load:
            raise DataError(f"data set {name!r} is registered twice")
        _DATASETS[name] = Dataset(name, load, folder, files, origin, keeps_name, dict(editions or {}))
        return load

    return add


def names() -> list[str]:
    """Every data set that can be loaded, sorted."""
    _discover()
    return sorted(_DATASETS)


def get(name: str) -> Dataset:
    """The data set of this name, or an error with the nearest one."""
    _discover()
    read(str, name, where="name of a data set")
    if name not in _DATASETS:
        raise unknown("data set", name, _DATASETS)
    return _DATASETS[name]


def load(name: str, *, path: Path | str | None = None, **options: object) -> Homes:
    """Homes by the name of a data set; `path` says where its files are if not under $FEDRULE_DATA."""
    found = get(name)
    options = read_options(found.load, options, where=name)
    if path is not None and not isinstance(path, str | os.PathLike):
        raise DataError(f"{name} path={path!r}: expected a path")
    if not found.files and path is not None:
        raise DataError(f"{name} needs no files; leave out path={str(path)!r} (--data)")
    homes = found.load(where(found, path, options), **options) if found.files else found.load(**options)
    return homes if found.keeps_name else replace(homes, name=name)


def where(found: Dataset, path: Path | str | None, options: Mapping[str, object]) -> Path:
    """The folder (or file) of a data set that must be brought along, in the edition that the options ask for."""
    edition = options.get("edition")
    found = replace(found, folder=found.editions.get(edition, found.folder)) if isinstance(edition, int) else found
    root = os.environ.get("FEDRULE_DATA", "")
    if path is None and not (root and found.folder):
        how = "path= (--data on the command line)" + (" or the variable FEDRULE_DATA" if found.folder else "")
        raise DataError(f"{found.name}: give the place of its files by {how}; {_expected(found)}")
    place = Path(path) if path is not None else Path(root) / found.folder
    if not place.exists():
        others = [n for n, folder in found.editions.items() if path is None and (Path(root) / folder).exists()]
        hint = f"; edition {others[0]} is there: load it with edition={others[0]}" if others else ""
        raise DataError(f"{found.name}: {place} does not exist; {_expected(found)}{hint}")
    return place


def _expected(found: Dataset) -> str:
    folder = f" in $FEDRULE_DATA/{found.folder}" if found.folder else ""
    return f"expected: {', '.join(found.files)}{folder}" + (f", from {found.origin}" if found.origin else "")


def _discover() -> None:
    for module in DATASET_MODULES:
        importlib.import_module(module)
