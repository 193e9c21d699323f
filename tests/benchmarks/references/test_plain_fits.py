"""Plain fits: every registered method has one, and the simplest counts what it should."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.contract import PLANTED, planted_homes
from baselines.registry import missing_extra, names
from benchmarks.references.plain_fits import COUNTING, OF_FEATURES, OF_ROUNDS, homes_of_rules, plain_fit
from datasets.valid import ValidRules


@pytest.mark.parametrize("name", names())
def test_every_method_has_a_plain_fit_that_runs(name):
    if extra := missing_extra(name):
        pytest.skip(f"{name} needs the extra {extra}")
    plain = plain_fit(name, planted_homes(), 3)
    plain.work()
    assert plain.homes <= 3
    assert plain.times >= 1
    assert (plain.about == COUNTING) == (name not in {*OF_ROUNDS, *OF_FEATURES})


def test_plain_fits_are_of_methods_that_exist():
    assert {*OF_ROUNDS, *OF_FEATURES} <= set(names())


def test_homes_are_counted_by_typed_rule():
    homes = planted_homes()
    found = homes_of_rules(homes)
    assert len(found) == len(ValidRules.of(homes))
    trigger, relation, action = PLANTED
    (planted,) = [own for rule, own in found.items() if rule == (trigger, homes.relations[relation], action)]
    kind = np.stack(homes.typed(), axis=1)
    rules = (kind == (homes.types.index(trigger), relation, homes.types.index(action))).all(axis=1)
    assert sorted(planted) == homes.rules.home[rules].tolist()
