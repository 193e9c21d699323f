"""A run in a process of its own: its memory figure is its own, and a crash is a failed run and nothing more.

The homes are handed over as a file, the experiment as JSON on the standard input. The new process keeps the results
itself and tells its rounds, a line each, on the standard output.
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
from benchmarks.runs.experiment import Experiment, Source, experiment
from benchmarks.results.key import as_json
from benchmarks.runs.perform import failed, perform
from benchmarks.results.results import Result, Store
from benchmarks.runs.rounds import Told, nobody
from datasets.common.errors import DataError
from datasets.storage import load_file
from datasets.common.files import Json
from datasets.common.threads import environment, set_threads

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
        return [store.find(key, made_by) or store.fail(failed(key, error, threads, made_by)) for key in keys]

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
            [sys.executable, "-m", "benchmarks.runs.isolated"],
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
    again = experiment(
        asked["method"],
        Source(**asked["source"]),
        parameters=asked["parameters"],
        split=asked["split"],
        options=asked["split_options"],
        seed=asked["seed"],
        protocols=asked["protocols"],
        curves=asked["curves"],
    )

    def told(done: int, of: int) -> None:
        try:
            lines.write(f"{done} {of}\n")
        except BrokenPipeError:  # whoever asked for this run is gone, which is no failure of the method
            os._exit(1)

    store = Store(Path(order["store"]))
    homes, many = load_file(order["homes"]), order["checkpoints"]
    perform(again, homes, store=store, threads=order["threads"], told=told, checkpoints=many)
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
