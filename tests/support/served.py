"""The real service in a process of its own, on a free port of this machine, and requests to it.

All limits here only guard against hanging: no test depends on how fast the machine is.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.speed.service_process import COMMAND, Running, running

__all__ = ["COMMAND", "PATIENCE", "Running", "accepts", "get", "post", "served"]

PATIENCE = 300.0  # seconds
# Every call would otherwise read all certificates of the machine, 40 ms each, for a service without TLS.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@contextmanager
def served(
    models: list[Path], *, token: str | None = None, command: Sequence[str] = COMMAND, **options: object
) -> Iterator[Running]:
    """Serve these models; `max_devices=10` is the option `--max-devices 10`. It is stopped at the end.

    Clients and searches have as long as they need, unless the options say otherwise.
    """
    given: list[str] = []
    for name, value in ({"max_seconds": 3_600, "max_work_seconds": 3_600, "grace": 3_600} | options).items():
        given += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    environment = {name: value for name, value in os.environ.items() if name != "FEDRULE_TOKEN"}
    if token is not None:
        environment["FEDRULE_TOKEN"] = token
    with running(models, given, environment=environment, command=command) as service:
        yield service


def get(service: Running, path: str, **given: object) -> httpx.Response:
    return httpx.get(f"{service.url}{path}", timeout=PATIENCE, verify=NO_TLS, **given)


def post(service: Running, path: str, json: object = None, **given: object) -> httpx.Response:
    return httpx.post(f"{service.url}{path}", json=json, timeout=PATIENCE, verify=NO_TLS, **given)


def accepts(service: Running) -> bool:
    """Whether the service accepts new connections."""
    try:
        socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True
