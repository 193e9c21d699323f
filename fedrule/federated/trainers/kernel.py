"""Local training by one compiled function: a shard of clients one after the other, each of them within the cache.

The equations are those of `plan`. Vectors are laid out as in `layout`, for GraphSAGE with messages along rules:

    self1 in1 bias1 self2 in2 bias2 | trigger action hidden_bias | one row for each relation
"""

from __future__ import annotations

from fedrule.federated.trainers.kernel_arrays import Clients, Correction, Moments, Outcome, Shape, Shard, Training, check, read_only
from fedrule.federated.trainers.kernel_training import train_clients
from fedrule.federated.layout import Vector as Floats

__all__ = ["Clients", "Correction", "Moments", "Outcome", "Shape", "Training", "train_shard"]


def train_shard(
    shape: Shape,
    model: Floats,
    clients: Clients,
    training: Training,
    outcome: Outcome,
    *,
    correction: Correction | None = None,
    moments: Moments | None = None,
) -> None:
    """Train every client from `model` [size]; `outcome`, `correction.own_*` and `moments` are written in place.

    A client that does not end finite (its model, its loss, or what it would remember) is told so in `outcome.finite`,
    adds nothing to the sums and remembers what it did before. One without triples has no gradient; a correction still
    moves it. The interpreter's lock is free meanwhile: threads can train shards, with sums of their own.
    """
    correction = correction if correction and correction.used else Correction()
    moments = moments if moments and training.adam and training.kept else Moments()
    check(shape, model, clients, training, correction, moments, outcome)
    # What is compiled is compiled for each combination of types: plain numbers, and read-only what is only read.
    train_clients(
        Shape(*map(int, shape)),
        read_only(model),
        Shard.of(clients),
        Training(
            int(training.steps),
            float(training.theta_rate),
            float(training.phi_rate),
            float(training.proximal),
            bool(training.adam),
            bool(training.kept),
            bool(training.by_gradients),
            bool(training.without_base),
        ),
        Correction(
            bool(correction.used),
            float(correction.theta_lambda),
            float(correction.phi_lambda),
            correction.own_dense,
            correction.own_rows,
            read_only(correction.shared),
            read_only(correction.group),
        ),
        moments,
        outcome,
    )
