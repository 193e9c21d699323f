"""A rule as an automation of Home Assistant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class WrittenAutomation:
    """An automation that the server takes as it is."""

    config: Mapping[str, object]  # id, alias, description, triggers, conditions, actions, mode; keys of the version
    guesses: tuple[str, ...] = ()  # one sentence for each value that the home has to choose
    warnings: tuple[str, ...] = ()  # one sentence for each thing to look at before it is switched on

    @property
    def id(self) -> str:
        """The same for the same rule."""
        return str(self.config["id"])


class NotWritable(NamedTuple):
    """Why a rule cannot be written for this home."""

    reason: str
    needs_value: bool = False  # it could be with a guessed value
