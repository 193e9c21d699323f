"""The OpenAPI description with the limits of this service, the reference page at /docs, and the page at /.

Both pages load nothing from other hosts. The usual reference pages do, and stay empty without internet access.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from html import escape
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from fedrule.serving.errors import JSON
from fedrule.serving.limits import Limits
from fedrule.serving.metrics import CONTENT_TYPE
from fedrule.serving.middleware import PROTECTED
from fedrule.serving.requests import BatchRequest, RecommendRequest
from fedrule.serving.responses import ErrorResponse

REF = "#/components/schemas/"
ABOUT = "Which automation should this home set up next? Homes in, ranked rules out."
NAME_PARAMETER = {
    "parameters": [
        {
            "name": "name",
            "in": "query",
            "required": False,
            "description": "Name of the model; the first one by default.",
            "schema": {"type": "string"},
        }
    ]
}
EXAMPLE = {
    "devices": [
        {"id": "door", "type": "ContactSensor", "name": "Front door"},
        {"id": "lamp", "type": "Light", "name": "Hall light"},
    ],
    "rules": [{"trigger": "door", "trigger_state": "Open", "action": "Power On", "action_device": "lamp"}],
    "k": 5,
}
EXAMPLES: dict[type[BaseModel], object] = {
    RecommendRequest: EXAMPLE,
    BatchRequest: {"homes": [{"user": "ann", "devices": EXAMPLE["devices"]}], "k": 5},
}
STATUS = {
    400: "Invalid JSON.",
    401: "Missing or wrong token.",
    404: "Unknown model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The content type is not JSON, or the body is encoded.",
    422: "The request is invalid; the error says where and why.",
    503: "Too many requests at once, or shutting down; try again after the seconds in Retry-After.",
}
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>fedrule: HTTP reference</title><link rel="stylesheet" href="docs.css"></head><body>
<header><h1>fedrule: HTTP reference</h1><p>{about}</p>
<p><a href="./">Try it out</a> · <a href="openapi.json">OpenAPI description</a></p>
<nav><ul>{links}</ul></nav></header><main>"""
FOLDER = Path(__file__).parent
PAGE = FOLDER / "page"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Scripts, styles and requests of this service only and nothing inline, so that a device name can never become code.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}


def responses(model: type[BaseModel] | None, *errors: int) -> dict[int | str, dict[str, Any]]:
    """The responses of a route: a model, or text; and its errors, by status."""
    if model is None:
        good: dict[str, Any] = {"content": {CONTENT_TYPE: {"schema": {"type": "string"}}}}
    else:
        good = {"model": model, "description": (model.__doc__ or "").strip()}
    return {200: good, **{status: {"model": ErrorResponse, "description": STATUS[status]} for status in errors}}


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """The request body of a route."""
    content = {"schema": {"$ref": f"{REF}{model.__name__}"}, "example": EXAMPLES[model]}
    return {"requestBody": {"required": True, "content": {JSON: content}}}


def describe(app: FastAPI, limits: Limits, *, protected: bool) -> None:
    """Make `app` include bodies, limits and the token in its OpenAPI description."""

    def description() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title="fedrule", version="1", description=ABOUT, routes=app.routes)
            _add_bodies(made, limits)
            if protected:
                _add_token(made)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = description  # type: ignore[method-assign]


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


def _add_token(made: dict[str, Any]) -> None:
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    error = {"description": STATUS[401], "content": {JSON: {"schema": {"$ref": f"{REF}ErrorResponse"}}}}
    for path, methods in made["paths"].items():
        if path.startswith(PROTECTED):
            for operation in methods.values():
                operation["security"] = [{"token": []}]
                operation["responses"]["401"] = error


def reference(description: dict[str, Any]) -> str:
    """HTML with all routes, their bodies with an example, responses and errors; then all objects by name."""
    routes = [
        (method, path, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    links = "".join(f'<li><a href="#{_anchor(m, p)}"><b>{m.upper()}</b> {escape(p)}</a></li>' for m, p, _ in routes)
    parts = [HEAD.format(about=escape(description["info"]["description"]), links=links)]
    parts += [_route(method, path, operation) for method, path, operation in routes]
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
    rows = "".join(_response(status, response) for status, response in operation["responses"].items())
    head = "<tr><th>Status</th><th>Content</th><th>When</th></tr>"
    return "\n".join([*parts, f"<h3>Responses</h3><table>{head}{rows}</table></section>"])


def _response(status: str, response: dict[str, Any]) -> str:
    kinds = "".join(
        f"{_kind(content['schema'])} <small>{escape(kind)}</small>"
        for kind, content in response.get("content", {}).items()
    )
    return f"<tr><td>{status}</td><td>{kinds}</td><td>{escape(response.get('description', ''))}</td></tr>"


def _object(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = []
    for part, kind in schema.get("properties", {}).items():
        about = escape(kind.get("description", ""))
        if part not in required:
            about = f"Optional, default {escape(json.dumps(kind.get('default')))}. {about}"
        rows.append(f"<tr><td><code>{escape(part)}</code></td><td>{_kind(kind)}</td><td>{about}</td></tr>")
    about = escape(schema.get("description", ""))
    head = "<tr><th>Name</th><th>Type</th><th>About</th></tr>"
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{about}</p><table>{head}{"".join(rows)}</table>'


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
        return Response(reference(app.openapi()), headers=HEADERS, media_type=CONTENT_TYPES[".html"])


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def file(_: Request) -> Response:
        return Response(path.read_bytes(), headers=HEADERS, media_type=CONTENT_TYPES[path.suffix])

    return file
