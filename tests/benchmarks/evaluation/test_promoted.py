"""Where a promoted rule stands in the lists of other homes, by hand and in the results of runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="federated methods need the extra graph")

from baselines.contract import ToyHome, toy_homes
from baselines.registry import build
from benchmarks.evaluation.promoted import promoted_rank
from datasets import load
from datasets.homes import Homes
from fedrule.federated.robustness.attacks import Attackers, promoted_rule
from tests.support.single_run import run

OPEN = "ContactSensor: Open -> Light: Power On"


class Fixed:
    """Scores by relation, the same for all pairs."""

    def __init__(self, scores) -> None:
        self.scores = np.array(scores, dtype=np.float32)

    def score_pairs(self, homes: Homes, trigger, action):  # noqa: ARG002  scores depend on neither
        return np.tile(self.scores, (len(trigger), 1))


def test_the_rank_is_counted_among_valid_rules_that_the_home_lacks():
    homes = toy_homes(
        [
            ToyHome(1, ("ContactSensor", "Light", "MotionSensor"), (("MotionSensor", 1, "Light"),)),  # lacks Open
            ToyHome(2, ("ContactSensor", "Light", "MotionSensor"), (("ContactSensor", 0, "Light"),)),  # has it
            ToyHome(3, ("ContactSensor", "Light", "MotionSensor")),  # lacks both
            ToyHome(4, ("Light", "MotionSensor")),  # could not have it
            ToyHome(5, ("ContactSensor", "Light")),  # an attacker
        ]
    )
    who = Attackers("promote", 10.0, 5, np.arange(5) == 4, promoted_rule(homes, OPEN))
    n = len(homes.relations)
    # Valid are Open and Motion. Home 0 has only Open left: rank 1. Home 2 has Motion above Open: rank 2. Mean 1.5.
    assert promoted_rank(Fixed([1, 2, *[9] * (n - 2)]), homes, who) == 1.5
    assert promoted_rank(Fixed([3, 2, *[9] * (n - 2)]), homes, who) == 1.0
    # A tie in home 2: half of the other is above, 1.5; (1 + 1.5) / 2 = 1.25.
    assert promoted_rank(Fixed([2, 2, *[9] * (n - 2)]), homes, who) == 1.25
    # Without a score it is the last: 1 of 1, and 2 of 2.
    assert promoted_rank(Fixed([np.nan, 2, *[9] * (n - 2)]), homes, who) == 1.5
    nobody = replace(who, attacks=np.ones(5, dtype=bool))
    assert np.isnan(promoted_rank(Fixed([1] * n), homes, nobody))


def test_the_best_of_several_pairs_of_devices_counts():
    # Open is the only valid rule; the home could have it with either light. Both are tied: (1 + 2) / 2 for each.
    homes = toy_homes(
        [
            ToyHome(1, ("ContactSensor", "Light"), (("ContactSensor", 0, "Light"),)),
            ToyHome(2, ("ContactSensor", "Light", "Light")),
        ]
    )
    who = Attackers("none", 0.0, 5, np.zeros(2, dtype=bool), promoted_rule(homes, OPEN))

    class FirstLight:
        def score_pairs(self, homes: Homes, trigger, action):
            scores = np.zeros((len(trigger), len(homes.relations)), dtype=np.float32)
            scores[action == 1, 0] = 1.0
            return scores

    assert promoted_rank(Fixed([1.0] * len(homes.relations)), homes, who) == 1.5
    assert promoted_rank(FirstLight(), homes, who) == 1.0


@pytest.mark.parametrize("method", ["fedgnn", "fedrank"])
def test_promoting_homes_lift_a_rule_and_do_it_again(method):
    homes = load("wyze-synthetic", homes=200).merged_types()

    def rank(**more) -> float:
        attacked, rng = build(method, promoted="auto", rounds=40, cohort=30, **more), np.random.default_rng(1)
        attackers = attacked.attackers_among(homes, rng)
        return promoted_rank(attacked.fit(homes, rng=rng), homes, attackers)

    honest, lifted = rank(), rank(attack="promote", attackers=0.3)
    assert lifted < honest / 2
    assert lifted == rank(attack="promote", attackers=0.3)


def test_the_rank_is_in_the_last_round_of_a_result_only(tmp_path):
    data = {"data": "wyze-synthetic", "data_options": {"homes": 60}, "protocols": ("ranking",), "isolate": False}
    short = {"rounds": 3, "hidden": 4, "predictor_hidden": 5}
    (result,) = run("fedgnn", parameters=short | {"promoted": "auto"}, **data, store=tmp_path / "measured")
    assert ["promoted_rank" in values for values in result.history] == [False, False, True]
    assert result.history[-1]["promoted_rank"] >= 1
    (plain,) = run("fedgnn", parameters=short, **data, store=tmp_path / "plain")
    assert "promoted_rank" not in plain.history[-1]
