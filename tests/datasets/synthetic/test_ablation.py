"""What zones and intents do to the made-up homes: each is switched off, and what it explains must go away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from datasets.homes import Array, Homes
from datasets.synthetic import households, wyze
from datasets.synthetic.catalogue import INTENT_USE, INTENTS, Catalogue, catalogue
from datasets.synthetic.draws import flatten_runs
from datasets.synthetic.households import Households
from datasets.synthetic.wyze import PRESETS

HOMES = 30_000  # of preset paper: enough for every difference below to be several times what chance makes of it
MANY = 6  # rules from which on a home's wiring can fall into parts


@dataclass(frozen=True)
class Made:
    """Homes with what is never part of the data: who wants what, and which device stands where."""

    homes: Homes
    households: Households


def make(**switched: object) -> Made:
    """Homes of one and the same seed, with these constants of the wiring set otherwise."""
    drawn: list[Households] = []
    with pytest.MonkeyPatch.context() as patch:
        for constant, value in switched.items():
            assert hasattr(households, constant)
            patch.setattr(households, constant, value)
        draw_households = wyze.draw_households
        patch.setattr(wyze, "draw_households", lambda *arguments: drawn.append(draw_households(*arguments)) or drawn[0])
        homes = wyze.wyze_synthetic(homes=HOMES, seed=1)
    return Made(homes, drawn[0])


@pytest.fixture(scope="module")
def as_it_is() -> Made:
    return make()


@pytest.fixture(scope="module")
def without_zones() -> Made:
    return make(SAME_ZONE=1.0)


@pytest.fixture(scope="module")
def without_intents() -> Made:
    """No rule serves an intent of its zone or home, and none decides which devices start rules."""
    return make(RULE_INTENT=(0.0, 0.0), MAIN=0.0, SECOND=0.0)


def test_devices_act_in_their_own_zone(as_it_is: Made, without_zones: Made) -> None:
    # 70 % of rules between two devices stay in a zone; 51 % do by chance, as homes have few zones
    assert in_one_zone(as_it_is) > in_one_zone(without_zones) + 0.1


def in_one_zone(made: Made) -> float:
    zone, rules = made.households.zone, made.homes.rules
    two = rules.trigger != rules.action
    return float(np.mean(zone[rules.trigger[two]] == zone[rules.action[two]]))


def test_zones_show_in_the_wiring(as_it_is: Made, without_zones: Made) -> None:
    # The wiring of a home with many rules falls into 1.40 separate parts, and into 1.24 if zones do not matter.
    assert parts(as_it_is.homes) > parts(without_zones.homes) + 0.08


def parts(homes: Homes) -> float:
    """Into how many parts that no rule connects the used devices of a home fall, on average."""
    many = np.diff(homes.rule_start) >= MANY
    rows = many[homes.rules.home]
    trigger, action = homes.rules.trigger[rows], homes.rules.action[rows]
    shape = homes.n_devices, homes.n_devices
    wired = coo_array((np.ones(len(trigger)), (trigger, action)), shape=shape)
    _, part = connected_components(wired, directed=False)
    return len(np.unique(part[trigger])) / int(many.sum())


def test_intents_show_in_rules_that_have_nothing_else_in_common(as_it_is: Made, without_intents: Made) -> None:
    # 1.05 times as often as by chance, and 0.99 to 1.01 times if no rule serves an intent
    assert lift(as_it_is.homes) > lift(without_intents.homes) + 0.025


def lift(homes: Homes) -> float:
    """How much oftener than by chance two rules of a home serve one intent, every home counting the same.

    Only rules without a common device and between other types: neither companions nor copies. The chance is that of
    rules between the same types in any home, so that what homes own explains nothing.
    """
    cat = offered()
    rule = in_catalogue(homes, cat)
    serves = (cat.appeal / cat.appeal.sum(axis=0)).argmax(axis=0)[rule]
    n_types, home = len(cat.types), homes.rules.home
    between = (cat.trigger_type * n_types + cat.action_type)[rule]
    usual = np.zeros((n_types**2, len(INTENTS)))
    np.add.at(usual, (between, serves), 1.0)
    usual /= np.maximum(usual.sum(axis=1, keepdims=True), 1)
    one, other, _ = flatten_runs(np.arange(len(home)) + 1, homes.rule_start[home + 1])
    trigger, action = homes.rules.trigger, homes.rules.action
    apart = between[one] != between[other]
    for mine in (trigger, action):
        for theirs in (trigger, action):
            apart &= mine[one] != theirs[other]
    one, other = one[apart], other[apart]
    weight = 1 / np.bincount(home[one], minlength=homes.n_homes)[home[one]]
    agree = np.average(serves[one] == serves[other], weights=weight)
    return float(agree / np.average((usual[between[one]] * usual[between[other]]).sum(axis=1), weights=weight))


def test_devices_that_serve_the_main_intent_start_more_rules(as_it_is: Made, without_intents: Made) -> None:
    # 61 % of rules start from a type that the home's main intent uses more than others do; 59 % if it decides nothing
    assert started_by_intent(as_it_is) > started_by_intent(without_intents) + 0.01


def started_by_intent(made: Made) -> float:
    cat = offered()
    uses = np.stack([np.bincount(cat.trigger_type, appeal, len(cat.types)) for appeal in cat.appeal])
    uses /= uses.sum(axis=1, keepdims=True)
    favoured = uses > np.array(INTENT_USE) @ uses  # [n_intents, n_types]
    rules = made.homes.rules
    return float(np.mean(favoured[made.households.intent[rules.home], made.households.device_type[rules.trigger]]))


def offered() -> Catalogue:
    paper = PRESETS["paper"]
    return catalogue(paper.types, paper.n_relations, paper.n_typed, every_feature=False)


def in_catalogue(homes: Homes, cat: Catalogue) -> Array:
    """[n_rules]: where each rule stands in the catalogue, whose vocabularies are in another order."""
    types = np.array([homes.types.index(t) for t in cat.types])
    relations = np.array([homes.relations.index(r) for r in cat.relations])
    place = np.full((len(types), len(relations), len(types)), -1)
    place[types[cat.trigger_type], relations[cat.relation], types[cat.action_type]] = np.arange(len(cat.relation))
    rule = place[homes.typed()]
    assert rule.min() >= 0
    return rule
