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
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, NamedTuple, Self

from baselines.registry import get, packages_of
from benchmarks.results.records import as_json
from benchmarks.results.store import Result, Store
from benchmarks.runs.experiment import Experiment, Source, code_hash, make_experiment
from benchmarks.runs.history import OnProgress, ignore_progress
from benchmarks.runs.run import failed, run_once
from datasets.common.cli import EXTRAS
from datasets.common.environment import set_threads, thread_variables
from datasets.common.errors import DataError
from datasets.storage import load_file

TAIL = 4000  # bytes of a crashed process's last output
MOST_IDLE = 8  # template processes kept for later runs; one with torch holds 300 MB
ENDED = "ended"  # first word of the line in which a template process reports a run's exit code


class TemplateKey(NamedTuple):
    """What the runs of a template process have in common."""

    libraries: frozenset[str]
    threads: int


@cache  # reading a method's files takes longer than some runs
def libraries_of(method: str) -> frozenset[str]:
    """The optional packages of a method of ours; those of another are not known, so its module stands for them."""
    packages = packages_of(method)
    return frozenset(packages & EXTRAS.keys()) if packages else frozenset([get(method).__module__])


class Template:
    """A process that has imported modules of methods and is forked for each run of them, one at a time."""

    def __init__(self, key: TemplateKey) -> None:
        self.key = key
        self.codes: dict[str, str] = {}  # method -> hash of the code that was imported
        self.errors: IO[bytes] = TemporaryFile()  # noqa: SIM115 (open until `close`)
        paths = os.pathsep.join(path for path in sys.path if path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.runs.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=os.environ | thread_variables(key.threads) | {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
            text=True,
            start_new_session=True,  # Ctrl-C reaches only this process, which stops the others
        )

    def is_current(self) -> bool:
        """Whether all code that it has imported is that of now."""
        return all(code_hash(get(method)) == code for method, code in self.codes.items())

    def run(self, job: str, on_progress: OnProgress) -> tuple[int, str]:
        """Pass on the rounds of a job; its exit code, or that of this process if it died, and the last output."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        written = os.fstat(self.errors.fileno()).st_size
        with suppress(BrokenPipeError):  # it died before it had read; its exit code says why
            self.process.stdin.write(f"{job}\n")
            self.process.stdin.flush()
        exit_code = None
        for line in self.process.stdout:
            done, _, of = line.partition(" ")
            if done == ENDED:
                exit_code = int(of)
                break
            on_progress(int(done), int(of))
        if exit_code is None:
            exit_code = self.process.wait()
        # Not by seek: the processes write at the position that they share with this one.
        size = os.fstat(self.errors.fileno()).st_size
        tail = os.pread(self.errors.fileno(), TAIL, max(written, size - TAIL))
        return exit_code, tail.decode(errors="replace")

    def kill(self) -> None:
        """End it, and the run that it was forked for."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it and free what it holds here."""
        self.kill()
        with self.errors, suppress(BrokenPipeError), self.process:
            pass


@dataclass(eq=False)
class Workers:
    """The processes of runs, started from any thread, so that all of them can be stopped."""

    jobs: int = 1  # runs at the same time
    stopped: bool = False
    _running: set[Template] = field(default_factory=set)
    _idle: list[Template] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().close()

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
    ) -> list[Result]:
        """Run an experiment on the homes of a file and wait for it; a stopped one has no results.

        The name of the file is the fingerprint of the homes: where it came from may be on another machine.
        """
        job = _job(experiment, homes, store, threads=threads, checkpoints=checkpoints)
        keys, code = experiment.keys(homes.stem).values(), experiment.code
        with self._template(TemplateKey(libraries_of(experiment.method), threads)) as template:
            template.codes.setdefault(experiment.method, code)
            exit_code, tail = template.run(job, on_progress)
        if self.stopped:
            return []
        if exit_code == 0:
            return [store.outcome(key, code) for key in keys]
        error = f"{_describe_exit(exit_code)}\n{tail}".strip()
        return [
            store.find(key, code) or store.fail(failed(experiment, key, error, threads=threads, code=code))
            for key in keys
        ]

    def stop(self) -> None:
        """End every process; their runs are lost."""
        with self._lock:
            self.stopped = True
            for template in self._running:
                template.kill()

    @contextmanager
    def _template(self, key: TemplateKey) -> Iterator[Template]:
        """An idle template process or a new one; idle again behind it, unless it died or there are enough."""
        with self._lock:
            for each in list(self._idle):  # also one that the system has ended for its memory
                if each.process.poll() is not None or not each.is_current():
                    self._idle.remove(each)
                    each.close()
            found = next((each for each in self._idle if each.key == key), None)
            if found is not None:
                self._idle.remove(found)
            template = found or Template(key)
            self._running.add(template)
            if self.stopped:
                template.kill()
        kept = False
        try:
            yield template
            kept = template.process.poll() is None
        finally:
            with self._lock:
                self._running.discard(template)
                # The first ones stay: a suite goes through its methods in turn, so the longest idle one is next.
                kept = kept and not self.stopped and len(self._idle) < MOST_IDLE
                if kept:
                    self._idle.append(template)
            if not kept:
                template.close()


def module_of(experiment: Experiment) -> str:
    return get(experiment.method).__module__


def main() -> int:
    """The template process: is forked for each job on standard input, and reports how that ended."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is not taken for rounds
    for line in sys.stdin:
        job = json.loads(line)
        method = job["experiment"]["method"]
        set_threads(job["threads"])
        importlib.import_module(job["module"])
        _load_late_parts(libraries_of(method))
        code_hash(get(method))  # every run asks for it
        gc.freeze()  # so that a run's collector does not touch, and thereby copy, what it shares
        run = os.fork()
        if not run:
            _run_job(job, lines)
            return 0
        lines.write(f"{ENDED} {_exit_code(run)}\n")
    return 0


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

    def report(done: int, of: int) -> None:
        try:
            lines.write(f"{done} {of}\n")
        except BrokenPipeError:  # the parent process is gone, which is no failure of the method
            os._exit(1)

    experiment, homes, store = experiment_from_json(job), load_file(job["homes"]), Store(Path(job["store"]))
    threads, checkpoints = job["threads"], job["checkpoints"]
    run_once(experiment, homes, store=store, threads=threads, on_progress=report, checkpoints=checkpoints)


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


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"its process ended with code {code}"
    name = signal.Signals(-code).name
    return f"its process was killed by {name}" + (", perhaps out of memory" if name == "SIGKILL" else "")


if __name__ == "__main__":
    sys.exit(main())
