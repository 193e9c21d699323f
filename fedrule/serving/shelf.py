"""The models that are served, each by its name, and how all of them are exchanged for newer ones.

A request takes its model from the shelf once and keeps it, so that one that is under way ends with the model that it
began with. New models are read and tried beside the old ones; only if all are good does one assignment exchange them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic_core import to_json

from datasets.common.errors import DataError
from fedrule.models.model_file import SavedModel
from fedrule.inference.recommender import Recommender
from fedrule.serving.effort import Effort
from fedrule.serving.limits import Limits
from fedrule.serving.errors import Refused

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
