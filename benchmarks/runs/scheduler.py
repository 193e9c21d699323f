"""Many runs: the finished ones skipped, the others one after the other or several at once.

Each run has a process of its own and keeps its own results, so an interruption loses only what is under way, and a
second process on the same folder takes what the first has not begun.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Lock
from typing import IO

from baselines.registry import get
from benchmarks.evaluation.evaluate import PROTOCOLS
from benchmarks.results.records import as_json
from benchmarks.results.store import Result, Store, results_folder
from benchmarks.runs.experiment import Experiment, Source, make_experiment, make_source, refuse_bad_interval
from benchmarks.runs.history import Told, nobody
from benchmarks.runs.resume import Checkpoints
from benchmarks.runs.run import failed, run_once
from datasets.common.errors import DataError
from datasets.common.files import Json
from datasets.common.progress import Progress, progress
from datasets.common.threads import environment, set_threads
from datasets.storage import load_file

# --- A run in a process of its own: its memory figure is its own, and a crash is a failed run and nothing more.
#
# The homes are handed over as a file, the experiment as JSON on the standard input. The new process keeps the results
# itself and tells its rounds, a line each, on the standard output.

TAIL = 4000  # characters of what a crashed process said last


def hand_over(source: Source, folder: Path) -> Path:
    """The homes of a source as a file that other processes read; written once."""
    path = folder / f"{source.fingerprint()}.parquet"
    if not path.exists():
        source.load().save(path)
    return path


@dataclass(eq=False)
class Children:
    """The processes under way, from whichever thread, so that all of them can be stopped."""

    stopped: bool = False
    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def run(
        self,
        asked: Experiment,
        homes: Path,
        *,
        store: Store,
        threads: int,
        told: Told = nobody,
        checkpoints: int = 0,
    ) -> list[Result]:
        """Run an experiment on handed-over homes and wait for it; of one that was stopped nothing is kept."""
        order = json.dumps(_order(asked, homes, store, threads) | {"checkpoints": checkpoints})
        with TemporaryFile("w+", errors="replace") as said:
            with self._started(said, threads) as child:
                code = _follow(child, order, told)
            if self.stopped:
                return []
            said.seek(0)
            last_words = said.read()[-TAIL:]
        keys = asked.keys(asked.source.fingerprint()).values()
        if code == 0:
            return [store.outcome(key, asked.code) for key in keys]
        error = f"{_ending(code)}\n{last_words}".strip()
        made_by = asked.code
        return [
            store.find(key, made_by) or store.fail(failed(asked, key, error, threads=threads, code=made_by))
            for key in keys
        ]

    def stop(self) -> None:
        """End every process under way; their runs are lost."""
        with self._lock:
            self.stopped = True
            for child in self._running:
                child.kill()

    @contextmanager
    def _started(self, said: IO[str], threads: int) -> Iterator[subprocess.Popen[str]]:
        paths = os.pathsep.join(path for path in sys.path if path)
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.runs.scheduler"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=os.environ | environment(threads) | {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
            text=True,
            start_new_session=True,  # Ctrl-C reaches this process, which then says what becomes of the others
        )
        with child:
            with self._lock:
                self._running.add(child)
                if self.stopped:
                    child.kill()
            try:
                yield child
            finally:
                child.kill()  # nothing, if it has ended by itself
                with self._lock:
                    self._running.discard(child)


def main() -> int:
    """The new process: one experiment, and its results in the store."""
    order = json.load(sys.stdin)
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is not taken for rounds
    set_threads(order["threads"])
    importlib.import_module(order["module"])
    asked = order["experiment"]
    again = make_experiment(
        asked["method"],
        Source(**asked["source"]),
        parameters=asked["parameters"],
        split=asked["split"],
        options=asked["split_options"],
        seed=asked["seed"],
        protocols=asked["protocols"],
        curves=asked["curves"],
        suite=asked["suite"],
    )

    def told(done: int, of: int) -> None:
        try:
            lines.write(f"{done} {of}\n")
        except BrokenPipeError:  # whoever asked for this run is gone, which is no failure of the method
            os._exit(1)

    store = Store(Path(order["store"]))
    homes, many = load_file(order["homes"]), order["checkpoints"]
    run_once(again, homes, store=store, threads=order["threads"], told=told, checkpoints=many)
    return 0


def _order(asked: Experiment, homes: Path, store: Store, threads: int) -> dict[str, Json]:
    module = get(asked.method).__module__
    if module == "__main__":
        raise DataError(f"{asked.method} is defined in the script itself; move it to a module or use isolate=False")
    paths = {"homes": str(homes), "store": str(store.folder.absolute())}
    return {"experiment": as_json(asdict(asked), asked.method), "module": module, "threads": threads, **paths}


def _follow(child: subprocess.Popen[str], order: str, told: Told) -> int:
    """Give the order, pass on the rounds, and say how it ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    with suppress(BrokenPipeError):  # it ended before it had read; its exit code says why
        child.stdin.write(order)
        child.stdin.close()
    for line in child.stdout:
        done, _, of = line.partition(" ")
        told(int(done), int(of))
    return child.wait()


def _ending(code: int) -> str:
    if code >= 0:
        return f"its process ended with code {code}"
    name = signal.Signals(-code).name
    return f"its process was ended by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


if __name__ == "__main__":
    sys.exit(main())


log = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """What became of many runs. Results are counted by protocol, so a run by two protocols is two."""

    finished: list[Result] = field(default_factory=list)  # before or now
    made: int = 0  # of the finished, those of now
    failed: list[Result] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # under way in another process


@dataclass(frozen=True, slots=True)
class _Task:
    asked: Experiment  # with the protocols that are missing
    homes: Path


@dataclass(frozen=True, slots=True)
class _Ended:
    found: list[Result]  # finished by another process meanwhile
    made: list[Result]


def run_all(
    experiments: Sequence[Experiment],
    *,
    store: Store,
    jobs: int = 1,
    threads: int = 1,
    quiet: bool = False,
    checkpoints: int = 0,
) -> Outcome:
    """Run what is not finished; Ctrl-C ends the runs under way and comes through as KeyboardInterrupt.

    With `checkpoints` every so many rounds, runs go on from the last one; see `benchmarks.runs.resume`.
    """
    refuse_bad_interval("checkpoints", checkpoints)
    if not experiments:
        raise DataError("nothing to run: every data set was left out; give the files of one, or data without optional")
    outcome = Outcome()
    with TemporaryDirectory() as folder:
        seen: set[str] = set()
        tasks = [task for asked in experiments if (task := _missing(asked, store, Path(folder), outcome, seen))]
        children = Children()
        with progress(len(tasks), "run", quiet=quiet) as bar, ThreadPoolExecutor(max(jobs, 1)) as pool:
            futures = [pool.submit(_run, task, children, store, threads, checkpoints, bar) for task in tasks]
            try:
                _gather(futures, bar, outcome)
            except BaseException:
                for future in futures:
                    future.cancel()
                children.stop()
                raise
    return outcome


def _missing(asked: Experiment, store: Store, folder: Path, outcome: Outcome, seen: set[str]) -> _Task | None:
    """The part of an experiment that is not finished, with its homes handed over; None if nothing is missing.

    `seen` are the hashes of what was asked for before, which counts once.
    """
    missing, code = [], asked.code
    for protocol, key in asked.keys(asked.source.fingerprint()).items():
        if key.hash in seen:
            continue
        seen.add(key.hash)
        found = store.finished(key, code)
        if found is None:
            missing.append(protocol)
        else:
            outcome.finished.append(found)
    return _Task(asked.only(missing), hand_over(asked.source, folder)) if missing else None


def _run(task: _Task, children: Children, store: Store, threads: int, checkpoints: int, bar: Progress) -> _Ended | str:
    """The results of a task, or the name of the run where another process is at it."""
    keys, code = task.asked.keys(task.asked.source.fingerprint()), task.asked.code
    with store.claim(next(iter(keys.values()))) as ours:
        if not ours:
            return str(task.asked)
        # Another process may have finished some of it since.
        found = {protocol: result for protocol, key in keys.items() if (result := store.find(key, code))}
        missing = task.asked.only([protocol for protocol in keys if protocol not in found])
        if not missing.protocols:
            return _Ended(list(found.values()), [])
        Checkpoints.of(missing, task.asked.source.fingerprint(), store, checkpoints).announce(str(task.asked))
        bar.note(str(task.asked))
        made = children.run(
            missing,
            task.homes,
            store=store,
            threads=threads,
            told=lambda done, of: bar.note(f"{task.asked}: round {done} of {of}"),
            checkpoints=checkpoints,
        )
        return _Ended(list(found.values()), made)


def _gather(futures: list[Future[_Ended | str]], bar: Progress, outcome: Outcome) -> None:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            got = future.result()
            bar.step()
            if isinstance(got, str):
                outcome.elsewhere.append(got)
                continue
            outcome.finished += got.found
            for result in got.made:
                (outcome.finished if result.status == "done" else outcome.failed).append(result)
                outcome.made += result.status == "done"
            for result in got.made:
                if result.status == "failed":
                    log.warning("failed: %s: %s", result.key, result.error.splitlines()[-1])


# --- One run by its names: the result of each protocol, read where it is finished and made where it is not.


def run(
    method: str,
    data: str,
    *,
    parameters: Mapping[str, object] | None = None,
    data_options: Mapping[str, object] | None = None,
    path: Path | str | None = None,
    track: str = "types",
    split: str = "holdout",
    split_options: Mapping[str, object] | None = None,
    protocols: Sequence[str] = PROTOCOLS,
    seed: int = 0,
    curves: int = 0,
    store: Path | str | None = None,
    threads: int = 1,
    checkpoints: int = 0,
    isolate: bool = True,
) -> list[Result]:
    """The result of each protocol: read where the run is finished, made and kept where it is not.

    A run that fails is a result with status "failed" and is tried again by the next call. It happens in a process of
    its own, so that its memory is its own and no crash is shared; `isolate=False` runs it here. With `curves` the model
    is measured every so many rounds, see `benchmarks.runs.history`. With `checkpoints` methods that can keep every so many
    rounds what they need to go on, and a call after one that was killed goes on from there, see `benchmarks.runs.resume`.
    """
    refuse_bad_interval("checkpoints", checkpoints)
    homes_of = make_source(data, options=data_options or {}, track=track, path=path)
    asked = make_experiment(
        method,
        homes_of,
        parameters=parameters or {},
        split=split,
        options=split_options or {},
        seed=seed,
        protocols=protocols,
        curves=curves,
    )
    kept = Store(results_folder(store))
    keys = asked.keys(homes_of.fingerprint())
    finished = {protocol: found for protocol, key in keys.items() if (found := kept.finished(key, asked.code))}
    missing = asked.only([protocol for protocol in keys if protocol not in finished])
    if missing.protocols:
        Checkpoints.of(missing, homes_of.fingerprint(), kept, checkpoints).announce(str(asked))
    if missing.protocols and isolate:
        with TemporaryDirectory() as folder:
            file = hand_over(homes_of, Path(folder))
            made = Children().run(missing, file, store=kept, threads=threads, checkpoints=checkpoints)
    elif missing.protocols:
        set_threads(threads)
        made = run_once(missing, homes_of.load(), store=kept, threads=threads, checkpoints=checkpoints)
    else:
        made = []
    finished |= {result.key.protocol: result for result in made}
    return [finished[protocol] for protocol in protocols]
