"""Values from files, Python and the command line, held to type annotations: what is accepted, and what errors say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

from datasets.common.errors import DataError
from datasets.common.options import Config, complete, read, read_assignments, read_options, read_text


class Pair(NamedTuple):
    trigger: str
    action: str


class Entry(Config):
    name: str
    seeds: tuple[int, ...] = (0,)
    pairs: tuple[Pair, ...] = ()


class Suite(Config):
    data: tuple[Entry, ...]
    track: Literal["types", "instances"] = "types"


@dataclass(frozen=True, slots=True)
class Method:
    factors: int = 16
    rate: float = 0.1
    how: Literal["mean", "sum"] | None = None
    sizes: tuple[int, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if self.factors < 1:
            raise DataError(f"factors must be at least 1, got {self.factors}")


def holdout(homes: object, *, seed: int = 0, fraction: float = 1, columns: Mapping[str, str] | None = None) -> None: ...


def test_a_model_is_read_from_nested_tables_and_lists() -> None:
    suite = read(Suite, {"data": [{"name": "a", "seeds": [1, 2], "pairs": [["Open", "On"]]}]}, where="my.toml")
    assert suite == Suite(data=(Entry(name="a", seeds=(1, 2), pairs=(Pair("Open", "On"),)),))
    assert read(Suite, suite, where="x") is suite


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"data": [{"name": "a", "seeds": "1"}]}, "my.toml: data[0].seeds='1': expected a list"),
        ({"data": [{"name": "a", "seeds": [1, True]}]}, "my.toml: data[0].seeds[1]=True: expected int"),
        ({"data": [{"name": 1}]}, "my.toml: data[0].name=1: expected str"),
        ({"data": [{}]}, "my.toml: data[0]: name is missing"),
        ({"data": [], "trakc": "types"}, "unknown key of my.toml 'trakc'; did you mean 'track'? Known: data, track"),
        ({"data": [{"nmae": "a"}]}, "unknown key of my.toml: data[0] 'nmae'; did you mean 'name'"),
        ({"data": [], "track": "instance"}, "unknown value of my.toml: track 'instance'; did you mean 'instances'"),
        (3, "my.toml=3: expected a table"),
    ],
)
def test_an_error_names_the_place_and_what_was_expected(value: object, message: str) -> None:
    with pytest.raises(DataError) as error:
        read(Suite, value, where="my.toml")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, np.int32(3), 3),
        (float, 1, 1.0),
        (float, "-inf", -math.inf),
        (bool, np.False_, False),
        (tuple[float, ...] | None, [1, 2], (1.0, 2.0)),
        (tuple[int, ...], np.array([1, 2]).tolist(), (1, 2)),
        (dict[str, float], {"a": np.float32(0.5)}, {"a": 0.5}),
        (Literal["a", "b"] | None, "a", "a"),
    ],
)
def test_a_value_comes_back_as_its_type_declares_it(annotation: Any, value: object, expected: object) -> None:
    found = read(annotation, value, where="x")
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value"), [(int, True), (int, "1"), (int, 1.0), (float, None), (float, "1"), (str, 1), (bool, 1)]
)
def test_scalars_are_never_converted_into_each_other(annotation: Any, value: object) -> None:
    with pytest.raises(DataError, match=r"x=.*: expected"):
        read(annotation, value, where="x")


@pytest.mark.parametrize(
    ("annotation", "text", "expected"),
    [
        (int | None, "none", None),
        (str, "none", "none"),
        (str, "7", "7"),
        (float, "1", 1.0),
        (float, "inf", math.inf),
        (bool, "Yes", True),
        (tuple[int, ...], "16, 32,", (16, 32)),
        (tuple[str, ...] | None, "a,b", ("a", "b")),
        (Literal["mean", "sum"], "sum", "sum"),
    ],
)
def test_a_text_means_what_its_annotation_allows(annotation: object, text: str, expected: object) -> None:
    found = read_text(annotation, text, where="x")
    assert found == expected
    assert type(found) is type(expected)


def test_all_options_are_those_given_and_the_defaults() -> None:
    assert complete(holdout, {"fraction": 2}, where="holdout", without=("seed",)) == {"fraction": 2.0, "columns": None}
    assert complete(Method, {"factors": np.int64(3), "sizes": [1]}, where="mf") == {
        "factors": 3,
        "rate": 0.1,
        "how": None,
        "sizes": (1,),
    }
    assert read_options(Method, {"rate": 1}, where="mf") == {"rate": 1.0}


@pytest.mark.parametrize(
    ("target", "given", "message"),
    [
        (holdout, {"fracton": 1}, "unknown option of holdout 'fracton'; did you mean 'fraction'"),
        (holdout, {"seed": 1}, "unknown option of holdout 'seed'"),
        (holdout, {"fraction": "1"}, "holdout fraction='1': expected float"),
        (Method, {"factor": 1}, "unknown parameter of holdout 'factor'; did you mean 'factors'"),
        (Method, {"how": "max"}, "unknown value of holdout.how 'max'"),
        (Method, {"factors": 0}, "factors must be at least 1, got 0"),
    ],
)
def test_a_wrong_option_is_refused_by_name(target: Any, given: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as error:
        complete(target, given, where="holdout", without=("seed",))
    assert message in str(error.value)


def test_assignments_of_a_dataclass_are_its_parameters() -> None:
    assert read_assignments(Method, ["factors=3", "how=none"], where="mf") == {"factors": 3, "how": None}
    with pytest.raises(DataError, match=r"mf\.rate='fast': expected float"):
        read_assignments(Method, ["rate=fast"], where="mf")
    with pytest.raises(DataError, match=r"mf\.rate\.x: rate has no entries; write rate=VALUE"):
        read_assignments(Method, ["rate.x=1"], where="mf")
