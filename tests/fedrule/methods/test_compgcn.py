"""CompGCN and ComplEx as methods: options that are refused, edge cases, the same again, and a model for use."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

pytest.importorskip("torch", reason="compgcn needs the extra graph")
pytest.importorskip("torch_geometric", reason="compgcn needs the extra graph")
pytest.importorskip("numba", reason="compgcn needs the extra graph")

import torch

import fedrule
from baselines.contract import ToyHome, all_pairs, planted_homes, toy_homes
from baselines.registry import build
from datasets import DataError
from datasets.common.errors import UnknownName
from fedrule import Recommender
from fedrule.federated.rounds import WEIGHT_POWER
from fedrule.federated.trainers.batched import BatchedTrainer
from fedrule.inference.network import is_network_alone
from fedrule.methods import federated
from fedrule.models.restore import training_options
from fedrule.training.losses import InfoNce

METHODS = pytest.mark.parametrize("name", ["compgcn", "fedcompgcn"])
PLANTED = planted_homes()
HOME = {
    "devices": [{"id": "door", "type": "ContactSensor"}, {"id": "lamp", "type": "Light"}],
    "rules": [],
}


def brief(name, **options):
    few = {"rounds": 3, "hidden": 4, "candidates": 8, **({"least_steps": 0} if name == "compgcn" else {})}
    return build(name, **few | options)


def scores(name, homes=PLANTED, seed=0, **options):
    fitted = brief(name, **options).fit(homes, rng=np.random.default_rng(seed))
    return fitted.score_pairs(homes, *all_pairs(homes))


@METHODS
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"composition": "multiply", "dropout": 0.3},
        {"composition": "correlate", "bias": "counts"},
        {"direction": "none", "bias": "none"},
        {"context": 3, "node_embedding": 2},
        {"objective": "bce", "non_rules": "feasible"},
        {"temperature": 0.2, "non_rules": "paper", "hidden_rules": 0.0},
    ],
    ids=str,
)
def test_a_seed_gives_the_same_scores_again_with_every_option(name, options):
    found = scores(name, **options)
    assert np.isfinite(found).any()
    assert found.tobytes() == scores(name, **options).tobytes()
    assert found.tobytes() != scores(name, seed=1, **options).tobytes()
    assert options == {} or found.tobytes() != scores(name).tobytes()


@METHODS
def test_homes_without_rules_one_home_and_no_rule_at_all(name, caplog):
    alone = PLANTED.subset(np.array([1]))
    assert np.isfinite(scores(name, alone, hidden_rules=0.9, rounds=5)).any()
    with_more = toy_homes([ToyHome(1, ("Light", "Plug")), ToyHome(2, ("ContactSensor",)), ToyHome(3, ())])
    assert np.isnan(scores(name, with_more)).all()
    assert "has no rule to learn from" in caplog.text


@METHODS
def test_options_without_an_effect_and_wrong_ones_are_refused(name):
    with pytest.raises(UnknownName, match=r"composition .sum.\. Known: correlate, multiply, subtract"):
        brief(name, composition="sum")
    with pytest.raises(DataError, match=f"{name}: encoder 'sage' cannot be changed here; graphrule has all encoders"):
        brief(name, encoder="sage")
    with pytest.raises(DataError, match="the states that relations have with direction in or both"):
        build(name, direction="out")
    with pytest.raises(DataError, match="hidden must be even, half real and half imaginary, got 5"):
        brief(name, hidden=5)
    with pytest.raises(DataError, match=f"{name}: hidden must be above 0, got 0"):
        brief(name, hidden=0)
    with pytest.raises(DataError, match="temperature must be above 0, got 0"):
        brief(name, temperature=0.0)
    with pytest.raises(DataError, match="temperature has no effect with objective 'bce'; leave it at 1"):
        brief(name, temperature=2.0, objective="bce")
    with pytest.raises(
        DataError, match="predictor_hidden 8 has no effect: ComplEx takes the place of the paper's predictor"
    ):
        brief(name, predictor_hidden=8)
    with pytest.raises(DataError, match="preset 'paper' is for the paper's methods"):
        brief(name, preset="paper")
    with pytest.raises(DataError, match="what is hard changes with the model; set draws to 0"):
        brief(name, draws=2)


def test_with_few_homes_in_a_draw_all_homes_are_learned_from():
    found = scores("compgcn", homes_per_draw=5, rounds=20)
    assert found.tobytes() == scores("compgcn", homes_per_draw=5, rounds=20).tobytes()
    assert found.tobytes() != scores("compgcn", rounds=20).tobytes()


def test_the_homes_are_trained_in_batches_and_send_the_whole_model():
    rows = []
    method = brief("fedcompgcn", bias="none")
    method.fit(PLANTED, rng=np.random.default_rng(0), on_round=lambda *call: rows.append(call[3]))
    # 5 types, 4 relations, hidden 4: states (5 + 2 * 4 + 1) * 4 = 56, two layers 2 * (3 * 16 + 4) = 104,
    # two updates of relations 32: 192 numbers of 4 bytes, both ways.
    assert rows[-1]["received_bytes"] == rows[-1]["sent_bytes"] == 4 * 192
    assert rows[-1]["state_bytes"] == 0
    prepared = method.prepare(PLANTED, np.random.default_rng(0))
    layout = federated.FlatParameters.of(prepared.scorer.initial(federated.torch.Generator()))
    assert isinstance(federated.trainer_of(prepared.train, method.task(prepared, layout, 1)), BatchedTrainer)


@METHODS
def test_a_saved_model_recommends_and_is_not_taken_for_the_papers_network(name, tmp_path):
    options = {"rounds": 5, **({"least_steps": 0} if name == "compgcn" else {})}
    fedrule.train(PLANTED, name, options=options, patience=0).save(tmp_path / "model.safetensors")
    saved = fedrule.models.file.SavedModel.load(tmp_path / "model.safetensors")
    assert not is_network_alone(saved)
    assert Recommender(saved).recommend(HOME).rules
    with pytest.raises(DataError, match=r"composition cannot change from .* to multiply in a saved model"):
        training_options(saved, {"composition": "multiply"})
    assert training_options(saved, {"rounds": 7})["rounds"] == 7


def test_the_defaults_are_the_published_design():
    options = asdict(build("compgcn"))
    published = {"encoder": "compgcn", "objective": "infonce", "non_rules": "half-hard", "candidates": 64}
    assert {name: options[name] for name in published} == published
    federated_options = asdict(build("fedcompgcn"))
    assert {name: federated_options[name] for name in published} == published
    assert (federated_options["server_optimizer"], federated_options["client_optimizer"]) == ("adam", "sgd")


def test_updates_count_by_rules_as_rules_count_in_the_central_loss():
    # Of two homes, one with 3 rules and one with 1, each with a non-rule of score 0.
    logits, home = torch.tensor([0.0, 1.0, -2.0, 0.0, 3.0, 0.0]), torch.tensor([0, 0, 0, 0, 1, 1])
    positive = torch.tensor([True, True, True, False, True, False])
    central = InfoNce()(logits, positive, home, torch.ones(2))
    each = [
        float(InfoNce()(logits[here], positive[here], torch.zeros(int(here.sum())).long(), torch.ones(1)))
        for here in (home == 0, home == 1)
    ]
    weight = np.array([3, 1]) ** WEIGHT_POWER[build("fedcompgcn").weighting]
    np.testing.assert_allclose(np.average(each, weights=weight), float(central), rtol=1e-6)
    assert np.average(each) != pytest.approx(float(central), rel=0.1)
    assert build("fedcompgcn", aggregation="median").weighting == "clients"  # which counts all homes the same


@pytest.mark.parametrize(("options", "sent"), [({}, 400.0), ({"bias": "counts"}, 460.0), ({"bias": "none"}, 400.0)])
def test_homes_send_which_typed_rules_they_have_before_training(options, sent):
    """5 x 5 types and 4 relations, and for `counts` 15 pairs of types, 4 bytes each."""
    rows = []
    method = build("fedcompgcn", rounds=2, hidden=4, **options)
    method.fit(planted_homes(), rng=np.random.default_rng(0), on_round=lambda *call: rows.append(call[3]))
    assert [row.get("statistics_bytes") for row in rows] == [sent, None]
