"""Results as one file: `publish` and `restore`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.commands.options import check_writable, folder_to_write
from benchmarks.results.published import FILE, NAME, publish, restore, shown_results
from benchmarks.runs.experiment import users_of
from benchmarks.runs.reproduce import outdated
from datasets.common.cli import say
from datasets.common.errors import DataError, counted
from datasets.registry import get as get_data


def publish_results(chosen: argparse.Namespace) -> int:
    """Write a folder of results as one small file, without the data."""
    folder = shown_results(chosen.results)
    file = chosen.out
    check_writable(file.parent)
    if file.resolve() == (FILE if str(chosen.results) == NAME else Path(chosen.results or "")).resolve():
        raise DataError(f"--out {file} is the published file itself; name another one")
    found = publish(folder, file, is_real=_is_real, users_of=users_of)
    what = f"{counted(found.runs, 'run')}, {found.records:,} studies and the like"
    say(f"{file}: {what}, {file.stat().st_size / 1e6:.2f} MB, from {chosen.results or folder}")
    for name, reason in found.unreadable:
        say(f"left out: {name}: {reason}")
    if found.failed:
        say(f"left out: {counted(found.failed, 'failed run')}")
    return 0


def _is_real(data: str) -> bool:
    """Whether a data set has files, or is not known here."""
    try:
        return bool(get_data(data).files)
    except DataError:
        return True


def restore_results(chosen: argparse.Namespace) -> int:
    """Write published results into a folder, where suites find them finished."""
    folder = folder_to_write(chosen.results)
    found = restore(chosen.file or FILE, folder, users_of=users_of)
    say(f"{found.added} results restored, {found.there} were there, in {folder}; {found.records} studies and the like")
    if older := sum(len(group.runs) for group in outdated(folder)):
        what = counted(older, "result")
        say(f"{what} of other code than this: `run` makes them again, unless `reproduce` finds their numbers the same")
    if found.unmatched:
        say(f"{found.unmatched} left out: published without their data, so nobody can tell which home is which")
    return 0
