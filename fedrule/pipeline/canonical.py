"""One order for the same homes, whatever the database and the part of it that was read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datasets.homes import Array, Homes, Ids, Rules


def canonical(homes: Homes, *, whole_users: bool, whole_devices: bool) -> Homes:
    """Homes by user, devices by id, rules by their devices and relation.

    Ids are numbers where the columns are declared so and text otherwise: were it decided by their values, the ids of
    one user alone could be of another kind than in a read of all.
    """
    if not whole_users and homes.users.dtype.kind == "i":
        order = np.argsort(_as_text(homes.users), kind="stable")
        homes = homes.subset(order)
        homes = replace(homes, users=_as_text(homes.users))
    if not whole_devices and homes.device_ids.dtype.kind == "i":
        homes = _with_devices(homes, _as_text(homes.device_ids))
    order = np.argsort(homes.rules.keys(homes.n_devices, len(homes.relations)), kind="stable")
    return replace(homes, rules=homes.rules.take(order))


def _with_devices(homes: Homes, ids: Ids) -> Homes:
    """The same devices under these ids, sorted by them within each home."""
    order = np.argsort(ids, kind="stable")
    order = order[np.argsort(homes.device_home[order], kind="stable")]
    place: Array = np.empty_like(order)
    place[order] = np.arange(len(order))
    rules = homes.rules
    return replace(
        homes,
        device_type=homes.device_type[order],
        device_ids=ids[order],
        rules=Rules(rules.home, place[rules.trigger], place[rules.action], rules.relation, rules.group),
    )


def _as_text(ids: Ids) -> Ids:
    return ids.astype(np.dtypes.StringDType())
