"""Writing homes in the Wyze layout, so that what is generated can be read by anything that reads the public data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.readers.delimited import write_delimited
from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Mask
from datasets.readers.wyze import DEVICE_COLUMNS, FILES, GROUP_COLUMNS, RULE_COLUMNS, RULE_PARTS

ONLY_IN_RULES = ("Cloud",)  # a pseudo-device: the public device file does not list it


def write_wyze(homes: Homes, folder: Path | str, *, part: str = "train") -> None:
    """Write the device and the rule file (and a file of groups where rules have them) into a folder."""
    folder = Path(folder)
    refuse_text_ids(homes)
    refuse_bare_homes(homes, "the Wyze layout")
    folder.mkdir(parents=True, exist_ok=True)
    device_file, rule_file, group_file = FILES[part]
    rules = homes.rules
    columns = {
        "user": pa.array(homes.users[rules.home]),
        **rule_columns(homes, rules.trigger, rules.relation, rules.action),
    }
    columns["rule"] = spelled(columns)
    write_delimited(folder / rule_file, {name: columns[role] for role, name in RULE_COLUMNS.items()})
    listed = _listed(homes)
    devices = {
        "user": pa.array(homes.users[homes.device_home[listed]]),
        "device": pa.array(homes.device_ids[listed]),
        "type": _words(homes.types).take(pa.array(homes.device_type[listed])),
    }
    write_delimited(folder / device_file, {name: devices[role] for role, name in DEVICE_COLUMNS.items()})
    if rules.group is not None:
        columns["group"] = pa.array(rules.group)
        write_delimited(folder / group_file, {name: columns[role] for role, name in GROUP_COLUMNS.items()})
    else:  # the groups of what was written here before say nothing about these rules
        (folder / group_file).unlink(missing_ok=True)


def refuse_text_ids(homes: Homes) -> None:
    """The layout joins ids to texts by "_", so they must be numbers."""
    if homes.users.dtype.kind != "i" or homes.device_ids.dtype.kind != "i":
        raise DataError(
            f"{homes.name}: the Wyze layout needs whole numbers as ids; save it as one .parquet file instead"
        )


def refuse_bare_homes(homes: Homes, layout: str) -> None:
    """A home is known by its lines: without a device it would vanish."""
    bare = homes.users[np.diff(homes.device_start) == 0]
    if len(bare):
        more = f" and {len(bare) - 5:,} more" if len(bare) > 5 else ""
        users = ", ".join(str(user) for user in bare[:5].tolist())
        raise DataError(
            f"{homes.name}: {layout} cannot hold homes without devices (users {users}{more}); leave them out, "
            "e.g. with min_devices=1, or save it as one .parquet file instead"
        )
    if not homes.n_rules:
        raise DataError(f"{homes.name}: it has no rule to write; save it as one .parquet file instead")


def _listed(homes: Homes) -> Mask:
    """The devices of the device file: all, but for Cloud where rules bring it back."""
    cloud = np.isin(homes.device_type, [i for i, name in enumerate(homes.types) if name in ONLY_IN_RULES])
    used = np.zeros(homes.n_devices, dtype=bool)
    used[homes.rules.trigger] = used[homes.rules.action] = True
    taken = np.isin(homes.device_ids[cloud], homes.device_ids[~cloud]).any()
    # All or none: listed for one home only, the shared id would seem to be that home's own. And no file may be empty.
    leave_out = used[cloud].all() and not taken and not cloud.all()
    return ~cloud if leave_out else np.ones(homes.n_devices, dtype=bool)


def rule_columns(homes: Homes, trigger: Array, relation: Array, action: Array) -> dict[str, pa.Array]:
    """The columns of a rule file for these rules, but for user and rule, by role."""
    types = _words(homes.types)
    states, actions = [r.trigger for r in homes.relations], [r.action for r in homes.relations]
    codes = source_codes(homes)
    which = pa.array(relation)
    return {
        "trigger_type": types.take(pa.array(homes.device_type[trigger])),
        "trigger_device": pa.array(homes.device_ids[trigger]),
        "trigger_state": _words(states).take(which),
        "trigger_state_id": pa.array([codes["trigger_state"][s] for s in states], pa.int64()).take(which),
        "action": _words(actions).take(which),
        "action_id": pa.array([codes["action"][a] for a in actions], pa.int64()).take(which),
        "action_type": types.take(pa.array(homes.device_type[action])),
        "action_device": pa.array(homes.device_ids[action]),
    }


def spelled(columns: dict[str, pa.Array]) -> pa.Array:
    """A rule as the source writes it: trigger device, state, action and action device by number."""
    return pc.binary_join_element_wise(*(columns[part].cast(pa.string()) for part in RULE_PARTS), "_")


def source_codes(homes: Homes) -> dict[str, dict[str, int]]:
    """The source's numbers for states and actions; homes that have none are numbered in alphabetical order."""
    names = {"trigger_state": {r.trigger for r in homes.relations}, "action": {r.action for r in homes.relations}}
    codes = homes.provenance.codes
    if not codes:
        return {kind: {name: i for i, name in enumerate(sorted(words))} for kind, words in names.items()}
    for kind, words in names.items():
        if unnumbered := sorted(words - codes.get(kind, {}).keys()):
            remedy = "take the numbers over with datasets.align(homes, like=...)"
            raise DataError(f"{homes.name}: the source has no number for the {kind} {unnumbered[0]!r}; {remedy}")
    return codes


def _words(names: tuple[str, ...] | list[str]) -> pa.Array:
    return pa.array(names, pa.string())
