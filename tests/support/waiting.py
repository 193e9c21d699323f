"""Waiting for other processes and threads: until something holds, and what there is to look at."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 600.0  # on a busy machine all takes long; this only guards against hanging


def wait_until(
    condition: Callable[[], object], what: str = "", *, seconds: float = SECONDS, interval: float = 0.02
) -> None:
    """Wait until the condition holds, looking every `interval` seconds; the test fails where it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} seconds" + (f" for {what}" if what else "")
        time.sleep(interval)


def is_running(process: int | str) -> bool:
    """Whether there is a process with this id that has not ended; Linux only."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def lines(file: Path) -> list[str]:
    """What other processes have written so far."""
    return file.read_text().splitlines() if file.exists() else []
