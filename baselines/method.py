"""The interface of methods: hyperparameters with `fit`, and a fitted model with `score_pairs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.homes import Array, Homes

Scores: TypeAlias = npt.NDArray[np.float32]
LARGEST_SCORE = float(np.finfo(np.float32).max)


class OnRound(Protocol):
    """Called after each training round, for curves and progress; it never changes a result."""

    def __call__(self, done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:
        """`done` of `of` rounds are over; `values` is what the method measured.

        Some names, e.g. `diverged`, say that training went wrong: see datasets/common/training_warnings.py.
        `fitted` is a snapshot of the model: further training does not change it.
        """


def ignore(done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:
    """The default: does nothing."""


class Fitted(Protocol):
    """A fitted model."""

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """Logits [n_pairs, n_relations] for ordered pairs of `homes`' devices, given its rules; higher is likelier.

        `homes` are the training homes or homes never seen in training, with the vocabularies of the training data.
        NaN means no score: a home that cannot be folded in, or a rule that the model has no item for. The evaluation
        counts these and ranks them last. Anything else is finite.
        """


@runtime_checkable
class Method(Protocol):
    """A frozen dataclass of hyperparameters. Nothing fitted stays on it, so runs cannot leak into each other."""

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """Learn from the rules of these homes; all randomness comes from `rng`."""


RANGES: dict[str, Callable[[float], bool]] = {
    "at least 2": lambda value: value >= 2,
    "at least 1": lambda value: value >= 1,
    "at least 0": lambda value: value >= 0,
    "above 0": lambda value: value > 0,
    "in [0, 1)": lambda value: 0 <= value < 1,
    "in [0, 1]": lambda value: 0 <= value <= 1,
    "in (0, 1)": lambda value: 0 < value < 1,
}


def check_range(name: str, method: object, expected: str, *parameters: str) -> None:
    """An error for the first of these parameters of method `name` that is not in the range; NaN is in none."""
    for parameter in parameters:
        if not RANGES[expected](getattr(method, parameter)):
            raise DataError(f"{name}: {parameter} must be {expected}, got {getattr(method, parameter)}")
