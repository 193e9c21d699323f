"""The models that are served, by name, and how expensive they are to query.

A request looks its model up once and keeps it, so a reload never affects requests that have started. A reload loads
and tries all models first; only if all are good are the old ones replaced, in one assignment.
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
from fedrule.inference.request import HomeRequest, RequestDevice, RequestRule
from fedrule.models.file import SavedModel
from fedrule.serving.errors import ApiError
from fedrule.serving.limits import Limits

FEWEST, MOST = 10, 320  # devices of the homes that a new model is timed with
RULES = 3  # that act on each device there, at most
ROOMS = 4  # that they are in, for models that know words
LONG_ENOUGH = 0.05  # seconds: a home that takes this long gives a good estimate
LEAST = 1e-9  # seconds per candidate, if there is no candidate to measure


@dataclass(frozen=True, slots=True, eq=False)
class CostModel:
    """Estimates the processor time of a request for one model.

    A candidate is a pair of devices and a relation that is valid between their types. Candidates can be counted before
    the search, and each takes about the same time, which is measured when the model is loaded: in homes whose devices
    differ by their rules, because a search may take those that are alike together.
    """

    valid: ValidRules
    type_index: dict[str, int]
    per_home: float  # seconds for a home with few devices
    per_candidate: float  # seconds

    @classmethod
    def measure(cls, recommender: Recommender) -> CostModel:
        """Time homes of doubling size; a model that cannot answer them fails here and not later."""
        types = recommender.card.types
        cost = cls(recommender.valid, {name: index for index, name in enumerate(types)}, 0.0, LEAST)
        if not types:
            return cost
        devices = FEWEST
        per_home = seconds = min(_seconds(recommender, devices) for _ in range(3))
        while seconds < LONG_ENOUGH and devices < MOST:
            devices *= 2
            seconds = min(_seconds(recommender, devices) for _ in range(2))
        candidates = cost.candidates(_types(recommender, devices))
        return cls(cost.valid, cost.type_index, per_home, max(seconds / max(candidates, 1), LEAST))

    def candidates(self, types: Iterable[str]) -> int:
        """The candidates of a home with devices of these types; unknown types have none."""
        counts = Counter(self.type_index[name] for name in types if name in self.type_index)
        index = np.fromiter(counts.keys(), dtype=np.int64, count=len(counts))
        devices = np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
        return int(devices @ self.valid.how_many(index[:, None], index) @ devices)

    def affordable(self, seconds: float) -> int:
        """How many candidates can be searched in this time."""
        return int(seconds / self.per_candidate)


def _types(recommender: Recommender, devices: int) -> list[str]:
    types = recommender.card.types
    return [types[at % len(types)] for at in range(devices)]


def timed_home(recommender: Recommender, devices: int) -> HomeRequest:
    """All types in turn, in four rooms, with random valid rules."""
    card, valid, rng = recommender.card, recommender.valid, np.random.default_rng(devices)
    kind = np.arange(devices) % len(card.types)
    rules = []
    for action, triggers in enumerate(rng.integers(devices, size=(devices, RULES)).tolist()):
        for trigger in triggers:
            relations = valid.relations_of(int(kind[trigger]), int(kind[action]))
            if len(relations) and trigger != action:
                rules.append(RequestRule(trigger, *card.relations[int(rng.choice(relations))], action))
    types = enumerate(_types(recommender, devices))
    return HomeRequest([RequestDevice(at, name, room=f"room {at % ROOMS}") for at, name in types], rules)


def _seconds(recommender: Recommender, devices: int) -> float:
    """Time of this thread only: requests of other threads must not make a reloaded model look slower."""
    home = timed_home(recommender, devices)
    begin = time.thread_time()
    recommender.recommend(home, k=10)
    return time.thread_time() - begin


class LoadedModel(NamedTuple):
    """A model with its JSON descriptions, serialized once."""

    name: str
    recommender: Recommender
    cost: CostModel
    summary: dict[str, str]  # name, method and digest: part of every response
    description: bytes  # GET /v1/model
    rules: bytes  # GET /v1/model/rules


class ModelStore:
    """The models by name; the first is the default."""

    def __init__(self, paths: Sequence[Path], limits: Limits, models: Mapping[str, LoadedModel] | None = None) -> None:
        self.paths = {path.stem: path for path in paths}
        if len(self.paths) < len(paths):
            repeated = next(name for name, count in Counter(path.stem for path in paths).items() if count > 1)
            raise DataError(f"two models are named {repeated!r} (file name without its suffix); rename one")
        self._limits = limits
        self._models = self._load_all() if models is None else models

    def reload(self) -> None:
        """Read all files again; if one is bad, raise `DataError` and keep the current models."""
        self._models = self._load_all()

    @property
    def models(self) -> Sequence[LoadedModel]:
        return list(self._models.values())

    def model(self, name: str | None, *, status: int = 422) -> LoadedModel:
        """The model of this name, or the default; an unknown name is an error of this status."""
        models = self._models
        if name is None:
            return next(iter(models.values()))
        if name not in models:
            message = f"unknown model {name[:50]!r}; known: {', '.join(models)}"
            raise ApiError(status, "unknown_model", message, where="model" if status == 422 else "name")
        return models[name]

    def _load_all(self) -> Mapping[str, LoadedModel]:
        return {name: self._load(name, path) for name, path in self.paths.items()}

    def _load(self, name: str, path: Path) -> LoadedModel:
        try:
            recommender = Recommender(saved := SavedModel.load(path))
            cost = CostModel.measure(recommender)
        except (DataError, ModuleNotFoundError) as error:  # a model may need packages that are not installed here
            message = str(error)
            raise DataError(message if message.startswith(str(path)) else f"{path}: {message}") from None
        card, summary = saved.card, {"name": name, "method": recommender.method, "digest": recommender.digest}
        description = {
            **summary,
            "loaded": datetime.now(UTC).isoformat(timespec="seconds"),
            "types": card.types,
            "relations": [{"trigger_state": trigger, "action": action} for trigger, action in card.relations],
            "valid_rules": len(saved.valid),
            "options": card.options,
            "trainings": [asdict(training) for training in card.trainings],
            "metrics": card.metrics,
            "versions": card.versions,
            "models": list(self.paths),
            "limits": {**asdict(self._limits), "candidates": cost.affordable(self._limits.work_seconds)},
        }
        return LoadedModel(name, recommender, cost, summary, to_json(description), to_json({"rules": _rules(saved)}))


def _rules(saved: SavedModel) -> list[dict[str, str | int]]:
    """All valid rules, most frequent first."""
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
