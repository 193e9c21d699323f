"""The real service in a process of its own, on a free port of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed.test_service import COMMAND, Running, running

__all__ = ["COMMAND", "Running", "served"]


@contextmanager
def served(models: list[Path], *, token: str | None = None, **options: object) -> Iterator[Running]:
    """Serve these models; `max_devices=10` is the option `--max-devices 10`. It is stopped at the end."""
    given: list[str] = []
    for name, value in options.items():
        given += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    environment = {name: value for name, value in os.environ.items() if name != "FEDRULE_TOKEN"}
    if token is not None:
        environment["FEDRULE_TOKEN"] = token
    with running(models, given, environment=environment) as service:
        yield service
