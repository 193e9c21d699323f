"""A bias for each (type, relation, type): learned from zero, or from how many homes have it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from baselines.contract import ToyHome, toy_homes
from datasets import Rules
from datasets.valid import ValidRules

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.evidence.statistics import Statistics  # noqa: E402
from fedrule.network.terms import CountBias, LearnedBias, count_item, items  # noqa: E402  # noqa: E402

OPEN = ("ContactSensor", 0, "Light")
MOTION = ("MotionSensor", 1, "Light")

# Three homes; the first two can have OPEN and only the first has it, all can have MOTION and the last two have it.
HOMES = toy_homes(
    [
        ToyHome(1, ("ContactSensor", "Light", "MotionSensor"), (OPEN,)),
        ToyHome(2, ("ContactSensor", "Light", "MotionSensor"), (MOTION,)),
        ToyHome(3, ("Light", "MotionSensor"), (MOTION,)),
    ]
)
# Home 0's OPEN, home 1's OPEN that it has not, home 2's MOTION, and home 2's Motion from light to sensor, never seen.
ASKED = Rules(np.array([0, 1, 2, 2]), np.array([0, 3, 7, 6]), np.array([1, 4, 6, 7]), np.array([0, 0, 1, 1]))
VALID = ValidRules.of(HOMES)


def test_typed_rules_are_numbered_and_never_seen_ones_share_the_last_number():
    assert items(VALID, HOMES, ASKED).tolist() == [0, 0, 1, 2]
    assert count_item(VALID, HOMES, ASKED).tolist() == [1, 0, 1, 0]


def test_the_learned_bias_starts_at_zero_and_never_seen_rules_share_one():
    term = LearnedBias(VALID)
    parameters = term.initial(torch.Generator())
    observed = term.observe(HOMES, ASKED)
    assert term.logits_of(parameters, observed, None).tolist() == [0, 0, 0, 0]
    assert term.logits_of({"item": torch.tensor([0.5, 1.5, -2.0])}, observed, None).tolist() == [0.5, 0.5, 1.5, -2]


def test_the_bias_from_counts_is_the_share_of_homes_among_those_that_could():
    term = CountBias.of(Statistics.of(HOMES, VALID, all_patterns=False))
    logits = term.logits_of(term.initial(torch.Generator()), term.observe(HOMES, ASKED), None)
    # OPEN: 1 of the 2 homes with a ContactSensor and a Light. MOTION: 2 of 3. From light to sensor: 0 of 3.
    expected = [math.log(1.3 / 5), math.log(1.3 / 5), math.log(2.3 / 6), math.log(0.3 / 6)]
    assert logits.tolist() == pytest.approx(expected)
    assert (2 * logits).tolist() == term.logits_of(
        {"scale": torch.tensor([2.0])}, term.observe(HOMES, ASKED), None
    ).tolist()


def test_in_training_a_home_is_not_counted_for_its_own_candidates():
    term = CountBias.of(Statistics.of(HOMES, VALID, all_patterns=False))
    hidden = HOMES.with_rules(np.zeros(0, dtype=np.int64))  # what is hidden from messages still is left out of counts
    logits = term.logits_of(term.initial(torch.Generator()), term.observe(hidden, ASKED, leave_out=HOMES), None)
    # Home 0 asks for OPEN: 0 of the 1 other home. Home 1 the same: 1 of 1. Home 2's MOTION: 1 of 2, never seen: 0 of 2.
    expected = [math.log(0.3 / 4), math.log(1.3 / 4), math.log(1.3 / 5), math.log(0.3 / 5)]
    assert logits.tolist() == pytest.approx(expected)


def test_devices_of_one_type_count_a_home_once():
    # Both of its sensors switch the light on: two rules, and still one home of the one that could.
    rules = Rules(np.array([0, 0]), np.array([0, 1]), np.array([2, 2]), np.array([0, 0]))
    twins = replace(toy_homes([ToyHome(1, ("ContactSensor", "ContactSensor", "Light"))]), rules=rules)
    term = CountBias.of(Statistics.of(twins, ValidRules.of(twins), all_patterns=False))
    logits = term.logits_of(term.initial(torch.Generator()), term.observe(twins, rules), None)
    assert logits.tolist() == pytest.approx([math.log(1.3 / 4)] * 2)
    left_out = term.logits_of(term.initial(torch.Generator()), term.observe(twins, rules, leave_out=twins), None)
    assert left_out.tolist() == pytest.approx([math.log(0.3 / 3)] * 2)
