"""One run, spelled out: which method with which settings on which homes, split how, measured how."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from baselines.registry import get
from benchmarks.runs.environment import code_of
from benchmarks.evaluation.evaluate import PROTOCOLS
from benchmarks.results.key import Key, as_json
from benchmarks.runs.settings import data_options, method_parameters, split_options
from datasets import Homes, load
from datasets.common.errors import DataError, unknown
from datasets.common.files import Json

TRACKS = ("types", "instances")
SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Source:
    """Which homes: a data set, its options and the track."""

    data: str
    options: dict[str, object]  # all of them
    track: str = "types"
    path: Path | None = None  # where its files are, if not under $FEDRULE_DATA; the fingerprint says what they hold

    def load(self) -> Homes:
        """The homes as methods see them; kept for the next run of this process."""
        return _loaded(*self._place())

    def fingerprint(self) -> str:
        """That of the homes, worked out once."""
        return _fingerprint(*self._place())

    def _place(self) -> tuple[str, str, str, Path | None, str]:
        options = json.dumps(as_json(self.options, self.data), sort_keys=True)
        return self.data, options, self.track, self.path, os.environ.get("FEDRULE_DATA", "")


def source(data: str, *, options: Mapping[str, object], track: str = "types", path: Path | str | None = None) -> Source:
    """A source whose names and options are known to be right."""
    if track not in TRACKS:
        raise unknown("track", track, TRACKS)
    return Source(data, data_options(data, options), track, None if path is None else Path(path))


@dataclass(frozen=True, slots=True)
class Experiment:
    """All that decides the numbers of one fit and its evaluation."""

    method: str
    parameters: dict[str, object]  # all of them
    source: Source
    split: str
    split_options: dict[str, object]  # all of them
    seed: int  # decides the split and what the method draws
    protocols: tuple[str, ...]
    curves: int = 0  # every how many rounds the model is measured, with validation kept apart; 0 is never

    @property
    def code(self) -> str:
        """That of the method as it is now; a result of other code is not a result of this experiment."""
        return code_of(get(self.method))

    def keys(self, fingerprint: str) -> dict[str, Key]:
        """Protocol -> the key of its result on homes with this fingerprint."""
        split: dict[str, object] = {"split": self.split, "seed": self.seed, **self.split_options}
        split["validation"] = self.curves > 0
        keys = {}
        for protocol in self.protocols:
            keys[protocol] = Key(
                self.method,
                _settings(self.parameters, self.method),
                self.source.data,
                _settings(self.source.options, self.source.data),
                fingerprint,
                self.source.track,
                _settings(split, self.split),
                protocol,
                self.seed,
                self.curves,
            )
        return keys

    def only(self, protocols: Sequence[str]) -> Experiment:
        """The same with some of its protocols."""
        return replace(self, protocols=tuple(protocols))

    def __str__(self) -> str:
        return f"{self.method} on {self.source.data} ({self.source.track}, {self.split}), seed {self.seed}"


def experiment(
    method: str,
    source: Source,
    *,
    parameters: Mapping[str, object],
    split: str = "holdout",
    options: Mapping[str, object],
    seed: int = 0,
    protocols: Sequence[str] = PROTOCOLS,
    curves: int = 0,
) -> Experiment:
    """An experiment whose names and settings are known to be right."""
    for protocol in protocols:
        if protocol not in PROTOCOLS:
            raise unknown("protocol", protocol, PROTOCOLS)
    if not protocols:
        raise DataError(f"{method}: no protocol to measure by; name one of {', '.join(PROTOCOLS)}")
    if seed < 0:
        raise DataError(f"{method}: seed {seed} is negative; use 0, 1, 2, ...")
    if type(curves) is not int or curves < 0:  # True is no number
        raise DataError(f"{method}: curves = {curves!r}: give every how many rounds, 1, 2, ..., or 0 for none")
    full = method_parameters(method, parameters)
    return Experiment(method, full, source, split, split_options(split, options), seed, tuple(protocols), curves)


def _settings(values: Mapping[str, object], where: str) -> dict[str, Json]:
    return {name: as_json(value, f"{where} {name}") for name, value in values.items()}


@lru_cache(maxsize=4)
def _loaded(data: str, options: str, track: str, path: Path | None, root: str) -> Homes:
    if track == "types":
        return _loaded(data, options, "instances", path, root).merged_types()
    return load(data, path=path, **json.loads(options))


@lru_cache(maxsize=64)
def _fingerprint(data: str, options: str, track: str, path: Path | None, root: str) -> str:
    return _loaded(data, options, track, path, root).fingerprint
