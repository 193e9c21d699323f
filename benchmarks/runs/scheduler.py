"""Many runs: finished ones are skipped, the others run one after the other or several at the same time.

Each run has a process of its own: its memory figure is its own, and a crash is a failed run and nothing more. It gets
the homes as a file and the experiment as JSON, stores the results itself, and reports its rounds, a line each. So an
interruption loses only what is running, and a second process on the same folder takes what the first has not started.

Importing torch takes longer than most small runs. So a template process imports what a method's module needs, once, and
is forked for every run of methods that need the same libraries; it never fits anything itself.

Compiling takes longer still. numba keeps what it has compiled on disk, but two processes that start at the same time
compile the same loops. So the first runs of methods with compiled loops come one after the other, see `Turns`.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Lock
from typing import IO, Any, NamedTuple, Self, TypeAlias

from baselines.registry import get, packages_of
from benchmarks.results.records import as_json
from benchmarks.results.status import warning_lines
from benchmarks.results.store import Result, Store
from benchmarks.runs.experiment import Experiment, Source, code_hash, make_experiment, refuse_bad_interval
from benchmarks.runs.history import OnProgress, ignore_progress
from benchmarks.runs.run import RunCheckpoints, failed, run_once
from datasets.common.cli import EXTRAS
from datasets.common.environment import set_threads, thread_variables
from datasets.common.errors import DataError
from datasets.common.progress import Progress, progress
from datasets.storage import load_file

log = logging.getLogger(__name__)

TAIL = 4000  # bytes of a crashed process's last output
MOST_IDLE = 8  # template processes kept for later runs; one with torch holds 300 MB
ENDED = "ended"  # first word of the line in which a template process reports a run's exit code

_Done: TypeAlias = tuple[list[Result], list[Result]]  # finished by another process meanwhile, and made
_Task: TypeAlias = tuple[Experiment, Path]  # and the file of its homes


@dataclass(slots=True)
class Outcome:
    """The results of many runs, counted by protocol: a run by two protocols is two."""

    finished: list[Result] = field(default_factory=list)  # before or now
    made: int = 0  # of the finished, those of now
    failed: list[Result] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # running in another process


def ignore_result(result: Result) -> None:
    """Nobody is to be told of a result."""
    del result


def run_all(
    experiments: Sequence[Experiment],
    *,
    store: Store,
    jobs: int = 1,
    threads: int = 1,
    quiet: bool = False,
    checkpoints: int = 0,
    on_result: Callable[[Result], None] = ignore_result,
) -> Outcome:
    """Run what is not finished; Ctrl-C ends the running ones and comes through as KeyboardInterrupt.

    With `checkpoints` every so many rounds, killed runs are resumed; see `benchmarks.runs.run`. `on_result` is called
    with each result once it is stored, a failure too, but not with those that were finished before.
    """
    refuse_bad_interval("checkpoints", checkpoints)
    if not experiments:
        raise DataError("nothing to run: all data sets were skipped; give the files of one, or data without optional")
    outcome = Outcome()
    with TemporaryDirectory() as folder:
        seen: set[str] = set()
        found = [_missing(each, store, outcome, seen) for each in experiments]
        tasks = [(each, write_homes(each.source, Path(folder))) for each in found if each.protocols]
        with (
            Workers() as workers,
            progress(len(tasks), "run", quiet=quiet) as bar,
            ThreadPoolExecutor(max(jobs, 1)) as pool,
        ):
            turns = Turns(tasks)
            futures = [pool.submit(_run_next, turns, workers, store, threads, checkpoints, bar) for _ in tasks]
            try:
                _collect(futures, bar, outcome, on_result)
            except BaseException:
                for future in futures:
                    future.cancel()
                workers.stop()
                raise
    return outcome


def _missing(experiment: Experiment, store: Store, outcome: Outcome, seen: set[str]) -> Experiment:
    """The experiment with the protocols that are not finished and not in `seen`, the hashes of earlier experiments."""
    missing, code = [], experiment.code
    for protocol, key in experiment.keys(experiment.source.fingerprint()).items():
        if key.hash in seen:
            continue
        seen.add(key.hash)
        found = store.finished(key, code)
        if found is None:
            missing.append(protocol)
        else:
            outcome.finished.append(found)
    return experiment.only(missing)


class Turns:
    """Who runs next: tasks in their order, except that only one of the first runs of compiled methods is under way.

    Others that might compile the same are passed over meanwhile, unless nothing else is left: nobody waits.
    """

    def __init__(self, tasks: Sequence[_Task]) -> None:
        self._waiting = list(tasks)
        methods = {experiment.method: experiment for experiment, _ in tasks}
        # Modules that may compile; those of methods of which a run has ended are removed.
        self._uncompiled = {_module(each) for each in methods.values() if "numba" in _libraries(each.method)}
        self._compiling = False
        self._lock = Lock()

    @contextmanager
    def take(self) -> Iterator[_Task]:
        """The next task, until it has ended."""
        with self._lock:
            ready = (task for task in self._waiting if not (self._compiling and self._compiles(task)))
            task = next(ready, self._waiting[0])
            self._waiting.remove(task)
            first = not self._compiling and self._compiles(task)
            self._compiling |= first
        try:
            yield task
        finally:
            with self._lock:
                self._uncompiled.discard(_module(task[0]))
                self._compiling &= not first

    def _compiles(self, task: _Task) -> bool:
        return _module(task[0]) in self._uncompiled


def _run_next(
    turns: Turns, workers: Workers, store: Store, threads: int, checkpoints: int, bar: Progress
) -> _Done | str:
    with turns.take() as (experiment, homes):
        return _run(experiment, homes, workers, store, threads, checkpoints, bar)


def _run(
    experiment: Experiment, homes: Path, workers: Workers, store: Store, threads: int, checkpoints: int, bar: Progress
) -> _Done | str:
    """The results of a run, or its name where another process is running it."""
    fingerprint = experiment.source.fingerprint()
    keys, code = experiment.keys(fingerprint), experiment.code
    with store.claim(next(iter(keys.values()))) as ours:
        if not ours:
            return str(experiment)
        # Another process may have finished some of it since.
        found = {protocol: result for protocol, key in keys.items() if (result := store.find(key, code))}
        missing = experiment.only([protocol for protocol in keys if protocol not in found])
        if not missing.protocols:
            return list(found.values()), []
        RunCheckpoints.of(missing, fingerprint, store, checkpoints).log_resumed(str(experiment))
        bar.note(str(experiment))

        def on_progress(done: int, of: int) -> None:
            bar.note(f"{experiment}: round {done} of {of}")

        made = workers.run(
            missing, homes, store=store, threads=threads, on_progress=on_progress, checkpoints=checkpoints
        )
        return list(found.values()), made


def _collect(
    futures: Sequence[Future[_Done | str]], bar: Progress, outcome: Outcome, on_result: Callable[[Result], None]
) -> None:
    for future in as_completed(futures):
        done = future.result()
        bar.step()
        if isinstance(done, str):
            outcome.elsewhere.append(done)
            continue
        found, made = done
        outcome.finished += found
        for line in warning_lines(made):
            log.warning("%s", line)
        for result in made:
            if result.status == "done":
                outcome.finished.append(result)
                outcome.made += 1
            else:
                outcome.failed.append(result)
                log.warning("failed: %s: %s", result.key, result.failure)
            on_result(result)


class TemplateKey(NamedTuple):
    """What the runs of a template process have in common."""

    libraries: frozenset[str]
    threads: int


@cache  # reading a method's files takes longer than some runs
def _libraries(method: str) -> frozenset[str]:
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
            [sys.executable, "-m", "benchmarks.runs.scheduler"],
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

    stopped: bool = False
    _running: set[Template] = field(default_factory=set)
    _idle: list[Template] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().close()

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
        """Run an experiment on the homes of a file and wait for it; a stopped one has no results."""
        job = _job(experiment, homes, store, threads=threads, checkpoints=checkpoints)
        keys, code = experiment.keys(experiment.source.fingerprint()).values(), experiment.code
        with self._template(TemplateKey(_libraries(experiment.method), threads)) as template:
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


def write_homes(source: Source, folder: Path) -> Path:
    """The homes of a source as a file for subprocesses; written once."""
    path = folder / f"{source.fingerprint()}.parquet"
    if not path.exists():
        source.load().save(path)
    return path


def main() -> int:
    """The template process: is forked for each job on standard input, and reports how that ended."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is not taken for rounds
    for line in sys.stdin:
        job = json.loads(line)
        method = job["experiment"]["method"]
        set_threads(job["threads"])
        importlib.import_module(job["module"])
        _load_late_parts(_libraries(method))
        code_hash(get(method))  # every run asks for it
        gc.freeze()  # so that a run's collector does not touch, and thereby copy, what it shares
        run = os.fork()
        if not run:
            _run_job(job, lines)
            return 0
        lines.write(f"{ENDED} {os.waitstatus_to_exitcode(os.waitpid(run, 0)[1])}\n")
    return 0


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
    given = job["experiment"]
    given["options"] = given.pop("split_options")
    experiment = make_experiment(given.pop("method"), Source(**given.pop("source")), **given)

    def report(done: int, of: int) -> None:
        try:
            lines.write(f"{done} {of}\n")
        except BrokenPipeError:  # the parent process is gone, which is no failure of the method
            os._exit(1)

    homes, store = load_file(job["homes"]), Store(Path(job["store"]))
    threads, checkpoints = job["threads"], job["checkpoints"]
    run_once(experiment, homes, store=store, threads=threads, on_progress=report, checkpoints=checkpoints)


def _module(experiment: Experiment) -> str:
    return get(experiment.method).__module__


def _job(experiment: Experiment, homes: Path, store: Store, *, threads: int, checkpoints: int) -> str:
    module = _module(experiment)
    if module == "__main__":
        raise DataError(f"{experiment.method} is defined in the script itself; move it to a module and use --import")
    job = {"experiment": as_json(asdict(experiment), experiment.method), "module": module, "homes": str(homes)}
    return json.dumps({**job, "store": str(store.folder.absolute()), "threads": threads, "checkpoints": checkpoints})


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"its process ended with code {code}"
    name = signal.Signals(-code).name
    return f"its process was killed by {name}" + (", perhaps out of memory" if name == "SIGKILL" else "")


if __name__ == "__main__":
    sys.exit(main())
