"""What clients are answered: described for the reference, and written.

Answers are written from plain dictionaries: to build objects that check themselves takes as long as the search.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fedrule.serving.requests import Id


class Answer(BaseModel):
    """Nothing else is in it."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class ModelName(Answer):
    """Which model answered."""

    name: str
    method: str
    digest: str = Field(description="64 hex digits that change with any number or word of the model.")


class Why(Answer):
    """Why a rule is valid."""

    homes_with_rule: int = Field(description="Homes it learned from that have the rule with devices of these types.")
    homes_with_both: int = Field(description="Homes that own devices of both types.")
    text: str


class RecommendedRule(Answer):
    """One line of the list."""

    rank: int = Field(ge=1)
    trigger: Id
    trigger_state: str
    action: str
    action_device: Id
    probability: float = Field(ge=0, le=1)
    text: str = Field(examples=["When *Front door* opens, turn on *Hall light*"])
    why: Why


class RecommendAnswer(Answer):
    """The list of one home, best first."""

    model: ModelName
    recommendations: list[RecommendedRule]
    ignored: list[str] = Field(description="One sentence for each device and rule that was left out.")


class ErrorDetail(Answer):
    """What is wrong."""

    code: str = Field(description="For programs.", examples=["unknown_type"])
    where: str = Field(description="The place in the request.", examples=["devices[0].type"])
    message: str = Field(description="For people.")


class ErrorAnswer(Answer):
    """Every error looks like this."""

    error: ErrorDetail


class HomeAnswer(Answer):
    """The list of one home of a batch."""

    user: Id | None
    recommendations: list[RecommendedRule]
    ignored: list[str]


class HomeError(Answer):
    """A home of a batch that could not be answered."""

    user: Id | None
    error: ErrorDetail


class BatchAnswer(Answer):
    """One result for each home, in their order."""

    model: ModelName
    results: list[HomeAnswer | HomeError]


class RelationAnswer(Answer):
    """A trigger-action pair."""

    trigger_state: str
    action: str


class ModelAnswer(Answer):
    """A model, and what the service allows."""

    name: str
    method: str
    digest: str
    loaded: str = Field(description="When, in UTC.")
    types: list[str]
    relations: list[RelationAnswer]
    valid_rules: int
    options: dict[str, object]
    lessons: list[dict[str, object]]
    metrics: dict[str, dict[str, float | None]]
    versions: dict[str, str]
    models: list[str] = Field(description="Names of all models; the first one answers unless another is named.")
    limits: dict[str, int]


class TypedRule(Answer):
    """A rule between devices of two types that some home has."""

    trigger_type: str
    trigger_state: str
    action: str
    action_type: str
    homes: int


class RulesAnswer(Answer):
    """Every valid rule, commonest first."""

    rules: list[TypedRule]


class ReloadAnswer(Answer):
    """The models that answer from now on."""

    models: list[ModelName]


class Health(Answer):
    """The service answers."""

    status: Literal["ok"]
