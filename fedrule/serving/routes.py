"""The routes of the service, v1. Bodies are read and answers written by us; FastAPI keeps and describes the routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from fedrule.serving.errors import JSON, Refused
from fedrule.serving.limits import Limits, refuse_other_than_json
from fedrule.serving.metrics import KIND, Measured
from fedrule.serving.middleware import Gate
from fedrule.serving.model_store import Shelf
from fedrule.serving.reference import NAME, add_page, answers, asks, describe
from fedrule.serving.requests import Batch, Recommend
from fedrule.serving.responses import BatchAnswer, Health, ModelAnswer, RecommendAnswer, ReloadAnswer, RulesAnswer
from fedrule.serving.service import Service

ERRORS = {  # what the framework says without being asked, in our words
    404: ("no_such_page", "there is nothing here; /docs has the routes"),
    405: ("wrong_method", "this route has other methods; /docs has them"),
}


def application(models: Sequence[Path], *, limits: Limits | None = None, token: str | None = None) -> Gate:
    """The service as an ASGI application; a bad model is a `DataError`."""
    limits = limits or Limits()
    app = FastAPI(docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=_until_the_end)
    app.state.service = service = Service(Shelf(models, limits), limits, Measured())
    _add_recommend(app, service)
    _add_model(app, service)
    _add_health(app, service)
    add_page(app)
    describe(app, limits, protected=token is not None)
    app.add_exception_handler(HTTPException, _not_routed)
    ours = [route for route in app.routes if isinstance(route, APIRoute)]
    service.measured.routes = frozenset(route.path for route in ours)
    endpoints = {(method, route.path): route.endpoint for route in ours for method in route.methods or ()}
    return Gate(endpoints, app, service, token=token)


@asynccontextmanager
async def _until_the_end(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.service.close()


def _add_recommend(app: FastAPI, service: Service) -> None:
    limits = service.limits
    refusals = (400, 408, 413, 415, 422, 503)

    @app.post("/v1/recommend", responses=answers(RecommendAnswer, *refusals), openapi_extra=asks(Recommend))
    async def recommend(request: Request) -> Response:
        """Which rules should this home set up next?"""
        async with service.bodies.read(request, limit=limits.body_bytes) as body:
            return Response(await service.recommend(body, request), media_type=JSON)

    @app.post("/v1/recommend/batch", responses=answers(BatchAnswer, *refusals), openapi_extra=asks(Batch))
    async def batch(request: Request) -> Response:
        """The same for many homes; one that cannot be answered has an error of its own."""
        async with service.bodies.read(request, limit=limits.batch_body_bytes) as body:
            return Response(await service.batch(body, request), media_type=JSON)


def _add_model(app: FastAPI, service: Service) -> None:
    @app.get("/v1/model", responses=answers(ModelAnswer, 404), openapi_extra=NAME)
    async def model(request: Request) -> Response:
        """What a model knows and how it was made, which models there are, and how much may be asked at once."""
        found = service.shelf.model(request.query_params.get("name"), status=404)
        return Response(found.described, media_type=JSON)

    @app.get("/v1/model/rules", responses=answers(RulesAnswer, 404), openapi_extra=NAME)
    async def rules(request: Request) -> Response:
        """Every rule between types of devices that some home it learned from has, commonest first."""
        return Response(service.shelf.model(request.query_params.get("name"), status=404).rules, media_type=JSON)

    @app.post("/v1/model/reload", responses=answers(ReloadAnswer, 415, 422))
    async def reload(request: Request) -> Response:
        """Read the model files again. If one is bad, the former models go on answering.

        Send the content type application/json, though there need not be a body; or the token.
        """
        # A web page can make a browser send a request to this machine, but with neither of the two headers.
        if "authorization" not in request.headers:
            refuse_other_than_json(request)
        return Response(await service.reloads.reload(), media_type=JSON)


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", responses=answers(Health))
    async def health(_: Request) -> Response:
        """Whether the service answers."""
        return Response(b'{"status":"ok"}', media_type=JSON)

    @app.get("/metrics", responses=answers(None), response_class=Response)
    async def metrics(_: Request) -> Response:
        """Counters for Prometheus, text format 0.0.4."""
        return Response(service.measured.text(service.shelf), media_type=KIND)


async def _not_routed(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, told = ERRORS.get(error.status_code, ("refused", str(error.detail)))
    return Refused(error.status_code, code, told, headers=error.headers).response()
