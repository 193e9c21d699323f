"""How much one request may ask for, and how much there may be at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, fields

from fastapi import Request

from datasets.common.errors import DataError
from fedrule.serving.errors import JSON, ClientGone, Refused


def _limit(default: int, about: str) -> int:
    made: int = field(default=default, metadata={"about": about})
    return made


@dataclass(frozen=True, slots=True)
class Limits:
    """Each is an option `--max-...` of the command line and is told by GET /v1/model."""

    devices: int = _limit(500, "devices of a home")
    rules: int = _limit(5_000, "rules of a home")
    homes: int = _limit(256, "homes of a batch")
    batch_devices: int = _limit(20_000, "devices of all homes of a batch")
    k: int = _limit(100, "recommendations for a home")
    text: int = _limit(200, "characters of an id, a type, a name, a state or an action")
    body_bytes: int = _limit(1_000_000, "bytes of a request")
    batch_body_bytes: int = _limit(8_000_000, "bytes of a batch")
    in_flight: int = _limit(64, "requests that are worked on or wait for it; further ones are 503")
    held_bytes: int = _limit(256_000_000, "bytes of requests that are being read or answered; further ones are 503")
    work_seconds: int = _limit(10, "seconds that a request may be worked on, by the estimate and by the clock")
    connections: int = _limit(1_000, "open connections; further ones are 503")
    seconds: int = _limit(10, "seconds that a client may take for its headers, for its body, and to read the answer")

    def __post_init__(self) -> None:
        for part in fields(self):
            if getattr(self, part.name) < 1:
                option = part.name.replace("_", "-")
                raise DataError(f"--max-{option} {getattr(self, part.name)}: give at least 1")

    def told(self) -> dict[str, int]:
        """By name, as clients see them."""
        return asdict(self)


ABOUT = {part.name: str(part.metadata["about"]) for part in fields(Limits)}


# --- Reading the body of a request: so many bytes, within so many seconds, and no more memory for all than agreed.
#
# Bytes are counted as they arrive; what the client says about their number is not relied on. They count until the
# request is answered, since a body may wait for its turn much longer than it took to read.

DRAINED = 4  # times the limit that is read and dropped, so that a client in the midst of sending reads the answer
CLOSE = {"Connection": "close"}  # what is still on its way is not the next request


class Bodies:
    """The bodies of requests that are not answered yet."""

    def __init__(self, limits: Limits) -> None:
        self._seconds, self._most = limits.seconds, limits.held_bytes
        self.held = 0  # bytes

    @asynccontextmanager
    async def read(self, request: Request, *, limit: int) -> AsyncIterator[bytes]:
        """The whole body of a JSON request, as long as it is needed."""
        refuse_other_than_json(request)
        parts: list[bytes] = []
        try:
            yield await self._whole(request, limit, parts)
        finally:
            self.held -= sum(map(len, parts))

    async def _whole(self, request: Request, limit: int, parts: list[bytes]) -> bytes:
        """The body; its `parts` are told as they are held."""
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
            told = f"the body was not there within {self._seconds} seconds"
            raise Refused(408, "slow_body", told, headers=CLOSE) from None
        if count > limit:
            raise Refused(413, "body_too_large", f"the body has more than {limit:,} bytes; send less", headers=CLOSE)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _hold(self, size: int) -> None:
        if self.held + size > self._most:
            headers = {"Retry-After": "1", **CLOSE}
            raise Refused(503, "too_busy", "too many large requests at once; try again", headers=headers)
        self.held += size


def refuse_other_than_json(request: Request) -> None:
    """By its headers."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        told = f"the content type is {kind[:50]!r}; send {JSON}" if kind else f"no content type; send {JSON}"
        raise Refused(415, "content_type", told, where="Content-Type")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refused(415, "content_encoding", "the body is encoded; send plain JSON", where="Content-Encoding")
