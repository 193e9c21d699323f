"""Runs in processes of their own on this machine: the memory figure of each is its own, and a crash is a failed run.

A run gets the homes as a file and the experiment as JSON, stores the results itself, and reports its rounds, a line
each.

Importing torch takes longer than most small runs. So a template process imports what a method's module needs, once, and
is forked for every run of methods that need the same libraries; it never fits anything itself.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

from baselines.registry import get, packages_of
from benchmarks.results.records import as_json
from benchmarks.results.store import Result, Store
from benchmarks.runs.experiment import Experiment, Source, code_hash, make_experiment
from benchmarks.runs.history import OnProgress, ignore_progress
from benchmarks.runs.processes import Process, ProcessPool, describe_failure, reporter, serve
from benchmarks.runs.run import failed, run_once
from datasets.common.cli import EXTRAS
from datasets.common.environment import set_threads
from datasets.common.errors import DataError
from datasets.storage import load_file

MOST_IDLE = 8  # template processes kept for later runs; one with torch holds 300 MB


class TemplateKey(NamedTuple):
    """What the runs of a template process have in common."""

    libraries: frozenset[str]
    threads: int


@cache  # reading a method's files takes longer than some runs
def libraries_of(method: str) -> frozenset[str]:
    """The optional packages of a method of ours; those of another are not known, so its module stands for them."""
    packages = packages_of(method)
    return frozenset(packages & EXTRAS.keys()) if packages else frozenset([get(method).__module__])


class Template(Process):
    """A process that has imported modules of methods and is forked for each run of them, one at a time."""

    def __init__(self, key: TemplateKey) -> None:
        super().__init__("benchmarks.runs.workers", key=key, threads=key.threads)
        self.codes: dict[str, str] = {}  # method -> hash of the code that was imported

    def is_current(self) -> bool:
        """Whether it has not ended, and all code that it has imported is that of now."""
        return super().is_current() and all(code_hash(get(method)) == code for method, code in self.codes.items())


class Workers(ProcessPool[TemplateKey, Template]):
    """The processes of runs."""

    def __init__(self, jobs: int = 1) -> None:
        super().__init__(Template, most_idle=MOST_IDLE)
        self.jobs = jobs  # runs at the same time

    def capacity(self) -> int:
        """How many runs it takes at the same time."""
        return self.jobs

    def run(
        self,
        experiment: Experiment,
        homes: Path,
        *,
        store: Store,
        threads: int,
        on_progress: OnProgress = ignore_progress,
        checkpoints: int = 0,
        name: str = "",
    ) -> list[Result]:
        """Run an experiment on the homes of a file and wait for it; a stopped one has no results.

        The name of the file is the fingerprint of the homes: where it came from may be on another machine. `name` is
        one by which the run can be cancelled.
        """
        job = _job(experiment, homes, store, threads=threads, checkpoints=checkpoints)
        keys, code = experiment.keys(homes.stem).values(), experiment.code
        with self.take(TemplateKey(libraries_of(experiment.method), threads), name) as template:
            template.codes.setdefault(experiment.method, code)
            exit_code, tail = template.run(job, on_progress)
        if self.stopped:
            return []
        if exit_code == 0:
            return [store.outcome(key, code) for key in keys]
        error = describe_failure(exit_code, tail)
        return [
            store.find(key, code) or store.fail(failed(experiment, key, error, threads=threads, code=code))
            for key in keys
        ]


def module_of(experiment: Experiment) -> str:
    return get(experiment.method).__module__


def main() -> int:
    """The template process: is forked for each job, and reports how that ended."""
    return serve(_fork)


def _fork(job: dict[str, Any], lines: IO[str]) -> int:
    method = job["experiment"]["method"]
    set_threads(job["threads"])
    importlib.import_module(job["module"])
    _load_late_parts(libraries_of(method))
    code_hash(get(method))  # every run asks for it
    gc.freeze()  # so that a run's collector does not touch, and thereby copy, what it shares
    run = os.fork()
    if not run:
        _run_job(job, lines)
        sys.exit(0)
    return _exit_code(run)


def _exit_code(run: int) -> int:
    """Wait for a run; it is killed when the process at the other end of standard input is gone.

    Nobody holds its claim then, so the same run may be started again at any time.
    """
    with suppress(AttributeError, OSError):  # Linux only; elsewhere the run goes on until it reports a round
        process = os.pidfd_open(run)
        try:
            ended = select.poll()
            ended.register(process, select.POLLIN)
            ended.register(sys.stdin, 0)  # a closed pipe is always reported
            if process not in dict(ended.poll()):
                os.kill(run, signal.SIGKILL)
        finally:
            os.close(process)
    return os.waitstatus_to_exitcode(os.waitpid(run, 0)[1])


@cache
def _load_late_parts(libraries: frozenset[str]) -> None:
    """Load what is loaded on first use: torch, half of it with an optimizer, and most of numba with a compiled loop."""
    if "torch" in libraries:
        from torch import zeros
        from torch.optim import SGD

        SGD([zeros(1)])
    if "numba" in libraries:
        from numba import njit

        njit(_do_nothing)()


def _do_nothing() -> None:
    pass


def _run_job(job: dict[str, Any], lines: IO[str]) -> None:
    """Run one experiment and store its results."""
    experiment, homes, store = experiment_from_json(job), load_file(job["homes"]), Store(Path(job["store"]))
    threads, checkpoints = job["threads"], job["checkpoints"]
    run_once(experiment, homes, store=store, threads=threads, on_progress=reporter(lines), checkpoints=checkpoints)


def experiment_as_json(experiment: Experiment) -> dict[str, Any]:
    """An experiment as JSON, for another process, and the module of its method."""
    module = module_of(experiment)
    if module == "__main__":
        raise DataError(f"{experiment.method} is defined in the script itself; move it to a module and use --import")
    return {"experiment": as_json(asdict(experiment), experiment.method), "module": module}


def experiment_from_json(content: Mapping[str, Any]) -> Experiment:
    """The experiment of `experiment_as_json`; imports its method."""
    importlib.import_module(content["module"])
    given = dict(content["experiment"])
    given["options"] = given.pop("split_options")
    return make_experiment(given.pop("method"), Source(**given.pop("source")), **given)


def _job(experiment: Experiment, homes: Path, store: Store, *, threads: int, checkpoints: int) -> str:
    places = {"homes": str(homes), "store": str(store.folder.absolute())}
    return json.dumps({**experiment_as_json(experiment), **places, "threads": threads, "checkpoints": checkpoints})


if __name__ == "__main__":
    sys.exit(main())
