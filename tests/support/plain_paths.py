"""The path features of one candidate by walking over all devices, from their definitions."""

from __future__ import annotations

from itertools import product
from math import log1p

from datasets.homes import Homes
from fedrule.evidence.features import MEAN_SCALE


def walked(homes: Homes, i: int, j: int) -> list[float]:
    """From device i to device j, in the order of `fedrule.evidence.features.NAMES`."""
    acts = {(int(t), int(a)) for t, a in zip(homes.rules.trigger, homes.rules.action, strict=True)}
    devices = range(homes.n_devices)
    by_one = sum((i, k) in acts and (k, j) in acts for k in devices)
    acted_on = sum((k, i) in acts and (k, j) in acts for k in devices)
    act_on = sum((i, k) in acts and (j, k) in acts for k in devices)
    three = [(k, m) for k, m in product(devices, devices) if {(i, k), (m, k), (m, j)} <= acts]
    out = sum((i, k) in acts for k in devices)
    mean = sum(1 / out / sum((m, k) in acts for m in devices) for k, _ in three)
    return [*(log1p(count) for count in (by_one, acted_on, act_on, len(three))), log1p(MEAN_SCALE * mean)]
