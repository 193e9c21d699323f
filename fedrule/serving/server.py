"""The process: a socket, uvicorn, and what signals do: SIGTERM ends it once all is answered, SIGHUP reloads."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import logging
import os
import signal
import socket
import sys
from types import FrameType

import uvicorn

from datasets.common.errors import DataError
from fedrule.serving.connection import connections
from fedrule.serving.middleware import Gate
from fedrule.serving.errors import Refused

GRACE = 10  # seconds for what is being answered when the service is told to end
STOP, GIVE_UP = 0.7, 0.9  # of it: batches go no further, and clients are told that there is no answer

log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """uvicorn's, which reads models again at SIGHUP."""

    def __init__(self, config: uvicorn.Config, gate: Gate) -> None:
        super().__init__(config)
        self._gate = gate
        self._reloads: set[asyncio.Task[None]] = set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop, workers = asyncio.get_running_loop(), self._gate.service.workers
        grace = self.config.timeout_graceful_shutdown or 0
        loop.call_later(grace * STOP, workers.stop)
        loop.call_later(grace * GIVE_UP, workers.give_up)
        await super().shutdown(sockets=sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)

    def _hang_up(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload())
        self._reloads.add(task)  # the loop itself does not keep it
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        with contextlib.suppress(Refused):  # it is in the log, and the former models go on answering
            await self._gate.service.reloads.reload()


def listening(host: str, port: int) -> socket.socket:
    """A socket for new connections; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if not 0 <= port <= 65_535:
        raise DataError(f"--port {port}: give a number from 0, which takes a free one, to 65535")
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        reason = error.strerror.partition(" (")[0] if error.strerror else error
        raise DataError(f"--host {host} --port {port}: {reason}; choose another, or --port 0 for a free one") from None


def serve(gate: Gate, listener: socket.socket, *, access_log: bool = False, grace: int = GRACE) -> None:
    """Answer until SIGTERM or SIGINT; what is being answered then has `grace` seconds to be finished."""
    config = uvicorn.Config(
        gate,
        http=connections(gate.service.limits, gate.service.measured),
        loop="uvloop" if importlib.util.find_spec("uvloop") else "asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=access_log,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=grace,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # not a line for each client that sends nonsense
    sys.setswitchinterval(0.001)  # seconds: so that a large batch in a thread hardly delays the others
    gc.collect()
    gc.freeze()  # what is loaded stays, and need not be looked through in the midst of requests
    server = Server(config, gate)

    def end(_: int, __: FrameType | None) -> None:
        """Before uvicorn listens to signals; it raises its signal again when all is done, which is no failure."""
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()
    if gate.service.busy:  # Python would wait for its threads, and a search cannot be broken off
        log.warning("The service ends in the midst of a search")
        logging.shutdown()
        os._exit(0)
