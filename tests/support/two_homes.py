"""Two homes written by hand, and whether two data sets are the same in every field."""

from __future__ import annotations

from datasets import Homes
from tests.support.strategies import triples, words_by_device

# Two people; Ann owns two lamps and a sensor, Bob a lamp. One lamp of Ann's switches the other one, Bob's itself.
BUILD = """
import numpy as np
from datasets import Homes, Rules
homes = Homes(
    name="two",
    types=("Lamp", "Sensor"),
    relations=(("Open", "On"), ("Open", "Off"), ("On", "Off")),
    users=np.array(["ann", "bob"], dtype=np.dtypes.StringDType()),
    device_home=np.array([0, 0, 0, 1]),
    device_type=np.array([0, 0, 1, 0]),
    device_ids=np.array([7, 8, 9, 7]),
    rules=Rules(
        np.array([0, 0, 0, 1]), np.array([2, 2, 0, 3]), np.array([0, 1, 1, 3]), np.array([0, 0, 2, 2]),
        np.array([5, 6, 6, 5]),
    ),
)
"""


def two_homes() -> Homes:
    """The homes of BUILD, whose text another process can run as well."""
    scope: dict[str, Homes] = {}
    exec(BUILD, scope)
    return scope["homes"]


def assert_same(left: Homes, right: Homes) -> None:
    """Every field, and the types of the ids."""
    assert (left.name, left.types, left.relations) == (right.name, right.types, right.relations)
    assert left.provenance == right.provenance
    for column in ("users", "device_home", "device_type", "device_ids"):
        assert getattr(left, column).dtype == getattr(right, column).dtype
        assert getattr(left, column).tolist() == getattr(right, column).tolist()
    assert triples(left.rules) == triples(right.rules)
    groups = [None if h.rules.group is None else h.rules.group.tolist() for h in (left, right)]
    assert groups[0] == groups[1]
    assert words_by_device(left) == words_by_device(right)
    assert left.fingerprint == right.fingerprint
