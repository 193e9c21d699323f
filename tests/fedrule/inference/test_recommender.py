"""What an app gets: lines in words with probabilities and reasons, the same as the fitted model's own ranking."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import datasets
from baselines.registry import build
from datasets.candidates import Pairs
from datasets.valid import ValidRules
from fedrule.inference import HomeRequest, Recommender, RequestDevice, RequestRule, SavedModel, Support
from fedrule.models.card import Scale
from tests.support.random_models import cases
from tests.support.small_model import RELATIONS, TYPED, TYPES, home, saved_model, small_model

HOME = HomeRequest(
    [
        RequestDevice("door", "ContactSensor", "Front door"),
        RequestDevice("lamp", "Light"),
        RequestDevice(3, "Light"),
        RequestDevice("lock", "Lock"),
    ],
    [RequestRule("door", "Open", "Power On", "lamp")],
)


@pytest.fixture(scope="module")
def recommender():
    return Recommender(small_model())


def test_a_list_has_all_that_is_valid_and_lacking(recommender):
    answer = recommender.recommend(HOME)
    # From a contact sensor to a light relations 0 and 1 are valid, to a lock none; the rule to the first lamp is there.
    expected = {("lamp", 1), (3, 0), (3, 1)}
    assert {(r.action_device, RELATIONS.index((r.trigger_state, r.action))) for r in answer.rules} == expected
    assert {r.trigger for r in answer.rules} == {"door"}
    assert [r.rank for r in answer.rules] == [1, 2, 3]
    assert answer.ignored == ()


def test_a_shorter_list_is_the_beginning_of_a_longer_one(recommender):
    asked = HomeRequest.from_json(home(12, rules=2))
    whole = recommender.recommend(asked, 1000).rules
    assert len(whole) > 10
    assert recommender.recommend(asked).rules == whole[:10]
    for k in (1, 2, 7):
        assert recommender.recommend(asked, k).rules == whole[:k]


def test_a_line_says_how_many_homes_have_the_rule(recommender):
    lines = recommender.recommend(HomeRequest.from_json(home(10)), 1000).rules
    of_typed = {(trigger, relation, action): homes for trigger, relation, action, homes in TYPED}
    assert len(lines) > 5
    for line in lines:
        relation = RELATIONS.index((line.trigger_state, line.action))
        why = line.why
        # 60 homes own both types of any pair (tests/support/small_model.py).
        assert why[:2] == (of_typed[why.trigger_type, relation, why.action_type], 60)


def test_the_reason_is_a_sentence():
    assert Support(1200, 15000, "Door", "Lamp").text == (
        "1,200 of the 15,000 homes with a Door and a Lamp that it learned from have this rule"
    )
    assert "homes with a Lamp that" in Support(3, 9, "Lamp", "Lamp").text
    # Models of federations whose method counts nothing, and private ones of these.
    assert Support(3, 0, "Door", "Lamp").text == "homes that it learned from and that have this rule: 3"
    assert Support(0, 0, "Door", "Lamp").text == "how many homes have this rule is not known"


def test_probabilities_are_the_scores_on_the_cards_scale(recommender):
    saved = small_model()
    plain = recommender.recommend(HOME).rules  # slope 1, offset 0: logits of the scores
    scaled = Recommender(replace(saved, card=replace(saved.card, scale=Scale(0.5, -2.0)))).recommend(HOME).rules
    for before, after in zip(plain, scaled, strict=True):
        score = np.log(before.probability / (1 - before.probability))
        assert after.probability == pytest.approx(1 / (1 + np.exp(2.0 - 0.5 * score)))
        assert before[:5] == after[:5]


@given(cases(bare=False))
def test_probabilities_fall_with_the_rank(case):
    recommender = Recommender(case.saved)
    for one in case.homes:
        found = [rule.probability for rule in recommender.recommend(one, 1000).rules]
        assert found == sorted(found, reverse=True)
        assert all(0 <= probability <= 1 for probability in found)


def test_gigantic_scores_have_probabilities_too():
    saved = small_model()
    huge = {name: array * np.float32(1e30) if "weights" in name else array for name, array in saved.arrays.items()}
    for slope in (1.0, 1e300):
        card = replace(saved.card, scale=Scale(slope))
        found = [rule.probability for rule in Recommender(SavedModel(card, huge)).recommend(HOME).rules]
        assert len(found) == 3
        assert set(found) <= {0.0, 1.0}


def test_devices_of_one_type_differ_by_their_rules(recommender):
    lamps = [RequestDevice(f"lamp {number}", "Light") for number in range(3)]
    rules = [RequestRule("door", "Open", "Power On", "lamp 1")]
    answer = recommender.recommend(HomeRequest([RequestDevice("door", "ContactSensor"), *lamps], rules))
    closed = {line.action_device: line.probability for line in answer.rules if line.trigger_state == "Closed"}
    assert closed["lamp 0"] == closed["lamp 2"] != closed["lamp 1"]
    assert [lamp for lamp in closed if lamp != "lamp 1"] == ["lamp 0", "lamp 2"]  # equals stand as they were given


def test_a_loaded_model_answers_as_the_one_that_was_saved(tmp_path, recommender):
    loaded = Recommender.load(saved_model(tmp_path / "model.safetensors"))
    assert (loaded.card, loaded.digest, loaded.method) == (recommender.card, recommender.digest, "graphrule")
    assert loaded.recommend(HOME) == recommender.recommend(HOME)


def test_many_threads_may_ask_at_once(recommender):
    homes = [HomeRequest.from_json(home(size, rules=size // 5)) for size in range(3, 60)]
    expected = [recommender.recommend(asked) for asked in homes]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(recommender.recommend, homes)) == expected


LIGHT = """
import json, sys
from fedrule.inference import HomeRequest, Recommender
recommender = Recommender.load(sys.argv[1])
answer = recommender.recommend(HomeRequest.from_json(json.loads(sys.argv[2])), k=3)
heavy = {"torch", "torch_geometric", "scipy", "pandas", "pyarrow", "fastapi"} & sys.modules.keys()
print(json.dumps([[rule.text for rule in answer.rules], sorted(heavy)]))
"""


def test_the_papers_network_is_asked_with_numpy_alone(tmp_path, recommender):
    path = saved_model(tmp_path / "model.safetensors")
    command = [sys.executable, "-c", LIGHT, str(path), json.dumps(home(6))]
    told, heavy = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert heavy == []
    assert told == [rule.text for rule in recommender.recommend(HomeRequest.from_json(home(6)), k=3).rules]


def own_ranking(fitted, homes, number, k):
    """By the scores that the fitted model gives all pairs of a home: valid, lacking, in words."""
    one, valid = homes.subset([number]), ValidRules.of(homes)
    pairs = Pairs.of(one, self_pairs=True)
    alone = homes.with_rules(homes.rules.trigger == homes.rules.action)
    self_rules = set(zip(*(column.tolist() for column in alone.typed()), strict=True))
    _, trigger, action = pairs.devices(np.arange(pairs.start[-1]))
    scores = fitted.score_pairs(one, trigger, action)
    known = set(zip(one.rules.trigger.tolist(), one.rules.action.tolist(), one.rules.relation.tolist(), strict=True))
    found = []
    for t, a, row in zip(trigger.tolist(), action.tolist(), scores, strict=True):
        relations = valid.relations_of(one.device_type[t], one.device_type[a]).tolist()
        if t == a:
            kind = int(one.device_type[t])
            relations = [relation for relation in relations if (kind, relation, kind) in self_rules]
        found += [(-row[relation], t, a, relation) for relation in relations if (t, a, relation) not in known]
    ids = one.device_ids.tolist()
    return [(ids[t], *one.relations[relation], ids[a], -score) for score, t, a, relation in sorted(found)[:k]]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("graphrank", {"rounds": 2, "least_steps": 0}),
        ("fedrank", {"rounds": 2}),
        ("graphrule", {"rounds": 2, "encoder": "gcn"}),
        ("graphrule", {"rounds": 2, "node_embedding": 2}),
        ("fedrule", {"rounds": 2}),
    ],
)
def test_every_kind_of_model_ranks_as_it_does_when_it_is_evaluated(tmp_path, method, options):
    pytest.importorskip("torch", reason="training is torch's")
    from fedrule.evidence.statistics import Statistics
    from fedrule.models.restore import saved_model as saved_of

    homes, built = datasets.load("wyze-synthetic", homes=60), build(method, **options)
    fitted = built.fit(homes, rng=np.random.default_rng(0))
    counts = Statistics.of(homes, ValidRules.of(homes))
    saved_of(fitted, built, counts, scale=Scale(2.0, -1.0)).save(tmp_path / "model.safetensors")
    recommender = Recommender.load(tmp_path / "model.safetensors")
    lines = 0
    for number in range(0, 60, 3):
        answer = recommender.recommend(homes.home(number), 20).rules
        expected = own_ranking(fitted, homes, number, 20)
        assert [tuple(line[1:5]) for line in answer] == [row[:4] for row in expected]
        odds = 2.0 * np.array([row[4] for row in expected]) - 1.0
        np.testing.assert_allclose([line.probability for line in answer], 1 / (1 + np.exp(-odds)), rtol=1e-4)
        lines += len(answer)
    assert lines > 100


def test_the_words_of_the_small_model_are_those_of_its_card(recommender):
    assert (recommender.card.types, recommender.card.relations) == (TYPES, RELATIONS)
