"""Small states of the server, for tests."""

from __future__ import annotations

import numpy as np

from fedrule.federated.optimizers import OptimizerState
from fedrule.federated.states import ClientStates, ClientVectors, ServerState


def small_state(done: int = 3, *, clients: int = 4, kept: int = 6, groups: int = 2) -> ServerState:
    """After so many rounds: a model of 11 numbers, 5 dense ones and 2 rows of 3."""
    rng = np.random.default_rng(done)

    def numbers(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    nothing = ClientVectors(np.zeros((0, 5), np.float32), np.zeros((0, 3), np.float32))
    start = np.append(np.sort(rng.integers(kept + 1, size=clients)), kept)
    start[0] = 0
    client_states = ClientStates(
        rng.integers(-1, done, size=clients),
        start,
        rng.integers(2, size=kept),
        np.zeros(0, dtype=np.int64),
        ClientVectors(numbers(clients, 5), numbers(kept, 3)),
        nothing,
        nothing,
    )
    optimizer = OptimizerState(rng.normal(size=11), rng.random(11), done)
    return ServerState(done, numbers(11), optimizer, numbers(groups, 11), np.arange(groups), client_states)
