"""Request bodies: reading them, their form, and the conversion to the homes that a recommender takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Literal, TypeAlias, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from fedrule.inference.request import BadHome, HomeRequest, RequestDevice, RequestRule
from fedrule.serving.errors import JSON, RETRY, ApiError, ClientGone
from fedrule.serving.limits import Limits

DRAINED = 4  # times the limit that is read and dropped, so that a client still sending can read the error response
CLOSE = {"Connection": "close"}  # the rest of an unread body must not be taken for the next request
INT64_MAX = 2**63 - 1  # as in the databases that ids come from

Text: TypeAlias = Annotated[str, Field(strict=True, min_length=1)]
Id: TypeAlias = Annotated[int, Field(strict=True, ge=-INT64_MAX - 1, le=INT64_MAX)] | Text
Body = TypeVar("Body", bound=BaseModel)

IDS = {"id", "trigger", "action_device", "user"}
MESSAGES = {  # by pydantic's error type
    "model_type": "expected an object",
    "list_type": "expected a list",
    "string_type": "expected a string",
    "string_too_short": "must not be empty",
    "int_type": "expected an integer",
    "greater_than_equal": "must be at least 1",
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
                        self._hold(len(part))
                        parts.append(part)
        except TimeoutError:
            late = f"the body did not arrive within {self._seconds} seconds"
            raise ApiError(408, "slow_body", late, headers=CLOSE) from None
        if count > limit:
            raise ApiError(413, "body_too_large", f"the body is larger than {limit:,} bytes", headers=CLOSE)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _hold(self, size: int) -> None:
        if self.held + size > self._most:
            raise ApiError(503, "too_busy", "too many large requests at once; try again", headers=RETRY | CLOSE)
        self.held += size


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


class Rule(Strict):
    """A rule of the home; devices by their ids."""

    trigger: Id = Field(examples=["door"])
    trigger_state: Text = Field(examples=["Open"])
    action: Text = Field(examples=["Power On"])
    action_device: Id = Field(examples=["lamp"])


class HomeOwner(Strict):
    """The user that a home belongs to."""

    user: Id | None = Field(None, description="Repeated in the response to a batch.")


class Home(HomeOwner):
    """The devices and rules of a home."""

    devices: Annotated[list[Device], FailFast()]
    rules: Annotated[list[Rule], FailFast()] = []


class ListOptions(Strict):
    """How recommendations are selected."""

    k: Annotated[int, Field(strict=True, ge=1)] = Field(10, description="Length of the list.")
    model: Text | None = Field(None, description="Name of the model; the first one by default.")
    unknown: Literal["refuse", "ignore"] = Field(
        "refuse", description="Whether devices and rules that the model does not know are an error or ignored."
    )
    max_similar: Annotated[int, Field(strict=True, ge=0, le=1000)] = Field(
        0, description="At most so many rules with one relation between devices of the same types; 0: no limit."
    )


class RecommendRequest(ListOptions, Home):
    """One home."""


class BatchRequest(ListOptions):
    """Many homes."""

    homes: list[Home]


class BatchEnvelope(ListOptions):
    """A batch whose homes are validated one by one, so that an invalid home does not fail the others."""

    homes: list[object]


def validate(kind: type[Body], content: object) -> Body:
    """Parsed JSON as a body of this kind; the error names the first place that is wrong."""
    _refuse_unknown_fields(kind, content)
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # For a union, pydantic appends the alternative that it tried.
        alternatives = ("constrained-int", "constrained-str", "int", "str")
        where = _path([part for part in first["loc"] if part not in alternatives])
        name = where.rpartition(".")[2]
        if first["type"] == "missing":
            raise ApiError(422, "missing", f"{name} is missing", where=where) from None
        message = "expected a non-empty string or a 64-bit integer" if name in IDS else MESSAGES.get(first["type"])
        raise ApiError(422, "wrong_kind", message or first["msg"], where=where) from None


def _refuse_unknown_fields(kind: type[BaseModel], content: object, path: Sequence[int | str] = ()) -> None:
    """Stop at the first one: pydantic would collect an error for each of a million."""
    if not isinstance(content, dict):
        return
    known = kind.model_fields
    for name in content:
        if name not in known:
            raise ApiError(422, "unexpected", f"unknown field; known: {', '.join(known)}", where=_path([*path, name]))
    for table, row in (("devices", Device), ("rules", Rule)):
        rows = content.get(table) if table in known else None
        for at, each in enumerate(rows if isinstance(rows, list) else ()):
            if isinstance(each, dict) and not each.keys() <= row.model_fields.keys():
                _refuse_unknown_fields(row, each, (table, at))


def home_request(home: Home, limits: Limits) -> HomeRequest:
    """The home for a recommender; one that exceeds a limit is a `BadHome`."""
    for name, count, most in (("devices", len(home.devices), limits.devices), ("rules", len(home.rules), limits.rules)):
        if count > most:
            raise BadHome(f"too_many_{name}", name, f"at most {most:,} {name} per home, got {count:,}")
    _check_length(home.user, "user", limits.text)
    asked = HomeRequest(
        [RequestDevice(device.id, device.type, device.name) for device in home.devices],
        [RequestRule(rule.trigger, rule.trigger_state, rule.action, rule.action_device) for rule in home.rules],
    )
    rows: Sequence[tuple[str, Sequence[RequestDevice | RequestRule]]] = (
        ("devices", asked.devices),
        ("rules", asked.rules),
    )
    for table, each in rows:
        for at, row in enumerate(each):
            for name, value in zip(row._fields, row, strict=True):
                if type(value) is str and len(value) > limits.text:
                    _check_length(value, f"{table}[{at}].{name}", limits.text)
    return asked


def _check_length(value: object, where: str, most: int) -> None:
    if isinstance(value, str) and len(value) > most:
        raise BadHome("too_long", where, f"at most {most} characters, got {len(value):,}")


def list_length(options: ListOptions, limits: Limits) -> int:
    """The requested k; the default is lowered to the limit, a larger k is refused."""
    if "k" not in options.model_fields_set:
        return min(options.k, limits.k)
    if options.k > limits.k:
        raise ApiError(422, "k_too_large", f"k must be at most {limits.k}", where="k")
    return options.k


def _path(parts: Sequence[int | str]) -> str:
    """E.g. devices[2].type."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:50]}" for part in parts)
    return path.removeprefix(".")
