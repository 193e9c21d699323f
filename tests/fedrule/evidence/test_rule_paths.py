"""Paths between homes and rules: by hand, against walking along them, and for homes that were not counted."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.contract import PLANTED, RELATIONS, TYPES, ToyHome, planted_homes, toy_homes
from baselines.items import Items
from benchmarks.references.rule_features import PlainPaths, plain_homes, plain_rules
from datasets import Homes, Rules, load
from fedrule.evidence import rule_paths
from fedrule.evidence.rule_paths import COLLABORATIVE, PATHS, RulePaths, graph_edges, path_names

MOTION = ("MotionSensor", 1, "Light")
OWNED = ("ContactSensor", "Light", "MotionSensor")


def every_candidate(homes: Homes, valid) -> tuple[Rules, np.ndarray]:
    """All valid rules between devices of each home, whether it has them or not, sorted by home."""
    trigger, action = np.nonzero(homes.device_home[:, None] == homes.device_home)
    pair, item = valid.of_pairs(homes.device_type[trigger], homes.device_type[action])
    trigger, action = trigger[pair], action[pair]
    return Rules(homes.device_home[trigger], trigger, action, valid.relation[item]), item


def test_paths_through_other_homes_are_counted_by_hand():
    # Homes 0 and 1 have both rules, home 2 only the motion rule, home 3 only the planted one.
    train = toy_homes(
        [
            ToyHome(n, OWNED, rules)
            for n, rules in enumerate([(PLANTED, MOTION), (PLANTED, MOTION), (MOTION,), (PLANTED,)])
        ]
    )
    new = toy_homes([ToyHome(9, OWNED, (MOTION,))])
    paths = RulePaths.of(train, [COLLABORATIVE, ("home", "type", "home", "rule"), ("home", "rule", "act", "rule")])
    candidate = Rules(*(np.array([value]) for value in (0, 0, 1, PLANTED[1])))
    item = paths.items.valid.number(TYPES.index(PLANTED[0]), TYPES.index(PLANTED[2]), PLANTED[1]).reshape(1)
    (found,) = paths.features(new, candidate, item)
    # Its motion rule leads to homes 0, 1 and 2, of which 0 and 1 have the planted rule.
    # Its three types lead to four homes each, of which three have it: 9 paths.
    # Motion -> Power On and Open -> Power On share their act: 1 path.
    assert found[:3].tolist() == [2, 9, 1]
    # One rule; to a home 1/3 each; from homes 0 and 1 to one of two rules: 1/3 * (1/2 + 1/2).
    # One of three types; one of four homes; then 1/2, 1/2 or 1: 1/4 * (1/2 + 1/2 + 1) = 1/2.
    # From the act to one of its two rules: 1/2.
    assert found[3:] == pytest.approx([1 / 3, 1 / 2, 1 / 2])


@pytest.mark.parametrize("dense", [0, 1 << 23], ids=["sparse", "dense"])
@pytest.mark.parametrize("cells", [1, 1 << 20])
def test_all_paths_are_those_that_one_finds_by_walking_along_them(monkeypatch, dense, cells):
    monkeypatch.setattr(rule_paths, "DENSE", dense)
    monkeypatch.setattr(rule_paths, "CELLS", cells)
    homes = load("wyze-synthetic", homes=60)
    train, new = homes.subset(np.arange(30)), homes.subset(np.arange(25, 35))  # some counted, others not
    paths = RulePaths.of(train, PATHS)
    candidates, item = every_candidate(new, paths.items.valid)
    found = paths.features(new, candidates, item)
    plain, asked = PlainPaths(train), plain_rules(new, candidates)
    for number, home in enumerate(plain_homes(new)):
        here = np.flatnonzero(candidates.home == number)
        expected = plain.features(home, [asked[at] for at in here], PATHS)
        np.testing.assert_allclose(found[here], np.reshape(expected, (-1, 2 * len(PATHS))), rtol=1e-5, atol=1e-7)
    assert (found > 0).any(axis=0).all(), "every path is seen"


def test_a_home_that_is_counted_has_no_path_to_a_rule_by_itself_unless_it_has_the_rule():
    # Home 0 has only the motion rule; of the planted rule nobody else who has it shares a rule with home 0.
    train = toy_homes([ToyHome(0, OWNED, (MOTION,)), ToyHome(1, OWNED, (PLANTED,))])
    paths = RulePaths.of(train, [COLLABORATIVE])
    candidates, item = every_candidate(train.subset(np.array([0])), paths.items.valid)
    found = paths.features(train.subset(np.array([0])), candidates, item)
    planted = candidates.relation == PLANTED[1]
    assert found[planted].tolist() == [[0, 0]]
    assert found[~planted].tolist() == [[1, 1]]  # to itself and back


def test_edges_lead_in_both_directions():
    homes = planted_homes()
    edges = graph_edges(homes, Items.of(homes))
    for (begin, end), edge in edges.items():
        assert (edges[end, begin] != edge.T).nnz == 0
        assert set(edge.data.tolist()) <= {1.0}


def test_homes_without_rules_or_devices_have_no_paths_but_by_types():
    train = planted_homes()
    paths = RulePaths.of(train, PATHS)
    new = toy_homes([ToyHome(1, ("ContactSensor", "Light")), ToyHome(2, ())])
    candidates, item = every_candidate(new, paths.items.valid)
    found = paths.features(new, candidates, item)
    by_types = [at for at, name in enumerate(path_names(PATHS)) if "home - type" in name]
    assert (found[:, by_types] > 0).all()
    assert not np.delete(found, by_types, axis=1).any()
    assert len(RELATIONS) == len(new.relations)


def test_without_any_rule_there_is_nothing_to_reach():
    paths = RulePaths.of(toy_homes([ToyHome(1, OWNED)]), PATHS)
    none = np.zeros(0, dtype=np.int64)
    assert paths.features(planted_homes(), Rules(none, none, none, none), none).shape == (0, 2 * len(PATHS))
