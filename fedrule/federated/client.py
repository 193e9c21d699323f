"""The client's part: one pure function of the model, the home, what the client remembers, and a key.

A device that has only its own home can run it, and so can another framework: nothing here knows of other homes but what
the server tells everybody, the vocabularies, which triples are valid, and the statistics of terms where these are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from datasets.common.random import KeyedRandom
from datasets.homes import Array, Homes, Rules
from fedrule.federated.algorithm import Gradient, Memory, Plan, Sent, train_locally
from fedrule.federated.cohort import Purpose
from fedrule.federated.vectors import Layout, Vector
from fedrule.model.encoders import Parameters
from fedrule.model.score import Scorer
from fedrule.training.examples import ExampleSampler, SamplingOptions, Score
from fedrule.training.loop import BatchLoss, TrainingBatch
from fedrule.training.losses import Objective


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What every home is told once: what the model is, how it is trained, and what it is asked about."""

    scorer: Scorer
    objective: Objective
    plan: Plan
    layout: Layout
    sampling_options: SamplingOptions
    hidden: float  # probability that an automation is a target and sends no messages; 0: all are, and all send
    self_pairs: bool  # whether a device may act on itself
    seed: int
    draws: int = 0  # draws that rounds take turns with; 0: anew every round

    def turn(self, number: int) -> int | None:
        """Which of the draws round `number` takes; None where each is drawn anew and none comes again."""
        return number % self.draws if self.draws else None

    def key(self, number: int, clients: Array) -> KeyedRandom:
        """What is asked in round `number` is drawn by this key."""
        turn = self.turn(number)
        return KeyedRandom(self.seed, number if turn is None else turn, clients)

    def sampler(self, homes: Homes) -> ExampleSampler:
        """Of these homes."""
        return ExampleSampler.of(
            homes, self.scorer.valid, hidden=self.hidden, self_pairs=self.self_pairs, **self.sampling_options
        )

    def score(self, model: Vector) -> Score:
        """Candidates by a model: which of them are hard depends on it."""
        parameters = self.layout.parameters(model)

        def score(homes: Homes, candidates: Rules) -> Vector:
            with torch.no_grad():
                logits: Tensor = self.scorer.logits_of(parameters, self.scorer.query(homes, candidates))
            return logits.numpy()

        return score


@dataclass(frozen=True, slots=True)
class Key:
    """What a client's random numbers depend on beside the seed."""

    round: int
    client: int


def train_at_home(
    task: Task, model: Vector, home: Homes, memory: Memory, *, shared: Vector | None, key: Key
) -> tuple[Sent, Memory] | None:
    """What the client sends, and what it remembers if that is counted; None where it has nothing to learn from.

    `home` is one home; `shared` is what the server tells it beside the model for its correction.
    """
    batch = ask_at_home(task, model, home, key)
    return None if batch is None else learn_at_home(task, model, batch, memory, shared=shared, key=key)


def ask_at_home(task: Task, model: Vector, home: Homes, key: Key) -> TrainingBatch | None:
    """What the home is asked about in a round."""
    examples = task.sampler(home).draw(task.key(key.round, np.array([key.client])), score=task.score(model))
    return TrainingBatch.of(task.scorer, examples) if len(examples.candidates) else None


def learn_at_home(
    task: Task, model: Vector, batch: TrainingBatch, memory: Memory, *, shared: Vector | None, key: Key
) -> tuple[Sent, Memory]:
    """The local steps on a batch."""
    return train_locally(task.plan, task.layout, model, gradient(task, batch, key), memory, shared)


def gradient(task: Task, batch: TrainingBatch, key: Key) -> Gradient:
    """The loss of a batch and its gradient as functions of a vector."""
    drops = KeyedRandom(task.seed, key.round, np.array([key.client])).stream(Purpose.DROPOUT)
    seeds = drops.below(np.zeros(task.plan.steps, dtype=np.int64), np.full(task.plan.steps, 2**62))

    def found(vector: Vector, step: int) -> tuple[float, Vector]:
        generator = torch.Generator().manual_seed(int(seeds[step]))
        parameters = {name: value.requires_grad_() for name, value in task.layout.parameters(vector).items()}
        loss = BatchLoss(task.scorer, task.objective, generator)(parameters, batch)
        torch.autograd.backward(loss)
        return loss.item(), task.layout.flat(_slopes(parameters))

    return found


def _slopes(parameters: Parameters) -> Parameters:
    """The gradients; zeros for what the loss does not depend on."""
    return {n: torch.zeros_like(v) if v.grad is None else v.grad for n, v in parameters.items()}
