"""The routes of the service, v1.

FastAPI registers and documents the routes; bodies are read and responses written by our own code.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from fedrule.serving.errors import JSON, ApiError
from fedrule.serving.limits import Limits
from fedrule.serving.metrics import CONTENT_TYPE, Metrics
from fedrule.serving.middleware import Middleware
from fedrule.serving.model_store import ModelStore
from fedrule.serving.reference import NAME_PARAMETER, add_page, describe, request_body, responses
from fedrule.serving.requests import BatchRequest, RecommendRequest, require_json
from fedrule.serving.responses import (
    BatchResponse,
    HealthResponse,
    ModelResponse,
    RecommendResponse,
    ReloadResponse,
    RulesResponse,
)
from fedrule.serving.service import Service

ROUTING_ERRORS = {
    404: ("not_found", "no such page; see /docs for the routes"),
    405: ("method_not_allowed", "method not allowed; see /docs for the routes"),
}
POST_ERRORS = (400, 408, 413, 415, 422, 503)


def application(models: Sequence[Path], *, limits: Limits | None = None, token: str | None = None) -> Middleware:
    """The service as an ASGI application; a bad model raises `DataError`."""
    limits = limits or Limits()
    service = Service(ModelStore(models, limits), limits, Metrics())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan)
    _add_recommend(app, service)
    _add_model(app, service)
    _add_monitoring(app, service)
    add_page(app)
    describe(app, limits, protected=token is not None)
    app.add_exception_handler(HTTPException, _routing_error)
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    service.metrics.routes = frozenset(route.path for route in routes)
    endpoints = {(method, route.path): route.endpoint for route in routes for method in route.methods or ()}
    return Middleware(endpoints, app, service, token=token)


def _add_recommend(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/recommend",
        responses=responses(RecommendResponse, *POST_ERRORS),
        openapi_extra=request_body(RecommendRequest),
    )
    async def recommend(request: Request) -> Response:
        """Recommend rules for one home."""
        async with service.bodies.read(request, limit=service.limits.body_bytes) as body:
            return Response(await service.recommend(body, request), media_type=JSON)

    @app.post(
        "/v1/recommend/batch",
        responses=responses(BatchResponse, *POST_ERRORS),
        openapi_extra=request_body(BatchRequest),
    )
    async def batch(request: Request) -> Response:
        """Recommend rules for many homes; an invalid home gets an error of its own."""
        async with service.bodies.read(request, limit=service.limits.batch_body_bytes) as body:
            return Response(await service.batch(body, request), media_type=JSON)


def _add_model(app: FastAPI, service: Service) -> None:
    @app.get("/v1/model", responses=responses(ModelResponse, 404), openapi_extra=NAME_PARAMETER)
    async def model(request: Request) -> Response:
        """The vocabulary of a model, how it was trained, the names of all models, and the limits of the service."""
        found = service.store.model(request.query_params.get("name"), status=404)
        return Response(found.description, media_type=JSON)

    @app.get("/v1/model/rules", responses=responses(RulesResponse, 404), openapi_extra=NAME_PARAMETER)
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


def _add_monitoring(app: FastAPI, service: Service) -> None:
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
