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
from collections.abc import Callable
from types import FrameType

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from datasets.common.errors import DataError
from fedrule.serving.errors import JSON, Refused
from fedrule.serving.limits import Limits
from fedrule.serving.metrics import Measured
from fedrule.serving.middleware import Gate

# --- One connection: uvicorn's, and an end to clients that never finish what they have begun.
#
# uvicorn waits for headers, for the rest of a body that nobody reads, and for a client that does not read its answer, as
# long as they take; and takes headers of any length. Here each has its limit.

HEADER_BYTES = 65_536
LINES = {
    400: "400 Bad Request",
    408: "408 Request Timeout",
    431: "431 Request Header Fields Too Large",
    503: "503 Service Unavailable",
}


class Connection(HttpToolsProtocol):
    """With a clock for what the client owes: its headers, its body, reading the answer."""

    LIMITS: Limits
    MEASURED: Measured

    _clock: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _in_headers = True
    _ended = False  # a request, in the bytes that were received last

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.LIMITS.connections:
            self._refuse(Refused(503, "too_busy", "too many connections; try again", headers={"Retry-After": "1"}))
        else:
            self._expect(self._slow_headers)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        if self._reader is not None:
            self._reader.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._ended = False
        super().data_received(data)
        # How much of it is the next request's is not known if a request ends in these bytes: they are not counted then.
        if self._in_headers and not self._ended:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES and not self.transport.is_closing():
                self._refuse(Refused(431, "headers_too_large", f"more than {HEADER_BYTES:,} bytes of headers"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers, self._header_bytes = True, 0
        self._expect(self._slow_headers)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        # The routes answer a slow body themselves; this is for bodies that no route reads, and is a moment later.
        self._expect(self._slow_body, 1.0)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_headers = self._ended = True
        self._header_bytes = 0
        self._expect(self._idle)
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reader is None:
            self._reader = self.loop.call_later(self.LIMITS.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None

    def send_400_response(self, msg: str) -> None:
        self._refuse(Refused(400, "bad_request", msg))

    def _expect(self, otherwise: Callable[[], None], more: float = 0.0) -> None:
        self._stop()
        self._clock = self.loop.call_later(self.LIMITS.seconds + more, otherwise)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _idle(self) -> None:
        """Nothing that begins a request, though empty lines may have come, which uvicorn takes for signs of life."""
        if self._answering():
            self._expect(self._idle)
        else:
            self.transport.close()

    def _slow_headers(self) -> None:
        if self._answering():  # the request before; its answer comes first
            self._expect(self._slow_headers)
            return
        told = f"the headers were not there within {self.LIMITS.seconds} seconds"
        self._refuse(Refused(408, "slow_headers", told))

    def _slow_body(self) -> None:
        self.transport.close()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, refused: Refused) -> None:
        """Answer without the routes, which never see this request, and end the connection."""
        self._stop()
        self.MEASURED.refused(refused.status)
        content = refused.content()
        headers = {"content-type": JSON, "content-length": len(content), "connection": "close", **refused.headers}
        lines = [f"HTTP/1.1 {LINES[refused.status]}", *(f"{name}: {value}" for name, value in headers.items())]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + content)
        self.transport.close()


def connections(limits: Limits, measured: Measured) -> type[Connection]:
    """The kind of connection that keeps these limits and counts what it refuses; uvicorn makes one for each client."""
    return type("LimitedConnection", (Connection,), {"LIMITS": limits, "MEASURED": measured})


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
