"""Files that are written completely or not at all, and files that may be packed with gzip."""

from __future__ import annotations

import gzip
import json
import os
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from datasets.common.errors import DataError

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def write_json(path: Path, content: Json) -> None:
    """Write a JSON file; a reader sees the old one or the new one and nothing in between."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary file in the same folder that is renamed to `path` unless there was an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")  # with the permissions of any new file
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """A file to read, unpacked if its content is gzip, whatever its name."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            yield gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[misc]  # it has the same methods
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{path}: a damaged gzip file ({error}); download or pack it again") from error
