"""Descriptions of our methods, for readers of results: a sentence, the paper, and the meaning of the parameters.

A result has the name of its method and not its code, and reports import no method. So methods.json has the docstrings
and parameters; `python -m benchmarks describe` writes it, and a test fails when it is stale.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from datasets.common.files import Json, atomic_file
from datasets.common.options import read

FILE = Path(__file__).with_name("methods.json")


@dataclass(frozen=True, slots=True)
class ParameterDescription:
    """A parameter in words. Its default is in the results, which may be of another version."""

    type: str
    meaning: str = ""
    tuned: str = ""  # the range in which `tune` searches; empty where it does not


@dataclass(frozen=True, slots=True)
class MethodDescription:
    """A method in words."""

    summary: str  # the first line of its class
    about: str = ""  # the docstring of its module: the paper, and what differs from it
    parameters: dict[str, ParameterDescription] = field(default_factory=dict)

    @property
    def is_tunable(self) -> bool:
        """Whether `tune` searches any of its parameters."""
        return any(each.tuned for each in self.parameters.values())


@cache
def read_description(method: str) -> MethodDescription | None:
    """Of a method of this repository; None for any other."""
    found = json.loads(FILE.read_text("utf-8")).get(method)
    return None if found is None else read(MethodDescription, found, where=f"{FILE.name}, {method}")


def write_descriptions(found: Mapping[str, MethodDescription], file: Path = FILE) -> None:
    """Write the file; the same methods give the same bytes."""
    content = {method: _without_empty(asdict(found[method])) for method in sorted(found)}
    with atomic_file(file) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _without_empty(content: Json) -> Json:
    if not isinstance(content, dict):
        return content
    return {name: _without_empty(value) for name, value in content.items() if value != ""}
