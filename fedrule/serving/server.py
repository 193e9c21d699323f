"""The server process: a socket, uvicorn with limits per connection, and signals.

SIGTERM shuts the service down once all requests are answered; SIGHUP reloads the models.
"""

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
from http import HTTPStatus
from types import FrameType

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from datasets.common.errors import DataError
from fedrule.serving.errors import JSON, RETRY, ApiError
from fedrule.serving.limits import Limits
from fedrule.serving.metrics import Metrics
from fedrule.serving.routes import Middleware

HEADER_BYTES = 65_536
STOP, ABANDON = 0.7, 0.9  # share of the grace after which batches stop, and after which clients get an error

log = logging.getLogger(__name__)


class Connection(HttpToolsProtocol):
    """uvicorn's connection with a timer for what the client owes: its headers, its body, reading the response.

    uvicorn waits without limit for headers, for the rest of a body that nobody reads and for a client that does not
    read its response, and accepts headers of any length.
    """

    LIMITS: Limits
    METRICS: Metrics

    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _in_headers = True
    _request_ended = False  # in the bytes received last

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.LIMITS.connections:
            self._refuse(ApiError(503, "too_busy", "too many connections; try again", headers=RETRY))
        else:
            self._start_timer(self._slow_headers)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._request_ended = False
        super().data_received(data)
        # If a request ended in these bytes, it is unknown how many belong to the next one: they are not counted then.
        if self._in_headers and not self._request_ended:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES and not self.transport.is_closing():
                self._refuse(ApiError(431, "headers_too_large", f"more than {HEADER_BYTES:,} bytes of headers"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers, self._header_bytes = True, 0
        self._start_timer(self._slow_headers)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        # The routes time out slow bodies themselves; this is for bodies that no route reads, and fires a bit later.
        self._start_timer(self.transport.close, extra=1.0)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_headers = self._request_ended = True
        self._header_bytes = 0
        self._start_timer(self._idle)
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.LIMITS.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def send_400_response(self, msg: str) -> None:
        self._refuse(ApiError(400, "bad_request", msg))

    def _start_timer(self, on_timeout: Callable[[], None], extra: float = 0.0) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self.LIMITS.seconds + extra, on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _idle(self) -> None:
        """No new request has begun; blank lines may have come, which uvicorn takes for activity."""
        if self._responding():
            self._start_timer(self._idle)
        else:
            self.transport.close()

    def _slow_headers(self) -> None:
        if self._responding():  # to the previous request; its response comes first
            self._start_timer(self._slow_headers)
        else:
            message = f"the headers did not arrive within {self.LIMITS.seconds} seconds"
            self._refuse(ApiError(408, "slow_headers", message))

    def _responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, error: ApiError) -> None:
        """Respond without the routes, which never see this request, and close the connection."""
        self._stop_timer()
        self.METRICS.connection_refused(error.status)
        body = error.body()
        headers = {"content-type": JSON, "content-length": len(body), "connection": "close", **error.headers}
        status = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"
        lines = [status, *(f"{name}: {value}" for name, value in headers.items())]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()


def limited_connection(limits: Limits, metrics: Metrics) -> type[Connection]:
    """The connection class with these limits; uvicorn creates one instance per client."""
    return type("LimitedConnection", (Connection,), {"LIMITS": limits, "METRICS": metrics})


class Server(uvicorn.Server):
    """uvicorn's server with a staged shutdown, and a reload of the models at SIGHUP."""

    def __init__(self, config: uvicorn.Config, app: Middleware, on_ready: Callable[[], object] = lambda: None) -> None:
        super().__init__(config)
        self._app, self._on_ready = app, on_ready
        self._reloads: set[asyncio.Task[None]] = set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop, workers = asyncio.get_running_loop(), self._app.service.workers
        grace = self.config.timeout_graceful_shutdown or 0
        loop.call_later(grace * STOP, workers.stop)
        loop.call_later(grace * ABANDON, workers.abandon)
        await super().shutdown(sockets=sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._on_hangup)
        self._on_ready()

    def _on_hangup(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload())
        self._reloads.add(task)  # the loop keeps only a weak reference
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        with contextlib.suppress(ApiError):  # it is in the log, and the current models stay in use
            await self._app.service.reloader.reload()


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A listening socket; port 0 takes a free port.

    Of several shared ones on one port, each gets its part of the connections from the system.
    """
    if not 0 <= port <= 65_535:
        raise DataError(f"--port must be in 0..65535 (0 takes a free port), got {port}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024, reuse_port=shared)
    except OSError as error:
        reason = error.strerror.partition(" (")[0] if error.strerror else error
        raise DataError(f"--host {host} --port {port}: {reason}; choose another, or --port 0 for a free one") from None


def listen_together(host: str, port: int, many: int) -> list[socket.socket]:
    """Listening sockets on one port; the system gives each its part of the connections."""
    with listen(host, port) as alone:  # fails if the port is in use, which shared ones would join
        port = alone.getsockname()[1]
    return [listen(host, port, shared=True) for _ in range(many)]


def serve(
    app: Middleware,
    listener: socket.socket,
    *,
    access_log: bool,
    grace: int,
    on_ready: Callable[[], object] = lambda: None,  # called once requests and signals are handled
) -> None:
    """Serve until SIGTERM or SIGINT; open requests then have `grace` seconds to finish."""
    config = uvicorn.Config(
        app,
        http=limited_connection(app.service.limits, app.service.metrics),
        loop="uvloop" if importlib.util.find_spec("uvloop") else "asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=access_log,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=grace,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # not a line for each client that sends garbage
    sys.setswitchinterval(0.001)  # seconds: a large batch in a thread hardly delays other requests
    gc.collect()
    gc.freeze()  # loaded models stay: the collector need not scan them during requests
    server = Server(config, app, on_ready)

    def on_signal(_: int, __: FrameType | None) -> None:
        """Until uvicorn installs its handlers; it raises its signal again after a clean shutdown."""
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()
    if app.service.busy:  # Python would wait for its threads, and a search cannot be interrupted
        log.warning("Shutting down during a search")
        logging.shutdown()
        os._exit(0)
