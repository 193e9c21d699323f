"""How much one request may ask for, and how much there may be at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields

from datasets.common.errors import DataError


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
