"""The made-up IFTTT people: exact counts, repeatable, and no easier or harder than the real ones in kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from datasets.common.errors import DataError
from datasets.homes import Homes
from datasets.registry import load
from datasets.synthetic import ifttt as catalogue
from datasets.synthetic.ifttt import SERVICES, activity, adopt, ifttt_synthetic, originators


@pytest.fixture(scope="module")
def homes() -> Homes:
    return ifttt_synthetic()


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_every_count_of_the_paper_is_hit_exactly(seed: int) -> None:
    described = ifttt_synthetic(seed=seed).describe()
    published = described.published.statistics
    assert {name: described.statistics[name] for name in published} == published
    assert published == {"homes": 144, "rules": 8_729, "entity types": 53, "relations": 132, "distinct rules": 3_020}


def test_no_rule_was_drawn_twice_for_a_person(homes: Homes) -> None:
    assert "duplicate rules" not in homes.provenance.counts


def test_the_same_seed_repeats_and_another_does_not(homes: Homes) -> None:
    assert ifttt_synthetic(seed=0).fingerprint == homes.fingerprint
    assert ifttt_synthetic(seed=1).fingerprint != homes.fingerprint
    assert load("ifttt-synthetic", seed=0).fingerprint == homes.fingerprint


@pytest.mark.parametrize("n_homes", [1, 20, 143])
def test_fewer_homes_are_some_of_the_same_people(homes: Homes, n_homes: int) -> None:
    fewer = ifttt_synthetic(homes=n_homes)
    whole = {home.user: home for home in homes}
    assert fewer.n_homes == n_homes
    assert all(home == whole[home.user] for home in fewer)


def test_more_homes_have_as_many_rules_each_and_share_the_same_rules() -> None:
    # 600 homes are drawn in two blocks; 600 * 8,729 / 144 = 36,370.8.
    statistics = ifttt_synthetic(homes=600).describe().statistics
    assert (statistics["homes"], statistics["rules"]) == (600, 36_371)
    assert (statistics["distinct rules"], statistics["relations"], statistics["entity types"]) == (3_020, 132, 53)


@pytest.mark.parametrize("n_homes", [20, 145])
def test_another_number_of_homes_is_not_laid_beside_the_paper(n_homes: int) -> None:
    provenance = ifttt_synthetic(homes=n_homes, seed=3).provenance
    assert provenance.published == ""
    assert provenance.notes == (f"{n_homes} homes, not 144: counts are not compared with the published ones",)
    assert f"homes {n_homes}, seed 3" in provenance.source


def test_all_144_are_laid_beside_the_paper(homes: Homes) -> None:
    assert (homes.provenance.published, homes.provenance.notes) == ("ifttt-paper", ())
    assert ifttt_synthetic(homes=144).provenance == homes.provenance


def test_a_wrong_number_is_named() -> None:
    for n_homes in (0, -3, 2.5, True, "9", 10**12):
        with pytest.raises(DataError, match=r"ifttt-synthetic: homes=.* is not a whole number from 1 to 1,000,000"):
            ifttt_synthetic(homes=n_homes)  # type: ignore[arg-type]
    for seed in (-1, None, 1.0, 2**63):
        with pytest.raises(DataError, match=r"ifttt-synthetic: seed=.* is not a whole number from 0"):
            ifttt_synthetic(seed=seed)  # type: ignore[arg-type]


def test_the_catalogue_holds_the_papers_examples() -> None:
    examples = {
        "New Post": "Share a Link",
        "New Follower": "Post a Tweet",
        "New Like": "Add File from Url",
        "New Liked Video": "Create a Post",
        "New Photo": "Send Me an Email",
        "New Screenshot": "Add File from Url",
        "You Exit an Area": "Set Temperature",
        "Battery Low": "Send an Sms",
    }
    assert all(action in catalogue.PAIRS[trigger] for trigger, action in examples.items())
    assert {"Android Device", "Weather", "Gmail", "YouTube", "Facebook", "Linkedin", "Twitter"} <= set(SERVICES)


def test_the_catalogue_is_complete() -> None:
    actions = {action: services for group in catalogue.ACTIONS.values() for action, services in group.items()}
    assert sum(len(actions_of) for actions_of in catalogue.PAIRS.values()) == 132
    assert set(catalogue.PAIRS) == set(catalogue.TRIGGERS)
    assert {action for actions_of in catalogue.PAIRS.values() for action in actions_of} == set(actions)
    used = {service for table in (catalogue.TRIGGERS, actions) for services in table.values() for service in services}
    assert used == set(SERVICES)
    assert len(SERVICES) == 53
    assert set(catalogue.WIDESPREAD) <= used
    for table in (catalogue.TRIGGERS, actions, catalogue.INTERESTS, catalogue.PHONES, catalogue.PAIRS):
        assert all(len(set(entries)) == len(entries) for entries in table.values())


def test_every_rule_is_one_that_makes_sense(homes: Homes) -> None:
    actions = {action: services for group in catalogue.ACTIONS.values() for action, services in group.items()}
    for trigger_type, relation, action_type in {tuple(map(int, rule)) for rule in zip(*homes.typed(), strict=True)}:
        trigger, action = homes.relations[relation]
        assert action in catalogue.PAIRS[trigger]
        assert homes.types[trigger_type] in catalogue.TRIGGERS[trigger]
        assert homes.types[action_type] in actions[action]


def test_activity_and_popularity_are_spread_as_in_the_real_data(homes: Homes) -> None:
    # Real (RecRules, users with >= 2 rules): rules per user 16, 52 and 85 at 10 %, 50 % and 90 %, most 527; of the
    # distinct rules 74 % are one user's only, the commonest is had by 67 users, a tenth of them makes up 50 % of all.
    per_user = np.diff(homes.rule_start)
    ten, half, ninety = np.quantile(per_user, [0.1, 0.5, 0.9])
    assert 10 < ten < 25
    assert 42 < half < 62
    assert 70 < ninety < 110
    assert per_user.max() > 250
    trigger, relation, action = homes.typed()
    rule = (trigger * len(homes.relations) + relation) * len(homes.types) + action
    users = np.sort(np.unique(rule, return_counts=True)[1])[::-1]
    assert 0.64 < np.mean(users == 1) < 0.84
    assert 50 < users[0] < 110
    assert 0.4 < users[: len(users) // 10].sum() / users.sum() < 0.62


def test_random_is_worse_than_popularity_and_popularity_worse_than_what_goes_together(homes: Homes) -> None:
    """A fifth of each person's rules hidden; the place of each among the rules that the person's services allow."""
    rng = np.random.default_rng(0)
    trigger, relation, action = homes.typed()
    rule = (trigger * len(homes.relations) + relation) * len(homes.types) + action
    items, item = np.unique(rule, return_inverse=True)
    hidden = rng.permuted(np.arange(homes.n_rules) % 5 == 0)
    train = np.zeros((homes.n_homes, len(items)))
    train[homes.rules.home[~hidden], item[~hidden]] = 1
    owns = np.zeros((homes.n_homes, len(homes.types)), dtype=bool)
    owns[homes.device_home, homes.device_type] = True
    types = len(homes.types)
    allowed = (
        owns[:, items // types // len(homes.relations)] & owns[:, items % types] & (train == 0) & (train.sum(0) > 0)
    )
    # EASE (Steck 2019): item-item weights B = I - P / diag(P) with P = (X'X + l I)^-1.
    inverse = np.linalg.inv(train.T @ train + 50 * np.eye(len(items)))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)

    def hit_rate(score: np.ndarray) -> float:
        home, target = homes.rules.home[hidden], item[hidden]
        better = (allowed[home] & (score[home] > score[home, target][:, None])).sum(axis=1)
        ties = (allowed[home] & (score[home] == score[home, target][:, None])).sum(axis=1)
        return float(np.mean((better + (ties + 1) / 2 <= 10) & allowed[home, target]))

    popularity = np.broadcast_to(train.sum(axis=0), train.shape)
    chance, popular, together = hit_rate(rng.random(train.shape)), hit_rate(popularity), hit_rate(train @ weights)
    # Real (ifttt-full, the same measure): 0.01, 0.20, 0.28.
    assert chance < 0.03
    assert chance + 0.08 < popular < together - 0.04
    assert together < 0.5


@given(arrays.arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 12)), elements=st.floats(-5, 5)), st.data())
@settings(deadline=None)
def test_everybody_keeps_to_its_quota_and_every_rule_has_somebody(score: np.ndarray, data: st.DataObject) -> None:
    n_people, n_rules = score.shape
    quota = np.array(data.draw(st.lists(st.integers(1, n_rules), min_size=n_people, max_size=n_people)))
    if quota.sum() < n_rules:
        quota[0] = n_rules
    score[originators(score, quota), np.arange(n_rules)] = np.inf
    taken = adopt(score, quota)
    assert taken.sum(axis=1).tolist() == quota.tolist()
    assert taken.any(axis=0).all()


@given(st.integers(144, 3_000), st.integers(0, 2**32))
def test_activity_adds_up_and_leaves_nobody_without_a_rule(n_people: int, seed: int) -> None:
    count = activity(n_people, np.random.default_rng(seed))
    assert count.sum() == round(n_people * 8_729 / 144)
    assert count.min() >= 1
    assert count.max() <= 3_020
