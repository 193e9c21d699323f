"""Ordered pairs of a home's devices, numbered home by home: what a rule could connect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from datasets.homes import Array, Homes, Rules


@dataclass(frozen=True, slots=True)
class Pairs:
    """The numbers of all pairs of all homes, by arithmetic: no pairs are stored."""

    homes: Homes
    self_pairs: bool  # whether a device may act on itself
    device_start: Array  # [n_homes + 1]
    start: Array  # [n_homes + 1]  home h has pairs start[h] to start[h + 1]

    @classmethod
    def of(cls, homes: Homes, *, self_pairs: bool) -> Pairs:
        """Numbered by home, then trigger device, then action device."""
        device_start = homes.device_start
        devices = np.diff(device_start)
        count = devices * (devices if self_pairs else np.maximum(devices - 1, 0))
        return cls(homes, self_pairs, device_start, np.concatenate([[0], np.cumsum(count)]).astype(np.int64))

    def number(self, rules: Rules) -> Array:
        """The pair that each rule connects; rules of a device with itself only where `self_pairs`."""
        first, devices = self._home(rules.home)
        trigger, action = rules.trigger - first, rules.action - first
        if self.self_pairs:
            within = trigger * devices + action
        else:
            within = trigger * (devices - 1) + action - (action > trigger)
        return np.asarray(self.start[rules.home] + within)

    def devices(self, number: Array) -> tuple[Array, Array, Array]:
        """Home, trigger device and action device of each pair."""
        home = np.searchsorted(self.start, number, side="right") - 1
        first, devices = self._home(home)
        trigger, action = np.divmod(number - self.start[home], devices if self.self_pairs else devices - 1)
        if not self.self_pairs:
            action = action + (action >= trigger)
        return home, first + trigger, first + action

    def runs(self, limit: int) -> Iterator[tuple[int, int]]:
        """Ranges (first, end) of homes with at most `limit` pairs each; a larger home is alone."""
        first, last = 0, self.homes.n_homes
        while first < last:
            end = int(np.searchsorted(self.start, self.start[first] + limit, side="right")) - 1
            end = max(end, first + 1)
            yield first, end
            first = end

    def _home(self, home: Array) -> tuple[Array, Array]:
        first = self.device_start[home]
        return first, self.device_start[home + 1] - first


def has_self_rules(*rules: Rules) -> bool:
    """Whether any rule lets a device act on itself."""
    return any(bool(np.any(some.trigger == some.action)) for some in rules)
