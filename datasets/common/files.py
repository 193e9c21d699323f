"""Files that are there as a whole or not at all: written under another name, then moved."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def write_json(path: Path, content: Json) -> None:
    """Write a JSON file so that a reader sees the old one or the new one and nothing in between."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary file in the same folder that takes this name when all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")  # others may read it, as any new file
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
