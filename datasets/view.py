"""One home spelled out, for people and tests; code that computes uses the arrays of `Homes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from datasets.homes import Homes


class Relation(NamedTuple):
    """A trigger-action pair, e.g. ("Open", "Power On")."""

    trigger: str
    action: str

    def __str__(self) -> str:
        return f"{self.trigger} -> {self.action}"


class Device(NamedTuple):
    """One device of one home."""

    id: int | str
    type: str


class Rule(NamedTuple):
    """One rule of one home."""

    trigger: Device
    relation: Relation
    action: Device

    def __str__(self) -> str:
        return f"<{self.trigger.type} {self.trigger.id}, {self.relation}, {self.action.type} {self.action.id}>"


class Home(NamedTuple):
    """One home: what it owns and what it has automated."""

    user: int | str
    devices: tuple[Device, ...]
    rules: tuple[Rule, ...]

    def __str__(self) -> str:
        owned = ", ".join(f"{device.type} {device.id}" for device in self.devices)
        return "\n  ".join([f"home of {self.user}: {owned or 'no devices'}", *map(str, self.rules)])


def spell_out(homes: Homes, index: int) -> Home:
    """The home at a position; negative ones count from the end."""
    if not -homes.n_homes <= index < homes.n_homes:
        raise IndexError(f"home {index} of {homes.n_homes}")
    index %= homes.n_homes
    first, last = np.searchsorted(homes.device_home, [index, index + 1])
    devices = tuple(
        Device(id_, homes.types[type_])
        for id_, type_ in zip(homes.device_ids[first:last].tolist(), homes.device_type[first:last], strict=True)
    )
    begin, end = np.searchsorted(homes.rules.home, [index, index + 1])
    rules = homes.rules.take(np.arange(begin, end))
    spelled = tuple(
        Rule(devices[t - first], homes.relations[r], devices[a - first])
        for t, r, a in zip(rules.trigger, rules.relation, rules.action, strict=True)
    )
    return Home(homes.users[index : index + 1].tolist()[0], devices, spelled)
