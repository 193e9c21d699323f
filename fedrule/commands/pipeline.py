"""`python -m fedrule pipeline`: check a pipeline of databases, or export its homes to a file."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from datasets.common.cli import say
from datasets.common.errors import DataError
from datasets.common.progress import progress
from datasets.homes import Homes

SHOWN = 20  # types and relations listed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    commands = parser.add_subparsers(required=True, metavar="check|export", dest="what")
    check = commands.add_parser("check", help="connect, count, join, and list the first bad rows")
    export = commands.add_parser("export", help="write all homes to a Parquet file")
    for command in (check, export):
        about = "description of the pipeline, see docs/pipeline.md"
        command.add_argument("file", type=Path, metavar="FILE.toml", help=about)
        command.add_argument("--quiet", action="store_true", help="no progress bar")
    export.add_argument("out", type=Path, metavar="OUT.parquet")


def run(chosen: argparse.Namespace) -> int:
    """Print a summary of the tables and their homes, or write the homes."""
    if chosen.what == "export" and chosen.out.suffix != ".parquet":
        raise DataError(f"{chosen.out}: the output must be a .parquet file")
    from fedrule.pipeline import Pipeline  # an extra

    pipeline = Pipeline.from_file(chosen.file)
    counts = {source: pipeline.count(source) for source in pipeline.sources.values()}
    if chosen.what == "check":
        for source, rows in counts.items():
            columns = ", ".join(f"{role} = {name}" for role, name in source.names.items())
            say(f"{source.place}: {rows:,} rows; {columns}")
    with progress(sum(counts.values()), " rows", quiet=chosen.quiet) as bar:
        pipeline.progress = bar.step
        homes = pipeline.load()
    if chosen.what == "check":
        _describe(homes)
    else:
        homes.save(chosen.out)
        say(f"{chosen.out}: {homes!r}")
    return 0


def _describe(homes: Homes) -> None:
    bare = np.bincount(homes.rules.home, minlength=homes.n_homes) == 0
    without_devices = np.bincount(homes.device_home, minlength=homes.n_homes) == 0
    say(f"{homes.n_homes:,} users, {homes.n_devices:,} devices, {homes.n_rules:,} rules")
    say(f"users with devices but no rules: {int((bare & ~without_devices).sum()):,}")
    if homes.words is not None:
        say(f"devices with words: {len(np.unique(homes.words.device)):,}")
    for what, words in (("types", homes.types), ("relations", [" -> ".join(pair) for pair in homes.relations])):
        more = f", ... and {len(words) - SHOWN:,} more" if len(words) > SHOWN else ""
        say(f"{len(words):,} {what}: {', '.join(words[:SHOWN])}{more}")
    for what, count in homes.provenance.counts.items():
        if what not in ("device rows", "rule rows", "word rows"):
            say(f"{what}: {count:,}")
    for note in homes.provenance.notes:
        say(note)
