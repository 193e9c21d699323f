"""The OpenAPI description with the limits of this service, the reference page at /docs, and the page at /.

Both pages load nothing from other hosts. The usual reference pages do, and stay empty without internet access.
Response bodies are declared here for the description only: they are written from plain dictionaries, since building
validated objects would take as long as the search.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Awaitable, Callable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from fedrule.serving.errors import JSON
from fedrule.serving.limits import Limits
from fedrule.serving.metrics import CONTENT_TYPE
from fedrule.serving.requests import BatchRequest, Id, RecommendRequest, Strict

REF = "#/components/schemas/"
FOLDER = Path(__file__).parent
PAGE = FOLDER / "page"


class ModelSummary(Strict):
    """The model that answered."""

    name: str
    method: str
    digest: str = Field(description="64 hex digits that change with any weight or word of the model.")


class Why(Strict):
    """How common the rule is in the training data."""

    homes_with_rule: int = Field(description="Training homes that have this rule between devices of these types.")
    homes_with_both: int = Field(description="Training homes with devices of both types.")
    text: str


class RecommendedRule(Strict):
    """One entry of the list."""

    rank: int = Field(ge=1)
    trigger: Id
    trigger_state: str
    action: str
    action_device: Id
    probability: float = Field(ge=0, le=1)
    text: str = Field(examples=["When *Front door* opens, turn on *Hall light*"])
    why: Why


class RecommendResponse(Strict):
    """The recommendations for one home, best first."""

    model: ModelSummary
    recommendations: list[RecommendedRule]
    ignored: list[str] = Field(description="One sentence for each device and rule that was ignored.")


class ErrorDetail(Strict):
    """What is wrong."""

    code: str = Field(description="For programs.", examples=["unknown_type"])
    where: str = Field(description="The place in the request.", examples=["devices[0].type"])
    message: str = Field(description="For people.")


class ErrorResponse(Strict):
    """The form of all errors."""

    error: ErrorDetail


class HomeResult(Strict):
    """The recommendations for one home of a batch."""

    user: Id | None
    recommendations: list[RecommendedRule]
    ignored: list[str]


class HomeError(Strict):
    """A home of a batch without recommendations, and why."""

    user: Id | None
    error: ErrorDetail


class BatchResponse(Strict):
    """One result per home, in the order of the request."""

    model: ModelSummary
    results: list[HomeResult | HomeError]


class RelationResponse(Strict):
    """A trigger-action pair."""

    trigger_state: str
    action: str


class ModelResponse(ModelSummary):
    """A model, and the limits of the service."""

    loaded: str = Field(description="Time of loading, in UTC.")
    types: list[str]
    relations: list[RelationResponse]
    valid_rules: int
    options: dict[str, object]
    trainings: list[dict[str, object]]
    metrics: dict[str, dict[str, float | None]]
    versions: dict[str, str]
    models: list[str] = Field(description="Names of all models; the first is the default.")
    limits: dict[str, int]


class TypedRule(Strict):
    """A rule between two device types."""

    trigger_type: str
    trigger_state: str
    action: str
    action_type: str
    homes: int = Field(description="Training homes that have it.")


class RulesResponse(Strict):
    """All valid rules, most frequent first."""

    rules: list[TypedRule]


class ReloadResponse(Strict):
    """The models after the reload."""

    models: list[ModelSummary]


class HealthResponse(Strict):
    """The service is up."""

    status: Literal["ok"]


@cache
def texts() -> dict[str, Any]:
    """Headers of the pages; examples, and descriptions that no model has."""
    return tomllib.loads((FOLDER / "reference.toml").read_text("utf-8"))


def responses(model: type[BaseModel] | None, *errors: int) -> dict[int | str, dict[str, Any]]:
    """The responses of a route: a model, or text; and its errors, by status."""
    if model is None:
        good: dict[str, Any] = {"content": {CONTENT_TYPE: {"schema": {"type": "string"}}}}
    else:
        good = {"model": model, "description": (model.__doc__ or "").strip()}
    status = texts()["status"]
    return {200: good, **{error: {"model": ErrorResponse, "description": status[str(error)]} for error in errors}}


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """The request body of a route."""
    content = {"schema": {"$ref": f"{REF}{model.__name__}"}, "example": texts()["examples"][model.__name__]}
    return {"requestBody": {"required": True, "content": {JSON: content}}}


def describe(app: FastAPI, limits: Limits, *, protected: tuple[str, ...]) -> None:
    """Make the OpenAPI description of `app`, with bodies, limits and the token of `protected` paths."""
    made = get_openapi(title="fedrule", version="1", description=texts()["about"], routes=app.routes)
    _add_bodies(made, limits)
    if protected:
        _add_token(made, protected)
    app.openapi = lambda: made  # type: ignore[method-assign]


def _add_bodies(made: dict[str, Any], limits: Limits) -> None:
    _, bodies = models_json_schema(
        [(RecommendRequest, "validation"), (BatchRequest, "validation")], ref_template=REF + "{model}"
    )
    schemas = made["components"]["schemas"]
    schemas.update(bodies["$defs"])
    for name in ("RecommendRequest", "Home"):
        schemas[name]["properties"]["devices"].update(minItems=1, maxItems=limits.devices)
        schemas[name]["properties"]["rules"]["maxItems"] = limits.rules
    for name in ("RecommendRequest", "BatchRequest"):
        schemas[name]["properties"]["k"].update(maximum=limits.k, default=min(10, limits.k))
    schemas["BatchRequest"]["properties"]["homes"]["maxItems"] = limits.homes
    parts = [part for name in ("Device", "Rule") for part in schemas[name]["properties"].values()]
    parts += [schemas[name]["properties"]["user"] for name in ("RecommendRequest", "Home")]
    for part in parts:
        for kind in [part, *part.get("anyOf", [])]:
            if kind.get("type") == "string":
                kind["maxLength"] = limits.text


def _add_token(made: dict[str, Any], protected: tuple[str, ...]) -> None:
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    error = {"description": texts()["status"]["401"], "content": {JSON: {"schema": {"$ref": f"{REF}ErrorResponse"}}}}
    for path, methods in made["paths"].items():
        if path.startswith(protected):
            for operation in methods.values():
                operation["security"] = [{"token": []}]
                operation["responses"]["401"] = error


def reference(description: dict[str, Any]) -> str:
    """HTML with all routes, their bodies with an example, responses and errors; then all objects by name."""
    paths = description["paths"].items()
    routes = [(method, path, operation) for path, methods in paths for method, operation in methods.items()]
    links = "".join(f'<li><a href="#{_anchor(m, p)}"><b>{m.upper()}</b> {escape(p)}</a></li>' for m, p, _ in routes)
    head = (FOLDER / "reference.html").read_text("utf-8")
    parts = [head.format(about=escape(description["info"]["description"]), links=links)]
    parts += [_route(*route) for route in routes]
    parts.append('<section><h2 id="objects">Objects</h2>')
    parts += [_object(name, schema) for name, schema in sorted(description["components"]["schemas"].items())]
    return "\n".join([*parts, "</section></main></body></html>\n"])


def _anchor(method: str, path: str) -> str:
    return escape(f"{method}{path.replace('/', '-')}")


def _route(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f'<section><h2 id="{_anchor(method, path)}"><b>{method.upper()}</b> <code>{escape(path)}</code></h2>',
        f"<p>{escape(operation.get('description', ''))}</p>",
    ]
    if "security" in operation:
        parts.append("<p>Requires the header <code>Authorization: Bearer TOKEN</code>.</p>")
    parts += [
        f"<p>Query <code>{escape(parameter['name'])}</code>: {escape(parameter['description'])}</p>"
        for parameter in operation.get("parameters", [])
    ]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        parts.append(f"<h3>Body: {_kind(content['schema'])}</h3>")
        parts.append(f"<pre>{escape(json.dumps(content['example'], indent=2))}</pre>")
    rows = "<tr><th>Status</th><th>Content</th><th>When</th></tr>"
    for status, response in operation["responses"].items():
        contents = response.get("content", {}).items()
        kinds = "".join(f"{_kind(content['schema'])} <small>{escape(kind)}</small>" for kind, content in contents)
        rows += f"<tr><td>{status}</td><td>{kinds}</td><td>{escape(response.get('description', ''))}</td></tr>"
    return "\n".join([*parts, f"<h3>Responses</h3><table>{rows}</table></section>"])


def _object(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = "<tr><th>Name</th><th>Type</th><th>About</th></tr>"
    for part, kind in schema.get("properties", {}).items():
        about = escape(kind.get("description", ""))
        if part not in required:
            about = f"Optional, default {escape(json.dumps(kind.get('default')))}. {about}"
        rows += f"<tr><td><code>{escape(part)}</code></td><td>{_kind(kind)}</td><td>{about}</td></tr>"
    about = escape(schema.get("description", ""))
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{about}</p><table>{rows}</table>'


def _kind(schema: dict[str, Any]) -> str:
    """E.g. "list of Device, at most 500"; objects link to their table."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"<code>{escape(json.dumps(v))}</code>" for v in schema.get("enum", [schema.get("const")]))
    kind = escape(str(schema.get("type", "anything")))
    if kind == "array":
        kind = f"list of {_kind(schema['items'])}"
    for name, words in (("maxItems", "at most"), ("maxLength", "max. characters"), ("maximum", "at most")):
        if name in schema and schema[name] < 2**62:
            kind += f", {words} {schema[name]:,}"
    return kind


def add_page(app: FastAPI) -> None:
    """Add the routes for browsers."""
    parts = {f"/page/{path.name}": path for path in sorted(PAGE.iterdir()) if path.suffix in (".js", ".css", ".svg")}
    for route, path in {"/": PAGE / "index.html", "/docs.css": FOLDER / "reference.css", **parts}.items():
        app.add_api_route(route, _file(path), include_in_schema=False)

    @app.get("/docs", include_in_schema=False)
    async def docs(_: Request) -> Response:
        return _page(reference(app.openapi()), ".html")


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def file(_: Request) -> Response:
        return _page(path.read_bytes(), path.suffix)

    return file


def _page(content: str | bytes, suffix: str) -> Response:
    return Response(content, headers=texts()["headers"], media_type=texts()["content_types"][suffix])
