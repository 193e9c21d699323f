"""The models that are served, each by its name, and how all of them are exchanged for newer ones.

A request takes its model from the shelf once and keeps it, so that one that is under way ends with the model that it
began with. New models are read and tried beside the old ones; only if all are good does one assignment exchange them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic_core import to_json

from datasets.common.errors import DataError
from datasets.valid import ValidRules
from fedrule.inference.recommender import Recommender
from fedrule.inference.request import AskedHome, Owned
from fedrule.models.file import SavedModel
from fedrule.serving.errors import Refused
from fedrule.serving.limits import Limits

# --- How much work homes are: the candidates that are searched, and how long a model takes for each of them.
#
# A candidate is a pair of devices and a relation that is valid between their types. How many there are is known before
# the search, and each takes about as long as the other; how long, a model is asked once, when it is loaded.

SMALL = 10  # devices of the first home that is tried
LARGE = 320  # of the last one
TELLING = 0.05  # seconds: a home that takes so long says enough
LEAST = 1e-9  # seconds for a candidate, where there is none to tell by


@dataclass(frozen=True, slots=True, eq=False)
class Effort:
    """Of one model, in seconds of one processor."""

    valid: ValidRules
    numbers: dict[str, int]  # of the types
    per_home: float  # with few devices
    per_candidate: float

    @classmethod
    def of(cls, recommender: Recommender) -> Effort:
        """Try homes of twice the devices each; a model that cannot answer them fails here and not later."""
        types = recommender.card.types
        numbers = {word: number for number, word in enumerate(types)}
        first = cls(recommender.valid, numbers, per_home=0.0, per_candidate=LEAST)
        if not types:
            return first
        devices = SMALL
        per_home = seconds = min(_seconds(recommender, devices) for _ in range(3))
        while seconds < TELLING and devices < LARGE:
            devices *= 2
            seconds = min(_seconds(recommender, devices) for _ in range(2))
        candidates = first.candidates(_types(recommender, devices))
        return cls(recommender.valid, numbers, per_home, max(seconds / max(candidates, 1), LEAST))

    def candidates(self, types: Iterable[str]) -> int:
        """Of a home with devices of these types; those that the model does not know have none."""
        counts = Counter(self.numbers[word] for word in types if word in self.numbers)
        kinds = np.fromiter(counts.keys(), dtype=np.int64, count=len(counts))
        many = np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
        return int(many @ self.valid.how_many(kinds[:, None], kinds) @ many)

    def most(self, seconds: float) -> int:
        """How many candidates can be searched in this time."""
        return int(seconds / self.per_candidate)

    def surely(self, devices: int, seconds: float) -> bool:
        """Whether a home with so many devices is done in time whatever they are: there is no need to count then."""
        return devices**2 * self.valid.n_relations <= self.most(seconds)


def _types(recommender: Recommender, devices: int) -> list[str]:
    """All types in turn."""
    types = recommender.card.types
    return [types[at % len(types)] for at in range(devices)]


def _seconds(recommender: Recommender, devices: int) -> float:
    """Of this thread: others may be at work, and a model that is read again then is not slower for it."""
    home = AskedHome([Owned(at, name) for at, name in enumerate(_types(recommender, devices))])
    begin = time.thread_time()
    recommender.recommend(home, k=10)
    return time.thread_time() - begin


QUICK = 0.002  # seconds for a small home; a slower model is asked in a thread, or others would wait for it


class Served(NamedTuple):
    """A model and what is told about it, written once."""

    name: str
    recommender: Recommender
    effort: Effort
    told: dict[str, str]  # name, method and digest: in every answer
    described: bytes  # GET /v1/model
    rules: bytes  # GET /v1/model/rules

    @property
    def quick(self) -> bool:
        """Whether it answers a small home so soon that it is not worth a thread."""
        return self.effort.per_home < QUICK


class Shelf:
    """The models by name; the first is the default."""

    def __init__(self, paths: Sequence[Path], limits: Limits) -> None:
        self.paths = {path.stem: path for path in paths}
        if len(self.paths) < len(paths):
            names = [path.stem for path in paths]
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"two models are called {twice}, which is their file without folder and ending; rename one")
        self._limits = limits
        self._models: Mapping[str, Served] = {}
        self.reload()

    def reload(self) -> None:
        """Read every file again; if one is bad it is a `DataError`, and all stays as it was."""
        self._models = {name: self._served(name, path) for name, path in self.paths.items()}

    @property
    def models(self) -> Sequence[Served]:
        return list(self._models.values())

    def model(self, name: str | None, *, status: int = 422) -> Served:
        """By its name, or the first one."""
        models = self._models
        if name is None:
            return next(iter(models.values()))
        if name not in models:
            known = ", ".join(models)
            told = f"no model {name[:50]!r}; there are: {known}"
            raise Refused(status, "unknown_model", told, where="model" if status == 422 else "name")
        return models[name]

    def _served(self, name: str, path: Path) -> Served:
        try:
            saved = SavedModel.load(path)
            recommender = Recommender(saved)
            effort = Effort.of(recommender)
        except (DataError, ModuleNotFoundError) as error:  # a model may need more than this service has
            wrong = str(error)
            raise DataError(wrong if wrong.startswith(str(path)) else f"{path}: {wrong}") from None
        told = {"name": name, "method": recommender.method, "digest": recommender.digest}
        card = saved.card
        described = {
            **told,
            "loaded": datetime.now(UTC).isoformat(timespec="seconds"),
            "types": card.types,
            "relations": [{"trigger_state": trigger, "action": action} for trigger, action in card.relations],
            "valid_rules": len(saved.valid),
            "options": card.options,
            "lessons": [asdict(lesson) for lesson in card.lessons],
            "metrics": card.metrics,
            "versions": card.versions,
            "models": list(self.paths),
            "limits": {**self._limits.told(), "candidates": effort.most(self._limits.work_seconds)},
        }
        return Served(name, recommender, effort, told, to_json(described), to_json({"rules": _typed_rules(saved)}))


def _typed_rules(saved: SavedModel) -> list[dict[str, str | int]]:
    """Every valid rule, commonest first."""
    card, have = saved.card, saved.arrays["counts.have"]
    pair, relation = np.divmod(saved.valid.cell, max(len(card.relations), 1))
    trigger, action = np.divmod(pair, max(len(card.types), 1))
    return [
        {
            "trigger_type": card.types[trigger[at]],
            "trigger_state": card.relations[relation[at]].trigger,
            "action": card.relations[relation[at]].action,
            "action_type": card.types[action[at]],
            "homes": int(have[at]),
        }
        for at in np.argsort(-have, kind="stable").tolist()
    ]
