"""What every request passes on its way in and out: the token, counters, safe headers, and an answer to what goes wrong.

All paths are fixed, and every endpoint takes the request and gives the response: a look into a table finds it. The way
through the framework's layers was measured to take nine times as long; only what is not in the table goes there.
"""

from __future__ import annotations

import hmac
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from fastapi import Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedrule.serving.errors import ClientGone, Refused
from fedrule.serving.service import Service

PROTECTED = ("/v1/", "/metrics")
SAFE = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
UNSENT = 0  # until an answer has begun
GONE = 499  # counted for a client that closed the connection; there is nobody to send it to

Endpoints: TypeAlias = Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]]

log = logging.getLogger(__name__)


class Gate:
    """The ASGI application: endpoints by method and path, and what answers all else."""

    def __init__(self, endpoints: Endpoints, otherwise: ASGIApp, service: Service, *, token: str | None) -> None:
        self._endpoints, self._otherwise = endpoints, otherwise
        self.service, self._measured = service, service.measured
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._otherwise(scope, receive, send)
            return
        begin, path, status = time.perf_counter(), scope["path"], UNSENT

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *SAFE]
            await send(message)

        self._measured.in_flight.inc()
        try:
            self._refuse_strangers(scope)
            endpoint = self._endpoints.get((scope["method"], path))
            if endpoint is None:
                await self._otherwise(scope, receive, sent)
            else:
                await (await endpoint(Request(scope, receive)))(scope, receive, sent)
        except Refused as refused:
            await refused.response()(scope, receive, sent)
        except ClientGone:
            pass
        except Exception as error:
            number = uuid.uuid4().hex  # what is inside goes to the log and not to the client
            log.error("Request %s failed: %s %s", number, scope["method"], path, exc_info=error)
            if status == UNSENT:
                told = f"the service failed; its log has more under {number}"
                await Refused(500, "failed", told).response()(scope, receive, sent)
        finally:
            self._measured.in_flight.dec()
            self._measured.request(path, status or GONE, time.perf_counter() - begin)

    def _refuse_strangers(self, scope: Scope) -> None:
        if self._token is None or not scope["path"].startswith(PROTECTED):
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
            told = "this service needs a token; send it as Authorization: Bearer ..."
            raise Refused(
                401, "no_token", told, where="Authorization", headers={"WWW-Authenticate": 'Bearer realm="fedrule"'}
            )
