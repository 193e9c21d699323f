"""The OpenAPI description: bodies, answers and errors of every route, with the limits that this service has."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from fedrule.serving.responses import ErrorAnswer
from fedrule.serving.requests import Batch, Recommend
from fedrule.serving.middleware import PROTECTED
from fedrule.serving.limits import Limits
from fedrule.serving.metrics import KIND
from fedrule.serving.errors import JSON

REF = "#/components/schemas/"
ABOUT = "Which automation should this home set up next? Homes in, ranked rules out."
NAME = {
    "parameters": [
        {
            "name": "name",
            "in": "query",
            "required": False,
            "description": "Name of a model; the first one unless given.",
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
    Recommend: EXAMPLE,
    Batch: {"homes": [{"user": "ann", "devices": EXAMPLE["devices"]}], "k": 5},
}
STATUS = {
    400: "No JSON.",
    401: "No token, or another.",
    404: "No such model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "Another content type than JSON, or an encoded body.",
    422: "What is asked for cannot be answered; the error says where and why.",
    503: "Too many requests at once; try again after the seconds in Retry-After.",
}


def answers(model: type[BaseModel] | None, *refusals: int) -> dict[int | str, dict[str, Any]]:
    """The answers of a route: a model, or text; and its errors, by their status."""
    if model is None:
        good: dict[str, Any] = {"content": {KIND: {"schema": {"type": "string"}}}}
    else:
        good = {"model": model, "description": (model.__doc__ or "").strip()}
    return {200: good, **{status: {"model": ErrorAnswer, "description": STATUS[status]} for status in refusals}}


def asks(model: type[BaseModel]) -> dict[str, Any]:
    """The body of a route."""
    content = {"schema": {"$ref": f"{REF}{model.__name__}"}, "example": EXAMPLES[model]}
    return {"requestBody": {"required": True, "content": {JSON: content}}}


def describe(app: FastAPI, limits: Limits, *, protected: bool) -> None:
    """Make `app` describe itself in full."""

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
    _, bodies = models_json_schema([(Recommend, "validation"), (Batch, "validation")], ref_template=REF + "{model}")
    schemas = made["components"]["schemas"]
    schemas.update(bodies["$defs"])
    for name in ("Recommend", "HomeBody"):
        schemas[name]["properties"]["devices"].update(minItems=1, maxItems=limits.devices)
        schemas[name]["properties"]["rules"]["maxItems"] = limits.rules
    for name in ("Recommend", "Batch"):
        schemas[name]["properties"]["k"].update(maximum=limits.k, default=min(10, limits.k))
    schemas["Batch"]["properties"]["homes"]["maxItems"] = limits.homes
    parts = [part for name in ("Device", "Rule") for part in schemas[name]["properties"].values()]
    parts += [schemas[name]["properties"]["user"] for name in ("Recommend", "HomeBody")]
    for part in parts:
        for kind in [part, *part.get("anyOf", [])]:
            if kind.get("type") == "string":
                kind["maxLength"] = limits.text


def _add_token(made: dict[str, Any]) -> None:
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    error = {"description": STATUS[401], "content": {JSON: {"schema": {"$ref": f"{REF}ErrorAnswer"}}}}
    for path, methods in made["paths"].items():
        if path.startswith(PROTECTED):
            for operation in methods.values():
                operation["security"] = [{"token": []}]
                operation["responses"]["401"] = error
