"""Rules as rows of named columns, and the patterns in which a candidate may agree with the rules that are there.

A rule <trigger, (state, act), action> has two devices, their types, and a relation of two halves: the state of the
trigger that sets it off and what is done to the action device. A pattern names the columns in which two rules agree.
What a home already does with this trigger, in this state, to devices of that type, is a pattern; so is how many homes
open a door to switch on a light.
"""

from __future__ import annotations

import numpy as np

from datasets.homes import Homes, Rules
from fedrule.tally import Column, Columns

# Patterns among the rules of one home. `place` is the action device counted within its home: with a trigger it says the
# same as `action`, in far fewer combinations.
OF_HOME = (
    ("home",),
    ("home", "relation"),
    ("home", "state"),
    ("home", "act"),
    ("home", "trigger_type", "state"),
    ("home", "act", "action_type"),
    ("home", "trigger_type", "action_type"),
    ("home", "trigger_type", "relation"),
    ("home", "relation", "action_type"),
    ("home", "trigger_type", "state", "action_type"),
    ("home", "trigger_type", "act", "action_type"),
    ("home", "trigger_type", "relation", "action_type"),
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
    ("trigger", "state", "action_type"),
    ("action", "act", "trigger_type"),
    ("trigger", "relation", "action_type"),
    ("action", "relation", "trigger_type"),
    ("trigger", "place"),
    ("trigger", "place", "state"),
    ("trigger", "place", "act"),
)
# The same with the candidate turned round: what its action device triggers, what acts on its trigger device, and both.
TURNED = (("trigger",), ("action",), ("trigger", "place"))
# Patterns among all homes, and whom to compare with: homes that own the type of the trigger, of the action, or both.
OF_ALL_HOMES = (
    (("trigger_type", "relation", "action_type"), "both"),
    (("trigger_type", "state", "action_type"), "both"),
    (("trigger_type", "act", "action_type"), "both"),
    (("trigger_type", "action_type"), "both"),
    (("trigger_type", "state"), "trigger"),
    (("trigger_type", "relation"), "trigger"),
    (("act", "action_type"), "action"),
    (("relation", "action_type"), "action"),
    (("relation",), "all"),
)


def columns(homes: Homes, rules: Rules, *, place_size: int) -> Columns:
    """Rules of homes, or candidates, as columns; no home has more than `place_size` devices."""
    halves = {}
    for name, words in (("state", [r.trigger for r in homes.relations]), ("act", [r.action for r in homes.relations])):
        distinct, half = np.unique(np.asarray(words, dtype=np.dtypes.StringDType()), return_inverse=True)
        halves[name] = Column(half[rules.relation], len(distinct))
    trigger_type, _, action_type = homes.typed(rules)
    return {
        "home": Column(rules.home, homes.n_homes),
        "trigger": Column(rules.trigger, homes.n_devices),
        "action": Column(rules.action, homes.n_devices),
        "place": Column(rules.action - homes.device_start[rules.home], place_size),
        "trigger_type": Column(trigger_type, len(homes.types)),
        "action_type": Column(action_type, len(homes.types)),
        "relation": Column(rules.relation, len(homes.relations)),
        **halves,
    }


def turned(rules: Rules) -> Rules:
    """The same with trigger and action exchanged."""
    return Rules(rules.home, rules.action, rules.trigger, rules.relation)
