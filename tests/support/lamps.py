"""One home of lamps that are all alike."""

from __future__ import annotations

import numpy as np

from datasets import Homes, Rules


def lamps(
    n_devices: int, n_relations: int, rules: list[tuple[int, int, int]], *, group: list[int] | None = None
) -> Homes:
    """A home of so many lamps with these (trigger, action, relation) rules."""
    columns = np.array(rules, dtype=np.int64).reshape(-1, 3).T
    return Homes(
        name="lamps",
        types=("Lamp",),
        relations=tuple((f"state {i}", "On") for i in range(n_relations)),
        users=np.array([1]),
        device_home=np.zeros(n_devices, dtype=np.int64),
        device_type=np.zeros(n_devices, dtype=np.int64),
        device_ids=np.arange(n_devices),
        rules=Rules(np.zeros(len(rules), dtype=np.int64), *columns, None if group is None else np.array(group)),
    )
