"""GraphRule: presets, options that each satisfy the contract, and what it does with homes it cannot learn from."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal

import numpy as np
import pytest

import datasets
from baselines.contract import ToyHome, all_pairs, check_method, planted_homes, toy_homes
from baselines.registry import build
from benchmarks.evaluation import evaluate
from datasets import DataError, Homes, Rules
from datasets.valid import ValidRules
from tests.support.real_data import needs_real

pytest.importorskip("torch", reason="graphrule needs the extra graph")
pytest.importorskip("torch_geometric", reason="graphrule needs the extra graph")

from fedrule.methods.graphrule import GraphRule

PLANTED = planted_homes()
SEEN = ValidRules.of(PLANTED).contains(*(PLANTED.device_type[end][:, None] for end in all_pairs(PLANTED)), range(4))


def fitted(train=PLANTED, on_round=None, **parameters):
    listening = {} if on_round is None else {"on_round": on_round}
    return build("graphrule", **({"rounds": 3} | parameters)).fit(train, rng=np.random.default_rng(1), **listening)


def scores(model, homes=PLANTED):
    return model.score_pairs(homes, *all_pairs(homes))


def test_presets_are_the_sizes_of_the_text_and_of_the_code_and_each_can_be_changed():
    text, code = build("graphrule"), build("graphrule", preset="authors-code")
    assert (text.hidden, text.predictor_hidden, text.dropout) == (16, 0, 0.47)  # which the text has none of: tuned
    assert (code.hidden, code.predictor_hidden, code.dropout) == (32, 32, 0.5)
    assert build("graphrule", preset="authors-code", dropout=0.0).dropout == 0.0
    paper = build("graphrule", preset="paper")  # its sizes and how it trains
    assert (paper.hidden, paper.rounds, paper.learning_rate) == (16, 100, 0.1)
    assert paper.dropout == paper.weight_decay == 0
    same = build("graphrule", rounds=100, learning_rate=0.1, dropout=0.0, weight_decay=0.0)
    assert replace(paper, preset="paper-text") == same
    relations = len(PLANTED.relations)
    assert fitted(hidden=3).parameters["phi.relation"].shape == (relations, relations)
    assert fitted().parameters["phi.relation"].shape == (relations, 16)  # no fewer than the hidden state
    assert fitted(preset="authors-code").parameters["phi.relation"].shape == (relations, 32)


OPTIONS = {
    "drawn once": {"draws": 1},
    "two draws in turn": {"draws": 2},
    "hidden rules in turn": {"hidden_rules": 0.3, "draws": 2},
    "decay": {"decay": True},
    "no messages": {"direction": "none"},
    "hidden rules": {"hidden_rules": 0.3},
    "relations in messages": {"messages": "relation", "direction": "both"},
    "node embedding": {"node_embedding": 4},
    "feasible": {"non_rules": "feasible", "per_rule": 2},
    "hard": {"non_rules": "hard"},
    "ranking": {"objective": "ranking", "candidates": 5},
    "learned bias": {"bias": "learned"},
    "counted bias": {"bias": "counts"},
    "context": {"context": 4},
    "evidence": {"evidence": 4},
    "code": {"preset": "authors-code"},
    "gcn": {"encoder": "gcn"},
    "gat": {"encoder": "gat"},
    "stopping": {"validation": 0.4, "patience": 2},
    "batches": {"batch_size": 8},
}


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_every_option_changes_the_model_and_repeats_itself(option):
    one = scores(fitted(**option))
    assert np.isfinite(one[SEEN]).all()
    assert (np.isfinite(one) | (option.get("non_rules", "paper") != "paper")).all()
    assert one.tobytes() == scores(fitted(**option)).tobytes()
    assert one.tobytes() != scores(fitted()).tobytes()


def test_without_messages_it_keeps_all_of_the_contract():
    method = build("graphrule", direction="none", rounds=20, learning_rate=0.05)
    assert not method.sees_answers  # or the planted rule would not be asked for
    assert check_method(method) == []


def test_all_options_together_keep_the_contract():
    everything = {
        "objective": "ranking",
        "non_rules": "hard",
        "candidates": 8,
        "hidden_rules": 0.3,
        "bias": "counts",
        "context": 4,
        "evidence": 4,
        "validation": 0.4,
        "batch_size": 15,
    }
    assert check_method(build("graphrule", learning_rate=0.05, rounds=20, **everything)) == []


def test_a_model_that_was_never_asked_about_what_nobody_has_does_not_answer_for_it():
    model = scores(fitted(non_rules="feasible", bias="learned"))
    assert np.array_equal(np.isnan(model), ~SEEN)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"preset": "paper-txt"}, r"unknown value of graphrule.preset 'paper-txt'; did you mean 'paper-text'\?"),
        ({"encoder": "sgae"}, r"unknown value of graphrule.encoder 'sgae'; did you mean 'sage'\?"),
        ({"rounds": 0}, "graphrule: rounds must be at least 1, got 0"),
        ({"hidden": -2}, "hidden must be at least 1, got -2"),
        ({"hidden": 0}, "without a network .hidden 0. set bias, context or evidence"),
        ({"hidden_rules": 1.0}, r"graphrule: hidden_rules must be in \[0, 1\), got 1\.0"),
        ({"learning_rate": float("nan")}, r"graphrule: learning_rate must be above 0, got nan"),
        ({"dropout": 1.0}, r"graphrule: dropout must be in \[0, 1\), got 1\.0"),
        ({"dropout": 1.5, "hidden": 0, "evidence": 4}, r"graphrule: dropout must be in \[0, 1\)"),
        ({"context": -1}, "graphrule: context must be at least 0, got -1"),
        ({"draws": -1}, "graphrule: draws must be at least 0, got -1"),
        ({"weight_decay": float("nan")}, "graphrule: weight_decay must be at least 0, got nan"),
        (
            {"draws": 5, "non_rules": "hard"},
            "graphrule: draws 5, but what is hard changes with the model; set draws to 0",
        ),
        (
            {"draws": 1, "hidden_rules": 0.3},
            r"graphrule: with draws 1 most rules are never hidden, nor targets; use 0 or e\.g\. 10",
        ),
        ({"encoder": "gcn", "direction": "none"}, "encoder 'gcn': direction 'none' leaves a device no state"),
        ({"messages": "relation", "direction": "none"}, "messages 'relation': direction 'none' sends none"),
        ({"per_rule": 2, "candidates": 5}, r"graphrule: give per_rule \(2\) or candidates \(5\), not both"),
        (
            {"draws": 1, "homes_per_draw": 9},
            r"graphrule: with draws 1 only 9 homes \(homes_per_draw\) would be used",
        ),
        (
            {"hidden": 0, "bias": "learned", "dropout": 0.1},
            "graphrule: dropout 0.1 has no effect without",
        ),
        ({"hidden": 0, "bias": "learned", "predictor_hidden": 8}, "predictor_hidden is an option of the network"),
        ({"hidden": 0, "bias": "learned", "direction": "out"}, "graphrule: direction is an option of the network"),
        ({"patience": 5}, r"graphrule: patience 5 needs a validation loss; set validation, e\.g\. 0\.1"),
    ],
)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(DataError, match=message):
        build("graphrule", **wrong)


@pytest.mark.parametrize(
    "other",
    [{"objective": "ranking"}, {"non_rules": "feasible"}, {"non_rules": "hard"}, {"per_rule": 2}, {"candidates": 5}],
)
def test_scores_are_log_odds_only_where_training_asks_as_the_evaluation_does(other):
    assert build("graphrule", preset="authors-code", draws=1, bias="counts").log_odds
    assert not build("graphrule", **other).log_odds


def test_answers_are_seen_unless_rules_are_hidden_or_nothing_is_said():
    assert build("graphrule").sees_answers
    assert build("graphrule", direction="none", evidence=4).sees_answers  # features count the rule itself
    assert build("graphrule", hidden=0, evidence=4).sees_answers
    assert not build("graphrule", hidden=0, bias="counts", context=4).sees_answers  # no network, no messages
    assert not build("graphrule", hidden_rules=0.3).sees_answers
    assert not build("graphrule", direction="none").sees_answers


@pytest.mark.parametrize("seed", range(4))
def test_that_a_rule_sends_no_message_is_a_sign_against_it(seed):
    light, owned = ("ContactSensor", 0, "Light"), ("ContactSensor", "Light", "MotionSensor", "Plug")
    motion = ("MotionSensor", 1, "Light")
    homes = [toy_homes([ToyHome(1, owned, rules)]) for rules in ((motion,), (light, motion))]
    model = build("graphrule").fit(PLANTED, rng=np.random.default_rng(seed))
    silent, told = (model.score_pairs(home, np.array([0]), np.array([1]))[0, 0] for home in homes)
    assert silent < told


@dataclass(frozen=True)
class Other(GraphRule):
    """Other defaults, nothing else."""

    NAME: ClassVar[str] = "other"
    bias: Literal["none", "learned", "counts"] = "counts"


def test_a_subclass_with_other_defaults_speaks_in_its_own_name():
    assert Other().bias == "counts"
    assert {f.name for f in fields(Other)} == {f.name for f in fields(GraphRule)}
    with pytest.raises(DataError, match="other: rounds must be at least 1"):
        Other(rounds=0)


def test_rounds_are_told_with_the_model_as_it_stands():
    heard = []

    def listen(done, of, model, values):
        heard.append((done, of, scores(model), values))

    last = fitted(validation=0.4, on_round=listen)
    assert [(done, of) for done, of, _, _ in heard] == [(1, 3), (2, 3), (3, 3)]
    assert all(set(values) == {"loss", "validation_loss"} for *_, values in heard)
    assert heard[2][2].tobytes() == scores(last).tobytes()
    assert heard[0][2].tobytes() != heard[1][2].tobytes()


def test_without_a_rule_all_scores_are_zero_and_it_says_so(caplog):
    homes = toy_homes([ToyHome(1, ("ContactSensor", "Light")), ToyHome(2, ("Light",)), ToyHome(3, ())])
    with caplog.at_level(logging.WARNING):
        assert not scores(fitted(homes, bias="learned", context=2), homes).any()
        assert np.isnan(scores(fitted(homes, non_rules="feasible"), homes)).all()
    assert "graphrule: toy homes has no rule to learn from; all scores are 0" in caplog.text
    assert "graphrule: toy homes has no rule to learn from; it has no score for anything" in caplog.text


def test_homes_too_small_for_validation_are_named(caplog):
    with caplog.at_level(logging.WARNING):
        fitted(validation=0.01, patience=2)
    assert "graphrule: homes of toy homes have too few rules to validate on a share of 0.01" in caplog.text


def large_home(n_devices=500) -> Homes:
    """One home of the toys' types, where every tenth device acts on itself."""
    device = np.arange(0, n_devices, 10)
    rules = Rules(np.zeros_like(device), device, device, device % len(PLANTED.relations))
    return Homes(
        name="large",
        types=PLANTED.types,
        relations=PLANTED.relations,
        users=np.array([1]),
        device_home=np.zeros(n_devices, dtype=np.int64),
        device_type=np.arange(n_devices) % len(PLANTED.types),
        device_ids=np.arange(n_devices),
        rules=rules,
    )


def test_a_home_of_500_devices_with_self_rules_trains_and_is_answered():
    homes = large_home()
    model = fitted(homes, context=2, bias="counts")
    device = np.arange(500)
    asked = model.score_pairs(homes, np.repeat(device, 500), np.tile(device, 500))
    assert asked.shape == (250_000, len(homes.relations))
    assert np.isfinite(asked).all()
    assert np.array_equal(asked[::501], model.score_pairs(homes, device, device))


def test_a_home_of_one_device_is_answered_for_the_device_itself():
    homes = toy_homes([ToyHome(1, ("Light",))])
    assert np.isfinite(fitted().score_pairs(homes, np.array([0]), np.array([0]))).all()


@needs_real("ifttt")
def test_on_validation_rules_of_real_homes_it_is_where_the_paper_is():
    homes = datasets.load("ifttt-fedrule").merged_types()
    parts = datasets.split(homes, "holdout", seed=100, validation=True)
    model = build("graphrule").fit(parts.train, rng=np.random.default_rng(0))
    found = evaluate(model, parts, "paper", part="validation").summary
    assert found["auc"] >= 0.95
    assert found["mr_rt"] <= 10.5


def test_other_vocabularies_are_refused_and_the_remedy_works():
    model = fitted()
    turned = PLANTED.with_vocabulary(PLANTED.types[::-1], PLANTED.relations)
    with pytest.raises(DataError, match=r"not numbered as .* graphrule.* homes\.with_vocabulary\(model\.types"):
        scores(model, turned)
    again = turned.with_vocabulary(model.types, model.relations)
    assert scores(model, again).tobytes() == scores(model).tobytes()
    more = PLANTED.with_vocabulary((*PLANTED.types, "Heater"), (*PLANTED.relations, ("Cold", "Heat")))
    with pytest.raises(
        DataError, match=r"It has never seen Heater, .*Cold.*: leave out the devices and rules that have them"
    ):
        scores(model, more)
