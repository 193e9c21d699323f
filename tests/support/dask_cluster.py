"""A real Dask cluster of processes on this machine, all of whose ports are bound to 127.0.0.1."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The scheduler of Dask is not to need our code.
SCHEDULER = "import sys; sys.modules['benchmarks'] = None; from distributed.cli.dask_scheduler import main; main()"
# With --no-dashboard Dask opens a port for its web server on all addresses of the machine.
LOOPBACK = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")


class DaskProcesses:
    """A scheduler, and workers with one thread each; `path` is where workers look for modules first."""

    def __init__(self, folder: Path, path: Path | None = None) -> None:
        self.folder, self.path = folder, path
        self.logs = 0
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler, address = self._start(["-c", SCHEDULER, "--port", "0", *LOOPBACK], r"Scheduler at: +(tcp:\S+)")
        self.address = address

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker and wait until the scheduler knows it."""
        local = str(self.folder / "local")
        command = ["-m", "distributed.cli.dask_worker", self.address, "--no-nanny", "--nthreads", "1", *LOOPBACK]
        worker, _ = self._start([*command, "--local-directory", local], r"Registered to: +(tcp:\S+)")
        self.workers.append(worker)
        return worker

    def close(self) -> None:
        """End all processes."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, arguments: list[str], ready: str) -> tuple[subprocess.Popen[bytes], str]:
        log = self.folder / f"{self.logs}.log"
        self.logs += 1
        paths = [str(self.path)] if self.path else []
        more = {
            "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)]),
            "PYTHONHASHSEED": "17",  # that of a run is 0 everywhere
            "OMP_NUM_THREADS": "2",
        }
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, *arguments], cwd=self.folder, env=os.environ | more, stdout=file, stderr=file
            )
        end = time.monotonic() + 600
        while not (found := re.search(ready, log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        return process, found[1]
