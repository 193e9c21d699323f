"""Request bodies: reading them, and their form.

The models of a home describe it for OpenAPI; the validation of a home is `HomeRequest.from_json`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal, TypeAlias, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedrule.inference.request import INT64, HomeLimits, HomeRequest
from fedrule.serving.errors import JSON, RETRY, ApiError, ClientGone
from fedrule.serving.limits import Limits

DRAINED = 4  # times the limit that is read and dropped, so that a client still sending can read the error response
CLOSE = {"Connection": "close"}  # the rest of an unread body must not be taken for the next request

Text: TypeAlias = Annotated[str, Field(strict=True, min_length=1)]
Id: TypeAlias = Annotated[int, Field(strict=True, ge=INT64.start, le=INT64.stop - 1)] | Text
Options = TypeVar("Options", bound=BaseModel)

MESSAGES = {  # by pydantic's error type
    "model_type": "expected an object",
    "list_type": "expected a list",
    "string_type": "expected a string",
    "string_too_short": "must not be empty",
    "int_type": "expected an integer",
}


class BodyReader:
    """Reads request bodies and counts the bytes held in memory until the requests are answered.

    Bytes are counted as they arrive; the Content-Length header is not trusted.
    """

    def __init__(self, limits: Limits) -> None:
        self._seconds, self._most = limits.seconds, limits.held_bytes
        self.held = 0  # bytes

    @asynccontextmanager
    async def read(self, request: Request, *, limit: int) -> AsyncIterator[bytes]:
        """The body of a JSON request; its bytes count as held inside the `async with`."""
        require_json(request)
        parts: list[bytes] = []
        try:
            yield await self._read(request, limit, parts)
        finally:
            self.held -= sum(map(len, parts))

    async def _read(self, request: Request, limit: int, parts: list[bytes]) -> bytes:
        count, more = 0, True
        try:
            async with asyncio.timeout(self._seconds):
                while more and count <= limit * DRAINED:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    part: bytes = message.get("body", b"")
                    more = message.get("more_body", False)
                    count += len(part)
                    if count <= limit:
                        if self.held + len(part) > self._most:
                            busy = "too many large requests at once; try again"
                            raise ApiError(503, "too_busy", busy, headers=RETRY | CLOSE)
                        self.held += len(part)
                        parts.append(part)
        except TimeoutError:
            late = f"the body did not arrive within {self._seconds} seconds"
            raise ApiError(408, "slow_body", late, headers=CLOSE) from None
        if count > limit:
            raise ApiError(413, "body_too_large", f"the body is larger than {limit:,} bytes", headers=CLOSE)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def require_json(request: Request) -> None:
    """Check the content type and encoding."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        message = f"unsupported content type {kind[:50]!r}; send {JSON}" if kind else f"no content type; send {JSON}"
        raise ApiError(415, "content_type", message, where="Content-Type")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise ApiError(415, "content_encoding", "encoded bodies are not supported", where="Content-Encoding")


class Strict(BaseModel):
    """Unknown fields are errors: a misspelled one would be ignored silently."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Device(Strict):
    """A device of the home."""

    id: Id = Field(description="Unique in the home.", examples=["door"])
    type: Text = Field(description="One of the model's types.", examples=["ContactSensor"])
    name: Annotated[str, Field(strict=True)] = Field("", description="The name people use.", examples=["Front door"])
    room: Annotated[str, Field(strict=True)] = Field("", description="Where it is, as people say.", examples=["Hall"])


class Rule(Strict):
    """A rule of the home; devices by their ids."""

    trigger: Id = Field(examples=["door"])
    trigger_state: Text = Field(examples=["Open"])
    action: Text = Field(examples=["Power On"])
    action_device: Id = Field(examples=["lamp"])


class Home(Strict):
    """The devices and rules of a home."""

    devices: list[Device]
    rules: list[Rule] = []
    user: Id | None = Field(None, description="Repeated in the response to a batch.")


class ListOptions(Strict):
    """How recommendations are selected."""

    k: Annotated[int, Field(strict=True, ge=1)] = Field(10, description="Length of the list.")
    model: Text | None = Field(None, description="Name of the model; the first one by default.")
    unknown: Literal["refuse", "ignore"] = Field(
        "refuse", description="Whether devices and rules that the model does not know are an error or ignored."
    )
    max_similar: Annotated[int, Field(strict=True, ge=0, le=1000)] = Field(
        0, description="Maximum number of rules with one relation between devices of the same types; 0: no limit."
    )

    def length(self, limits: Limits) -> int:
        """The requested k; the default is lowered to the limit, a larger k is refused."""
        if "k" in self.model_fields_set and self.k > limits.k:
            raise ApiError(422, "k_too_large", f"k must be at most {limits.k}", where="k")
        return min(self.k, limits.k)


class RecommendRequest(ListOptions, Home):
    """One home."""


class BatchRequest(ListOptions):
    """Many homes."""

    homes: list[Home]


class BatchEnvelope(ListOptions):
    """A batch whose homes are validated one by one, so that an invalid home does not fail the others."""

    homes: list[object]


def parse_options(kind: type[Options], content: object) -> Options:
    """Parsed JSON as this kind of options; the error names the first field that is wrong."""
    for name in content if isinstance(content, dict) else ():  # at the first: pydantic would collect a million errors
        if name not in kind.model_fields:
            known = ", ".join(kind.model_fields)
            raise ApiError(422, "unexpected", f"unknown field; known: {known}", where=name[:50])
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "missing":
            raise ApiError(422, "missing", f"{where} is missing", where=where) from None
        message = MESSAGES.get(first["type"]) or first["msg"].replace("Input should", "must")
        raise ApiError(422, "wrong_kind", message, where=where) from None


def home_limits(limits: Limits) -> HomeLimits:
    return HomeLimits(limits.devices, limits.rules, limits.text)


def parse_home(content: object, limits: Limits) -> tuple[HomeRequest, ListOptions]:
    """Parsed JSON as a home with options; an invalid home raises `BadHome`."""
    names = ListOptions.model_fields
    home = HomeRequest.from_json(content, limits=home_limits(limits), options=names)
    assert isinstance(content, dict)
    return home, parse_options(ListOptions, {name: content[name] for name in names if name in content})
