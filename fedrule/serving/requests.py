"""What clients ask: the bodies of requests, from JSON to the homes that a recommender answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from fedrule.inference.request import AskedHome, Automated, BadHome, Owned
from fedrule.serving.errors import Refused
from fedrule.serving.limits import Limits

INT64_MAX = 2**63 - 1  # as in the databases that ids come from

Text: TypeAlias = Annotated[str, Field(strict=True, min_length=1)]
Id: TypeAlias = Annotated[int, Field(strict=True, ge=-INT64_MAX - 1, le=INT64_MAX)] | Text
Asked = TypeVar("Asked", bound=BaseModel)

IDS = {"id", "trigger", "action_device", "user"}
WORDS = {  # for kinds of errors of pydantic
    "model_type": "give an object",
    "list_type": "give a list",
    "string_type": "give text",
    "string_too_short": "give text that is not empty",
    "int_type": "give a whole number",
    "greater_than_equal": "give a whole number from 1",
}


class Strict(BaseModel):
    """Unknown names are errors: a misspelled one would be left out silently."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Device(Strict):
    """A device of the home."""

    id: Id = Field(description="Unique in the home.", examples=["door"])
    type: Text = Field(description="One of the model's types.", examples=["ContactSensor"])
    name: Annotated[str, Field(strict=True)] = Field("", description="What people call it.", examples=["Front door"])


class Rule(Strict):
    """A rule that the home has; devices by their ids."""

    trigger: Id = Field(examples=["door"])
    trigger_state: Text = Field(examples=["Open"])
    action: Text = Field(examples=["Power On"])
    action_device: Id = Field(examples=["lamp"])


class Whose(Strict):
    """Whose home it is."""

    user: Id | None = Field(None, description="Whose home it is; a batch gives it back.")


class HomeBody(Whose):
    """What a home owns and what it has automated."""

    devices: Annotated[list[Device], FailFast()]
    rules: Annotated[list[Rule], FailFast()] = []


TABLES: dict[str, type[Strict]] = {"devices": Device, "rules": Rule}


class Choice(Strict):
    """How the list is made."""

    k: Annotated[int, Field(strict=True, ge=1)] = Field(10, description="Length of the list.")
    model: Text | None = Field(None, description="Name of a model; the first one served unless given.")
    unknown: Literal["refuse", "ignore"] = Field(
        "refuse", description="Whether devices and rules that the model does not know are an error or left out."
    )
    alike: Annotated[int, Field(strict=True, ge=0, le=1000)] = Field(
        0, description="At most so many rules of one relation between devices of the same types; 0: any number."
    )


class Recommend(Choice, HomeBody):
    """One home."""


class Batch(Choice):
    """Many homes."""

    homes: list[HomeBody]


class Envelope(Choice):
    """A batch whose homes are looked at one by one, so that a bad one does not spoil the others."""

    homes: list[object]


def checked(kind: type[Asked], content: object) -> Asked:
    """Parsed JSON as what it should be; the first thing that is wrong is named by its place."""
    _refuse_strangers(kind, content)
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # Where several kinds are tried, the place ends with the one that was.
        tried = ("constrained-int", "constrained-str", "int", "str")
        where = _place([part for part in first["loc"] if part not in tried])
        if first["type"] == "missing":
            raise Refused(422, "missing", f"{where.rpartition('.')[2]} is missing", where=where) from None
        is_id = where.rpartition(".")[2] in IDS
        told = "give text that is not empty or a whole number of 64 bits" if is_id else WORDS.get(first["type"])
        raise Refused(422, "wrong_kind", told or first["msg"], where=where) from None


def _refuse_strangers(kind: type[BaseModel], content: object, place: Sequence[int | str] = ()) -> None:
    """Names that are not known, at the first of them: pydantic would keep an error for each of a million."""
    if not isinstance(content, dict):
        return
    known = kind.model_fields
    for name in content:
        if name not in known:
            told = f"this name is not known here; known: {', '.join(known)}"
            raise Refused(422, "unexpected", told, where=_place([*place, name]))
    for table, row in TABLES.items():
        rows = content.get(table) if table in known else None
        for at, each in enumerate(rows if isinstance(rows, list) else ()):
            if isinstance(each, dict) and not each.keys() <= row.model_fields.keys():
                _refuse_strangers(row, each, (table, at))


def asked_home(home: HomeBody, limits: Limits) -> AskedHome:
    """For a recommender; a home that is too large is a `BadHome`."""
    for name, count, most in (("devices", len(home.devices), limits.devices), ("rules", len(home.rules), limits.rules)):
        if count > most:
            raise BadHome(f"too_many_{name}", name, f"{count:,} {name}, and {most:,} are answered at most")
    if type(home.user) is str and len(home.user) > limits.text:
        raise BadHome("too_long", "user", f"{len(home.user):,} characters, and {limits.text} are read at most")
    asked = AskedHome(
        [Owned(device.id, device.type, device.name) for device in home.devices],
        [Automated(rule.trigger, rule.trigger_state, rule.action, rule.action_device) for rule in home.rules],
    )
    for at, device in enumerate(asked.devices):
        _refuse_long(device, f"devices[{at}]", limits.text)
    for at, rule in enumerate(asked.rules):
        _refuse_long(rule, f"rules[{at}]", limits.text)
    return asked


def _refuse_long(row: Owned | Automated, where: str, most: int) -> None:
    for name, value in zip(row._fields, row, strict=True):
        if type(value) is str and len(value) > most:
            told = f"{len(value):,} characters, and {most} are read at most"
            raise BadHome("too_long", f"{where}.{name}", told)


def length(choice: Choice, limits: Limits) -> int:
    """Of the list; one longer than agreed is refused."""
    if "k" not in choice.model_fields_set:
        return min(choice.k, limits.k)
    if choice.k > limits.k:
        raise Refused(422, "too_many_asked", f"ask for {limits.k} recommendations at most", where="k")
    return choice.k


def _place(parts: Sequence[int | str]) -> str:
    """E.g. devices[2].type."""
    where = ""
    for part in parts:
        if isinstance(part, int):
            where += f"[{part}]"
        else:
            where += f".{part[:50]}" if where else part[:50]
    return where
