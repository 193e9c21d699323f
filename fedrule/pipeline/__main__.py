"""`python -m fedrule.pipeline`: try a pipeline out, or write its homes to a file."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from datasets.errors import DataError
from datasets.homes import Homes
from fedrule.pipeline.pipeline import Pipeline

SHOWN = 20  # types and relations spelled out


def main(arguments: list[str] | None = None) -> int:
    """Run one command; whatever is wrong with the input is one message and exit code 1, never a traceback."""
    chosen = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        return int(chosen.run(chosen))
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stderr.close()
        return 0
    except (DataError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fedrule.pipeline", description="Homes from databases.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="connect, count, join, and name the first bad rows")
    check.set_defaults(run=_check)
    export = commands.add_parser("export", help="write all homes to one Parquet file")
    export.set_defaults(run=_export)
    for command in (check, export):
        command.add_argument("file", type=Path, metavar="FILE.toml", help="what the pipeline is told")
    export.add_argument("out", type=Path, metavar="OUT.parquet")
    return parser


def _check(chosen: argparse.Namespace) -> int:
    pipeline = Pipeline.from_file(chosen.file)
    rows = 0
    for source in (pipeline.devices, pipeline.rules):
        count = pipeline.count(source)
        columns = ", ".join(f"{role} = {name}" for role, name in source.names.items())
        _say(f"{source.place}: {count:,} rows; {columns}")
        rows += count
    with _bar(pipeline, rows):
        homes = pipeline.load()
    _describe(homes)
    return 0


def _describe(homes: Homes) -> None:
    bare = np.bincount(homes.rules.home, minlength=homes.n_homes) == 0
    without_devices = np.bincount(homes.device_home, minlength=homes.n_homes) == 0
    _say(f"{homes.n_homes:,} users, {homes.n_devices:,} devices, {homes.n_rules:,} rules")
    _say(f"users with devices but no rules: {int((bare & ~without_devices).sum()):,}")
    for what, words in (("types", homes.types), ("relations", [" -> ".join(pair) for pair in homes.relations])):
        more = f", ... and {len(words) - SHOWN:,} more" if len(words) > SHOWN else ""
        _say(f"{len(words):,} {what}: {', '.join(words[:SHOWN])}{more}")
    for what, count in homes.provenance.counts.items():
        if what not in ("device rows", "rule rows"):
            _say(f"{what}: {count:,}")
    for note in homes.provenance.notes:
        _say(note)


def _export(chosen: argparse.Namespace) -> int:
    if chosen.out.suffix != ".parquet":
        raise DataError(f"{chosen.out}: homes are written to a .parquet file")
    pipeline = Pipeline.from_file(chosen.file)
    with _bar(pipeline, pipeline.count(pipeline.devices) + pipeline.count(pipeline.rules)):
        homes = pipeline.load()
    homes.save(chosen.out)
    _say(f"{chosen.out}: {homes!r}")
    return 0


@contextmanager
def _bar(pipeline: Pipeline, rows: int) -> Iterator[None]:
    """Rows as they come, on a terminal only; messages of the log are written above the bar."""
    quiet = not sys.stderr.isatty()
    with tqdm(total=rows, unit=" rows", unit_scale=True, disable=quiet) as bar, logging_redirect_tqdm():

        def came(rows: int) -> None:
            bar.update(rows)

        pipeline.progress = came
        yield


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
