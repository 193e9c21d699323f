"""The HTTP service in a process of its own, on a free port of this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

COMMAND = [sys.executable, "-m", "fedrule", "serve"]
HANGS = 300.0  # seconds: no start or end takes this long, even on a busy machine


class Running(NamedTuple):
    """A running service."""

    url: str  # without a trailing slash
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def exit_code(self) -> int:
        return self.process.wait(HANGS)

    def workers(self) -> list[int]:
        """The ids of its worker processes; none if it serves in one process."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text("ascii").split()]

    def processor_seconds(self) -> float:
        """Processor time of all its processes since its start: on a busy machine more telling than the clock."""
        return sum(_processor_seconds(pid) for pid in (self.process.pid, *self.workers()))

    def resident_megabytes(self) -> float:
        """Its current resident memory; memory that processes share counts once."""
        return sum(megabytes(pid, "Pss") for pid in (self.process.pid, *self.workers()))


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int, kind: str) -> float:
    """Memory of a process as the kernel counts it: Rss, Pss (its part of what it shares) or Private_Dirty."""
    found = re.search(rf"^{kind}:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text("ascii"), re.MULTILINE)
    return int(found[1]) / 1000 if found else float("nan")


@contextmanager
def running(
    models: Sequence[Path],
    options: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = COMMAND,
) -> Iterator[Running]:
    """A service of these models on a free port; it is stopped at the end."""
    command = [*command, *map(str, models), "--port", "0", *options]
    with tempfile.TemporaryDirectory(prefix="served") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        try:
            port = _port(process, log)
            yield Running(f"http://127.0.0.1:{port}", port, process, log)
        finally:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """From the first line of its log."""
    deadline = time.monotonic() + HANGS
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)\n", log.read_text("utf-8")):
            return int(found[1])
        time.sleep(0.02)
    raise RuntimeError(f"the service did not start: {log.read_text('utf-8')}")
