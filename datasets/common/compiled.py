"""Loops in machine code, by numba: entry points, which are kept on disk, and functions that become a part of them.

Entry points are compiled on the first call and release the interpreter's lock. A function that they call is compiled as
often as it is called: numba has a copy of it in each entry point, optimised once more. Where it compiles, it calls the
original, and the copy where it loads the entry point from disk. A sum that may be taken in any order may round
differently in the two, so what is compiled `in_any_order` always becomes a part of its callers. A function that does
not say how it rounds is compiled as its first caller is; `as_written` fixes it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])

REORDERED = {"reassoc", "nsz"}  # a sum may be taken in any order, several numbers at once; NaN stays NaN
FUSED = REORDERED | {"contract"}  # and a product is not rounded before it is added


def entry_point(*sources: Path, **options: object) -> Callable[[F], F]:
    """Keep the machine code on disk, so that it is compiled once after an installation.

    numba compiles again when the function's own file changes, but ignores the files of the functions and constants that
    it uses: these are its `sources`, and the name under which the code is kept has a hash of them.
    """

    def compile_kept(function: F) -> F:
        function.__qualname__ += f"-{hash_of((Path(__file__), *sources))}"
        made: F = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
        return made

    return compile_kept


def as_written(function: F) -> F:
    """Take every sum in its order."""
    made: F = njit(error_model="numpy", fastmath=False)(function)
    return made


def in_any_order(function: F) -> F:
    """Take sums in any order, as a part of each caller."""
    made: F = njit(error_model="numpy", fastmath=FUSED, forceinline=True)(function)
    return made


def inlined(function: F) -> F:
    """The same for what has one caller, of which it becomes a part before types are inferred."""
    made: F = njit(error_model="numpy", fastmath=FUSED, inline="always")(function)
    return made


@cache
def hash_of(sources: tuple[Path, ...]) -> str:
    """A hash of the contents of these files."""
    return f"{zlib.crc32(b''.join(path.read_bytes() for path in sources)):x}"
