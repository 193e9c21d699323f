"""Loaded models in shared memory: one process writes them, and every worker maps the same pages, read-only.

A model file itself is not mapped: whoever overwrites it would change, or truncate, the numbers of a running service.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import tempfile
from collections.abc import Mapping

from fedrule.serving.model_store import LoadedModel

ALIGNED = 64  # bytes: arrays begin at a cache line
COUNT, PLACE = struct.Struct("<q"), struct.Struct("<qq")  # how many parts; offset and size of each


def shared_file() -> int:
    """A descriptor of an empty file without a name; in memory where the system can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fedrule-models")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def write_models(models: Mapping[str, LoadedModel], file: int) -> None:
    """Write models with all that was computed from them; arrays lie outside the pickle, as they are in memory."""
    arrays: list[pickle.PickleBuffer] = []
    content = pickle.dumps(dict(models), protocol=5, buffer_callback=arrays.append)
    parts = [memoryview(content), *(array.raw() for array in arrays)]
    end, places = COUNT.size + PLACE.size * len(parts), []
    for part in parts:
        begin = -(-end // ALIGNED) * ALIGNED
        places.append((begin, part.nbytes))
        end = begin + part.nbytes
    with os.fdopen(os.dup(file), "wb") as out:
        out.write(COUNT.pack(len(parts)))
        out.writelines(PLACE.pack(*place) for place in places)
        for (begin, _), part in zip(places, parts, strict=True):
            out.seek(begin)
            out.write(part)


def read_models(file: int) -> dict[str, LoadedModel]:
    """Map what `write_models` has written; the memory is released with the last array.

    Unpickling executes code: only for a file that a process of this very service has written.
    """
    whole = memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
    (many,) = COUNT.unpack_from(whole)
    places = [PLACE.unpack_from(whole, COUNT.size + PLACE.size * at) for at in range(many)]
    content, *arrays = (whole[begin : begin + size] for begin, size in places)
    models: dict[str, LoadedModel] = pickle.loads(content, buffers=arrays)
    return models
