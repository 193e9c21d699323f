"""What holds for all homes, checked once when they are made, so that no later step has to look again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError

if TYPE_CHECKING:
    from datasets.homes import Homes, Ids


def check(homes: Homes) -> None:
    """Raise the first thing that does not hold."""
    for problem in _broken(homes):
        raise DataError(f"{homes.name}: {problem}")


def _broken(homes: Homes) -> Iterator[str]:
    rules, n_devices = homes.rules, homes.n_devices
    if len(set(homes.types)) != len(homes.types):
        yield "an entity type is listed twice"
    if len(set(homes.relations)) != len(homes.relations):
        yield "a relation is listed twice"
    if _repeats(np.zeros(homes.n_homes, dtype=np.int64), homes.users):
        yield "a user has two homes"
    if not len(homes.device_home) == len(homes.device_type) == len(homes.device_ids):
        yield "the columns of devices differ in length"
    for values, bound, problem in (
        (homes.device_home, homes.n_homes, "a device names a home that is not there"),
        (homes.device_type, len(homes.types), "a device names a type that is not there"),
        (rules.relation, len(homes.relations), "a rule names a relation that is not there"),
        (rules.home, homes.n_homes, "a rule names a home that is not there"),
        (rules.trigger, n_devices, "a rule names a device that is not there"),
        (rules.action, n_devices, "a rule names a device that is not there"),
    ):
        if not _within(values, bound):
            yield problem
    if np.any(np.diff(homes.device_home) < 0):
        yield "devices are not sorted by home"
    if _repeats(homes.device_home, homes.device_ids):
        yield "a home has two devices of one id"
    if np.any(np.diff(rules.home) < 0):
        yield "rules are not sorted by home"
    if np.any(homes.device_home[rules.trigger] != rules.home) or np.any(homes.device_home[rules.action] != rules.home):
        yield "a rule names a device of another home"
    if np.any(np.diff(np.sort(rules.keys(n_devices, len(homes.relations)))) == 0):
        yield "a home has one rule twice"


def _within(values: npt.NDArray[np.int64], bound: int) -> bool:
    return len(values) == 0 or bool(values.min() >= 0 and values.max() < bound)


def _repeats(home: npt.NDArray[np.int64], ids: Ids) -> bool:
    """Whether an id stands twice in a home, given sorted homes."""
    if not np.any((home[1:] == home[:-1]) & (ids[1:] <= ids[:-1])):  # in order, as most sources have them
        return False
    import pandas as pd  # takes long to load, and most never need it

    number, distinct = pd.factorize(np.asarray(ids, dtype=np.int64 if ids.dtype.kind == "i" else object))
    return bool(np.any(np.diff(np.sort(home * len(distinct) + number)) == 0))
