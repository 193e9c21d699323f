"""Checkpoints: one file from which a killed run resumes as if nothing had happened, bit for bit.

The file is one of `fedrule.federated.array_file`; its facts say which run it belongs to.
"""

from __future__ import annotations

import glob
import json
import logging
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from datasets.common.errors import DataError
from fedrule.federated.array_file import AnyArray, open_archive, read_about, read_array, write_arrays
from fedrule.federated.states import ServerState
from fedrule.federated.vectors import Vector
from fedrule.lazy import torch
from fedrule.training.loop import DivergenceGuard, EarlyStopping

log = logging.getLogger(__name__)

FORMAT = 2  # goes up when older files would be misread
REMEDY = "delete it to start again"
# Arrays whose length changes from round to round, or how their names begin; of all others the whole shape is known.
GROW = (
    "shared",
    "shared_round",
    "clients.row",
    "clients.own.rows",
    "clients.first.rows",
    "clients.second.rows",
    "clients.packed.values.",
)


class CheckpointExtra(Protocol):
    """Something that is saved beside the server's state and changes from round to round, e.g. the history of a run."""

    def arrays(self) -> Mapping[str, AnyArray]:
        """All that has to be saved, by name."""

    def restore(self, arrays: Mapping[str, AnyArray]) -> None:
        """Go back to this; KeyError where an array is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class GuardExtra:
    """The last good model, its round, and the highest loss in bounds."""

    guard: DivergenceGuard[Vector]

    def arrays(self) -> dict[str, AnyArray]:
        return {name: np.asarray(getattr(self.guard, name)) for name in ("model", "round", "bound")}

    def restore(self, arrays: Mapping[str, AnyArray]) -> None:
        self.guard.model, self.guard.round = arrays["model"], int(arrays["round"])
        self.guard.bound = float(arrays["bound"])


@dataclass(frozen=True, slots=True, eq=False)
class ValidationExtra:
    """The lowest validation loss so far, its round and its parameters."""

    stopping: EarlyStopping

    def arrays(self) -> dict[str, AnyArray]:
        best = {f"best.{name}": value.numpy() for name, value in self.stopping.best.items()}
        return {name: np.asarray(getattr(self.stopping, name)) for name in ("lowest", "lowest_round")} | best

    def restore(self, arrays: Mapping[str, AnyArray]) -> None:
        self.stopping.lowest, self.stopping.lowest_round = float(arrays["lowest"]), int(arrays["lowest_round"])
        best = {name.removeprefix("best."): value for name, value in arrays.items() if name.startswith("best.")}
        self.stopping.best = {name: torch.from_numpy(value) for name, value in best.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The file of one run, for one process at a time."""

    path: Path
    every: int = 10  # rounds; the last round is saved in any case
    configuration: Mapping[str, object] = field(default_factory=dict)  # what must be equal, as JSON values
    extras: Mapping[str, CheckpointExtra] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # a string will do
        if type(self.every) is not int or self.every < 1:  # nor bool
            raise DataError(f"{self.path}: a checkpoint needs a number of rounds of at least 1, got {self.every!r}")

    def extended(self, configuration: Mapping[str, object], extras: Mapping[str, CheckpointExtra]) -> Checkpoint:
        """The same with more that must be equal, and more to save beside the state."""
        return replace(self, configuration={**self.configuration, **configuration}, extras={**self.extras, **extras})

    def load(self, begun: ServerState) -> ServerState | None:
        """The last state that was saved, of a run that begins with this one; None where there is none."""
        for leftover in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):
            leftover.unlink(missing_ok=True)  # of a run that was killed while writing
        if not self.path.exists():
            return None
        with _opened(self.path) as archive:
            different = "; ".join(_differences(_about(archive, self.path)["run"], self._run()))
            if different:
                raise DataError(
                    f"{self.path}: checkpoint of another run: {different}. Choose another file, or {REMEDY}"
                )
            if (bad := archive.testzip()) is not None:
                raise DataError(f"{self.path}: {bad.removesuffix('.npy')} is damaged; {REMEDY}")
            wanted = begun.arrays()
            arrays = {
                name: _like(_array(archive, f"state.{name}", self.path), wanted, name, self.path) for name in wanted
            }
            saved = {name: self._extra(archive, name) for name in self.extras}
        for name, extra in self.extras.items():
            try:
                extra.restore(saved[name])
            except KeyError as error:
                raise DataError(f"{self.path}: has no array extra.{name}.{error.args[0]}; {REMEDY}") from None
        return ServerState.from_arrays(arrays)

    def save(self, state: ServerState, *, last: bool) -> None:
        """Save a state if it is due. A failure to write, e.g. to a full disk, is a warning: training continues."""
        if not last and state.round % self.every:
            return
        arrays = {f"state.{name}": array for name, array in state.arrays().items()}
        for extra, value in self.extras.items():
            arrays |= {f"extra.{extra}.{name}": array for name, array in value.arrays().items()}
        about = {"format": FORMAT, "round": state.round, "run": self._run()}
        try:
            write_arrays(self.path, about, arrays)
        except OSError as error:
            kept = "the previous one is kept" if self.path.exists() else "there is none"
            why = error.strerror or error
            log.warning("%s: no checkpoint after round %d (%s); %s", self.path, state.round, why, kept)

    def _run(self) -> dict[str, object]:
        """What must be equal."""
        run: dict[str, object] = json.loads(json.dumps({**self.configuration, "extras": sorted(self.extras)}))
        return run

    def _extra(self, archive: zipfile.ZipFile, extra: str) -> dict[str, AnyArray]:
        prefix = f"extra.{extra}."
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.startswith(prefix)]
        return {name.removeprefix(prefix): _array(archive, name, self.path) for name in names}


def about(path: Path) -> dict[str, Any]:
    """The run that a checkpoint file belongs to ("run"), and the rounds done ("round")."""
    with _opened(path) as archive:
        return _about(archive, path)


def _opened(path: Path) -> AbstractContextManager[zipfile.ZipFile]:
    return open_archive(path, what="checkpoint", remedy=REMEDY)


def _about(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    found = read_about(archive, path, what="checkpoint")
    if found["format"] != FORMAT:
        raise DataError(f"{path}: checkpoint of format {found['format']}, this version reads {FORMAT}; {REMEDY}")
    return found


def _array(archive: zipfile.ZipFile, name: str, path: Path) -> AnyArray:
    return read_array(archive, name, path, remedy=REMEDY)


def _like(array: AnyArray, wanted: Mapping[str, AnyArray], name: str, path: Path) -> AnyArray:
    """The array; an error where its type or shape is not that of this run."""
    like, free = (
        wanted[name],
        int(any(name == grows or (grows.endswith(".") and name.startswith(grows)) for grows in GROW)),
    )
    if (array.dtype, array.shape[free:], array.ndim) != (like.dtype, like.shape[free:], like.ndim):
        found, expected = (f"{each.dtype} {each.shape}" for each in (array, like))
        raise DataError(f"{path}: array state.{name} is {found}, this run has {expected}; {REMEDY}")
    return array


def _differences(there: Mapping[str, Any], here: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """A phrase for each setting that differs."""
    for name in sorted({*there, *here}):
        if name not in there or name not in here:
            has, value = ("the file", there[name]) if name in there else ("this run", here[name])
            yield f"only {has} has {within}{name} = {json.dumps(value)}"
        elif isinstance(there[name], dict) and isinstance(here[name], dict):
            yield from _differences(there[name], here[name], f"{within}{name}.")
        elif there[name] != here[name]:
            yield f"{within}{name} is {json.dumps(there[name])} in the file and {json.dumps(here[name])} in this run"
