"""What a saved model says about itself: its method and words, what it was trained on, how well it did.

The card is the JSON in the header of a model file (fedrule/models/file.py). Everything that a reader needs to
use the numbers beside it is here: which word each type and relation number stands for, and with which options the
method was built.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from datasets.common.errors import DataError
from datasets.common.files import Json
from datasets.homes import Relation

Word = TypeVar("Word", str, Relation)

FORMAT = 2  # goes up when older files would be misread


@dataclass(frozen=True, slots=True)
class Scale:
    """Log-odds of a rule against a random non-rule, one of each: slope x score + offset."""

    slope: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One training: the first, or one that went on from it with other homes."""

    data: str  # e.g. "wyze-synthetic"
    fingerprint: str  # of the homes as they were given
    homes: int
    rules: int
    seed: int
    rounds: int  # that the parameters have seen
    trained_at: str  # in UTC


@dataclass(frozen=True, slots=True)
class Card:
    """Of one model."""

    method: str
    options: dict[str, Any]  # of the method, all of them
    types: tuple[str, ...]
    relations: tuple[Relation, ...]
    scale: Scale = field(default_factory=Scale)
    trainings: tuple[TrainingRun, ...] = ()  # first to last
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)  # by protocol, on the rules kept for test
    versions: dict[str, str] = field(default_factory=dict)

    def json(self) -> str:
        """As it stands in a file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False, allow_nan=False)

    @classmethod
    def of(cls, text: str) -> Card:
        """Back from a file; a `DataError` says what is wrong with it."""
        try:
            content = json.loads(text, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the card is no JSON ({error})") from None
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise DataError(f"the card is not of format {FORMAT}; read it with the version of fedrule that wrote it")
        return _card(content)


def _card(content: dict[str, Json]) -> Card:
    known = {part.name for part in fields(Card)}
    if strange := content.keys() - known:
        raise DataError(f"the card has {', '.join(sorted(strange))}, which this version does not know")
    if missing := {"method", "options", "types", "relations"} - content.keys():
        raise DataError(f"the card lacks {', '.join(sorted(missing))}")
    try:
        return Card(
            method=_of(str, content["method"], "method"),
            options=_of(dict, content["options"], "options"),
            types=_each_once(_words(content["types"], "types"), "types"),
            relations=_each_once(map(_relation, _of(list, content["relations"], "relations")), "relations"),
            scale=Scale(**_numbers(content.get("scale", {}), "scale")),
            trainings=tuple(_training(training) for training in _of(list, content.get("trainings", []), "trainings")),
            metrics={
                protocol: _numbers(values, "metrics")
                for protocol, values in _of(dict, content.get("metrics", {}), "metrics").items()
            },
            versions={
                package: _of(str, version, "versions")
                for package, version in _of(dict, content.get("versions", {}), "versions").items()
            },
        )
    except (TypeError, OverflowError) as error:  # too few or too many parts of a relation, a scale or a training
        raise DataError(f"the card is not as this version writes it ({error})") from None


def _of(kind: type[Any], value: object, name: str) -> Any:
    if type(value) is not kind:
        raise DataError(f"the card's {name} holds {type(value).__name__} where {kind.__name__} is expected")
    return value


def _words(value: object, name: str) -> list[str]:
    return [_of(str, word, name) for word in _of(list, value, name)]


def _relation(pair: object) -> Relation:
    return Relation(*_words(pair, "relations"))


def _training(content: object) -> TrainingRun:
    training = _of(dict, content, "trainings")
    for name, value in training.items():
        _of(str if name in ("data", "fingerprint", "trained_at") else int, value, "trainings")
    return TrainingRun(**training)


def _numbers(values: object, name: str) -> dict[str, float]:
    return {
        key: float(value if type(value) is int else _of(float, value, name))
        for key, value in _of(dict, values, name).items()
    }


def _each_once(words: Iterable[Word], name: str) -> tuple[Word, ...]:
    """A number stands for one word and a word has one number."""
    listed = tuple(words)
    if twice := [word for word, times in Counter(listed).items() if times > 1]:
        raise DataError(f"the card's {name} names {str(twice[0])!r} twice")
    return listed


def _finite(text: str) -> float:
    """Numbers that JSON has not, or that a float cannot hold, would be in every answer."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no finite number")
    return value
