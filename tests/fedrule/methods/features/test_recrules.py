"""RecRules: what it learns from paths, that hidden rules do not leak, devices of one type, wrong options."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.contract import PLANTED, ToyHome, all_pairs, planted_homes, toy_homes
from datasets import load

pytest.importorskip("sklearn", reason="recrules needs the extra learn")

from fedrule.evidence.rule_paths import PATHS
from fedrule.methods.features.ranker import FoldedExamples
from fedrule.methods.features.recrules import OTHERS, RecRules, RuleGraph, paths_up_to

SMALL = RecRules(min_samples_leaf=5, trees=40)
CONTACT_LIGHT = ("ContactSensor", "Light")


def fit(method, train, seed=0):
    return method.fit(train, rng=np.random.default_rng(seed))


def graph(homes):
    return RuleGraph.of(homes, PATHS)


def pairs_of_rules(n_homes: int, *, lacking: int) -> list[ToyHome]:
    """Homes with the motion rule and the planted rule, as many with neither, and behind them `lacking` the latter."""
    owned = ("ContactSensor", "Light", "MotionSensor", "Plug")
    both = (PLANTED, ("MotionSensor", 1, "Light"))
    other = (("MotionSensor", 2, "Plug"),)
    homes = [ToyHome(n, owned, both if n % 2 else other) for n in range(n_homes)]
    return homes + [ToyHome(n_homes + n, owned, both[1:]) for n in range(lacking)]


def test_a_rule_that_goes_with_one_of_the_home_scores_higher_than_for_a_home_without_it():
    train = toy_homes(pairs_of_rules(60, lacking=2))
    new = toy_homes([ToyHome(1000, (*CONTACT_LIGHT, "MotionSensor"), (("MotionSensor", 1, "Light"),))])
    without = toy_homes([ToyHome(1000, (*CONTACT_LIGHT, "MotionSensor", "Plug"), (("MotionSensor", 2, "Plug"),))])
    fitted = fit(SMALL, train)
    one, other = (fitted.score_pairs(homes, np.array([0]), np.array([1]))[0, PLANTED[1]] for homes in (new, without))
    assert one > other


def test_the_features_are_the_paths_and_then_how_common_the_rule_is():
    train = planted_homes()
    counts = graph(train)
    new = toy_homes([ToyHome(1, ("ContactSensor", "Light", "MotionSensor"), (("MotionSensor", 1, "Light"),))])
    candidate = new.rules.take(np.array([0]))
    (row,) = counts.features(new, candidate)
    assert len(row) == 2 * len(PATHS) + len(OTHERS)
    # Of homes 0 to 29, numbers 6, 13, 20 and 27 have no Light: 26 have Light and MotionSensor, and the rule.
    assert row[-3:] == pytest.approx([26, 26 / 30, 1])


def test_paths_never_lead_through_the_rules_that_are_to_be_found():
    # Every home has one rule of its own: without it, no other home shares one, and no path by rules is left.
    owned = ("ContactSensor", "Light", "MotionSensor")
    rules = [PLANTED, ("MotionSensor", 1, "Light")]
    train = toy_homes([ToyHome(n, owned, (rules[n % 2],)) for n in range(20)])
    examples = FoldedExamples(hidden=0.5, folds=4, draws=5)
    features, positive = examples.draw(train, np.random.default_rng(0), count=graph)
    assert positive.any()
    by_rules = [at for at, path in enumerate(PATHS) if path[1] == "rule"]
    assert not features[positive][:, by_rules].any()
    assert not features[positive][:, -1].any()  # rules of the home that are not hidden


def test_devices_of_one_type_share_their_scores():
    homes = load("wyze-synthetic", homes=80)
    fitted = fit(SMALL, homes)
    trigger, action = all_pairs(homes)
    scores = fitted.score_pairs(homes, trigger, action)
    key = np.stack([homes.device_home[trigger], homes.device_type[trigger], homes.device_type[action]], axis=1)
    _, first, same = np.unique(key, axis=0, return_index=True, return_inverse=True)
    assert scores.tobytes() == scores[first][same.reshape(-1)].tobytes()


def test_short_paths_are_those_of_three_edges():
    # 2 without classes and 12 kinds of classes; as many longer ones.
    assert (len(paths_up_to(3)), len(paths_up_to(5))) == (14, 26)
    train = planted_homes()
    short, long = (fit(RecRules(length=n, min_samples_leaf=5), train) for n in (3, 5))
    assert short.counts.features(train, train.rules).shape[1] == 2 * 14 + len(OTHERS)
    assert long.counts.features(train, train.rules).shape[1] == 2 * 26 + len(OTHERS)
