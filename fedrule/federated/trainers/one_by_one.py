"""Clients trained one after the other: works for every option of the graph methods, a few hundred clients a second."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from datasets.homes import Array
from fedrule.federated.at_home import Key, Task, ask_at_home, learn_at_home
from fedrule.federated.client import Sent
from fedrule.federated.trainers.handed_in import hand_in, remembered
from fedrule.federated.layout import Layout, Vector
from fedrule.federated.population import Population
from fedrule.federated.work import Work
from fedrule.training.training import Lesson


@dataclass(frozen=True, eq=False)
class OneByOne(Population):
    """The homes of training as clients."""

    # By draw and client, where draws come again.
    kept: dict[tuple[int, int], Lesson | None] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        return 1  # torch has threads of its own

    def begin(self, number: int, clients: Array, model: Vector) -> OneByOneRound:
        lessons = {int(client): self._lesson(number, int(client), model) for client in clients}
        asked = {client: lesson for client, lesson in lessons.items() if lesson is not None}
        return OneByOneRound(self.task, number, asked)

    def _lesson(self, number: int, client: int, model: Vector) -> Lesson | None:
        turn = self.task.turn(number)
        if turn is not None and (turn, client) in self.kept:
            return self.kept[turn, client]
        lesson = ask_at_home(self.task, model, self.homes.subset(np.array([client])), Key(number, client))
        if turn is not None:
            self.kept[turn, client] = lesson
        return lesson


@dataclass(frozen=True, slots=True, eq=False)
class OneByOneRound:
    """One round of them."""

    task: Task
    number: int
    asked: dict[int, Lesson]

    @property
    def clients(self) -> Array:
        return np.array(sorted(self.asked), dtype=np.int64)

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        if not self.task.layout.n_rows:
            return np.zeros(end - first + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        rows = [np.unique(self.asked[int(c)].asked.relation.numpy()) for c in self.clients[first:end]]
        return np.concatenate([[0], np.cumsum([len(r) for r in rows])]), np.concatenate([np.zeros(0, np.int64), *rows])

    def train(self, work: Work) -> None:
        for i, client in enumerate(self.clients[work.first : work.end].tolist()):
            group = work.told.group[work.first + i]
            shared = None if group < 0 else work.told.shared[group]
            known, key = remembered(work, i, self.layout), Key(self.number, client)
            lesson = self.asked[client]
            sent, memory = learn_at_home(self.task, work.told.model, lesson, known, shared=shared, key=key)
            if work.broken[i]:
                sent = Sent(sent.update * np.nan, sent.progress, sent.loss)
            hand_in(work, i, self.layout, sent, memory, shared)

    @property
    def layout(self) -> Layout:
        return self.task.layout
