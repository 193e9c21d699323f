"""Every feature of a candidate against a plain count, one candidate and one rule at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedrule.evidence.features
from baselines.contract import planted_homes
from datasets import Rules
from fedrule.evidence.counts import OF_ALL_HOMES, OF_HOME, REVERSED
from fedrule.evidence.features import NAMES, Evidence
from tests.support.plain_paths import walked
from tests.support.strategies import every_candidate, homes, triples

SMALL = {"max_homes": 4, "max_devices": 3, "max_relations": 3, "max_rules": 6}


def row(some, rule):
    """A rule by the names that patterns use; the place is the device itself."""
    home, trigger, action, relation = rule
    return {
        "home": home,
        "trigger": trigger,
        "action": action,
        "place": action,
        "trigger_type": int(some.device_type[trigger]),
        "action_type": int(some.device_type[action]),
        "relation": relation,
        "state": some.relations[relation].trigger,
        "act": some.relations[relation].action,
    }


def agree(one, other, pattern):
    return all(one[name] == other[name] for name in pattern)


def ease_feature(train, known, candidate, left_out, regularization=30.0, dropout=0.5):
    """5 x the score of EASE / (share of homes that own both types) ** 0.25, with a matrix inverted for each home."""

    def typed(rule):
        return rule["trigger_type"], rule["action_type"], rule["relation"]

    rules = [row(train, rule) for rule in triples(train.rules)]
    items = sorted({typed(rule) for rule in rules})
    if typed(candidate) not in items:
        return 0.0
    have = np.zeros((train.n_homes, len(items)))
    for rule in rules:
        have[rule["home"], items.index(typed(rule))] = 1.0
    gram = have.T @ have
    gram += np.diag(np.diag(gram) * dropout / (1 - dropout) + regularization)
    if left_out:  # what dropout adds to the diagonal stays
        gram -= np.outer(have[candidate["home"]], have[candidate["home"]])
    inverse = np.linalg.inv(gram)
    j = items.index(typed(candidate))
    others = {items.index(typed(rule)) for rule in known if typed(rule) in items} - {j}
    score = sum(-inverse[k, j] / inverse[j, j] for k in others)
    able = [h for h in range(train.n_homes) if set(typed(candidate)[:2]) <= owned(train, h)]
    return 5 * score / (len(able) / train.n_homes) ** 0.25


def owned(some, home):
    return set(some.device_type[some.device_home == home].tolist())


def plain_features(train, context, candidate, left_out):
    """The features in the order of NAMES; `left_out`: no count over homes has the candidate's own."""
    asked = row(context, candidate)
    home, trigger, action, relation = candidate
    known = [row(context, rule) for rule in triples(context.rules) if rule[0] == home]
    back = row(context, (home, action, trigger, relation))
    found = [math.log1p(sum(agree(rule, asked, pattern) for rule in known)) for pattern in OF_HOME]
    found += [math.log1p(sum(agree(rule, back, pattern) for rule in known)) for pattern in REVERSED]

    counted = [h for h in range(train.n_homes) if not (left_out and h == home)]
    rules = [row(train, rule) for rule in triples(train.rules) if rule[0] in counted]
    wanted = {
        "both": {asked["trigger_type"], asked["action_type"]},
        "trigger": {asked["trigger_type"]},
        "action": {asked["action_type"]},
        "all": set(),
    }
    could = {whom: sum(types <= owned(train, h) for h in counted) for whom, types in wanted.items()}
    have = [len({rule["home"] for rule in rules if agree(rule, asked, pattern)}) for pattern, _ in OF_ALL_HOMES]
    found += [math.log((n + 0.3) / (could[whom] + 3)) for n, (_, whom) in zip(have, OF_ALL_HOMES, strict=True)]
    found += [math.log1p(have[0]), math.log1p(could["both"])]

    types = context.device_type[context.device_home == home].tolist()
    alike = [types.count(asked[side]) for side in ("trigger_type", "action_type")]
    found += [math.log(len(types)), *map(math.log, alike), float(trigger == action)]
    return [*found, ease_feature(train, known, asked, left_out), *walked(context, trigger, action)]


@settings(max_examples=25)
@pytest.mark.parametrize("left_out", [False, True])
@given(train=homes(**SMALL), seed=st.integers(0, 9))
def test_every_feature_is_a_plain_count(left_out, train, seed):
    context = train.with_rules(np.random.default_rng(seed).random(train.n_rules) < 0.6)
    candidates = every_candidate(train)
    features = Evidence.of(train).features(context, candidates, leave_out=train if left_out else None)
    assert features.shape == (len(candidates), len(NAMES))
    assert features.dtype == np.float32
    for candidate, found in zip(triples(candidates), features.tolist(), strict=True):
        expected = plain_features(train, context, candidate, left_out)
        assert dict(zip(NAMES, found, strict=True)) == pytest.approx(
            dict(zip(NAMES, expected, strict=True)), rel=1e-5, abs=1e-6
        )


@given(train=homes(min_homes=2, bare=False, **SMALL), seed=st.integers(0, 9))
def test_to_leave_a_home_out_is_to_count_the_others(train, seed):
    context = train.with_rules(np.random.default_rng(seed).random(train.n_rules) < 0.6)
    candidates = every_candidate(train)
    features = Evidence.of(train).features(context, candidates, leave_out=train)
    for home in range(train.n_homes):
        others = Evidence.of(train.subset(np.arange(train.n_homes) != home))
        own = candidates.home == home
        # All but EASE: what a home adds to its diagonal by dropout stays (tests/baselines/test_cooccurrence.py).
        exact = np.array([name != "goes with the home's rules" for name in NAMES])
        expected = others.features(context, candidates.take(own))
        assert features[own][:, exact].tobytes() == expected[:, exact].tobytes()


@given(train=homes(**SMALL), other=st.integers(0, 9))
def test_features_do_not_depend_on_what_else_is_asked(train, other):
    evidence, candidates = Evidence.of(train), every_candidate(train)
    together = evidence.features(train, candidates)
    some = np.random.default_rng(other).random(len(candidates)) < 0.5
    assert evidence.features(train, candidates.take(some)).tobytes() == together[some].tobytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fedrule.evidence.features, "AT_ONCE", 3)
        assert evidence.features(train, candidates).tobytes() == together.tobytes()


def test_homes_that_were_not_there_in_training_have_features():
    train = planted_homes()
    evidence = Evidence.of(train.subset(np.arange(1, train.n_homes)))
    new = train.subset(np.array([0]))
    features = evidence.features(new, every_candidate(new))
    assert np.isfinite(features).all()


def test_no_candidate_has_no_features():
    train = planted_homes()
    none = Rules(*[np.zeros(0, dtype=np.int64)] * 4)
    assert Evidence.of(train).features(train, none, leave_out=train).shape == (0, len(NAMES))
