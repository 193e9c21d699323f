"""What every method is: hyper-parameters that fit to homes, and a fitted model that answers one question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from datasets.homes import Array, Homes

Scores: TypeAlias = npt.NDArray[np.float32]
LARGEST_SCORE = float(np.finfo(np.float32).max)


class OnRound(Protocol):
    """Told after each training round, for curves and progress; what it does never changes a result."""

    def __call__(self, done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:
        """`done` of `of` rounds are over; `values` is what the method measured.

        `fitted` is a snapshot of the model: it stays as it is, however training goes on.
        """


def ignore(done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:
    """The default: nobody listens."""


class Fitted(Protocol):
    """A fitted model."""

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """Logits [n_pairs, n_relations] for ordered pairs of `homes`' devices, given its rules; higher is likelier.

        `homes` are the training homes or homes never seen in training, with the vocabularies of the training data.
        NaN is "I cannot answer": a home that cannot be folded in, or a rule that the model has no item for. The
        evaluation counts these and ranks them last. Anything else is finite.
        """


@runtime_checkable
class Method(Protocol):
    """A frozen dataclass of hyper-parameters. Nothing fitted stays on it, so runs cannot leak into each other."""

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """Learn from the rules of these homes; all randomness comes from `rng`."""
