"""Homes and splits at a Python prompt: one line each, never their arrays."""

from __future__ import annotations

import datasets
from tests.support.two_homes import two_homes


def test_homes_and_rules_are_shown_in_one_line():
    homes = two_homes()
    assert repr(homes) == "<two: 2 homes, 4 devices, 4 rules, 2 types, 3 relations>"
    assert repr(homes.rules) == "<4 rules>"


def test_a_split_is_shown_in_one_line_with_all_that_decides_it():
    parts = datasets.split(two_homes(), fraction=0.4)
    hidden = len(parts.test)
    sizes = f"{4 - hidden} rules to train, 0 to validate, {hidden} to test"
    assert repr(parts) == f"<holdout(seed=0, fraction=0.4, validation=False, min_pair_count=1) of two: {sizes}>"
    assert repr(parts.test) == f"<{hidden} rules hidden of {parts.test.homes!r}>"
