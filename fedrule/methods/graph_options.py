"""The choices of `graphrule`, the sizes that the authors published, and which options do not go together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypedDict, get_args

from datasets.common.errors import DataError, unknown
from fedrule.model.encoder import Direction, Messages
from fedrule.training.examples import NonRules

if TYPE_CHECKING:
    from fedrule.methods.graph_method import GraphMethod
    from fedrule.methods.graphrule import GraphRule

Encoders: TypeAlias = Literal["sage", "gcn", "gat"]
Presets: TypeAlias = Literal["paper-text", "authors-code"]
Objectives: TypeAlias = Literal["bce", "ranking"]
Biases: TypeAlias = Literal["none", "learned", "counts"]

CHOICES: dict[str, tuple[str, ...]] = {
    "encoder": get_args(Encoders),
    "objective": get_args(Objectives),
    "bias": get_args(Biases),
    "direction": get_args(Direction),
    "messages": get_args(Messages),
    "non_rules": get_args(NonRules),
}


class Asks(TypedDict):
    """What is drawn beside the rules that are asked for."""

    non_rules: NonRules
    per_rule: int
    candidates: int


class Preset(NamedTuple):
    """Sizes that the authors published."""

    hidden: int
    predictor_hidden: int  # 0: as many as relations
    dropout: float


PRESETS = {"paper-text": Preset(16, 0, 0.0), "authors-code": Preset(32, 32, 0.5)}
# Options that only the network has, with their defaults.
NETWORK_ONLY = {"encoder": "sage", "self_loops": False, "heads": 1, "messages": "type", "node_embedding": 0}


def sizes_of(preset: str, method: str) -> Preset:
    """The sizes of a preset; an unknown one is answered with those there are."""
    if preset not in PRESETS:
        raise unknown(f"preset of {method}", preset, PRESETS)
    return PRESETS[preset]


def refuse_wrong_options(method: GraphMethod) -> None:
    """An error for a value that is none, and for one that would have no effect beside the others."""
    for name, choices in CHOICES.items():
        if getattr(method, name) not in choices:
            raise unknown(f"{name} of {method.NAME}", getattr(method, name), choices)
    refuse_wrong_numbers(
        method,
        at_least_one=("rounds", "per_rule"),
        not_negative=("candidates", "context", "draws", "evidence", "patience"),
        shares=("dropout", "hidden_rules", "validation"),
    )
    if method.patience and not method.validation:
        raise DataError(f"{method.NAME}: patience {method.patience} has nothing to watch; set validation, e.g. 0.1")
    if method.non_rules == "hard" and method.draws:
        raise DataError(f"{method.NAME}: draws {method.draws}, but what is hard changes with the model; set draws to 0")
    if method.hidden_rules and method.draws == 1:
        raise DataError(
            f"{method.NAME}: with draws 1 most rules are never hidden and never asked for; use 0 or e.g. 10"
        )
    if not (method.hidden or method.context or method.evidence or method.bias != "none"):
        raise DataError(f"{method.NAME}: without a network (hidden 0) set bias, context or evidence to score by")
    if not method.hidden:
        for name, value in NETWORK_ONLY.items():
            if getattr(method, name) != value:
                raise DataError(f"{method.NAME}: {name} is of the network, and with hidden 0 there is none")


def refuse_wrong_schedule(method: GraphRule) -> None:
    """The same for what only centralized training has."""
    not_negative = ("asked_homes", "homes_at_once", "weight_decay")
    refuse_wrong_numbers(method, not_negative=not_negative, positive=("learning_rate",))


def refuse_wrong_numbers(
    method: GraphMethod,
    *,
    at_least_one: tuple[str, ...] = (),
    not_negative: tuple[str, ...] = (),
    shares: tuple[str, ...] = (),
    positive: tuple[str, ...] = (),
) -> None:
    """An error for the first of these options that is out of its range."""
    for names, words, wrong in (
        (at_least_one, "below 1", lambda value: value < 1),
        (not_negative, "negative or no number", lambda value: not value >= 0),
        (shares, "no share from 0 to below 1", lambda value: not 0 <= value < 1),
        (positive, "not above 0, e.g. 0.01", lambda value: not value > 0),
    ):
        for name in names:
            if wrong(getattr(method, name)):
                raise DataError(f"{method.NAME}: {name} {getattr(method, name)} is {words}")
