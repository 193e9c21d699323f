"""Going on from a saved model with new users' homes: what is known is kept, what is new is learned, counts add up."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import datasets
import fedrule
from baselines.contract import RELATIONS, TYPES, all_pairs, other_homes, planted_homes
from baselines.registry import build
from datasets import DataError, Homes, Words
from datasets.splits import split
from datasets.valid import ValidRules

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.evidence.statistics import Statistics  # noqa: E402
from fedrule.models.restore import (  # noqa: E402
    align_vocabulary,
    counts_of,
    extended_parameters,
    merged_counts,
    restored,
    saved_model,
    training_options,
)
from fedrule.network.score import GraphModel  # noqa: E402
from tests.support.rooms import with_rooms  # noqa: E402
from tests.support.strategies import every_candidate  # noqa: E402

# The model knows three of the five types and two of the four relations, in another order than new homes have them.
KNOWN_TYPES = ("MotionSensor", "Light", "ContactSensor")
KNOWN_RELATIONS = (RELATIONS[1], RELATIONS[0])
SETTINGS = [
    ("graphrule", {}),
    ("fedrule", {}),
    ("graphrank", {"candidates": 20}),
    ("fedrank", {"candidates": 20}),
    ("graphrank", {"candidates": 20, "words": False}),
    ("graphrule", {"encoder": "gcn", "self_loops": True, "node_embedding": 2}),
    ("graphrule", {"encoder": "gat", "heads": 2}),
    ("graphrule", {"direction": "both", "messages": "relation", "node_embedding": 3}),
    ("graphrule", {"bias": "learned", "context": 3}),
    ("graphrule", {"evidence": 4, "bias": "counts"}),
    ("graphrule", {"words": True}),
    ("graphrule", {"encoder": "rgcn", "node_embedding": 2}),
    ("graphrule", {"encoder": "hgt", "direction": "both", "heads": 2, "node_embedding": 3}),
    ("rgcn", {"least_steps": 0, "decoder": "distmult", "num_bases": 3}),
    ("rgcn", {"least_steps": 0, "decoder": "predictor"}),
    ("hetgnn", {"least_steps": 0}),
    ("sagerank", {"least_steps": 0, "first_hidden": 8, "hidden": 4}),
    ("graphrule", {"encoder": "compgcn", "node_embedding": 2}),
    ("compgcn", {}),
    ("fedcompgcn", {"composition": "multiply", "direction": "in"}),
]


def earlier_homes() -> Homes:
    """The planted homes that own no Plug, in the model's words."""
    homes = planted_homes()
    owns = np.isin(np.arange(homes.n_homes), homes.device_home[homes.device_type == TYPES.index("Plug")])
    return homes.subset(~owns).with_vocabulary(KNOWN_TYPES, KNOWN_RELATIONS)


def new_homes() -> Homes:
    """Other people, some of whom own a Plug and switch it off."""
    homes = other_homes()
    rules = planted_homes().rules
    return replace(homes, rules=rules, users=homes.users + 5000, name="new homes")


EARLIER, NEW = with_rooms(earlier_homes(), seed=1), with_rooms(new_homes(), seed=2)


def two_rounds(name):
    """So few also where a method makes up for few homes by more rounds."""
    return {"rounds": 2, **({"least_steps": 0} if name in ("graphrank", "compgcn") else {})}


@cache
def learned(name="graphrule", **options):
    """A model of the earlier homes, two rounds old."""
    method = build(name, **two_rounds(name), **options)
    counts = Statistics.of(EARLIER, ValidRules.of(EARLIER))
    return saved_model(method.fit(EARLIER, rng=np.random.default_rng(1)), method, counts)


def test_known_words_keep_their_numbers_and_new_ones_that_are_used_come_behind():
    homes = align_vocabulary(learned().card, NEW)
    assert homes.types == (*KNOWN_TYPES, "Plug")  # nobody owns a Siren
    assert homes.relations == (*KNOWN_RELATIONS, RELATIONS[2])  # nobody uses Open -> Ring
    assert [str(home) for home in homes] == [str(home) for home in NEW]


@pytest.mark.parametrize(("name", "options"), SETTINGS, ids=str)
def test_a_model_that_has_grown_scores_earlier_homes_as_before(name, options):
    """Also where it counts homes: with the earlier counts, renumbered, nothing is different but the words."""
    saved = learned(name, **options)
    method = build(name, **training_options(saved, {}))
    homes = align_vocabulary(saved.card, NEW)
    nobody = homes.subset(np.zeros(0, dtype=np.int64))  # the words alone
    counts = merged_counts(saved, nobody)
    scorer = method.scorer(counts.valid, counts)
    parameters = extended_parameters(saved, scorer, torch.Generator())
    grown = GraphModel(name, scorer, parameters, homes.types, homes.relations)
    asked = EARLIER.with_vocabulary(homes.types, homes.relations)
    pairs = all_pairs(asked)
    before = restored(saved).score_pairs(EARLIER, *pairs)
    after = grown.score_pairs(asked, *pairs)
    np.testing.assert_allclose(after[:, : len(KNOWN_RELATIONS)], before, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["graphrank", "graphrule"])
def test_counts_are_those_of_earlier_and_new_homes_together(name):
    saved = learned(name, **({"candidates": 20} if name in ("graphrank", "compgcn") else {}))
    homes = align_vocabulary(saved.card, NEW)
    found = merged_counts(saved, homes)
    both = together(EARLIER.with_vocabulary(homes.types, homes.relations), homes)
    expected = Statistics.of(both, ValidRules.of(both), all_patterns=name == "graphrank")
    assert found.valid.cell.tolist() == expected.valid.cell.tolist()
    assert found.n_homes == expected.n_homes == EARLIER.n_homes + NEW.n_homes
    assert found.both.tolist() == expected.both.tolist()
    assert [have.tolist() for have in found.have] == [have.tolist() for have in expected.have]
    if name == "graphrank":
        assert found.together.toarray().tolist() == expected.together.toarray().tolist()
        for ours, theirs in zip(found.companions.tables, expected.companions.tables, strict=True):
            assert ours.tolist() == theirs.tolist()
        assert found.rooms.any
        for ours, theirs in zip(found.rooms.columns, expected.rooms.columns, strict=True):
            assert ours.tolist() == theirs.tolist()
        candidates = every_candidate(both)
        ours, theirs = (counts.evidence().features(both, candidates) for counts in (found, expected))
        assert ours.tobytes() == theirs.tobytes()


def together(first: Homes, second: Homes) -> Homes:
    """Both sets of homes in one, the first ones first."""
    moved = {"home": first.n_homes, "trigger": first.n_devices, "action": first.n_devices, "relation": 0}
    columns = {
        name: np.concatenate([getattr(first.rules, name), getattr(second.rules, name) + by])
        for name, by in moved.items()
    }
    word, more = first.words, second.words
    return replace(
        first,
        words=Words(np.append(word.device, more.device + first.n_devices), np.append(word.word, more.word)),
        users=np.append(first.users, second.users),
        device_home=np.append(first.device_home, second.device_home + first.n_homes),
        device_type=np.append(first.device_type, second.device_type),
        device_ids=np.append(first.device_ids, second.device_ids),
        rules=replace(first.rules, **columns),
    )


def test_new_types_and_relations_are_recommended_after_continued_training(caplog):
    saved = fedrule.train(EARLIER, options={"rounds": 60}, test=0.4)
    with caplog.at_level(logging.INFO):
        model = fedrule.train(NEW, continue_from=saved, test=0.4, options={"rounds": 60, "learning_rate": 0.03})
    assert "new to the model: 1 types, 1 relations: Plug, No Motion -> Power Off" in caplog.text
    assert (model.card.types, model.card.relations) == ((*KNOWN_TYPES, "Plug"), (*KNOWN_RELATIONS, RELATIONS[2]))
    homes = NEW.with_vocabulary(model.card.types, model.card.relations)
    trigger, action = all_pairs(homes)
    kinds = homes.device_type[trigger], homes.device_type[action]
    asked = (kinds[0] == 0) & (kinds[1] == 3)  # from a MotionSensor to a Plug
    scores = restored(model).score_pairs(homes, trigger[asked], action[asked])
    assert (scores[:, 2].mean() > scores[:, :2].mean(axis=0)).all()  # what they do and not what others do elsewhere


@pytest.mark.parametrize("earlier", [EARLIER, EARLIER.without_words()], ids=["words", "no words"])
def test_words_are_learned_by_a_model_of_homes_with_or_without(earlier):
    saved = fedrule.train(earlier, "graphrank", options=two_rounds("graphrank") | {"candidates": 20}, test=0.4)
    assert counts_of(saved).rooms.any == (earlier.words is not None)
    model = fedrule.train(NEW, continue_from=saved, test=0.4, options=two_rounds("graphrank"))
    assert counts_of(model).rooms.any
    homes = NEW.with_vocabulary(model.card.types, model.card.relations)
    scores = restored(model).score_pairs(homes, *all_pairs(homes))
    without = restored(model).score_pairs(homes.without_words(), *all_pairs(homes))
    assert (np.isnan(scores) == np.isnan(without)).all()
    assert np.nanmax(np.abs(scores - without)) > 0


def test_rooms_are_learned_on_for_more_relations(tmp_path):
    saved = fedrule.train(EARLIER, options={"rounds": 3, "words": True}, test=0.4, patience=0)
    saved.save(tmp_path / "model.safetensors")
    counts = merged_counts(saved, align_vocabulary(saved.card, NEW))
    scorer = build("graphrule", **training_options(saved, {})).scorer(counts.valid, counts)
    grown = extended_parameters(saved, scorer, torch.Generator())["rooms.weight"].numpy()
    known = saved.weights["rooms.weight"]
    assert known.any()
    assert (len(known), len(grown)) == (2, 3)
    assert grown[:2].tobytes() == known.tobytes()
    assert not grown[2].any()  # nothing is known of the new relation
    model = fedrule.train(
        NEW, continue_from=tmp_path / "model.safetensors", options={"rounds": 3}, test=0.4, patience=0
    )
    assert model.card.options["words"] is True
    assert (model.weights["rooms.weight"] != grown).any(axis=1).all()


def test_a_lesson_is_added_and_the_first_one_stays():
    saved = fedrule.train(EARLIER, options={"rounds": 3}, test=0.4)
    model = fedrule.train(NEW, continue_from=saved, test=0.4, seed=7)
    first, second = model.card.trainings
    assert first == saved.card.trainings[0]
    assert (second.data, second.fingerprint, second.seed) == ("new homes", NEW.fingerprint, 7)
    train = split(align_vocabulary(saved.card, NEW), "holdout", seed=7, fraction=0.4, validation=True).train
    assert counts_of(model).n_homes == EARLIER.n_homes + train.n_homes


def test_the_rate_is_a_tenth_in_the_second_training_and_stays_in_the_third():
    saved = fedrule.train(EARLIER, options={"rounds": 2}, test=0.4)
    second = fedrule.train(NEW, continue_from=saved, test=0.4)
    third = fedrule.train(NEW.subset(np.arange(NEW.n_homes - 1)), continue_from=second, test=0.4)
    rates = [model.card.options["learning_rate"] for model in (saved, second, third)]
    assert rates == pytest.approx([0.0049, 0.00049, 0.00049])
    chosen = fedrule.train(NEW, continue_from=saved, test=0.4, options={"learning_rate": 0.02})
    assert chosen.card.options["learning_rate"] == 0.02


def test_training_continues_from_a_file_of_any_method_as_from_the_model(tmp_path):
    saved = fedrule.train(EARLIER, "fedrule", options={"rounds": 3}, test=0.4)
    saved.save(tmp_path / "model.safetensors")
    first, second = (fedrule.train(NEW, continue_from=of, test=0.4) for of in (saved, tmp_path / "model.safetensors"))
    assert first.card.method == "fedrule"
    assert all(array.tobytes() == second.arrays[name].tobytes() for name, array in first.arrays.items())


@pytest.mark.parametrize("method", ["graphrule", "fedrule"])
def test_where_no_round_does_better_the_parameters_stay_as_they_were(method):
    first, second = (datasets.load("wyze-synthetic", homes=200, seed=seed) for seed in (0, 1))
    small = {"hidden": 4, "predictor_hidden": 8}
    saved = fedrule.train(first, method, options=small | {"rounds": 15})
    # Rates at which every step is far too long.
    rates = {"learning_rate": 3.0} if method == "graphrule" else {"server_rate": 3.0}
    model = fedrule.train(second, continue_from=saved, patience=2, options=rates)
    assert model.card.trainings[-1].rounds == 0
    known = saved.weights["phi.relation"]
    assert model.weights["phi.relation"][: len(known)].tobytes() == known.tobytes()


def test_the_predictor_stays_as_wide_as_it_was():
    saved = learned()
    width = saved.weights["phi.relation"].shape[1]
    assert (saved.card.options["predictor_hidden"], training_options(saved, {})["predictor_hidden"]) == (0, width)


def test_an_option_that_follows_from_one_that_changes_changes_with_it():
    saved = fedrule.train(EARLIER, "fedrule", options={"rounds": 2, "weighting": "rules"}, test=0.4)
    model = fedrule.train(NEW, continue_from=saved, options={"server_optimizer": "plain"}, test=0.4)
    # A tenth of the default rate of that optimizer, 1, and not of the earlier one.
    assert (saved.card.options["server_rate"], model.card.options["server_rate"]) == (0.03, 0.1)
    assert (model.card.options["rounds"], model.card.options["weighting"]) == (2, "rules")


@pytest.mark.parametrize("given", [{"learning_rate": 0.01}, {"server_optimizer": "adam"}, {"client_optimizer": "sgd"}])
def test_what_overrode_a_preset_stays_though_it_is_the_default_without_one(given):
    options = {"preset": "paper", "rounds": 1, **given}
    saved = fedrule.train(EARLIER, "fedrule", options=options, test=0.4)
    kept, first = build("fedrule", **training_options(saved, {})), build("fedrule", **options)
    for name in ("learning_rate", "server_optimizer", "server_rate", "client_optimizer", "control", "local_steps"):
        assert getattr(kept, name) == getattr(first, name), name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"method": "fedrule"}, "cannot continue training a graphrule model as fedrule"),
        ({"options": {"hidden": 8}}, "hidden cannot change from 16 to 8"),
        ({"options": {"bias": "counts"}}, "bias cannot change from none to counts"),
        ({"options": {"roundz": 8}}, "did you mean 'rounds'"),
    ],
)
def test_a_model_cannot_become_another_one(arguments, says):
    with pytest.raises(DataError, match=says):
        fedrule.train(NEW, continue_from=learned(), **arguments)


def test_homes_that_the_model_was_trained_on_are_refused():
    # Their test rules would be among its training rules.
    first = fedrule.train(NEW, "graphrule", options={"rounds": 2}, patience=0)
    with pytest.raises(DataError, match="the model was trained on these homes on "):
        fedrule.train(NEW, continue_from=first, seed=5)
