"""What the federated methods on typed rules share, `fede` too: items, rounds and what leaves a home.

Before training homes add up who has which typed rule, zeros and ones over all cells of the valid-rule tensor: what is
not zero in the sum are the items, which are sent to all, with the counts (`statistics_bytes` in the history of the
first round). In a round a home sends an update of a table, e.g. of the items' factors (`sent_bytes`). What it computes
for itself, such as its own factors, stays in the home.

Noise is refused: the list of items is a count over homes as well, and it is not in the account of the rounds.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from baselines.items import Items, UserItemModel
from baselines.method import OnRound, ignore
from datasets.homes import Homes
from fedrule.evidence.statistics import BYTES
from fedrule.federated.checkpoint import Checkpoint
from fedrule.federated.loop import train as train_rounds
from fedrule.federated.options import FederatedOptions
from fedrule.federated.rounds import RoundReport
from fedrule.federated.trainers.trainer import Trainer
from fedrule.federated.vectors import Vector

NOISE = dict.fromkeys(
    ("epsilon", "noise_multiplier", "delta"),
    "is refused: the list of items is a count over homes, which the privacy account of the rounds does not cover; use "
    "ease, fedease or fedrank with epsilon, whose counts have noise",
)


@dataclass(frozen=True)
class ItemMethod(FederatedOptions):
    """A user-item model trained in the homes: what leaves a home is an update of a table."""

    UNAVAILABLE: ClassVar[dict[str, str]] = NOISE | {"client_optimizer": "has no effect: clients take plain steps"}

    @abstractmethod
    def trainer(self, train: Homes, items: Items, seed: int) -> Trainer:
        """The homes as clients."""

    @abstractmethod
    def initial(self, items: Items, rng: np.random.Generator) -> Vector:
        """The table before the first round."""

    @abstractmethod
    def model(self, train: Homes, items: Items, vector: Vector) -> UserItemModel:
        """The fitted model of a table."""

    def round_values(self, report: RoundReport, items: Items) -> dict[str, float]:  # noqa: ARG002  others use them
        """The row of a round in the history."""
        return report.values()

    def fit(
        self,
        train: Homes,
        *,
        rng: np.random.Generator,
        on_round: OnRound = ignore,
        checkpoint: Checkpoint | None = None,
    ) -> UserItemModel:
        """All randomness comes from `rng`, by way of one seed; `checkpoint` saves states and resumes from the last.

        Without a single rule there are no items, and no scores.
        """
        items, seed = Items.of(train), int(rng.integers(2**62))
        initial = self.initial(items, np.random.default_rng(seed))
        if not len(items):
            return self.model(train, items, initial)
        engine, trainer = self.engine(), self.trainer(train, items, seed)
        statistics = {"statistics_bytes": float(BYTES * np.prod(items.valid.shape))}

        def after_round(done: int, vector: Vector, report: RoundReport) -> bool:
            if on_round is not ignore:
                values = self.round_values(report, items) | (statistics if done == 1 else {})
                on_round(done, self.rounds, self.model(train, items, vector.copy()), values)
            return False

        state = engine.begin(trainer, initial)
        checkpoint = self.own_checkpoint(checkpoint, train, seed)
        vector = train_rounds(engine, trainer, self.schedule(seed), state, after_round, checkpoint)
        return self.model(train, items, vector)
