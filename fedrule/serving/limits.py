"""Limits on the size of a request and on the load of the service."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from datasets.common.errors import DataError


def _limit(default: int, about: str) -> Any:
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True, slots=True)
class Limits:
    """Each is an option `--max-...` of the command line and part of GET /v1/model."""

    devices: int = _limit(500, "devices per home")
    rules: int = _limit(5_000, "rules per home")
    homes: int = _limit(256, "homes per batch")
    batch_devices: int = _limit(20_000, "devices per batch, over all homes")
    k: int = _limit(100, "recommendations per home")
    text: int = _limit(200, "characters in an id, type, name, state or action")
    body_bytes: int = _limit(1_000_000, "bytes in a request body")
    batch_body_bytes: int = _limit(8_000_000, "bytes in the body of a batch request")
    in_flight: int = _limit(64, "requests running or queued, of each worker; more get a 503")
    held_bytes: int = _limit(256_000_000, "bytes of request bodies in memory, of each worker; more get a 503")
    work_seconds: int = _limit(10, "seconds of work per request, estimated and by the clock")
    connections: int = _limit(1_000, "open connections, of each worker; more get a 503")
    seconds: int = _limit(10, "seconds for a client to send its headers, to send its body, and to read the response")

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise DataError(f"--max-{name.replace('_', '-')} must be at least 1, got {value}")
