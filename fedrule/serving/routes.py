"""The routes of the service, v1, and the middleware around them.

FastAPI registers and documents the routes; bodies are read and responses written by our own code.
"""

from __future__ import annotations

import hmac
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedrule.inference.request import BadHome
from fedrule.serving.errors import JSON, ApiError, ClientGone
from fedrule.serving.limits import Limits
from fedrule.serving.metrics import CONTENT_TYPE, Metrics
from fedrule.serving.model_store import ModelStore
from fedrule.serving.reference import (
    BatchResponse,
    HealthResponse,
    ModelResponse,
    RecommendResponse,
    ReloadResponse,
    RulesResponse,
    add_page,
    describe,
    request_body,
    responses,
    texts,
)
from fedrule.serving.requests import BatchRequest, RecommendRequest, require_json
from fedrule.serving.service import Service

ROUTING_ERRORS = {
    404: ("not_found", "no such page; see /docs for the routes"),
    405: ("method_not_allowed", "method not allowed; see /docs for the routes"),
}
POST_ERRORS = (400, 408, 413, 415, 422, 503)
PROTECTED = ("/v1/", "/metrics")  # paths that need the token
SECURITY_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
UNSENT = 0  # the status before a response has started
CLIENT_CLOSED = 499  # counted when the client closed the connection; nothing is sent

Endpoints: TypeAlias = Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]]

log = logging.getLogger(__name__)


def application(models: Sequence[Path], *, limits: Limits | None = None, token: str | None = None) -> Middleware:
    """The service in one process as an ASGI application; a bad model raises `DataError`."""
    limits = limits or Limits()
    return application_of(Service(ModelStore(models, limits), limits, Metrics()), token=token)


def application_of(service: Service, *, token: str | None) -> Middleware:
    """The ASGI application of a service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan)
    _add_routes(app, service)
    add_page(app)
    describe(app, service.limits, protected=PROTECTED if token is not None else ())
    app.add_exception_handler(HTTPException, _routing_error)
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    service.metrics.routes = frozenset(route.path for route in routes)
    endpoints = {(method, route.path): route.endpoint for route in routes for method in route.methods or ()}
    return Middleware(endpoints, app, service, token=token)


def _add_routes(app: FastAPI, service: Service) -> None:
    good, name = responses(RecommendResponse, *POST_ERRORS), texts()["name"]

    @app.post("/v1/recommend", responses=good, openapi_extra=request_body(RecommendRequest))
    async def recommend(request: Request) -> Response:
        """Recommend rules for one home."""
        async with service.bodies.read(request, limit=service.limits.body_bytes) as body:
            return Response(await service.recommend(body, request), media_type=JSON)

    good = responses(BatchResponse, *POST_ERRORS)

    @app.post("/v1/recommend/batch", responses=good, openapi_extra=request_body(BatchRequest))
    async def batch(request: Request) -> Response:
        """Recommend rules for many homes; an invalid home gets an error of its own."""
        async with service.bodies.read(request, limit=service.limits.batch_body_bytes) as body:
            return Response(await service.batch(body, request), media_type=JSON)

    @app.get("/v1/model", responses=responses(ModelResponse, 404), openapi_extra=name)
    async def model(request: Request) -> Response:
        """The vocabulary of a model, how it was trained, the names of all models, and the limits of the service."""
        return Response(service.store.model(request.query_params.get("name"), status=404).description, media_type=JSON)

    @app.get("/v1/model/rules", responses=responses(RulesResponse, 404), openapi_extra=name)
    async def rules(request: Request) -> Response:
        """All rules between device types that occur in the training homes, most frequent first."""
        return Response(service.store.model(request.query_params.get("name"), status=404).rules, media_type=JSON)

    @app.post("/v1/model/reload", responses=responses(ReloadResponse, 415, 422))
    async def reload(request: Request) -> Response:
        """Read the model files again. If one is bad, the current models stay in use.

        Send the content type application/json (the body may be empty) or the token.
        """
        # A foreign web page can make a browser send requests to this machine, but with neither of the two headers.
        if "authorization" not in request.headers:
            require_json(request)
        return Response(await service.reloader.reload(), media_type=JSON)

    @app.get("/healthz", responses=responses(HealthResponse))
    async def health(_: Request) -> Response:
        """Whether the service is up."""
        return Response(b'{"status":"ok"}', media_type=JSON)

    @app.get("/metrics", responses=responses(None), response_class=Response)
    async def metrics(_: Request) -> Response:
        """Metrics for Prometheus, text format 0.0.4."""
        return Response(service.metrics.text(service.store), media_type=CONTENT_TYPE)


async def _routing_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, message = ROUTING_ERRORS.get(error.status_code, ("http_error", str(error.detail)))
    return ApiError(error.status_code, code, message, headers=error.headers).response()


class Middleware:
    """The ASGI application: the token, metrics, security headers and error responses around all endpoints.

    All paths are fixed and every endpoint maps a request to a response, so a dictionary finds it. Going through the
    framework's layers was measured to take nine times as long; only unknown paths go there, to the fallback.
    """

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
