"""Files of arrays, such as checkpoints and client states: an .npz of NumPy without compression, with facts in JSON.

It is a zip without code, in which every array has a checksum. It is written under a temporary name, synced and moved,
so that a process killed in the middle leaves the old file or the new one.
"""

from __future__ import annotations

import json
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.common.files import atomic_file

AnyArray = npt.NDArray[Any]

ABOUT = "about.json"
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, RuntimeError, ValueError)


def read_arrays(path: Path, *, what: str, remedy: str) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """The facts and all arrays of a file, checked; the error for a bad one says what it should be and what to do."""
    with open_archive(path, what=what, remedy=remedy) as archive:
        about = read_about(archive, path, what=what)
        if (bad := archive.testzip()) is not None:
            raise DataError(f"{path}: {bad.removesuffix('.npy')} is damaged; {remedy}")
        names = [name.removesuffix(".npy") for name in archive.namelist() if name != ABOUT]
        return about, {name: read_array(archive, name, path, remedy=remedy) for name in names}


@contextmanager
def open_archive(path: Path, *, what: str, remedy: str) -> Iterator[zipfile.ZipFile]:
    """A file to read; an error where it is damaged, wherever that shows."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder; give a file")
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                yield archive
        except DataError:
            raise
        except DAMAGED as error:
            raise DataError(f"{path}: truncated, damaged or not a {what} ({error}); {remedy}") from error


def read_about(archive: zipfile.ZipFile, path: Path, *, what: str) -> dict[str, Any]:
    """The facts of a file; they name a format."""
    if ABOUT not in archive.namelist():
        raise DataError(f"{path}: not a {what}, it has no {ABOUT}; choose another file")
    found = json.loads(archive.read(ABOUT))
    if not isinstance(found, dict) or "format" not in found:
        raise DataError(f"{path}: not a {what}, its {ABOUT} has no format; choose another file")
    return found


def read_array(archive: zipfile.ZipFile, name: str, path: Path, *, remedy: str) -> AnyArray:
    """A writable copy of one array."""
    if f"{name}.npy" not in archive.namelist():
        raise DataError(f"{path}: has no array {name}; {remedy}")
    with archive.open(f"{name}.npy") as member:
        array: AnyArray = np.lib.format.read_array(member, allow_pickle=False)
    return array


def write_arrays(path: Path, about: Mapping[str, object], arrays: Mapping[str, AnyArray], *, mode: int = 0o666) -> None:
    """Array by array, so that none is copied; synced to the disk. The umask takes from `mode`, as from any file's."""
    with atomic_file(path) as temporary, open(temporary, "wb", opener=partial(os.open, mode=mode)) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(ABOUT, json.dumps(about, indent=1))
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    with suppress(OSError):  # not on every system; there the old file may come back after a power failure
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
