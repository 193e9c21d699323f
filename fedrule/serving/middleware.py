"""The ASGI middleware around all routes: the token, metrics, security headers, and error responses.

All paths are fixed and every endpoint maps a request to a response, so a dictionary finds it. Going through the
framework's layers was measured to take nine times as long; only unknown paths go there.
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

from fedrule.inference.request import BadHome
from fedrule.serving.errors import ApiError, ClientGone
from fedrule.serving.service import Service

PROTECTED = ("/v1/", "/metrics")
SECURITY_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
UNSENT = 0  # the status before a response has started
CLIENT_CLOSED = 499  # counted when the client closed the connection; nothing is sent

Endpoints: TypeAlias = Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]]

log = logging.getLogger(__name__)


class Middleware:
    """The ASGI application: endpoints by method and path, and a fallback for everything else."""

    def __init__(self, endpoints: Endpoints, fallback: ASGIApp, service: Service, *, token: str | None) -> None:
        self._endpoints, self._fallback, self.service = endpoints, fallback, service
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._fallback(scope, receive, send)
            return
        metrics, begin, path, status = self.service.metrics, time.perf_counter(), scope["path"], UNSENT

        async def respond(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *SECURITY_HEADERS]
            await send(message)

        metrics.in_flight.inc()
        try:
            self._check_token(scope)
            endpoint = self._endpoints.get((scope["method"], path))
            if endpoint is None:
                await self._fallback(scope, receive, respond)
            else:
                await (await endpoint(Request(scope, receive)))(scope, receive, respond)
        except ApiError as error:
            await error.response()(scope, receive, respond)
        except BadHome as error:
            await ApiError.from_home(error).response()(scope, receive, respond)
        except ClientGone:
            pass
        except Exception as error:
            reference = uuid.uuid4().hex  # details go to the log, not to the client
            log.error("Request %s failed: %s %s", reference, scope["method"], path, exc_info=error)
            if status == UNSENT:
                failure = ApiError(500, "internal_error", f"internal error; see the log of the service for {reference}")
                await failure.response()(scope, receive, respond)
        finally:
            metrics.in_flight.dec()
            metrics.request(path, status or CLIENT_CLOSED, time.perf_counter() - begin)

    def _check_token(self, scope: Scope) -> None:
        if self._token is None or not scope["path"].startswith(PROTECTED):
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
            message = "missing or wrong token; send it as Authorization: Bearer TOKEN"
            headers = {"WWW-Authenticate": 'Bearer realm="fedrule"'}
            raise ApiError(401, "unauthorized", message, where="Authorization", headers=headers)
