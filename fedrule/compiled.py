"""Names of compiled functions on disk that follow every file which they are compiled from."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def name_by_sources(function: F, sources: tuple[Path, ...]) -> F:
    """Put a hash of these files into the name under which numba keeps the function's machine code.

    numba compiles again when the function's own file changes, but ignores the files of the functions and constants that
    it uses.
    """
    function.__qualname__ += f"-{_hash_of(sources)}"
    return function


@cache
def _hash_of(sources: tuple[Path, ...]) -> str:
    return f"{zlib.crc32(b''.join(path.read_bytes() for path in sources)):x}"
