"""Error responses: {"error": {"code", "where", "message"}} with a matching status."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Response
from pydantic_core import to_json

from fedrule.inference.request import BadHome, BadJson

JSON = "application/json"
RETRY = {"Retry-After": "1"}


class ApiError(Exception):
    """An error response: a short code for programs, the place in the request, and a message for people."""

    def __init__(
        self, status: int, code: str, message: str, *, where: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.where, self.message = status, code, where, message
        self.headers = dict(headers or {})

    @classmethod
    def from_home(cls, bad: BadHome) -> ApiError:
        """For a home that is invalid, or not even JSON."""
        return cls(400 if isinstance(bad, BadJson) else 422, bad.code, bad.message, where=bad.where)

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "where": self.where, "message": self.message}

    def body(self) -> bytes:
        return to_json({"error": self.as_json()})

    def response(self) -> Response:
        return Response(self.body(), self.status, self.headers, JSON)


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""
