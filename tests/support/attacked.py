"""Small federations for tests of the audit."""

from __future__ import annotations

import numpy as np

from baselines.registry import build
from datasets import Homes, Relation, Rules
from fedrule.audit.federation import Federation

N_TYPES, N_RELATIONS = 4, 40
PLANTED = (0, 7, 1)  # trigger type, relation, action type: the only rule of home 0


def planted(n_homes: int = 20) -> Homes:
    """Homes with a device of each type; the first has one rule, each other one has three of its own."""
    rng = np.random.default_rng(5)
    rules = {(0, PLANTED[0], PLANTED[2], PLANTED[1])}
    for home in range(1, n_homes):
        while sum(rule[0] == home for rule in rules) < 3:
            trigger, action = rng.choice(N_TYPES, 2, replace=False)
            first = home * N_TYPES
            rules.add((home, first + int(trigger), first + int(action), int(rng.integers(N_RELATIONS))))
    return Homes(
        name="planted",
        types=tuple(f"type {i}" for i in range(N_TYPES)),
        relations=tuple(Relation(f"state {i // 4}", f"act {i % 4}") for i in range(N_RELATIONS)),
        users=np.arange(n_homes),
        device_home=np.repeat(np.arange(n_homes), N_TYPES),
        device_type=np.tile(np.arange(N_TYPES), n_homes),
        device_ids=np.arange(n_homes * N_TYPES),
        rules=Rules(*np.array(sorted(rules)).T),
    )


def federation(method: str = "fedgnn", homes: Homes | None = None, **options: object) -> Federation:
    """Before its first round."""
    built = build(method, **options)
    return Federation.of(planted() if homes is None else homes, built, seed=0)
