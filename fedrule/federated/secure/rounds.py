"""A simulated round by secure sum: every home is a participant, and the server sees no single update.

In a deployment nodes are the participants (`fedrule.flower.server.secure`); the protocol is that of `secure_sum`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrule.federated.cohort import Cohort, Purpose
from fedrule.federated.private import normals_of
from fedrule.federated.robustness.aggregation import TooFewClients
from fedrule.federated.rounds import Engine, RoundSum, TrainedClients
from fedrule.federated.secure.messages import BelowThreshold, Step
from fedrule.federated.secure_sum import secure_sum
from fedrule.federated.states import ClientStates, ServerState
from fedrule.federated.trainers.trainer import Trainer

LEAST_HOMES = 3  # of a secure sum


def train_securely(
    engine: Engine,
    trainer: Trainer,
    states: ClientStates,  # may be overwritten by the next ones
    state: ServerState,
    cohort: Cohort,
    *,
    n_clients: int,
    seed: int,
) -> TrainedClients:
    """As `Engine.train_clients`, but the sums are made by a secure sum.

    Those that drop out or are late do so after they have dealt their shares. TooFewClients where too few are left.
    """
    members = np.union1d(cohort.present, cohort.absent).tolist()
    if len(members) < LEAST_HOMES:
        raise TooFewClients(f"{len(members)} homes are too few for a secure sum, of two each knows the other's")
    threshold = engine.secure_threshold_of(len(members))
    parts: dict[int, RoundSum] = {}
    counted, corrupted = [np.zeros(0, dtype=np.int64)], 0
    for client, faulty in zip(cohort.present.tolist(), cohort.corrupted, strict=True):
        one = engine.train_clients(
            trainer, states, state.broadcast(), np.array([client]), faulty=np.array([faulty], dtype=np.bool_)
        )
        states, corrupted = one.states, corrupted + one.corrupted
        counted.append(one.counted)
        sums = replace(one.sums, state_bytes=0)
        if engine.privacy.noisy:
            update = engine.privacy.noisy_part(
                sums.update,
                n_clients=n_clients,
                sampling_rate=engine.cohorts.fraction(n_clients),
                threshold=threshold,
                normals=normals_of(seed, Purpose.ROUNDS, state.round, client),
            )
            sums = replace(sums, update=update)
        parts[client] = sums
    nothing = engine.nothing(trainer.layout, len(state.shared))
    try:
        found = secure_sum(
            {client: parts.get(client, nothing).integers() for client in members},
            threshold=threshold,
            dropped=dict.fromkeys(cohort.absent.tolist(), Step.MASK),
            name=f"{engine.name} round {state.round + 1}",
        )
    except BelowThreshold as error:
        raise TooFewClients(str(error)) from None
    total = nothing.from_integers(found.total, **nothing.lengths())
    costs = [cost for steps in found.costs.values() for cost in steps.values()]
    return TrainedClients(
        total if engine.privacy.noisy else replace(total, state_bytes=states.nbytes),
        states,
        np.concatenate(counted),
        corrupted,
        sum(cost.sent for cost in costs) / len(members),
        sum(cost.received for cost in costs) / len(members),
    )
