"""The card of a saved model: its method and vocabulary, what it was trained on, and its test metrics.

The card is the JSON in the header of a model file (fedrule/models/file.py). It says which type or relation each number
in the arrays stands for, and with which options the method was built.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from datasets.common.errors import DataError
from datasets.common.options import read
from datasets.homes import Relation

FORMAT = 3  # increased when older files would be misread

Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Scale:
    """Log-odds of a rule against a random non-rule, at even odds: slope x score + offset."""

    slope: Finite = 1.0
    offset: Finite = 0.0


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One training: the first, or one that continued it with other homes."""

    data: str  # e.g. "wyze-synthetic"
    fingerprint: str | None  # of the homes as they were given; None, like rules and seed: a private run tells nobody
    homes: int
    rules: int | None
    seed: int | None
    rounds: int  # that the parameters have seen
    trained_at: str  # in UTC
    warnings: tuple[str, ...] = ()  # what went wrong: divergence, many refused updates, an unexplained end


@dataclass(frozen=True, slots=True)
class Card:
    """What a model file says about its model."""

    method: str
    options: dict[str, Any]  # all options of the method
    types: tuple[str, ...]
    relations: tuple[Relation, ...]
    scale: Scale = field(default_factory=Scale)
    trainings: tuple[TrainingRun, ...] = ()  # first to last
    metrics: dict[str, dict[str, Finite]] = field(default_factory=dict)  # by protocol, on the test rules
    versions: dict[str, str] = field(default_factory=dict)

    def json(self) -> str:
        """As it is written to a file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Card:
        """Read it back; a `DataError` says what is wrong with it."""
        try:
            content = json.loads(text, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the card is not JSON ({error})") from None
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise DataError(f"the card is not of format {FORMAT}; use the version of fedrule that wrote it")
        card: Card = read(cls, content, where="the card")
        for name in ("types", "relations"):
            if repeated := [word for word, times in Counter(getattr(card, name)).items() if times > 1]:
                raise DataError(f"the card: {name} lists {str(repeated[0])!r} twice")
        return card


def _finite(text: str) -> float:
    """Python's reader also accepts NaN and infinity, which would make all results NaN."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return value
