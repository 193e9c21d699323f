"""How much work homes are: the candidates that are searched, and how long a model takes for each of them.

A candidate is a pair of devices and a relation that is valid between their types. How many there are is known before
the search, and each takes about as long as the other; how long, a model is asked once, when it is loaded.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from datasets.valid import ValidRules
from fedrule.inference.asked_home import AskedHome, Owned
from fedrule.inference.recommender import Recommender

SMALL = 10  # devices of the first home that is tried
LARGE = 320  # of the last one
TELLING = 0.05  # seconds: a home that takes so long says enough
LEAST = 1e-9  # seconds for a candidate, where there is none to tell by


@dataclass(frozen=True, slots=True, eq=False)
class Effort:
    """Of one model, in seconds of one processor."""

    valid: ValidRules
    numbers: dict[str, int]  # of the types
    per_home: float  # with few devices
    per_candidate: float

    @classmethod
    def of(cls, recommender: Recommender) -> Effort:
        """Try homes of twice the devices each; a model that cannot answer them fails here and not later."""
        types = recommender.card.types
        numbers = {word: number for number, word in enumerate(types)}
        first = cls(recommender.valid, numbers, per_home=0.0, per_candidate=LEAST)
        if not types:
            return first
        devices = SMALL
        per_home = seconds = min(_seconds(recommender, devices) for _ in range(3))
        while seconds < TELLING and devices < LARGE:
            devices *= 2
            seconds = min(_seconds(recommender, devices) for _ in range(2))
        candidates = first.candidates(_types(recommender, devices))
        return cls(recommender.valid, numbers, per_home, max(seconds / max(candidates, 1), LEAST))

    def candidates(self, types: Iterable[str]) -> int:
        """Of a home with devices of these types; those that the model does not know have none."""
        counts = Counter(self.numbers[word] for word in types if word in self.numbers)
        kinds = np.fromiter(counts.keys(), dtype=np.int64, count=len(counts))
        many = np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
        return int(many @ self.valid.how_many(kinds[:, None], kinds) @ many)

    def most(self, seconds: float) -> int:
        """How many candidates can be searched in this time."""
        return int(seconds / self.per_candidate)

    def surely(self, devices: int, seconds: float) -> bool:
        """Whether a home with so many devices is done in time whatever they are: there is no need to count then."""
        return devices**2 * self.valid.n_relations <= self.most(seconds)


def _types(recommender: Recommender, devices: int) -> list[str]:
    """All types in turn."""
    types = recommender.card.types
    return [types[at % len(types)] for at in range(devices)]


def _seconds(recommender: Recommender, devices: int) -> float:
    """Of this thread: others may be at work, and a model that is read again then is not slower for it."""
    home = AskedHome([Owned(at, name) for at, name in enumerate(_types(recommender, devices))])
    begin = time.thread_time()
    recommender.recommend(home, k=10)
    return time.thread_time() - begin
