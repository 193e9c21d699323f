"""Numbers that papers published, on their data: in fedrule_paper.toml those of the paper, in papers.toml all others."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def fedrule_numbers() -> dict[str, Any]:
    """The tables of the paper behind this suite."""
    return _read("fedrule_paper.toml")


@cache
def other_numbers() -> dict[str, Any]:
    """The numbers of all others, with their sources."""
    return _read("papers.toml")


def published_numbers(method: str) -> list[str]:
    """What is published of a method, a line each."""
    of_paper = [
        f"AUC {methods[method][1]:.3f}, {other_numbers()['data'][data]} (Yao et al., FedRule)"
        for data, methods in fedrule_numbers()["results"].items()
        if method in methods
    ]
    of_others = [
        f"{entry['metric'].upper()} {value_text(entry)}, {entry['data']} ({entry['source']})"
        for entry in other_numbers()["published"]
        if entry["method"] == method
    ]
    of_challenge = [
        f"{challenge_metric(entry)} {value_text(entry)}, public Wyze data, {entry['trained']} ({entry['source']})"
        for entry in other_numbers()["challenge"]
        if entry.get("method") == method
    ]
    return of_paper + of_others + of_challenge


def challenge_metric(entry: dict[str, Any]) -> str:
    """What a published number of the Wyze challenge is; of a source that we have not read, only that it is an MRR."""
    return "MRR@50" if entry.get("checked") else "MRR (cut-off not known)"


def value_text(entry: dict[str, Any]) -> str:
    """A published number with the digits that it has."""
    return number_text(entry["value"], entry.get("about", False), entry.get("digits", 3))


def number_text(value: float, about: bool = False, digits: int = 3) -> str:
    """A number as its source says it."""
    return f"about {value:.2f}" if about else f"{value:.{digits}f}"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))
