"""States of the server of a few numbers, for tests."""

from __future__ import annotations

import numpy as np

from fedrule.federated.algorithm import Moved
from fedrule.federated.states import Memories, Part, ServerState


def small_state(done: int = 3, *, clients: int = 4, kept: int = 6, groups: int = 2) -> ServerState:
    """After so many rounds: a model of 11 numbers, of which 5 are dense and 2 rows of 3 belong to relations."""
    chance = np.random.default_rng(done)

    def numbers(*shape: int) -> np.ndarray:
        return chance.normal(size=shape).astype(np.float32)

    nothing = Part(np.zeros((0, 5), np.float32), np.zeros((0, 3), np.float32))
    start = np.append(np.sort(chance.integers(kept + 1, size=clients)), kept)
    start[0] = 0
    memories = Memories(
        chance.integers(-1, done, size=clients),
        start,
        chance.integers(2, size=kept),
        np.zeros(0, dtype=np.int64),
        Part(numbers(clients, 5), numbers(kept, 3)),
        nothing,
        nothing,
    )
    moved = Moved(chance.normal(size=11), chance.random(11), done)
    return ServerState(done, numbers(11), moved, numbers(groups, 11), np.arange(groups), memories)
