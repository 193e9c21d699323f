"""`python -m reports.build`: every figure and table, and the page that shows them, from result files.

What a suite asks for and is not finished is run first, through the harness. Then everything is made from what the
folder of results holds, and from nothing else. What cannot be made is left out, and the page says what to run.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping
from pathlib import Path

from datasets.common.threads import set_threads

log = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Build or check; bad input is one message and exit code 1, never a traceback."""
    chosen = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    set_threads(1)
    # Only now, so that the libraries that count find their number of threads when they are loaded.
    from datasets.common.errors import DataError

    try:
        return _build(chosen)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped. What was finished is kept; run it again to go on.\n")
        return 130
    except ModuleNotFoundError as error:
        sys.stderr.write(f'{error}; reports need the extra report: pip install -c constraints.txt -e ".[report]"\n')
        return 1
    except (DataError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _build(chosen: argparse.Namespace) -> int:
    """Run what is missing, make the files, and write them or compare them with those that are there."""
    from benchmarks.results.store import results_folder
    from datasets.common.errors import DataError
    from reports.inputs import Inputs
    from reports.outputs import chosen_outputs
    from reports.readme import README, readme_files
    from reports.site import site

    wanted = chosen_outputs(chosen.only, besides=(README,))
    if chosen.out.exists() and not chosen.out.is_dir():
        raise DataError(f"--out {chosen.out} is a file, not a folder; the report is many files")
    folder = results_folder(chosen.results)
    if not chosen.no_run:
        _run_missing(chosen, folder)
    inputs = Inputs.read(folder)
    for name, reason in inputs.unreadable:
        log.warning("%s is not used: %s", folder / name, reason)
    built = site(wanted, inputs, whole=not chosen.only, quiet=chosen.quiet)
    files = {chosen.out / path: content for path, content in built.files.items()}
    if README in chosen.only:
        files |= readme_files(inputs, Path.cwd())
    for name, missing in built.missing.items():
        log.warning("%s is not made: %s. To get it: %s", name, missing.what, missing.command)
    stale = _stale(files) if chosen.check else _write(files)
    if not chosen.check:
        what_now = "the page was not made again" if chosen.only else f"open {chosen.out / 'index.html'}"
        log.info("%d files in %s; %s", len(files), chosen.out, what_now)
    # A page says what is missing; who asks for one output, or mixes data, is to notice.
    return int(bool(stale or built.refused or (chosen.only and built.missing)))


def _run_missing(chosen: argparse.Namespace, folder: Path) -> None:
    from benchmarks.results.store import Store
    from benchmarks.runs.report_inputs import make_report_inputs

    made = make_report_inputs(chosen.suite, store=Store(folder), jobs=chosen.jobs, quiet=chosen.quiet)
    there = len(made.runs.finished) - made.runs.made
    log.info("%d results made, %d were there, in %s", made.runs.made, there, folder)
    for run in made.runs.elsewhere:
        log.warning("running in another process: %s", run)


def _write(files: Mapping[Path, bytes]) -> list[Path]:
    from datasets.common.files import atomic_file

    for path, content in files.items():
        with atomic_file(path) as temporary:
            temporary.write_bytes(content)
    return []


def _stale(files: Mapping[Path, bytes]) -> list[Path]:
    """The files that are not what the results give now, each named."""
    stale = [path for path, content in files.items() if not path.is_file() or path.read_bytes() != content]
    for path in stale:
        log.error("%s is %s", path, "stale" if path.is_file() else "missing")
    if not stale:
        log.info("%d files are up to date", len(files))
    return stale


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reports.build", description="Every figure and table, and one page that shows them."
    )
    add = parser.add_argument
    first = parser.add_mutually_exclusive_group()
    suites = "what to run first: smoke, default, paper, another suite or a TOML file (default default)"
    first.add_argument("--suite", default="default", metavar="NAME", help=suites)
    first.add_argument("--no-run", action="store_true", help="run nothing, only show what is there")
    add("--only", action="append", default=[], metavar="NAME", help="this output only, or `readme`; may be repeated")
    add("--out", type=Path, default=Path("report"), metavar="DIR", help="where the report goes (default report)")
    add("--check", action="store_true", help="write nothing; exit code 1 where a file is missing or stale")
    add("--results", type=Path, metavar="DIR", help="where results are kept (default $FEDRULE_RESULTS or results)")
    add("--jobs", type=_count, default=1, metavar="N", help="runs at once, each in a process (default 1)")
    add("--quiet", action="store_true", help="no progress bar")
    return parser


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
