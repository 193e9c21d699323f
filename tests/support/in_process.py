"""The service in this process: a client without a socket, and connections on a clock that tests move by hand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

import httpx
import uvicorn
from uvicorn.server import ServerState

from fedrule.serving.routes import Middleware
from fedrule.serving.server import Connection, limited_connection

Result = TypeVar("Result")


class Client:
    """Sends requests one after the other to an ASGI application."""

    def __init__(self, application: Middleware) -> None:
        self._application, self._runner = application, asyncio.Runner()
        transport = httpx.ASGITransport(application)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://service")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self._application.service.close()

    def request(self, method: str, path: str, **given: object) -> httpx.Response:
        return self._runner.run(self._client.request(method, path, **given))  # type: ignore[arg-type]

    def get(self, path: str, **given: object) -> httpx.Response:
        return self.request("GET", path, **given)

    def post(self, path: str, **given: object) -> httpx.Response:
        return self.request("POST", path, **given)


class ManualClock(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still unless `advance` moves it."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__()

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    async def settle(self) -> None:
        """Run all callbacks that are ready, and those that they make ready."""
        for _ in range(50):
            await asyncio.sleep(0)


class Peer:
    """The client's end of one connection to the service; bytes arrive in exactly the pieces that are sent."""

    def __init__(self, application: Middleware, loop: ManualClock) -> None:
        limits, metrics = application.service.limits, application.service.metrics
        self._config = uvicorn.Config(application, http=limited_connection(limits, metrics), log_config=None)
        self._config.load()
        self._loop = loop
        self.connection: Connection = self._config.http_protocol_class(self._config, ServerState(), {})

    async def connect(self) -> None:
        ours, theirs = socket.socketpair()
        self._reader, self._writer = await asyncio.open_connection(sock=ours, limit=4_096)
        await self._loop.connect_accepted_socket(lambda: self.connection, theirs)

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.data_received(piece)
            await self._loop.settle()

    async def responded(self) -> None:
        """Wait until the service has responded to the last complete request."""
        while not self.connection.cycle.response_complete:
            await asyncio.sleep(0)

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._loop.advance(seconds)
        await self._loop.settle()

    @property
    def closing(self) -> bool:
        """Whether the service has closed the connection."""
        return self.connection.transport.is_closing()

    async def received(self) -> bytes:
        """All that the service has sent, once it has closed the connection."""
        assert self.closing
        return await self._reader.read()

    async def close(self) -> None:
        self._writer.close()
        await self._loop.settle()


def on_manual_clock(application: Middleware, act: Callable[[Peer], Awaitable[Result]]) -> Result:
    """Run the coroutine with a new connection to the service."""

    async def run() -> Result:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ManualClock)
        peer = Peer(application, loop)
        await peer.connect()
        try:
            return await act(peer)
        finally:
            await peer.close()

    with asyncio.Runner(loop_factory=ManualClock) as runner:
        return runner.run(run())
