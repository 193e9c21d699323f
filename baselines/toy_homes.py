"""Toy homes for the contract of methods: small enough to read, with one rule planted to be found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from datasets import Homes, Relation, Rules
from datasets.homes import Array

TYPES = ("ContactSensor", "Light", "MotionSensor", "Plug", "Siren")
RELATIONS = (
    Relation("Open", "Power On"),
    Relation("Motion", "Power On"),
    Relation("No Motion", "Power Off"),
    Relation("Open", "Ring"),  # that no home uses
)
PLANTED = ("ContactSensor", 0, "Light")
N_HOMES = 30

Typed = tuple[str, int, str]  # trigger type, relation, action type


class ToyHome(NamedTuple):
    """What one home owns and has automated; a rule joins the first devices of its types."""

    user: int | str
    owned: tuple[str, ...]
    rules: tuple[Typed, ...] = ()


def toy_homes(homes: Sequence[ToyHome]) -> Homes:
    """These few homes as flat arrays, all with the same vocabularies."""
    device_home: list[int] = []
    device_type: list[int] = []
    device_ids: list[int] = []
    rules: list[tuple[int, int, int, int]] = []
    for number, home in enumerate(homes):
        first = len(device_home)
        device_home += [number] * len(home.owned)
        device_type += [TYPES.index(name) for name in home.owned]
        device_ids += range(len(home.owned))
        for trigger, relation, action in home.rules:
            rules.append((number, first + home.owned.index(trigger), first + home.owned.index(action), relation))
    columns = np.array(rules, dtype=np.int64).reshape(-1, 4).T
    users = [home.user for home in homes]
    return Homes(
        name="toy homes",
        types=TYPES,
        relations=RELATIONS,
        users=np.array(users) if users else np.zeros(0, dtype=np.int64),
        device_home=np.array(device_home, dtype=np.int64),
        device_type=np.array(device_type, dtype=np.int64),
        device_ids=np.array(device_ids, dtype=np.int64),
        rules=Rules(*columns),
    )


def planted_homes() -> Homes:
    """Every home with a ContactSensor and a Light has Open -> Power On between them, only the first home has not.

    All with a MotionSensor and a Light have Motion -> Power On, the first home too; of the homes with a Plug, every
    other one has No Motion -> Power Off. Nobody owns a Siren, and nobody uses Open -> Ring.
    """
    return toy_homes([_home(number, planted=number > 0, motion=True) for number in range(N_HOMES)])


def other_homes() -> Homes:
    """The same households with other rules: what a method would show that remembers an earlier fit."""
    return toy_homes([_home(number, planted=False, motion=number % 2 == 0) for number in range(N_HOMES)])


def _home(number: int, *, planted: bool, motion: bool) -> ToyHome:
    contact, light, plug = number % 5 != 4, number % 7 != 6, number % 3 == 0
    twin = number == 1  # one home has two lights, which differ in their rules
    owned = ("ContactSensor",) * contact + ("Light",) * (light + twin) + ("MotionSensor",) + ("Plug",) * plug
    rules: list[Typed] = []
    if planted and contact and light:
        rules.append(PLANTED)
    if motion and light:
        rules.append(("MotionSensor", 1, "Light"))
    if plug and number % 2:
        rules.append(("MotionSensor", 2, "Plug"))
    return ToyHome(1000 + number, owned, tuple(rules))


def all_pairs(homes: Homes) -> tuple[Array, Array]:
    """Trigger and action of every ordered pair of two devices of a home, in the order of homes; read-only."""
    trigger, action = np.nonzero(homes.device_home[:, None] == homes.device_home)
    other = trigger != action
    trigger, action = trigger[other], action[other]
    trigger.flags.writeable = action.flags.writeable = False
    return trigger, action
