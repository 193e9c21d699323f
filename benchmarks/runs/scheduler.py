"""Many runs: finished ones are skipped, the others run one after the other or several at the same time.

Where a run is executed is an `Executor`'s: processes of this machine (`benchmarks.runs.workers`) or a cluster
(`benchmarks.cluster.executor`). All else is here, and the same for both: which runs are missing, and which of them
another process on the same folder is at. An interruption loses only what is running, and a second process on the same
folder takes what the first has not started.

Compiling takes longer than most runs. numba keeps what it has compiled on disk, but two processes that start at the
same time compile the same loops. So the first runs of methods with compiled loops take turns, see `Turns`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Protocol, TypeAlias

from benchmarks.results.status import warning_lines
from benchmarks.results.store import Result, Store
from benchmarks.runs.experiment import Experiment, Source, refuse_bad_interval
from benchmarks.runs.history import OnProgress
from benchmarks.runs.run import RunCheckpoints
from benchmarks.runs.workers import Workers, libraries_of, module_of
from datasets.common.errors import DataError
from datasets.common.progress import Progress, progress

log = logging.getLogger(__name__)

CAPACITY_AGE = 2.0  # seconds after which a cluster is asked for its capacity again

_Done: TypeAlias = tuple[list[Result], list[Result]]  # finished by another process meanwhile, and made
_Task: TypeAlias = tuple[Experiment, Path]  # and the file of its homes


class Executor(Protocol):
    """Where runs are executed; its methods are called from several threads."""

    def capacity(self) -> int:
        """How many runs it executes at the same time, 1 or more; a cluster's may change."""

    def run(
        self,
        experiment: Experiment,
        homes: Path,
        *,
        store: Store,
        threads: int,
        on_progress: OnProgress,
        checkpoints: int,
    ) -> list[Result]:
        """Execute a run on the homes of a file of `write_homes`; its results, stored. A stopped one has none."""

    def stop(self) -> None:
        """End every run; running ones are lost."""


@dataclass(slots=True)
class Outcome:
    """The results of many runs, counted by protocol: a run by two protocols is two."""

    finished: list[Result] = field(default_factory=list)  # before or now
    made: int = 0  # of the finished, those of now
    failed: list[Result] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # running in another process


def ignore_result(result: Result) -> None:
    """Do nothing."""
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
    executor: AbstractContextManager[Executor] | None = None,
) -> Outcome:
    """Run what is not finished; Ctrl-C ends the running ones and comes through as KeyboardInterrupt.

    Without an executor, `jobs` runs at the same time are processes of this machine. With `checkpoints` every so many
    rounds, killed runs are resumed; see `benchmarks.runs.run`. `on_result` is called with each result once it is
    stored, a failure too, but not with those that were finished before.
    """
    refuse_bad_interval("checkpoints", checkpoints)
    if not experiments:
        raise DataError("nothing to run: all data sets were skipped; give the files of one, or data without optional")
    outcome = Outcome()
    with TemporaryDirectory() as folder:
        seen: set[str] = set()
        found = [_missing(each, store, outcome, seen) for each in experiments]
        tasks = [(each, write_homes(each.source, Path(folder))) for each in found if each.protocols]
        if not tasks:
            return outcome
        with (
            executor or Workers(max(jobs, 1)) as opened,
            progress(len(tasks), "run", quiet=quiet) as bar,
            ThreadPoolExecutor(len(tasks)) as pool,  # a thread is started when it is needed
        ):
            turns, waiting = Turns(tasks), len(tasks)
            running: set[Future[_Done | str]] = set()
            try:
                while waiting or running:
                    while waiting and len(running) < opened.capacity():
                        running.add(pool.submit(_run_next, turns, opened, store, threads, checkpoints, bar))
                        waiting -= 1
                    done, running = wait(running, CAPACITY_AGE if waiting else None, FIRST_COMPLETED)
                    _collect(done, bar, outcome, on_result)
            except BaseException:
                opened.stop()
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
    """Who runs next: tasks in their order, except that only one of the first runs of compiled methods is running.

    Others that might compile the same are passed over meanwhile, unless nothing else is left: nobody waits.
    """

    def __init__(self, tasks: Sequence[_Task]) -> None:
        self._waiting = list(tasks)
        methods = {experiment.method: experiment for experiment, _ in tasks}
        # Modules that may compile; those of methods of which a run has ended are removed.
        self._uncompiled = {module_of(each) for each in methods.values() if "numba" in libraries_of(each.method)}
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
                self._uncompiled.discard(module_of(task[0]))
                self._compiling &= not first

    def _compiles(self, task: _Task) -> bool:
        return module_of(task[0]) in self._uncompiled


def _run_next(
    turns: Turns, executor: Executor, store: Store, threads: int, checkpoints: int, bar: Progress
) -> _Done | str:
    with turns.take() as (experiment, homes):
        return _run(experiment, homes, executor, store, threads, checkpoints, bar)


def _run(
    experiment: Experiment, homes: Path, executor: Executor, store: Store, threads: int, checkpoints: int, bar: Progress
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

        made = executor.run(
            missing, homes, store=store, threads=threads, on_progress=on_progress, checkpoints=checkpoints
        )
        return list(found.values()), made


def _collect(
    futures: Iterable[Future[_Done | str]], bar: Progress, outcome: Outcome, on_result: Callable[[Result], None]
) -> None:
    for future in futures:
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


def write_homes(source: Source, folder: Path) -> Path:
    """The homes of a source as a file for subprocesses; written once."""
    path = folder / f"{source.fingerprint()}.parquet"
    if not path.exists():
        source.load().save(path)
    return path
