"""One connection: uvicorn's, and an end to clients that never finish what they have begun.

uvicorn waits for headers, for the rest of a body that nobody reads, and for a client that does not read its answer, as
long as they take; and takes headers of any length. Here each has its limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fedrule.serving.limits import Limits
from fedrule.serving.metrics import Measured
from fedrule.serving.errors import JSON, Refused

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
