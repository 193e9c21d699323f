"""Errors for bad input: a message says what is wrong, where, and how to fix it."""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Iterable

OURS = ("datasets.", "baselines.", "fedrule.", "benchmarks.", "reports.")  # whose errors are sentences


class DataError(ValueError):
    """Input that cannot be used as it is; the message names the file, the line and what to do."""


class UnknownName(DataError):
    """A name that nothing is registered under."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for a wrong name: the nearest right one if there is any, and the full list."""
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    guess = f"; did you mean {near[0]!r}?" if near else "."
    between = "; " if any("," in choice for choice in choices) else ", "
    listed = between.join(choices) if choices else "none"
    return UnknownName(f"unknown {kind} {name!r}{guess} Known: {listed}")


def error_line(traceback: str) -> str:
    """What a traceback ends with, for people: a message of our own without its class, others without their module."""
    line = next((line.strip() for line in reversed(traceback.splitlines()) if line.strip()), "no message")
    raised = re.match(r"((?:\w+\.)+)(\w+: )(?=\S)", line)
    if raised is None:
        return line
    ours = raised[1].startswith(OURS)
    return line[raised.end() if ours else raised.start(2) :]


def install_hint(extra: str) -> str:
    """An extra of this project and the command that installs it, from its folder."""
    # Flower needs an environment of its own, in which the other pins would break it.
    flower = extra == "flower" or importlib.util.find_spec("flwr") is not None
    pins = "constraints-flower.txt" if flower else "constraints.txt"
    return f'the extra {extra}: pip install -c {pins} -e ".[{extra}]"'


def counted(number: int, noun: str) -> str:
    """1 node, 2 nodes."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
