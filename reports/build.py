"""`python -m reports.build`: every figure and table, and the page that shows them, from result files.

Runs of a suite that are not finished, and measurements of speed that are missing, are made first. Then everything is
built from the folder of results and nothing else. What cannot be built is left out, and the page says what to run.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.common import cli
from datasets.common.environment import set_threads
from datasets.common.errors import install_hint

if TYPE_CHECKING:
    from benchmarks.results.store import Store
    from benchmarks.runs.scheduler import Outcome

log = logging.getLogger(__name__)

NO_SPEED = "no"
SPEED_TESTS = ("test_inference.py", "test_fit.py")  # of benchmarks/speed: what figures are drawn from
SPEED_CASES = "one_home or homes_of_the_paper or fit"  # of these files


def main(arguments: list[str] | None = None) -> int:
    """Build or check; bad input is one message and exit code 1, never a traceback."""
    chosen = _parser().parse_args(arguments)
    set_threads(1)  # before the libraries that read it are loaded
    stopped = "Stopped. Finished runs are kept; run it again to continue."
    return cli.run(lambda: _build(chosen), interrupted=stopped)


def _build(chosen: argparse.Namespace) -> int:
    """Run what is missing, build the files, and write them or compare them with those on disk."""
    from benchmarks.results.published import NAME, shown_results
    from datasets.common.errors import DataError
    from datasets.common.files import atomic_file
    from reports.docs import docs_files
    from reports.inputs import Inputs
    from reports.outputs import DOCS, chosen_outputs
    from reports.site import site

    outputs = chosen_outputs(chosen.only, besides=(DOCS,))
    if chosen.out.exists() and not chosen.out.is_dir():
        raise DataError(f"--out {chosen.out} is a file; it must be a folder, as the report is many files")
    if str(chosen.results) == NAME and not chosen.no_run:
        raise DataError("published results are only to be shown; add --no-run, or give a folder of your own")
    folder = shown_results(chosen.results)
    if not chosen.no_run:
        _make_runs(chosen, folder)
        if chosen.speed != NO_SPEED:
            _measure_speed(chosen.speed, folder)
    elif chosen.results is not None and not folder.is_dir():
        raise DataError(f"{folder}: no such folder of results. Leave out --no-run to make it, or name another one")
    inputs = Inputs.read(folder)
    for name, reason in inputs.unreadable:
        log.warning("%s is not used: %s", folder / name, reason)
    built = site(outputs, inputs, page=not chosen.only, quiet=chosen.quiet)
    files = {chosen.out / path: content for path, content in built.files.items()}
    if DOCS in chosen.only:
        files |= docs_files(inputs, Path.cwd())
    for name, missing in built.missing.items():
        log.warning("%s is missing: %s. To get it: %s", name, missing.what.rstrip("."), missing.command)
    stale = _stale(files) if chosen.check else []
    if not chosen.check:
        for path, content in files.items():
            with atomic_file(path) as temporary:
                temporary.write_bytes(content)
        next_step = "the page was not built" if chosen.only else f"open {chosen.out / 'index.html'}"
        log.info("%d files in %s; %s", len(files), chosen.out, next_step)
    # The page says what is missing; a missing output that was asked for by name is an error.
    return int(bool(stale or built.refused or (chosen.only and built.missing)))


def _make_runs(chosen: argparse.Namespace, folder: Path) -> None:
    from benchmarks.results.store import Store

    runs = make_report_inputs(chosen.suite, store=Store(folder), jobs=chosen.jobs, quiet=chosen.quiet)
    log.info("%d results made, %d were there, in %s", runs.made, len(runs.finished) - runs.made, folder)
    for run in runs.elsewhere:
        log.warning("running in another process: %s", run)


def make_report_inputs(suite: str, *, store: Store, jobs: int = 1, quiet: bool = False) -> Outcome:
    """Make the runs of a suite, a summary of each of its data sets and its examples, where they are missing.

    The outcome of the runs. An example that fails is logged and the rest is made.
    """
    from benchmarks.results.records import summary_file
    from benchmarks.runs.dataset_summary import is_current, save_summary, summarize
    from benchmarks.runs.examples import ExampleSpec, make_example, save_example
    from benchmarks.runs.scheduler import run_all
    from benchmarks.runs.suite import read_examples, read_suite
    from datasets.common.progress import progress

    experiments = read_suite(suite)
    specs = [ExampleSpec(example[0].source, tuple(example)) for example in read_examples(suite)]
    runs = run_all(experiments, store=store, jobs=jobs, quiet=quiet)
    sources = {summary_file(each.source.data, each.source.options): each.source for each in experiments}
    missing = [source for source in sources.values() if not is_current(source, store.folder)]
    with progress(len(missing), "data set", quiet=quiet) as bar:
        for source in missing:
            bar.note(source.data)
            save_summary(summarize(source), store.folder)
            bar.step()
    set_threads(1)  # examples are fitted in this process, like runs in theirs
    specs = [spec for spec in specs if not spec.is_current(store.folder)]
    with progress(sum(len(spec.methods) for spec in specs), "method", quiet=quiet) as bar:
        for spec in specs:
            try:
                save_example(make_example(spec, bar=bar), store.folder)
            except Exception as error:  # whatever a third-party method raises
                log.warning("failed: %s: %s", spec, error)
    return runs


def _measure_speed(scale: str, folder: Path) -> None:
    """Measure inference and fitting at this scale, for their figures, unless there are such measurements."""
    from benchmarks import speed
    from benchmarks.results.speeds import load_speeds

    measured = {each.fullname.partition("::")[0].rpartition("/")[2] for each in load_speeds(folder)[0]}
    if measured.issuperset(SPEED_TESTS):
        return
    if find_spec("pytest_benchmark") is None:
        log.warning("speed is not measured; install %s", install_hint("bench"))
        return
    log.info("measuring the speed of inference and fitting at the scale %s", scale)
    tests = [str(Path(speed.__path__[0]) / name) for name in SPEED_TESTS]
    options = ["--benchmark-only", "--scale", scale, "--results", str(folder.absolute()), "-k", SPEED_CASES]
    command = [sys.executable, "-m", "pytest", *tests, *options, "-q", "-p", "no:cacheprovider"]
    root = Path(speed.__path__[0]).parents[1]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        log.warning("some measurements of speed failed:\n%s", "\n".join(done.stdout.splitlines()[-20:]))


def _stale(files: dict[Path, bytes]) -> list[Path]:
    """The files on disk that are not what the results give now."""
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
    suites = "run this suite first: smoke, default, paper, another one or a TOML file (default default)"
    first.add_argument("--suite", default="default", metavar="NAME", help=suites)
    first.add_argument("--no-run", action="store_true", help="run nothing, show the results that there are")
    speed = "scale of the speed measurements, if there are none yet: smoke, default, paper, or no (default smoke)"
    add("--speed", choices=("smoke", "default", "paper", NO_SPEED), default="smoke", metavar="SCALE", help=speed)
    only = "this output only, or docs: all that README.md and docs/ show of results; may be repeated"
    add("--only", action="append", default=[], metavar="NAME", help=only)
    add("--out", type=Path, default=Path("report"), metavar="DIR", help="folder of the report (default report)")
    add("--check", action="store_true", help="write nothing; exit code 1 where a file is missing or stale")
    add(
        "--results",
        type=Path,
        metavar="DIR",
        help="folder of the results, or published (default $FEDRULE_RESULTS or results)",
    )
    add("--jobs", type=cli.count, default=1, metavar="N", help="runs at once, each in a process (default 1)")
    add("--quiet", action="store_true", help="no progress bar")
    return parser


if __name__ == "__main__":
    sys.exit(main())
