"""What is answered instead of a recommendation: {"error": {"code", "where", "message"}} with a status that fits."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Response
from pydantic_core import to_json

from fedrule.inference.request import BadHome

JSON = "application/json"


class Refused(Exception):
    """A request that is answered with an error: a short code for programs, where in the request, and what to do."""

    def __init__(
        self, status: int, code: str, message: str, *, where: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.where, self.message = status, code, where, message
        self.headers = dict(headers or {})

    @classmethod
    def home(cls, bad: BadHome) -> Refused:
        """A home that cannot be answered."""
        return cls(422, bad.code, bad.message, where=bad.where)

    def told(self) -> dict[str, str]:
        """As it stands under "error"."""
        return {"code": self.code, "where": self.where, "message": self.message}

    def content(self) -> bytes:
        return to_json({"error": self.told()})

    def response(self) -> Response:
        return Response(self.content(), self.status, self.headers, JSON)


class ClientGone(Exception):
    """The client has closed the connection before its request was whole; nobody reads an answer."""
