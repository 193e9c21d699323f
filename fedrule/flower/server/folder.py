"""The folder of a server: all of a run that has to survive a crash, and what people and other programs read of it.

run.json           the name of the run, its method and seed; of a private run also the secret seed of its cohorts
setup.npz          what was counted before the first round; released.npz what a private run released of it so far
members.npz        the nodes of a run by secure sums, kept before the first sum
sum-*.npz          secure sums, kept as soon as they are known and until the run is over
checkpoint.npz     the state after the last round
rounds.jsonl       a line for each round
status.json        what the server does now, which nodes joined, which were refused and why, and why it failed
weights.npz        the model as bare numbers; model.safetensors for recommendations

They tell of homes: the folder of a new run and its files are their owner's alone.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from datasets.common.errors import DataError
from datasets.common.files import Json, atomic_file
from datasets.homes import Array
from fedrule.federated.array_file import AnyArray, read_arrays, write_arrays

FORMAT = 1  # goes up when older files would be misread
RUN, SETUP, RELEASED, CHECKPOINT = "run.json", "setup.npz", "released.npz", "checkpoint.npz"
MEMBERS = "members.npz"
ROUNDS, STATUS, WEIGHTS, MODEL = "rounds.jsonl", "status.json", "weights.npz", "model.safetensors"
OWN = 0o600  # files that their owner alone reads
REMEDY = "restore it from a copy, or empty the folder and start a new run"


@dataclass(frozen=True, slots=True)
class RunNames:
    """What is drawn once for a run."""

    run: str
    sampling_seed: int | None  # of the cohorts of a private run


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """The files of one run."""

    path: Path

    def begin(self, configuration: Mapping[str, object], *, private: bool) -> RunNames:
        """The run of this folder, drawn where it is new; refused where it has another configuration.

        The cohorts of a private run are drawn by a seed of their own, in place of the one that nodes know: the account
        counts on that nobody but the server knows who takes part. Without it nobody can compute the run again.
        """
        self._make()
        path, now = self.path / RUN, json.loads(json.dumps(configuration))
        if not path.exists():
            with suppress(OSError):  # of a folder that belongs to somebody else; its files stay ours
                self.path.chmod(0o700)
            drawn: dict[str, object] = {"format": FORMAT, "run": secrets.token_hex(8), **now}
            if private:
                drawn["sampling_seed"] = secrets.randbits(62)
            with atomic_file(path) as temporary:
                temporary.touch(mode=OWN)
                temporary.write_text(json.dumps(drawn, indent=1) + "\n", "utf-8")
        try:
            saved = json.loads(path.read_text("utf-8"))
            names = RunNames(str(saved.pop("run")), int(saved["sampling_seed"]) if private else None)
        except (ValueError, LookupError, AttributeError, TypeError):
            raise DataError(f"{path}: damaged; {REMEDY}") from None
        different = [name for name, value in now.items() if saved.get(name) != value]
        if different or saved.get("format") != FORMAT:
            raise DataError(
                f"{path}: of another run, with another {', '.join(different) or 'format'}; choose another folder, or "
                "empty this one to start again"
            )
        return names

    def read(self, name: str, run: str) -> tuple[dict[str, Any], dict[str, AnyArray]] | None:
        """The facts and arrays of a file of this run; None where there is none."""
        path = self.path / name
        if not path.exists():
            return None
        about, arrays = read_arrays(path, what=f"{name.partition('.')[0]} of a federation", remedy=REMEDY)
        if about.get("run") != run or about.get("format") != FORMAT:
            raise DataError(f"{path}: of another run than {RUN} beside it; {REMEDY}")
        return about, arrays

    def write(self, name: str, run: str, arrays: Mapping[str, AnyArray], **about: object) -> None:
        write_arrays(self.path / name, {"format": FORMAT, "run": run, **about}, arrays, mode=OWN)

    def forget_sums(self) -> None:
        """Delete the secure sums of a run that is over."""
        for path in self.path.glob("sum-*.npz"):
            path.unlink()

    def record_round(self, line: Mapping[str, Json]) -> None:
        """A line for a round; of a round that is done again after a crash the last line counts."""
        path = self.path / ROUNDS
        if path.exists() and (text := path.read_text("utf-8")) and not text.endswith("\n"):
            path.write_text(text[: text.rfind("\n") + 1], "utf-8")  # a line that a killed server did not end
        with open(path, "a", encoding="utf-8", opener=partial(os.open, mode=OWN)) as file:
            file.write(json.dumps({name: None if value != value else value for name, value in line.items()}) + "\n")

    def write_status(self, state: str, **more: Json) -> None:
        """What the server does now."""
        self._make()
        with atomic_file(self.path / STATUS) as temporary:
            temporary.touch(mode=OWN)
            text = json.dumps({"state": state, **more}, indent=1, ensure_ascii=False, allow_nan=False)
            temporary.write_text(text + "\n", "utf-8")

    def _make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)


def status_of(folder: Path) -> dict[str, Json]:
    """The last status of a server; empty before there is one."""
    path = folder / STATUS
    return cast("dict[str, Json]", json.loads(path.read_text("utf-8"))) if path.exists() else {}


def missing_of(folder: Path) -> dict[int, Array]:
    """Clients that dropped out because their node did not answer, by rounds done before.

    `Federated.fit` with them as `missing` is that run, unless it is private: its cohorts are drawn by a secret seed.
    """
    found: dict[int, Array] = {}
    for line in rounds_of(folder):
        done, missing = int(str(line["round"])), cast("list[int]", line["missing"])
        found.pop(done - 1, None)
        if missing:
            found[done - 1] = np.array(missing, dtype=np.int64)
    return found


def rounds_of(folder: Path) -> list[dict[str, Json]]:
    """The record of the rounds; a last line that is being written, or never was to its end, is left out."""
    path = folder / ROUNDS
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n") and line.strip()]
