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

    def processor_seconds(self) -> float:
        """Processor time since its start: on a busy machine more telling than the clock."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_megabytes(self) -> float:
        """Its current resident memory."""
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text("ascii"))
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
