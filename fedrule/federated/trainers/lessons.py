"""What clients that score by evidence are asked about: features of their candidates, in one table for many clients.

Features are costly to gather, so that they are gathered for many clients at once, and kept where draws come again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.homes import Array, Homes, Mask
from fedrule.evidence.evidence import NAMES
from fedrule.federated.at_home import Task
from fedrule.federated.layout import Vector
from fedrule.training.training import Lesson


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """Of some clients of a population; where in the table the others begin is -1."""

    begin: Array  # [n_homes]
    many: Array  # [n_homes]  candidates of each, 0 of a client that is asked nothing
    features: Vector  # [n, n_features]
    positive: Mask  # [n]

    @classmethod
    def none(cls, n_homes: int) -> Lessons:
        """Of nobody yet."""
        features = np.zeros((0, len(NAMES)), dtype=np.float32)
        return cls(np.full(n_homes, -1), np.zeros(n_homes, dtype=np.int64), features, np.zeros(0, dtype=bool))

    @property
    def nbytes(self) -> int:
        return self.features.nbytes + self.positive.nbytes

    def missing(self, clients: Array) -> Array:
        """Those of these clients that are not here."""
        return clients[self.begin[clients] < 0]

    def asked(self, clients: Array) -> Array:
        """Those of these clients that are asked something."""
        return clients[self.many[clients] > 0]

    def with_more(self, task: Task, homes: Homes, clients: Array, *, number: int, model: Vector) -> Lessons:
        """With these clients as well: what each is asked in round `number` does not depend on the others."""
        key, score = task.key(number, clients), task.score(model)
        practice = task.practices(homes.subset(clients)).draw(key, score=score)
        lesson = Lesson.of(task.scorer, practice)
        (observed,) = lesson.asked.observed
        many = np.bincount(practice.candidates.home, minlength=len(clients))
        all_begin, all_many = self.begin.copy(), self.many.copy()
        all_begin[clients] = len(self.positive) + np.cumsum(many) - many
        all_many[clients] = many
        features = np.concatenate([self.features, observed["features"].numpy()])
        return Lessons(all_begin, all_many, features, np.concatenate([self.positive, practice.positive]))
