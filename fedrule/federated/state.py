"""All that outlives a round: saving it is the checkpoint, and whoever has it can go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets.homes import Array
from fedrule.federated.layout import Vector
from fedrule.federated.memories import Memories, Part
from fedrule.federated.server import Moved

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class ServerState:
    """Of the server, and what all clients remember."""

    round: int  # rounds that are over
    model: Vector
    moved: Moved  # what the server's optimizer remembers
    shared: Vector  # [n_groups, size]  what corrections share, one vector for each round that some client needs
    shared_round: Array  # [n_groups]
    clients: Memories
    bound: float = np.inf  # a loss above it has run away

    def arrays(self) -> dict[str, AnyArray]:
        """By name, nested ones with dots between; `of` takes them back."""
        return {name: np.asarray(value) for name, value in _leaves(self)}

    @classmethod
    def of(cls, arrays: Mapping[str, AnyArray]) -> ServerState:
        moved = Moved(arrays["moved.first"], arrays["moved.second"], int(arrays["moved.steps"]))
        parts = (Part(arrays[f"clients.{n}.dense"], arrays[f"clients.{n}.rows"]) for n in ("own", "first", "second"))
        last, row_start, row, steps = (arrays[f"clients.{name}"] for name in ("last", "row_start", "row", "steps"))
        own, first, second = parts
        return cls(
            int(arrays["round"]),
            arrays["model"],
            moved,
            arrays["shared"],
            arrays["shared_round"],
            Memories(last, row_start, row, steps, own, first, second),
            float(arrays["bound"]),
        )


def _leaves(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for field in fields(value):
        inner = getattr(value, field.name)
        name = f"{prefix}{field.name}"
        found += _leaves(inner, f"{name}.") if is_dataclass(inner) else [(name, inner)]
    return found
