"""A checkpoint is one file; a run that was killed goes on from it as if nothing had happened, bit for bit.

The file is an .npz of NumPy without compression: a zip, in which every array has a check sum, and which holds no code.
`about.json` in it says which run it belongs to. It is written under another name, brought to the disk and moved, so
that whoever is killed in the middle leaves the old file or the new one, and never half of either.
"""

from __future__ import annotations

import glob
import json
import logging
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from datasets.common.errors import DataError
from fedrule.federated.states import AnyArray, ServerState
from fedrule.federated.vectors import Vector
from fedrule.training.loop import DivergenceGuard, EarlyStopping

# --- What a run remembers beside the server's state, and needs again as it was when it goes on from a checkpoint.


class Remembers(Protocol):
    """Something that changes from round to round, e.g. the history that a listener writes."""

    def arrays(self) -> Mapping[str, AnyArray]:
        """All that it remembers, by name."""

    def recall(self, arrays: Mapping[str, AnyArray]) -> None:
        """Remember this from now on; KeyError where something is missing."""


@dataclass(slots=True, eq=False)
class GuardBeside:
    """The last good model, after which round that was, and the highest loss in bounds."""

    guard: DivergenceGuard[Vector]

    def arrays(self) -> dict[str, AnyArray]:
        return {name: np.asarray(getattr(self.guard, name)) for name in ("model", "round", "bound")}

    def recall(self, arrays: Mapping[str, AnyArray]) -> None:
        self.guard.model, self.guard.round = arrays["model"], int(arrays["round"])
        self.guard.bound = float(arrays["bound"])


@dataclass(frozen=True, slots=True, eq=False)
class ValidationBeside:
    """The best validation loss so far, and the parameters that it belongs to."""

    stopping: EarlyStopping

    def arrays(self) -> dict[str, AnyArray]:
        best = {f"best.{name}": value.numpy() for name, value in self.stopping.best.items()}
        return {
            "lowest": np.asarray(self.stopping.lowest),
            "lowest_round": np.asarray(self.stopping.lowest_round),
            **best,
        }

    def recall(self, arrays: Mapping[str, AnyArray]) -> None:
        self.stopping.lowest, self.stopping.lowest_round = float(arrays["lowest"]), int(arrays["lowest_round"])
        best = {name.removeprefix("best."): value for name, value in arrays.items() if name.startswith("best.")}
        self.stopping.best = {name: torch.from_numpy(value) for name, value in best.items()}


log = logging.getLogger(__name__)

FORMAT = 2  # goes up when older files would be misread
ABOUT = "about.json"
REMEDY = "delete it to start again"
# Arrays whose length is not the same after every round; of all others the whole shape is known.
GROW = frozenset(
    ("shared", "shared_round", "clients.row", "clients.own.rows", "clients.first.rows", "clients.second.rows")
)
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Where the state of one run is kept, for one process at a time; see `fedrule.federated.rounds.Saves`."""

    path: Path
    every: int = 10  # rounds from one to the next; the last round is kept in any case
    configuration: Mapping[str, object] = field(default_factory=dict)  # what must be equal, as JSON has it
    beside: Mapping[str, Remembers] = field(default_factory=dict)  # who else remembers something

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # a string will do
        if type(self.every) is not int or self.every < 1:  # True is no number
            raise DataError(f"{self.path}: a checkpoint every {self.every!r} rounds: use 1, 2, 3, ...")

    def of(self, configuration: Mapping[str, object], beside: Mapping[str, Remembers]) -> Checkpoint:
        return replace(self, configuration={**self.configuration, **configuration}, beside={**self.beside, **beside})

    def load(self, begun: ServerState) -> ServerState | None:
        for leftover in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):
            leftover.unlink(missing_ok=True)  # of a run that was killed while it wrote
        if not self.path.exists():
            return None
        with _opened(self.path) as archive:
            self._refuse_other(_about(archive, self.path))
            if (bad := archive.testzip()) is not None:
                raise DataError(f"{self.path}: {bad.removesuffix('.npy')} is damaged; {REMEDY}")
            wanted = begun.arrays()
            arrays = {
                name: _like(_array(archive, f"state.{name}", self.path), wanted, name, self.path) for name in wanted
            }
            kept = {who: self._beside(archive, who) for who in self.beside}
        for who, remembers in self.beside.items():
            try:
                remembers.recall(kept[who])
            except KeyError as error:
                raise DataError(f"{self.path}: has no array beside.{who}.{error.args[0]}; {REMEDY}") from None
        return ServerState.of(arrays)

    def save(self, state: ServerState, *, last: bool) -> None:
        """A state that cannot be written, e.g. to a full disk, is a warning: training goes on without."""
        if not last and state.round % self.every:
            return
        arrays = {f"state.{name}": array for name, array in state.arrays().items()}
        for who, remembers in self.beside.items():
            arrays |= {f"beside.{who}.{name}": array for name, array in remembers.arrays().items()}
        about = {"format": FORMAT, "round": state.round, "run": self._run()}
        try:
            _write(self.path, about, arrays)
        except OSError as error:
            stays = "the one before stays" if self.path.exists() else "there is none"
            why = error.strerror or error
            log.warning("%s: no checkpoint after round %d (%s); %s", self.path, state.round, why, stays)

    def _run(self) -> dict[str, object]:
        """What must be equal."""
        run: dict[str, object] = json.loads(json.dumps({**self.configuration, "beside": sorted(self.beside)}))
        return run

    def _refuse_other(self, about: Mapping[str, Any]) -> None:
        different = "; ".join(_differences(about["run"], self._run()))
        if different:
            raise DataError(f"{self.path}: the checkpoint of another run: {different}. Name another file, or {REMEDY}")

    def _beside(self, archive: zipfile.ZipFile, who: str) -> dict[str, AnyArray]:
        prefix = f"beside.{who}."
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.startswith(prefix)]
        return {name.removeprefix(prefix): _array(archive, name, self.path) for name in names}


def about(path: Path) -> dict[str, Any]:
    """Which run the checkpoint of a file belongs to ("run"), and after which round it was made ("round")."""
    with _opened(path) as archive:
        return _about(archive, path)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """A file to read; one that is damaged, wherever that is noticed, is refused in words."""
    if path.is_dir():
        raise DataError(f"{path}: it is a folder; name a file")
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                yield archive
        except DataError:
            raise
        except DAMAGED as error:
            raise DataError(f"{path}: cut off, damaged or no checkpoint ({error}); {REMEDY}") from error


def _about(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    if ABOUT not in archive.namelist():
        raise DataError(f"{path}: has no {ABOUT}, so it is no checkpoint; name another file")
    found = json.loads(archive.read(ABOUT))
    if not isinstance(found, dict) or "format" not in found:
        raise DataError(f"{path}: its {ABOUT} names no format, so it is no checkpoint; name another file")
    if found["format"] != FORMAT:
        raise DataError(f"{path}: a checkpoint of format {found['format']}, this version reads {FORMAT}; {REMEDY}")
    return found


def _array(archive: zipfile.ZipFile, name: str, path: Path) -> AnyArray:
    """In memory of its own, so that it can be written to."""
    if f"{name}.npy" not in archive.namelist():
        raise DataError(f"{path}: has no array {name}; {REMEDY}")
    with archive.open(f"{name}.npy") as member:
        array: AnyArray = np.lib.format.read_array(member, allow_pickle=False)
    return array


def _like(array: AnyArray, wanted: Mapping[str, AnyArray], name: str, path: Path) -> AnyArray:
    """The array, if it is of the kind that this run has by this name."""
    like, free = wanted[name], int(name in GROW)
    if (array.dtype, array.shape[free:], array.ndim) != (like.dtype, like.shape[free:], like.ndim):
        found, expected = (f"{each.dtype} {each.shape}" for each in (array, like))
        raise DataError(f"{path}: array state.{name} is {found}, this run has {expected}; {REMEDY}")
    return array


def _write(path: Path, about: Mapping[str, object], arrays: Mapping[str, AnyArray]) -> None:
    """One array after the other, so that none is held twice."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr(ABOUT, json.dumps(about, indent=1))
                for name, array in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    with suppress(OSError):  # not every system can; then the move may be lost with the power, and the old file is there
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _differences(there: Mapping[str, Any], here: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """In words, each setting that differs."""
    for name in sorted({*there, *here}):
        if name not in there or name not in here:
            has, value = ("the file", there[name]) if name in there else ("this run", here[name])
            yield f"only {has} has {within}{name} = {json.dumps(value)}"
        elif isinstance(there[name], dict) and isinstance(here[name], dict):
            yield from _differences(there[name], here[name], f"{within}{name}.")
        elif there[name] != here[name]:
            yield f"{within}{name} is {json.dumps(there[name])} in the file and {json.dumps(here[name])} in this run"
