"""A client that asks an ASGI application in this process, without a socket."""

from __future__ import annotations

import asyncio
from types import TracebackType

import httpx

from fedrule.serving.middleware import Gate


class Client:
    """Requests one after the other."""

    def __init__(self, application: Gate) -> None:
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
