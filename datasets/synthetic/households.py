"""What synthetic homes own and want: profiles decide on devices, devices are in zones, zones have intents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from datasets.homes import Array, Mask, starts
from datasets.synthetic.catalogue import INTENT_USE, INTENTS, OUTDOOR, PROFILES, ROLES
from datasets.synthetic.draws import Floats, pick

MORE_OF_THE_SAME = 0.35  # share of devices bought because the home already has one of that type
SECOND_PROFILE = 0.25  # share of devices that come by another profile than the home's first
PROFILE_INTENT = 0.5  # share of homes whose main intent is what their profile suggests, not just any
ZONE_INTENT = (0.55, 0.30)  # share of zones that follow the home's main intent, its second; the rest any
ROOMS_PER_DEVICE = (0.2, 0.55)  # a home has one room and between these for every further device
ANYWHERE = -1  # the zone of Cloud, which is near everything
BUSY = 0.9  # spread (in logs) of how much a device is used relative to others of its type


@dataclass(frozen=True, eq=False)
class Households:
    """Homes before their first rule; devices sorted by home and type."""

    n_homes: int
    n_types: int
    device_home: Array  # [n_devices]
    device_type: Array  # [n_devices]
    zone: Array  # [n_devices]  never shared by homes; ANYWHERE for Cloud
    busy: Floats  # [n_devices]
    zone_intent: Array  # [n_zones]
    intent: Array  # [n_homes]  the main one
    second_intent: Array  # [n_homes]

    @property
    def n_devices(self) -> int:
        return len(self.device_home)

    @cached_property
    def start(self) -> Array:
        """[n_homes + 1]: the devices of each home."""
        return starts(self.device_home, self.n_homes)

    @cached_property
    def type_start(self) -> Array:
        """[n_homes * n_types + 1]: the devices of each home and type."""
        return starts(self.device_home * self.n_types + self.device_type, self.n_homes * self.n_types)

    def owned(self) -> Array:
        """[n_homes, n_types]: how many devices of each type a home has."""
        return np.diff(self.type_start).reshape(self.n_homes, self.n_types)


def draw_households(
    n_devices: Array, types: tuple[str, ...], starters: Mask, cloud: Array, rng: np.random.Generator
) -> Households:
    """Homes with so many devices each; those in `cloud` use Cloud, which counts as one of their devices.

    The first device of a home is of a type in `starters`, those that make rules even alone; the second is rather one
    that starts rules: these are homes that have rules.
    """
    n_homes = len(n_devices)
    shares = np.array([p.share for p in PROFILES])
    profile, second = rng.choice(len(PROFILES), (2, n_homes), p=shares)
    intent = _intents(profile, rng)

    owns = np.array([[p.owns.get(t, 0.0) for t in types] for p in PROFILES])
    home = np.repeat(np.arange(n_homes), n_devices)
    first = np.cumsum(n_devices) - n_devices
    comes_by = np.where(rng.random(len(home)) < SECOND_PROFILE, second[home], profile[home])
    triggers = np.array([ROLES[t].triggers for t in types])
    kind = _types(home, first, comes_by, np.stack([owns * starters, owns * triggers, owns]), rng)
    if "Cloud" in types:
        kind[first[cloud] + n_devices[cloud] - 1] = types.index("Cloud")
    kind = np.sort(home * len(types) + kind) % len(types)

    low, high = ROOMS_PER_DEVICE
    rooms = 1 + ((n_devices - 1) * rng.uniform(low, high, n_homes)).astype(np.int64)
    zone_start = np.cumsum(rooms + 1) - (rooms + 1)  # the zone after the last room is the garden
    room = (rooms[home] * rng.random(len(home)) ** 1.3).astype(np.int64)  # the first rooms hold more
    outdoor = np.array([name in OUTDOOR for name in types])[kind]
    zone = zone_start[home] + np.where(outdoor, rooms[home], room)
    second_intent = rng.choice(len(INTENTS), n_homes, p=INTENT_USE)
    zone_home = np.repeat(np.arange(n_homes), rooms + 1)
    follows = rng.random(len(zone_home))
    main, both = ZONE_INTENT[0], sum(ZONE_INTENT)
    zone_intent = np.where(follows < main, intent[zone_home], second_intent[zone_home])
    zone_intent = np.where(follows < both, zone_intent, rng.choice(len(INTENTS), len(zone_home), p=INTENT_USE))
    return Households(
        n_homes,
        len(types),
        home,
        kind,
        np.where(np.array(types)[kind] == "Cloud", ANYWHERE, zone),
        np.exp(BUSY * rng.standard_normal(len(home))),
        zone_intent,
        intent,
        second_intent,
    )


def _intents(profile: Array, rng: np.random.Generator) -> Array:
    """[n_homes]: the main intent, half the time one that matches the profile."""
    suggested = np.array([[intent in p.intents.split() for intent in INTENTS] for p in PROFILES]).astype(float)
    begin = profile * len(INTENTS)
    by_profile = pick(suggested.ravel(), begin, begin + len(INTENTS), rng) - begin
    anything = rng.choice(len(INTENTS), len(profile), p=INTENT_USE)
    return np.where(rng.random(len(profile)) < PROFILE_INTENT, by_profile, anything)


def _types(home: Array, first: Array, profile: Array, owns: Floats, rng: np.random.Generator) -> Array:
    """[n_devices]: what each device is; `owns` [3, n_profiles, n_types] is for the first, the second, any later one."""
    _, n_profiles, n_types = owns.shape
    place = np.arange(len(home)) - first[home]
    begin = (np.minimum(place, 2) * n_profiles + profile) * n_types
    drawn = pick(owns.ravel(), begin, begin + n_types, rng) - begin
    # One more of the same: a device copies an earlier one of its home, which may itself be a copy.
    earlier = first[home] + (place * rng.random(len(home))).astype(np.int64)
    copies = (rng.random(len(home)) < MORE_OF_THE_SAME) & (place > 1)
    source = np.where(copies, earlier, np.arange(len(home)))
    while np.any(source[source] != source):
        source = source[source]
    types: Array = drawn[source]
    return types
