"""Response bodies as the OpenAPI description documents them.

Responses are written from plain dictionaries: building validated objects would take as long as the search.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fedrule.serving.requests import Id


class ResponseBody(BaseModel):
    """No other fields."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class ModelSummary(ResponseBody):
    """The model that answered."""

    name: str
    method: str
    digest: str = Field(description="64 hex digits that change with any weight or word of the model.")


class Why(ResponseBody):
    """How common the rule is in the training data."""

    homes_with_rule: int = Field(description="Training homes that have this rule between devices of these types.")
    homes_with_both: int = Field(description="Training homes with devices of both types.")
    text: str


class RecommendedRule(ResponseBody):
    """One entry of the list."""

    rank: int = Field(ge=1)
    trigger: Id
    trigger_state: str
    action: str
    action_device: Id
    probability: float = Field(ge=0, le=1)
    text: str = Field(examples=["When *Front door* opens, turn on *Hall light*"])
    why: Why


class RecommendResponse(ResponseBody):
    """The recommendations for one home, best first."""

    model: ModelSummary
    recommendations: list[RecommendedRule]
    ignored: list[str] = Field(description="One sentence for each device and rule that was ignored.")


class ErrorDetail(ResponseBody):
    """What is wrong."""

    code: str = Field(description="For programs.", examples=["unknown_type"])
    where: str = Field(description="The place in the request.", examples=["devices[0].type"])
    message: str = Field(description="For people.")


class ErrorResponse(ResponseBody):
    """The form of all errors."""

    error: ErrorDetail


class HomeResult(ResponseBody):
    """The recommendations for one home of a batch."""

    user: Id | None
    recommendations: list[RecommendedRule]
    ignored: list[str]


class HomeError(ResponseBody):
    """A home of a batch without recommendations, and why."""

    user: Id | None
    error: ErrorDetail


class BatchResponse(ResponseBody):
    """One result per home, in the order of the request."""

    model: ModelSummary
    results: list[HomeResult | HomeError]


class RelationResponse(ResponseBody):
    """A trigger-action pair."""

    trigger_state: str
    action: str


class ModelResponse(ModelSummary):
    """A model, and the limits of the service."""

    loaded: str = Field(description="Time of loading, in UTC.")
    types: list[str]
    relations: list[RelationResponse]
    valid_rules: int
    options: dict[str, object]
    trainings: list[dict[str, object]]
    metrics: dict[str, dict[str, float | None]]
    versions: dict[str, str]
    models: list[str] = Field(description="Names of all models; the first is the default.")
    limits: dict[str, int]


class TypedRule(ResponseBody):
    """A rule between two device types."""

    trigger_type: str
    trigger_state: str
    action: str
    action_type: str
    homes: int = Field(description="Training homes that have it.")


class RulesResponse(ResponseBody):
    """All valid rules, most frequent first."""

    rules: list[TypedRule]


class ReloadResponse(ResponseBody):
    """The models after the reload."""

    models: list[ModelSummary]


class HealthResponse(ResponseBody):
    """The service is up."""

    status: Literal["ok"]
