"""What options of several commands stand for: homes, splits, parameters, seeds, and the folder to write to."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryFile

from benchmarks.results.published import FILE, NAME
from benchmarks.results.store import results_folder
from benchmarks.runs.experiment import Source, assignments, make_source, split_options
from datasets.common.errors import DataError, unknown
from datasets.common.options import read_assignments
from datasets.registry import get as get_data
from datasets.splits import SPLITS


def source_of(text: str, track: str) -> Source:
    """The homes that NAME[:KEY=VALUE,...] stands for."""
    name, _, options = text.partition(":")
    parsed = read_assignments(get_data(name).load, options.split(",") if options else [], where=name)
    return make_source(name, options=parsed, track=track)


def split_of(text: str) -> tuple[str, dict[str, object]]:
    """The name and all options of the split that NAME[:KEY=VALUE,...] stands for."""
    name, _, options = text.partition(":")
    if name not in SPLITS:
        raise unknown("split", name, SPLITS)
    parsed = read_assignments(SPLITS[name], options.split(",") if options else [], where=name)
    return name, split_options(name, parsed)


def settings_of(chosen: argparse.Namespace, command: str) -> dict[str, object]:
    """The parameters that the command line sets for the one method of a command."""
    given = assignments(chosen.settings)
    for method in sorted(given.keys() - {chosen.method}):
        raise DataError(f"--set {method}: `{command} {chosen.method}` does not run {method}")
    return given.get(chosen.method, {})


def seeds_of(given: int | list[int], *, first: int) -> list[int]:
    """The seeds that the command line names, or so many from the first on."""
    return list(range(first, first + given)) if isinstance(given, int) else given


def folder_to_write(given: Path | None) -> Path:
    """The folder of results of a command that adds to them; checked before hours of work are lost on it."""
    if given is not None and (str(given) == NAME or given.suffix == FILE.suffix):
        raise DataError(f"--results {given}: published results are only shown; name a folder to write to")
    folder = results_folder(given)
    check_writable(folder)
    return folder


def check_writable(folder: Path) -> None:
    """Try a file in it, or in the folder that it would be made in."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    try:
        with TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise DataError(f"{folder}: cannot be written to ({error.strerror}); name another folder") from None
