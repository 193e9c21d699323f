"""A client on its own: pure functions that draw a batch from its home, and train on it.

A device that has only its own home can run them, and so can another framework: of other homes it knows only what the
server sends to everybody, the vocabularies, the valid rules, and the statistics of score terms where these are used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from datasets.common.random import KeyedRandom
from datasets.homes import Array, Homes, Rules
from fedrule.federated.algorithm import ClientState, ClientUpdate, Gradients, Hyperparameters, client_round
from fedrule.federated.cohort import Purpose
from fedrule.federated.optimizers import Precise
from fedrule.federated.vectors import FlatParameters, Vector
from fedrule.lazy import torch
from fedrule.network.encoders import Dropout
from fedrule.network.score import Scorer
from fedrule.training.examples import Examples, ExampleSampler, SamplingOptions, Score
from fedrule.training.loop import BatchLoss, TrainingBatch
from fedrule.training.losses import Objective


@dataclass(frozen=True, slots=True, eq=False)
class LocalTraining:
    """What every home is sent once: the model's structure, how it is trained, and how batches are drawn."""

    scorer: Scorer
    objective: Objective
    hyperparameters: Hyperparameters
    layout: FlatParameters
    sampling_options: SamplingOptions
    hidden: float  # probability that an automation is left out of the messages and predicted; 0: all are in both
    self_pairs: bool  # whether a device may act on itself
    seed: int
    draws: int = 0  # number of different batches of a home, used in turn; 0: a new one every round
    flipped: Array | None = None  # clients that swap rules and non-rules: a simulated attack

    def turn(self, number: int) -> int | None:
        """Which of the `draws` batches round `number` uses; None where each round draws a new one."""
        return number % self.draws if self.draws else None

    def key(self, number: int, clients: Array) -> KeyedRandom:
        """The random generator of the clients' batches in round `number`."""
        turn = self.turn(number)
        return KeyedRandom(self.seed, number if turn is None else turn, clients)

    def dropout_seeds(self, number: int, clients: Array) -> Array:
        """[n_steps, n_clients]: one for each step of round `number`."""
        steps, n = self.hyperparameters.steps, len(clients)
        generator = KeyedRandom(self.seed, number, clients).stream(Purpose.DROPOUT)
        seeds = generator.below(np.repeat(np.arange(n), steps), np.full(n * steps, 2**62))
        return np.ascontiguousarray(seeds.reshape(n, steps).T)

    def sampler(self, homes: Homes) -> ExampleSampler:
        options = self.sampling_options
        return ExampleSampler.of(homes, self.scorer.valid, hidden=self.hidden, self_pairs=self.self_pairs, **options)

    def labelled(self, examples: Examples, clients: Array) -> Examples:
        """The examples of these clients as they are trained on: attackers swap rules and non-rules."""
        if self.flipped is None:
            return examples
        flips = np.isin(clients, self.flipped)[examples.candidates.home]
        return replace(examples, positive=examples.positive ^ flips)

    def score(self, model: Vector) -> Score:
        """The function that scores candidates by this model, for hard negatives.

        In float64, and rounded: which candidates are hard does not depend on the homes that are scored with them.
        """

        def score(homes: Homes, candidates: Rules) -> Vector:
            parameters = {name: value.double() for name, value in self.layout.parameters(model).items()}
            with torch.no_grad():
                return self.scorer.logits_of(parameters, self.scorer.query(homes, candidates)).float().numpy()

        return score


@dataclass(frozen=True, slots=True)
class ClientKey:
    """What the random numbers of a client depend on besides the seed."""

    round: int
    client: int


def train_client(
    task: LocalTraining,
    model: Vector,
    batch: TrainingBatch,
    state: ClientState,
    *,
    shared: Vector | None,
    key: ClientKey,
) -> tuple[ClientUpdate, ClientState]:
    """What the client sends, and its next state if the server counts it.

    `shared` is shared_k, which the server sends with the model; it, updates and states have one row.
    """
    return client_round(task.hyperparameters, task.layout, model, gradients(task, batch, key), state, shared=shared)


def draw_batch(task: LocalTraining, model: Vector, home: Homes, key: ClientKey) -> TrainingBatch | None:
    """The training examples of one home in a round; None where it has nothing to train on."""
    client = np.array([key.client])
    examples = task.labelled(task.sampler(home).draw(task.key(key.round, client), score=task.score(model)), client)
    return TrainingBatch.of(task.scorer, examples) if len(examples.candidates) else None


def gradients(task: LocalTraining, batch: TrainingBatch, key: ClientKey) -> Gradients:
    """The loss on a batch and its gradient by autograd, for one client."""
    seeds = task.dropout_seeds(key.round, np.array([key.client]))

    def at(x: Vector, step: int) -> tuple[Precise, Vector]:
        dropout = Dropout(int(seeds[step, 0]))
        parameters = {name: value.requires_grad_() for name, value in task.layout.parameters(x[0]).items()}
        loss = BatchLoss(task.scorer, task.objective, dropout)(parameters, batch)
        torch.autograd.backward(loss)
        found = {n: torch.zeros_like(v) if v.grad is None else v.grad for n, v in parameters.items()}
        return np.array([loss.item()]), task.layout.flat(found)[None]

    return at
