"""Processes that do jobs, a line of JSON each, one after the other; and many of them, kept for later jobs.

A process reports how far a job is, a line each, and then with which exit code it ended. One that crashes takes nothing
else with it, and leaves what it has printed last.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Generic, Self, TypeVar

from datasets.common.environment import thread_variables

if TYPE_CHECKING:
    from benchmarks.runs.history import OnProgress

TAIL = 4000  # bytes of a crashed process's last output
ENDED = "ended"  # first word of the line in which a process reports a job's exit code


class Process:
    """A process of a module whose main function is `serve`."""

    def __init__(self, module: str, *, key: Hashable, threads: int) -> None:
        self.key = key  # what its jobs have in common
        self.errors: IO[bytes] = TemporaryFile()  # noqa: SIM115 (open until `close`)
        paths = os.pathsep.join(path for path in sys.path if path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=os.environ | thread_variables(threads) | {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
            text=True,
            start_new_session=True,  # Ctrl-C reaches only this process, which stops the others
        )

    def is_current(self) -> bool:
        """Whether it may do another job."""
        return self.process.poll() is None  # it ends too where the system needs its memory

    def run(self, job: str, on_progress: OnProgress) -> tuple[int, str]:
        """Wait for a job; its exit code, or that of this process if it died, and the last output."""
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
        """End it, and the processes that it has started."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it and free what it holds here."""
        self.kill()
        with self.errors, suppress(BrokenPipeError), self.process:
            pass


K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Process)


class ProcessPool(Generic[K, P]):
    """Processes that do jobs at the same time, started from any thread, so that all of them can be stopped."""

    def __init__(self, start: Callable[[K], P], *, most_idle: int | None = None) -> None:
        self.stopped = False
        self._start, self._most_idle = start, most_idle  # processes kept for later jobs; None: all
        self._running: dict[P, str] = {}  # and its job
        self._cancelled: set[str] = set()  # jobs
        self._idle: list[P] = []
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().close()

    def stop(self) -> None:
        """End every process; their jobs are lost."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                process.kill()

    def cancel(self, job: str) -> None:
        """End the process of this job, now or when it takes one."""
        with self._lock:
            self._cancelled.add(job)
            for process in [process for process, its_job in self._running.items() if its_job == job]:
                process.kill()

    @contextmanager
    def take(self, key: K, job: str = "") -> Iterator[P]:
        """An idle process of this key or a new one; idle again behind it, unless it died or there are enough.

        `job` is a name by which it can be cancelled.
        """
        with self._lock:
            for each in [each for each in self._idle if not each.is_current()]:
                self._idle.remove(each)
                each.close()
            found = next((each for each in self._idle if each.key == key), None)
            if found is not None:
                self._idle.remove(found)
            process = found or self._start(key)
            self._running[process] = job
            if self.stopped or job in self._cancelled:
                process.kill()
        kept = False
        try:
            yield process
            kept = process.process.poll() is None
        finally:
            with self._lock:
                del self._running[process]
                # The first ones stay: a suite goes through its methods in turn, so the longest idle one is next.
                room = self._most_idle is None or len(self._idle) < self._most_idle
                kept = kept and room and not self.stopped and job not in self._cancelled
                if kept:
                    self._idle.append(process)
            if not kept:
                process.close()


def describe_failure(code: int, tail: str) -> str:
    """How a process ended and what it printed last; the last line says why it failed, as that of a traceback."""
    if code >= 0:
        return f"its process ended with code {code}\n{tail}".strip()
    name = signal.Signals(-code).name
    why = f"its process was killed by {name}" + (", perhaps out of memory" if name == "SIGKILL" else "")
    return f"{tail.rstrip()}\n{why}".strip()


def serve(do: Callable[[dict[str, Any], IO[str]], int]) -> int:
    """The process: do each job of standard input, which gets the lines to report to, and report its exit code."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is not taken for progress
    for line in sys.stdin:
        lines.write(f"{ENDED} {do(json.loads(line), lines)}\n")
    return 0


def reporter(lines: IO[str]) -> OnProgress:
    """Reports how far a job is; ends the process where nobody listens any more."""

    def report(done: int, of: int) -> None:
        try:
            lines.write(f"{done} {of}\n")
        except BrokenPipeError:  # the parent process is gone, which is no failure of the job
            os._exit(1)

    return report
