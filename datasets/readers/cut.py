"""Large homes cut into small ones, to study what the size of a home does while its rules stay real."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Homes, Rules


def cut(homes: Homes, rules: int) -> Homes:
    """Homes of about so many rules each, in the order of their source; 0 leaves them whole.

    A piece owns the devices that its rules use. Rules of one automation stay together, so a piece may have more; homes
    without rules stay as they are. A piece is named after its home, a stroke and its number.
    """
    if rules < 0:
        raise DataError(f"cut={rules}: give the rules of a piece, 1, 2, ..., or 0 to leave homes whole")
    if not rules or not homes.n_rules:
        return homes
    own = homes.rules
    first = _first_of_automation(own)  # [n_rules]  the place of each rule's automation in its home
    order = np.lexsort((np.arange(len(own)), first, own.home))
    own, first = own.take(order), first[order]
    number = (first - homes.rule_start[own.home]) // rules
    has_none = np.setdiff1d(np.arange(homes.n_homes), own.home)
    width = int(number.max()) + 1
    piece = np.unique(np.concatenate([own.home * width + number, has_none * width]))
    home = np.searchsorted(piece, own.home * width + number)
    idle = np.flatnonzero(np.isin(homes.device_home, has_none))
    idle_home = np.searchsorted(piece, homes.device_home[idle] * width)
    # Devices by piece: those that rules use, once each, and those of homes without rules.
    used = np.concatenate([np.tile(home, 2), idle_home]), np.concatenate([own.trigger, own.action, idle])
    key = np.unique(used[0] * homes.n_devices + used[1])
    device = key % homes.n_devices
    trigger, action = (np.searchsorted(key, home * homes.n_devices + end) for end in (own.trigger, own.action))
    names = [f"{homes.users[i // width]}/{i % width}" for i in piece.tolist()]
    return replace(
        homes,
        users=np.array(names, dtype=np.dtypes.StringDType()),
        device_home=key // homes.n_devices,
        device_type=homes.device_type[device],
        device_ids=homes.device_ids[device],
        rules=Rules(home, trigger, action, own.relation, own.group),
        provenance=homes.provenance.derived({"homes before they were cut": homes.n_homes}),
    )


def _first_of_automation(rules: Rules) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """[n_rules]: the position of the first rule of each rule's automation."""
    if rules.group is None:
        return np.arange(len(rules))
    pairs = np.stack([rules.home, rules.group])
    _, first, inverse = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)]
