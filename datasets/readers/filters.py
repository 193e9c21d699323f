"""Filters that leave out rare relations and small homes, and large homes cut into small ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Mask, Rules
from datasets.valid import cells_of


def filter_homes(
    homes: Homes, *, min_pair_count: int = 1, min_rules: int = 0, min_devices: int = 0, only_used_devices: bool = False
) -> Homes:
    """First only relations that occur often enough, then only homes that are large enough in what is left.

    What is left out is counted in the provenance, types that no home owns any more leave the vocabulary, and nothing
    left is an error. `only_used_devices` takes devices that no rule uses from their homes before those are measured.
    """
    given = ("min_pair_count", min_pair_count, 1), ("min_rules", min_rules, 0), ("min_devices", min_devices, 0)
    for option, value, least in given:
        if value < least:
            raise DataError(f"{option} must be at least {least}, got {value}")
    homes = keep_common_relations(homes, min_pair_count)
    if only_used_devices:
        homes = keep_used_devices(homes)
    return keep_used_types(drop_small_homes(homes, min_rules=min_rules, min_devices=min_devices))


def keep_common_relations(homes: Homes, min_count: int) -> Homes:
    """Only rules whose relation occurs at least `min_count` times; the other relations leave the vocabulary."""
    count = np.bincount(homes.rules.relation, minlength=len(homes.relations))
    if not (count >= min_count).any():
        most = f"min_pair_count={min_count} leaves no rule: the commonest pair is seen {count.max()} times"
        raise DataError(f"{homes.name}: {most}; choose less")
    return _keep_rules(homes, (count >= min_count)[homes.rules.relation], "rules left out as their pair is rare")


def keep_common_rules(homes: Homes, min_homes: int) -> Homes:
    """Only rules that at least `min_homes` homes have between devices of the same types; 1 changes nothing.

    Relations without a rule leave the vocabulary; devices and homes stay.
    """
    if min_homes < 1:
        raise DataError(f"min_homes must be at least 1, got {min_homes}")
    if min_homes == 1:
        return homes
    cell = cells_of(homes)
    owned = np.unique(np.stack([cell, homes.rules.home]), axis=1)[0]  # each typed rule once for each home that has it
    cells, count = np.unique(owned, return_counts=True)
    if len(cell) and count.max() < min_homes:
        most = f"min_homes={min_homes} leaves no rule: the commonest is in {count.max()} homes"
        raise DataError(f"{homes.name}: {most}; choose less")
    common = np.isin(cell, cells[count >= min_homes])
    return _keep_rules(homes, common, f"rules left out as fewer than {min_homes} homes have them")


def _keep_rules(homes: Homes, keep: Mask, reason: str) -> Homes:
    """Some of the rules, and a vocabulary of their relations; how many are left out is counted in the provenance."""
    rules = homes.rules.take(keep)
    used = np.bincount(rules.relation, minlength=len(homes.relations)) > 0
    if keep.all() and used.all():
        return homes
    relations = [relation for relation, is_used in zip(homes.relations, used, strict=True) if is_used]
    found = replace(homes, rules=rules).with_vocabulary(homes.types, relations)
    return replace(found, provenance=homes.provenance.derived({reason: int((~keep).sum())}))


def keep_used_devices(homes: Homes) -> Homes:
    """Only devices that some rule uses: where a device is an app, one without a rule is not known to be owned."""
    used = homes.used_devices
    if used.all():
        return homes
    rules, number = homes.rules, np.cumsum(used) - 1
    return replace(
        homes,
        device_home=homes.device_home[used],
        device_type=homes.device_type[used],
        device_ids=homes.device_ids[used],
        rules=Rules(rules.home, number[rules.trigger], number[rules.action], rules.relation, rules.group),
        provenance=homes.provenance.derived({"devices left out as no rule uses them": int((~used).sum())}),
        words=homes.words_of(np.flatnonzero(used)),
    )


def drop_small_homes(homes: Homes, *, min_rules: int = 0, min_devices: int = 0) -> Homes:
    """Only homes with at least this many rules and devices."""
    rules, devices = np.diff(homes.rule_start), np.diff(homes.device_start)
    enough = (rules >= min_rules) & (devices >= min_devices)
    if enough.all():
        return homes
    if not enough.any():
        raise DataError(
            f"{homes.name}: min_rules={min_rules} and min_devices={min_devices} leave no home: the largest have "
            f"{rules.max()} rules and {devices.max()} devices; choose less"
        )
    kept = homes.subset(enough)
    left_out = {"homes left out as too small": homes.n_homes - kept.n_homes}
    return replace(kept, provenance=kept.provenance.derived(left_out))


def keep_used_types(homes: Homes) -> Homes:
    """The same homes with a vocabulary of only those entity types that some home owns."""
    used = np.bincount(homes.device_type, minlength=len(homes.types)) > 0
    if used.all():
        return homes
    return homes.with_vocabulary([t for t, kept in zip(homes.types, used, strict=True) if kept], homes.relations)


def cut_homes(homes: Homes, rules: int) -> Homes:
    """Homes cut into pieces of about so many rules, in the order of the source; 0 does not cut.

    A piece owns the devices that its rules use. Rules of one automation stay together, so a piece may have more; homes
    without rules stay as they are. The user of a piece is the home's, a slash and its number.
    """
    if rules < 0:
        raise DataError(f"cut must be the rules of a piece, or 0 for no cut; got {rules}")
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
        words=homes.words_of(device),
    )


def _first_of_automation(rules: Rules) -> Array:
    """[n_rules]: the position of the first rule of each rule's automation."""
    if rules.group is None:
        return np.arange(len(rules))
    pairs = np.stack([rules.home, rules.group])
    _, first, inverse = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)]
