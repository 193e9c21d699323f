"""Each run has a subprocess of its own: its memory figure is its own, and a crash is a failed run and nothing more.

The subprocess gets the homes as a file and the experiment as JSON on its standard input, stores the results itself, and
reports its rounds, a line each, on its standard output.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO

from baselines.registry import get
from benchmarks.results.records import as_json
from benchmarks.results.store import Result, Store
from benchmarks.runs.experiment import Experiment, Source, make_experiment
from benchmarks.runs.history import OnProgress, ignore_progress
from benchmarks.runs.run import failed, run_once
from datasets.common.errors import DataError
from datasets.common.threads import environment, set_threads
from datasets.storage import load_file

TAIL = 4000  # characters of a crashed process's last output


@dataclass(eq=False)
class Workers:
    """The subprocesses of runs, started from any thread, so that all of them can be stopped."""

    stopped: bool = False
    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

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
        with TemporaryFile("w+", errors="replace") as errors:
            with self._started(errors, threads) as process:
                exit_code = _wait(process, job, on_progress)
            if self.stopped:
                return []
            errors.seek(0)
            tail = errors.read()[-TAIL:]
        keys, code = experiment.keys(experiment.source.fingerprint()).values(), experiment.code
        if exit_code == 0:
            return [store.outcome(key, code) for key in keys]
        error = f"{_describe_exit(exit_code)}\n{tail}".strip()
        return [
            store.find(key, code) or store.fail(failed(experiment, key, error, threads=threads, code=code))
            for key in keys
        ]

    def stop(self) -> None:
        """End every subprocess; their runs are lost."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                process.kill()

    @contextmanager
    def _started(self, errors: IO[str], threads: int) -> Iterator[subprocess.Popen[str]]:
        paths = os.pathsep.join(path for path in sys.path if path)
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.runs.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | environment(threads) | {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
            text=True,
            start_new_session=True,  # Ctrl-C reaches only this process, which stops the others
        )
        with process:
            with self._lock:
                self._running.add(process)
                if self.stopped:
                    process.kill()
            try:
                yield process
            finally:
                process.kill()  # no effect if it has ended by itself
                with self._lock:
                    self._running.discard(process)


def write_homes(source: Source, folder: Path) -> Path:
    """The homes of a source as a file for subprocesses; written once."""
    path = folder / f"{source.fingerprint()}.parquet"
    if not path.exists():
        source.load().save(path)
    return path


def main() -> int:
    """The subprocess: run one experiment and store its results."""
    job = json.load(sys.stdin)
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is not taken for rounds
    set_threads(job["threads"])
    importlib.import_module(job["module"])
    given = job["experiment"]
    given["options"] = given.pop("split_options")
    experiment = make_experiment(given.pop("method"), Source(**given.pop("source")), **given)

    def report(done: int, of: int) -> None:
        try:
            lines.write(f"{done} {of}\n")
        except BrokenPipeError:  # the parent process is gone, which is no failure of the method
            os._exit(1)

    run_once(
        experiment,
        load_file(job["homes"]),
        store=Store(Path(job["store"])),
        threads=job["threads"],
        on_progress=report,
        checkpoints=job["checkpoints"],
    )
    return 0


def _job(experiment: Experiment, homes: Path, store: Store, *, threads: int, checkpoints: int) -> str:
    module = get(experiment.method).__module__
    if module == "__main__":
        raise DataError(
            f"{experiment.method} is defined in the script itself; move it to a module or use isolate=False"
        )
    job = {"experiment": as_json(asdict(experiment), experiment.method), "module": module, "homes": str(homes)}
    return json.dumps({**job, "store": str(store.folder.absolute()), "threads": threads, "checkpoints": checkpoints})


def _wait(process: subprocess.Popen[str], job: str, on_progress: OnProgress) -> int:
    """Send the job, pass on the rounds, and return the exit code."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # it ended before it had read; its exit code says why
        process.stdin.write(job)
        process.stdin.close()
    for line in process.stdout:
        done, _, of = line.partition(" ")
        on_progress(int(done), int(of))
    return process.wait()


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"its process ended with code {code}"
    name = signal.Signals(-code).name
    return f"its process was killed by {name}" + (", perhaps out of memory" if name == "SIGKILL" else "")


if __name__ == "__main__":
    sys.exit(main())
