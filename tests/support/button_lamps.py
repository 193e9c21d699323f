"""Homes with a button and two lamps, which are told apart only by their rules."""

from __future__ import annotations

import numpy as np

from datasets import Homes, Rules

BUTTON, LAMP = 0, 1


def button_lamps(homes_of_rules: list[list[tuple[int, int, int]]]) -> Homes:
    """Homes with rules (trigger, action, relation) by position in the home: the button is 0, the lamps are 1 and 2."""
    n_homes = len(homes_of_rules)
    rules = [(n, 3 * n + i, 3 * n + j, r) for n, own in enumerate(homes_of_rules) for i, j, r in own]
    return Homes(
        name="button and lamps",
        types=("Button", "Lamp"),
        relations=(("Pressed On", "Power On"), ("Pressed Off", "Power Off"), ("Pressed On", "Power Off")),
        users=np.arange(n_homes),
        device_home=np.repeat(np.arange(n_homes), 3),
        device_type=np.tile([BUTTON, LAMP, LAMP], n_homes),
        device_ids=np.tile([0, 1, 2], n_homes),
        rules=Rules(*np.array(rules, dtype=np.int64).reshape(-1, 4).T),
    )
