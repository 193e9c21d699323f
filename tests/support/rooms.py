"""Homes whose devices have words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from baselines.contract import planted_homes
from datasets import Homes, Words


def room_homes() -> Homes:
    """The planted homes in two rooms: a trigger is in the room of what it acts on, all else in any, or in none."""
    return with_rooms(planted_homes())


def with_rooms(homes: Homes, *, seed: int = 0) -> Homes:
    """Homes with a room for most devices, those of a rule mostly in one."""
    chance = np.random.default_rng(seed)
    room = chance.integers(-1, 2, homes.n_devices)
    room[homes.rules.trigger] = np.maximum(room[homes.rules.action], 0)
    named = np.flatnonzero(room >= 0)
    return replace(homes, words=Words(named, room[named]))
