"""Rules as rows of named columns, and the patterns in which a candidate may agree with the rules that are there.

A rule <trigger, (state, act), action> has two devices, their types, and a relation of two halves: the state of the
trigger that sets it off and what is done to the action device. A pattern names the columns in which two rules agree.
What a home already does with this trigger, in this state, to devices of that type, is a pattern; so is how many homes
open a door to switch on a light.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.homes import Array, Homes, Rules
from fedrule.evidence.tally import Column, Columns, Pattern

# Patterns among the rules of one home. `place` is the action device counted within its home: with a trigger it says the
# same as `action`, in far fewer combinations. What begins alike is counted together (fedrule/evidence/tally.py).
OF_HOME: tuple[Pattern, ...] = (
    ("home",),
    ("home", "relation"),
    ("home", "state"),
    ("home", "act"),
    ("home", "trigger_type", "state"),
    ("home", "action_type", "act"),
    ("home", "trigger_type", "action_type"),
    ("home", "trigger_type", "relation"),
    ("home", "action_type", "relation"),
    ("home", "trigger_type", "action_type", "state"),
    ("home", "trigger_type", "action_type", "act"),
    ("home", "trigger_type", "action_type", "relation"),
    ("trigger",),
    ("action",),
    ("trigger", "state"),
    ("action", "act"),
    ("trigger", "act"),
    ("action", "state"),
    ("trigger", "relation"),
    ("action", "relation"),
    ("trigger", "action_type"),
    ("action", "trigger_type"),
    ("trigger", "action_type", "state"),
    ("action", "trigger_type", "act"),
    ("trigger", "action_type", "relation"),
    ("action", "trigger_type", "relation"),
    ("trigger", "place"),
    ("trigger", "place", "state"),
    ("trigger", "place", "act"),
)
# The same with the candidate turned round: what its action device triggers, what acts on its trigger device, and both.
TURNED: tuple[Pattern, ...] = (("trigger",), ("action",), ("trigger", "place"))
# Patterns among all homes, and whom to compare with: homes that own the type of the trigger, of the action, or both.
OF_ALL_HOMES: tuple[tuple[Pattern, str], ...] = (
    (("trigger_type", "action_type", "relation"), "both"),
    (("trigger_type", "action_type", "state"), "both"),
    (("trigger_type", "action_type", "act"), "both"),
    (("trigger_type", "action_type"), "both"),
    (("trigger_type", "state"), "trigger"),
    (("trigger_type", "relation"), "trigger"),
    (("action_type", "act"), "action"),
    (("action_type", "relation"), "action"),
    (("relation",), "all"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """How rules of some homes, or candidates, are read as columns."""

    homes: Homes
    state: Column  # [n_relations]
    act: Column  # [n_relations]
    place: Column  # [n_devices]

    @classmethod
    def of(cls, homes: Homes) -> Reading:
        state = _numbered([relation.trigger for relation in homes.relations])
        act = _numbered([relation.action for relation in homes.relations])
        start = homes.device_start
        place = np.arange(homes.n_devices) - start[homes.device_home]
        return cls(homes, state, act, Column(place, int(np.diff(start).max(initial=1))))

    def columns(self, rules: Rules) -> Columns:
        """All columns that a pattern may name."""
        homes = self.homes
        trigger_type, relation, action_type = homes.typed(rules)
        return {
            "home": Column(rules.home, homes.n_homes),
            "trigger": Column(rules.trigger, homes.n_devices),
            "action": Column(rules.action, homes.n_devices),
            "place": Column(self.place.values[rules.action], self.place.size),
            **self.typed(trigger_type, relation, action_type),
        }

    def turned(self, rules: Rules) -> Columns:
        """The columns of TURNED, of these rules with trigger and action exchanged."""
        return {
            "trigger": Column(rules.action, self.homes.n_devices),
            "action": Column(rules.trigger, self.homes.n_devices),
            "place": Column(self.place.values[rules.trigger], self.place.size),
        }

    def typed(self, trigger_type: Array, relation: Array, action_type: Array) -> Columns:
        """The columns that do not tell devices of one type apart, of any home's rules."""
        return {
            "trigger_type": Column(trigger_type, len(self.homes.types)),
            "action_type": Column(action_type, len(self.homes.types)),
            "relation": Column(relation, len(self.homes.relations)),
            "state": Column(self.state.values[relation], self.state.size),
            "act": Column(self.act.values[relation], self.act.size),
        }


def _numbered(words: list[str]) -> Column:
    """The same number for the same word."""
    number = {word: n for n, word in enumerate(sorted(set(words)))}
    return Column(np.array([number[word] for word in words], dtype=np.int64), len(number))
