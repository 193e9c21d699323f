"""The key of a result says what must be equal for two runs to be the same; its hash names the result's files."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from datasets.common.errors import DataError
from datasets.common.files import Json


@dataclass(frozen=True, slots=True)
class Key:
    """All that decides the numbers of a run."""

    method: str
    parameters: dict[str, Json]  # all of them, defaults included
    data: str
    data_options: dict[str, Json]  # all of them, defaults included
    fingerprint: str  # of the homes as the method sees them, merged in the track `types`
    track: str
    split: dict[str, Json]
    protocol: str
    seed: int
    curves: int = 0  # every how many rounds the model was measured; 0 is never

    @property
    def hash(self) -> str:
        """16 hex digits: the name of the files."""
        values = asdict(self)
        if not self.curves:
            del values["curves"]  # results from before there were curves keep their names
        text = json.dumps(values, sort_keys=True, ensure_ascii=False, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        curves = f", curves every {self.curves}" if self.curves else ""
        where = f"{self.data} ({self.track}, {self.split['split']})"
        return f"{self.method} on {where}, {self.protocol}, seed {self.seed}{curves}"


def as_json(value: object, where: str) -> Json:
    """A setting as JSON keeps it: tuples become lists, paths text, numbers that JSON lacks text."""
    if isinstance(value, Mapping):
        return {str(name): as_json(entry, f"{where}.{name}") for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry, where) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    raise DataError(f"{where}: {type(value).__name__} cannot be part of a result's key; use numbers, text or lists")
